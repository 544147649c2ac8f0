"""Facts that are there in part: some GPUs without a number, a log that does not reach back, a run that was cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_health import server
from built_kernel import _connected, log, message
from built_machines import cuda_that_fails, several, variables
from healthy import broken, cuda_gpu, nvml_gpu, runtime

from tfgpu_doctor.checks.driver.device_nodes import user_may_open_nodes
from tfgpu_doctor.checks.gpu.counts import all_know_the_same_gpus
from tfgpu_doctor.checks.gpu.hardware import multiprocessors_suffice
from tfgpu_doctor.checks.gpu.unclaimed import driver_takes_gpu
from tfgpu_doctor.checks.kernel_log.kernel_messages import power_held
from tfgpu_doctor.checks.machine.host_memory import data_buffers_fit
from tfgpu_doctor.checks.machine.limits import threads_may_be_started
from tfgpu_doctor.checks.machine.pci_bus import bus_reports_no_errors, iommu_lets_gpus_talk, link_uses_all_lanes
from tfgpu_doctor.checks.process.visibility import visible_devices_hides_nothing
from tfgpu_doctor.checks.speed.suites import (
    gpu_answers_to_the_end,
    gpu_comes_near_its_limits,
    suites_find_nothing_wrong,
)
from tfgpu_doctor.checks.tensorflow.runs import tensorflow_lists_gpus
from tfgpu_doctor.checks.tensorflow.xla_compiler import ptxas_knows_gpu
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Finding, NotMeasured
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import CudaGpu
from tfgpu_doctor.model.facts.xla import XlaTools

if TYPE_CHECKING:
    from checks.conftest import Judge

GIB = 1 << 30
CLEAN = {"correctable": 0, "nonfatal": 0, "fatal": 0}


def two_on_the_bus(**second: Any) -> dict[str, Any]:
    """Two GPUs, the second of which differs."""
    first = _connected(16, 16)
    return {"pci": Pci(devices=(first, msgspec.structs.replace(first, address="0000:02:00.0", **second)))}


# BUS


def test_a_gpu_whose_errors_nobody_counts_is_no_gpu_without_errors(judge: Judge) -> None:
    machine = two_on_the_bus(errors={}, port_errors={}, port="")
    assert "0000:02:00.0" in judge.skips(bus_reports_no_errors, **machine)
    assert judge.passes(bus_reports_no_errors, **two_on_the_bus())


def test_many_errors_in_an_unknown_time_are_not_few(judge: Judge) -> None:
    many = {"pci": Pci(devices=(_connected(16, 16, errors={**CLEAN, "correctable": 90_000}),))}
    assert "90,000" in judge.skips(bus_reports_no_errors, **many, kernel_log=None)
    few = {"pci": Pci(devices=(_connected(16, 16, errors={**CLEAN, "correctable": 90}),))}
    assert judge.passes(bus_reports_no_errors, **few, kernel_log=None)


def test_a_link_that_neither_nvml_nor_sysfs_tells_of_is_no_pass(judge: Judge) -> None:
    silent = {"nvml": {"gpus": (nvml_gpu(0), nvml_gpu(1))}}
    assert "0000:02:00.0" in judge.skips(link_uses_all_lanes, broken(**two_on_the_bus(link=None), **silent))


def test_a_group_whose_type_is_unknown_is_not_without_an_iommu(judge: Judge) -> None:
    machine = several(2)
    machine["pci"] = {
        "devices": tuple(
            PciDevice(address=f"0000:0{i + 1}:00.0", vendor="10de", device="2204", class_code="030000", driver="nvidia", iommu_group=f"{i}")
            for i in range(2)
        )
    }  # fmt: skip
    assert "type" in judge.skips(iommu_lets_gpus_talk, broken(**machine))


# XID003


def test_a_log_that_ends_at_the_boot_shows_no_fault_before_it(judge: Judge) -> None:
    unclean = message("unclean_boot", "EXT4-fs (sda2): recovery complete", 7195.0)
    end = message("last_message", "", 7300.0, boots_ago=1)
    assert "before" in judge.skips(power_held, kernel_log=log(unclean))
    assert "reports no lost GPU" in judge.passes(power_held, kernel_log=log(unclean, end))


# LIM


def test_an_unknown_number_of_tasks_leaves_unknown_room(judge: Judge) -> None:
    cpus = "0-255"
    tight = Limits(cpu_list=cpus, tasks_limit=800)
    assert "unknown" in judge.skips(threads_may_be_started, limits=tight, runtime=None)
    assert judge.finding(threads_may_be_started, limits=Limits(cpu_list=cpus, tasks_limit=200), runtime=None)
    assert judge.passes(threads_may_be_started, limits=Limits(cpu_list=cpus, tasks_limit=32_768), runtime=None)


def test_a_user_limit_below_what_tensorflow_starts_is_no_pass(judge: Judge) -> None:
    few = Limits(cpu_list="0-255", resources={"nproc": 200})
    assert "ulimit -u" in judge.skips(threads_may_be_started, limits=few, runtime=None)
    assert judge.passes(threads_may_be_started, limits=few)  # it computes


def test_memory_that_is_used_is_not_free(judge: Judge) -> None:
    system = {"memory_free_bytes": 30 * GIB}
    assert judge.skips(data_buffers_fit, limits=Limits(memory_limit_bytes=16 * GIB), system=system)
    known = Limits(memory_limit_bytes=16 * GIB, memory_used_bytes=0)
    assert judge.passes(data_buffers_fit, limits=known, system=system)
    assert judge.finding(data_buffers_fit, limits=Limits(memory_limit_bytes=8 * GIB), system=system)


# GPUs that only one source tells of


def test_cuda_alone_does_not_show_that_it_lists_every_gpu(judge: Judge) -> None:
    assert "CUDA lists 1 GPU" in judge.skips(all_know_the_same_gpus, pci=None, nvml=None)
    assert judge.passes(all_know_the_same_gpus, pci=None)
    assert judge.passes(all_know_the_same_gpus, nvml=None)


@pytest.mark.parametrize("lost", [{"nvml": None}, {"pci": None}], ids=["the bus", "NVML"])
def test_numbers_that_differ_without_addresses_are_no_pass(judge: Judge, lost: dict[str, Any]) -> None:
    machine = broken(broken(**several(2)), cuda_driver={"gpus": (cuda_gpu(pci_address=""),)}, **lost)
    assert "2" in judge.skips(all_know_the_same_gpus, machine)
    chosen = broken(machine, environment=variables(CUDA_VISIBLE_DEVICES="0"))
    assert judge.passes(all_know_the_same_gpus, chosen)


def test_a_number_of_multiprocessors_that_is_unknown_is_not_enough(judge: Judge) -> None:
    one = {"gpus": (cuda_gpu(multiprocessors=0),)}
    assert "multiprocessors" in judge.skips(multiprocessors_suffice, cuda_driver=one)
    two = {"gpus": (cuda_gpu(0), cuda_gpu(1, multiprocessors=0))}
    assert "GPU 1" in judge.skips(multiprocessors_suffice, cuda_driver=two)


def test_gpus_that_ptxas_cannot_be_compared_with_are_no_pass(judge: Judge) -> None:
    tools = XlaTools(ptxas="/usr/local/cuda/bin/ptxas", ptxas_version="12.5")
    of_tomorrow: tuple[CudaGpu, ...] = (cuda_gpu(0), cuda_gpu(1, compute_capability="99.9"))
    assert "99.9" in judge.skips(ptxas_knows_gpu, xla_tools=tools, cuda_driver={"gpus": of_tomorrow})
    silent = (cuda_gpu(0), cuda_gpu(1, compute_capability=""))
    assert "GPU 1" in judge.skips(ptxas_knows_gpu, xla_tools=tools, cuda_driver={"gpus": silent})
    assert judge.passes(ptxas_knows_gpu, xla_tools=tools)


@pytest.mark.parametrize("driver", [None, cuda_that_fails(999, "CUDA_ERROR_UNKNOWN", gpus=())])
def test_gpus_of_a_driver_that_told_none_are_not_all_listed(judge: Judge, driver: Any) -> None:
    assert judge.skips(tensorflow_lists_gpus, cuda_driver=driver)
    assert judge.passes(tensorflow_lists_gpus, cuda_driver=driver, system={"os": "Darwin", "architecture": "arm64"})


def test_a_bus_without_a_gpu_shows_no_driver_bound(judge: Judge) -> None:
    nothing = {"cuda_driver": None, "nvml": None}
    assert judge.skips(driver_takes_gpu, pci=Pci(), driver={"gpus": ()}, **nothing)
    kept = PciDevice(address="0000:01:00.0", vendor="10de", device="2204", class_code="030000", driver="vfio-pci")
    reserved = Pci(devices=(kept,))
    assert "vfio-pci" in judge.skips(driver_takes_gpu, pci=reserved, driver={"gpus": ()}, **nothing)


def test_nodes_that_did_not_open_are_told(judge: Judge) -> None:
    machine = server()
    assert machine.device_nodes
    nodes = tuple(
        msgspec.structs.replace(each, error="EPERM") if each.path == "/dev/nvidia1" else each
        for each in machine.device_nodes.nodes
    )
    found = broken(machine, device_nodes={"nodes": nodes}, cuda_driver=None)
    assert any(each.error for each in nodes)
    assert "/dev/nvidia1: EPERM" in judge.passes(user_may_open_nodes, found)


@pytest.mark.parametrize("value", ["7", "0,1", "GPU-12ab"])
def test_a_gpu_of_which_nobody_knows_is_not_visible(judge: Judge, value: str) -> None:
    nothing = {"nvml": None, "driver": None, "pci": None, "cuda_driver": None}
    environment = {"environment": {"variables": {"CUDA_VISIBLE_DEVICES": value}}}
    assert value in judge.skips(visible_devices_hides_nothing, **environment, **nothing)


# Perf suites


def run(**changes: Any) -> Bench:
    won = Comparison(suite="device_placement", name="matmul", verdict="faster", ratio=5.0, on_gpu=True, device="GPU:0")
    return Bench(**{"comparisons": (won,), **changes})


@pytest.mark.parametrize(
    "cut", [{"interrupted": True}, {"problems": ("test_training.py::test_step: it was killed by SIGSEGV",)}]
)
def test_a_run_that_was_cut_off_shows_nothing_of_its_end(cut: dict[str, Any]) -> None:
    for check in (gpu_answers_to_the_end, suites_find_nothing_wrong):
        assert check(run())
        with pytest.raises(NotMeasured):
            check(run(**cut))
    failed = suites_find_nothing_wrong(run(**cut, failed={"test_numerics.py::test_sums": "wrong"}))
    assert any(isinstance(each, Finding) for each in failed)


def test_a_share_of_the_data_sheet_alone_is_not_close_to_it() -> None:
    slow = Metric(
        suite="device_placement", name="matmul 8192 in float32", value=3.0, unit="TFLOP/s", device="GPU:0", limit=67.0
    )
    with pytest.raises(NotMeasured, match="4% of the limit"):
        gpu_comes_near_its_limits(run(metrics=(slow,)), read_knowledge())
    usual = msgspec.structs.replace(slow, name="matmul 8192 in bfloat16", value=640.0, limit=989.0, usual=660.0)
    assert gpu_comes_near_its_limits(run(metrics=(slow, usual)), read_knowledge())
    other = msgspec.structs.replace(slow, device="GPU:1")
    with pytest.raises(NotMeasured, match="GPU:1"):
        gpu_comes_near_its_limits(run(metrics=(usual, other)), read_knowledge())


def test_tensorflow_that_computes_needs_no_other_proof(judge: Judge) -> None:
    assert judge.passes(threads_may_be_started, limits=Limits(cpu_list="0-255", tasks_limit=10), runtime=runtime())
