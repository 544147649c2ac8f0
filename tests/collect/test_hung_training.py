"""A training that hangs after an exception in `fit`: the doctor says so of the process that holds the GPU's memory."""

from __future__ import annotations

import pathlib
import sys

import pytest
from doctor_command import diagnose
from healthy import ANSWERED, nvml_gpu
from hung_training import copy_of_its_files, hung_training
from installed import skip_without_tensorflow
from made_up_root import make_gpu_root
from simulated import Simulate

from tfgpu_doctor.checks.tensorflow.memory import memory_is_left
from tfgpu_doctor.collect.probes.gpu_holders import gpu_holders
from tfgpu_doctor.host import Host
from tfgpu_doctor.model import Finding
from tfgpu_doctor.model.facts.gpu_holders import GpuHolders
from tfgpu_doctor.model.facts.nvidia import GpuProcess, Nvml

pytestmark = [pytest.mark.tensorflow, pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")]


def holding(pid: int) -> Nvml:
    held = GpuProcess(pid=pid, name="python", memory_bytes=23 << 30, user="anna")
    return Nvml(attempt=ANSWERED, gpus=(nvml_gpu(memory_free_bytes=1 << 28, processes=(held,)),))


def test_a_training_that_never_ends(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    skip_without_tensorflow()
    with hung_training(sys.executable, tmp_path) as pid:
        for _ in range(5):  # the kernel may charge a tick to it that is not its own
            found: GpuHolders = gpu_holders.function(Host(), holding(pid))
            if not found.processes[0].cpu_s:
                break
        root = make_gpu_root(tmp_path / "root")
        copy_of_its_files(pid, root, as_pid=4194242)
    assert [(each.pid, each.listens, each.cpu_s) for each in found.processes] == [(pid, False, 0.0)]
    if not found.processes[0].waits_for:
        pytest.skip("this kernel does not say where a thread waits")
    assert found.processes[0].is_stuck
    (finding,) = [each for each in memory_is_left(nvml=holding(pid), gpu_holders=found) if isinstance(each, Finding)]
    assert f"process {pid} seems to hang" in " ".join(finding.evidence)
    tenant = {"pid": 4194242, "name": "python", "memory_bytes": 23 << 30}
    driver = simulate({"memory_used_bytes": (23 << 30) + (1 << 29), "processes": [tenant]})
    (cause,) = diagnose("--root", str(root), "--quick", "--select", "MEM001", environment=driver)["causes"]
    assert cause["label"] == "gpu_memory_held_by_other_process"
    assert "process 4194242 seems to hang" in " ".join(cause["evidence"])
