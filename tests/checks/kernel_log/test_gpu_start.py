"""XID004: did the driver start the GPUs that it found?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_kernel import NO_DEVICE, UNREADABLE, built, log, message
from built_machines import DOCKER, several
from healthy import ANSWERED, broken, nvml_gpu

from tfgpu_doctor.checks.kernel_log.gpu_start import driver_starts_gpus
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.kernel import KernelMessage
from tfgpu_doctor.model.facts.machine import Pci
from tfgpu_doctor.model.facts.nvidia import Nvml

if TYPE_CHECKING:
    from checks.conftest import Judge

NOTHING: dict[str, Any] = {"cuda_driver": NO_DEVICE, "nvml": Nvml(attempt=ANSWERED), "runtime": None}
FIRMWARE = message(
    "firmware_missing",
    "nvidia 0000:01:00.0: Direct firmware load for nvidia/560.35.03/gsp_ga10x.bin failed with error -2",
)


def failed(address: str = "0000:01:00.0", age_s: float = 7000.0, **changes: Any) -> KernelMessage:
    text = f"NVRM: GPU {address}: RmInitAdapter failed! (0x62:0x40:1860)"
    return message("init_failed", text, age_s, pci_address=address, **changes)


def test_a_driver_that_starts_its_gpus_passes(judge: Judge) -> None:
    assert "reports no GPU that failed to start" in judge.passes(driver_starts_gpus, kernel_log=log())


def test_a_gpu_that_does_not_start(judge: Judge) -> None:
    finding = judge.finding(driver_starts_gpus, kernel_log=log(failed(count=4)), **NOTHING)
    assert (finding.severity, finding.cause, finding.blocks) == ("error", "gpu_start_failed", True)
    assert "could not start the GPU at 0000:01:00.0, 4 times, last 1 hour ago" in finding.message


def test_a_gpu_whose_firmware_is_missing(judge: Judge) -> None:
    finding = judge.finding(driver_starts_gpus, kernel_log=log(failed(), FIRMWARE), **NOTHING)
    assert finding.cause == "gsp_firmware_not_loaded"
    assert "the firmware of its own processor (GSP) was not loaded" in finding.message
    assert finding.fix and "Reinstall the complete driver" in finding.fix.text
    assert FIRMWARE.text in finding.evidence


def test_a_program_that_was_ended_while_the_firmware_was_read(judge: Judge) -> None:
    """Of https://github.com/NVIDIA/open-gpu-kernel-modules/issues/943: three of eight GPUs, error -4."""
    said = FIRMWARE.text.replace("error -2", "error -4")
    finding = judge.finding(driver_starts_gpus, kernel_log=log(failed(), message("firmware_missing", said)), **NOTHING)
    assert finding.cause == "gsp_firmware_not_loaded"
    assert finding.fix and finding.fix.text.startswith("A signal interrupted the kernel while it read the firmware")


@pytest.mark.parametrize(
    "changes", [{"pci_address": "0000:41:00.0"}, {"first_age_s": 90_000.0, "last_age_s": 90_000.0}]
)
def test_the_firmware_of_another_gpu_or_time_is_no_reason(judge: Judge, changes: dict[str, Any]) -> None:
    other = msgspec.structs.replace(FIRMWARE, **changes)
    assert judge.finding(driver_starts_gpus, kernel_log=log(failed(), other), **NOTHING).cause == "gpu_start_failed"


def test_a_gpu_that_started_later_passes(judge: Judge) -> None:
    assert judge.passes(driver_starts_gpus, kernel_log=log(failed(), FIRMWARE))


def one_of_two(**sections: Any) -> Facts:
    """A machine whose second GPU the log says did not start."""
    machine = several(2)
    machine["nvml"] = {"gpus": (nvml_gpu(),)}
    machine["cuda_driver"] = {"gpus": machine["cuda_driver"]["gpus"][:1]}
    return broken(**{**machine, "kernel_log": log(failed("0000:02:00.0")), **sections})


def test_one_of_two_that_does_not_start_is_an_error(judge: Judge) -> None:
    found = judge.finding(driver_starts_gpus, one_of_two())
    assert (found.severity, found.cause, found.blocks) == ("error", "gpu_start_failed", False)


def test_a_gpu_that_was_handed_to_a_virtual_machine_is_no_fault(judge: Judge) -> None:
    first, second = several(2)["pci"]["devices"]
    handed = msgspec.structs.replace(second, driver="vfio-pci")
    assert judge.passes(driver_starts_gpus, one_of_two(pci={"devices": (first, handed)}))


def test_a_gpu_that_a_container_was_not_given_is_not_its_business(judge: Judge) -> None:
    assert judge.passes(driver_starts_gpus, container=DOCKER, kernel_log=log(failed("0000:41:00.0")))


@pytest.mark.parametrize("age_s", [90_000.0, None])
def test_what_was_long_ago_is_no_news(judge: Judge, age_s: float | None) -> None:
    old = failed(first_age_s=age_s, last_age_s=age_s)
    assert judge.passes(driver_starts_gpus, kernel_log=log(old), **NOTHING)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kernel_log": UNREADABLE}, "cannot be read"),
        ({"kernel_log": log(failed()), "pci": Pci()}, "no NVIDIA GPU"),
    ],
)
def test_what_cannot_be_told_is_no_fault(judge: Judge, changes: dict[str, Any], reason: str) -> None:
    assert reason in judge.skips(driver_starts_gpus, **changes)


@pytest.mark.parametrize("pci", [None, {}])
def test_where_nobody_was_asked_the_log_counts(judge: Judge, pci: Any) -> None:
    sections = {"nvml": None, "cuda_driver": None, **({"pci": None} if pci is None else {})}
    finding = judge.finding(driver_starts_gpus, kernel_log=log(failed()), **sections)
    assert (finding.severity, finding.confidence) == ("error", "medium")
    assert "neither NVML nor CUDA was asked whether it started later" in finding.evidence


def test_what_was_before_the_driver_was_loaded_anew_is_over(judge: Judge) -> None:
    assert judge.passes(driver_starts_gpus, kernel_log=log(failed(age_s=7199.0)), **NOTHING)


def test_it_explains_that_cuda_finds_no_device() -> None:
    (cause,) = diagnose(built()["gpu-does-not-start"]).causes
    assert (cause.id, cause.label) == ("XID004", "gpu_start_failed")
    assert "DRV008" in cause.explains
