"""Build facts by hand and call the checks: no GPU, nothing patched."""

from __future__ import annotations

import pytest
from acme_checks import driver_is_of_an_approved_branch, gpus_have_enough_memory, own_allocator_is_used

from tfgpu_doctor.model import CannotTell, Evidence, Skip
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import Driver, Nvml, NvmlGpu

ANSWERED = Attempt(outcome="answered", seconds=0.1, exit_code=0)


def test_an_approved_driver_passes() -> None:
    assert driver_is_of_an_approved_branch(Driver(version="550.54.15")) == [Evidence("driver 550.54.15")]


def test_another_driver_is_named() -> None:
    (finding,) = driver_is_of_an_approved_branch(Driver(version="525.60.13"))
    assert finding.cause == "driver_too_old"
    assert "525.60.13" in finding.message


def test_a_small_gpu_is_named_and_a_large_one_is_evidence() -> None:
    gpus = (
        NvmlGpu(index=0, name="Tesla P4", memory_total_bytes=8 << 30),
        NvmlGpu(index=1, memory_total_bytes=80 << 30),
    )
    finding, evidence = gpus_have_enough_memory(Nvml(attempt=ANSWERED, gpus=gpus))
    assert "GPU 0 (Tesla P4) has 8 GiB" in finding.message
    assert evidence == Evidence("GPU 1: 80 GiB")


def test_memory_that_nobody_tells_is_no_pass() -> None:
    with pytest.raises(CannotTell):
        gpus_have_enough_memory(Nvml(attempt=ANSWERED, gpus=(NvmlGpu(index=0),)))


def test_the_allocator() -> None:
    with pytest.raises(Skip):
        own_allocator_is_used(Environment())
    (finding,) = own_allocator_is_used(Environment(variables={"TF_GPU_ALLOCATOR": "cuda_malloc_async"}))
    assert finding.severity == "warning"
