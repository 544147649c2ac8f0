"""DRV010: does the installed driver support the GPU at all?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_kernel import NO_DEVICE, built, log, message, refused
from healthy import ANSWERED, broken, driver_library, healthy

from tfgpu_doctor.checks.driver.support import driver_supports_gpu
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.kernel import ModuleFile, ModuleFiles
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import Driver, Libraries, Nvml

if TYPE_CHECKING:
    from checks.conftest import Judge

NOTHING: dict[str, Any] = {"cuda_driver": NO_DEVICE, "nvml": Nvml(attempt=ANSWERED), "runtime": None}


def gpu(device: str, driver: str = "", address: str = "0000:01:00.0", **changes: Any) -> PciDevice:
    return PciDevice(address=address, vendor="10de", device=device, class_code="030000", driver=driver, **changes)


def test_a_driver_that_lists_a_gpu_supports_it(judge: Judge) -> None:
    assert judge.passes(driver_supports_gpu) == "the driver lists a GPU"


def test_where_there_is_no_gpu_nothing_is_judged(judge: Judge) -> None:
    assert judge.skips(driver_supports_gpu, pci=Pci(), **NOTHING) == "no NVIDIA GPU on the PCI bus"


UNKNOWN: dict[str, Any] = {
    "pci": None, "driver": None, "driver_libraries": None, "module_files": None, "cuda_driver": None, "nvml": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text", "named"),
    [
        ("legacy_gpu", "NVRM: The NVIDIA NVIDIA GeForce GTX 1050 GPU installed in this system is supported through the NVIDIA "
         "580.xx Legacy drivers.", "GeForce GTX 1050"),
        ("legacy_gpu", "NVRM: The NVIDIA Tesla K80 GPU installed in this system is", "Tesla K80"),
        ("open_module_needed", "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85) installed in this system requires use of "
         "the NVIDIA open kernel modules.", "5090"),
    ],
)  # fmt: skip
def test_where_the_bus_is_unknown_the_kernel_log_names_the_gpu(judge: Judge, kind: str, text: str, named: str) -> None:
    finding = judge.finding(driver_supports_gpu, **UNKNOWN, kernel_log=log(message(kind, text)))
    assert (finding.cause, finding.confidence) == ("driver_does_not_support_gpu", "medium")
    assert named in finding.message


@pytest.mark.parametrize("section", ["driver", "driver_libraries"])
def test_a_driver_that_was_not_looked_for_is_not_said_to_be_absent(judge: Judge, section: str) -> None:
    reason = "whether an NVIDIA driver is installed was not examined"
    assert judge.skips(driver_supports_gpu, **UNKNOWN, kernel_log=log()) == reason
    machine = broken(**{"driver": Driver(), "driver_libraries": Libraries(), **NOTHING, section: None})
    assert judge.skips(driver_supports_gpu, machine) == reason


def test_where_there_is_no_driver_nothing_is_judged(judge: Judge) -> None:
    machine = broken(driver=Driver(), driver_libraries=Libraries(), **NOTHING)
    assert judge.skips(driver_supports_gpu, machine) == "no NVIDIA driver is installed"


@pytest.mark.parametrize("device", ["2b85", "2C58", "2901", "2342", "3182"])
def test_blackwell_and_grace_hopper_need_the_open_modules(judge: Judge, device: str) -> None:
    finding = judge.finding(driver_supports_gpu, refused(device, "", loaded="proprietary"))
    assert (finding.cause, finding.severity, finding.confidence) == ("driver_does_not_support_gpu", "error", "high")
    assert "need NVIDIA's open kernel modules" in finding.message
    assert finding.fix and "-open" in finding.fix.text
    assert judge.does_not_object(driver_supports_gpu, refused(device, "", loaded="open"))


@pytest.mark.parametrize("device", ["1b80", "1db5", "17c8", "1180"])
def test_what_is_older_than_turing_needs_the_proprietary_modules(judge: Judge, device: str) -> None:
    finding = judge.finding(driver_supports_gpu, refused(device, "", loaded="open"))
    assert "open kernel modules do not support" in finding.message


@pytest.mark.parametrize("device", ["1e04", "2204", "2330", "2684"])
@pytest.mark.parametrize("flavour", ["open", "proprietary"])
def test_what_is_between_takes_either(judge: Judge, device: str, flavour: str) -> None:
    assert "either kind of module" in judge.passes(driver_supports_gpu, refused(device, "", loaded=flavour))


def test_a_gpu_newer_than_the_table_is_not_judged_without_the_log(judge: Judge) -> None:
    assert "newer than the doctor's table" in judge.skips(
        driver_supports_gpu, refused("4f00", "", loaded="proprietary")
    )
    readable = refused("4f00", "", loaded="proprietary", kernel_log=log())
    assert judge.passes(driver_supports_gpu, readable) == "nothing indicates that the driver rejects the GPU"


@pytest.mark.parametrize(
    ("installed", "refuses"), [("580.105.08", False), ("590.44.01", True), ("595.45.04", True), ("", False)]
)
def test_a_branch_that_left_the_gpu_behind_is_told_by_its_libcuda(judge: Judge, installed: str, refuses: bool) -> None:
    copy = driver_library("libcuda", version=installed, real_path=f"/usr/lib/libcuda.so.{installed}")
    machine = refused("1c03", "", loaded="", driver_libraries=Libraries(copies=(copy,)))
    if refuses:
        finding = judge.finding(driver_supports_gpu, machine)
        assert finding.message.startswith(
            f"driver {installed} no longer supports Pascal GPUs; branch 580 is the last one that does"
        )
    else:
        assert judge.does_not_object(driver_supports_gpu, machine)


def test_the_module_on_the_disk_tells_where_none_is_loaded(judge: Judge) -> None:
    files = ModuleFiles(file=ModuleFile(path="/lib/modules/6/nvidia.ko", version="570.86.15", flavour="proprietary"))
    machine = refused("2b85", "", loaded="", module_files=files)
    assert "open kernel modules" in judge.finding(driver_supports_gpu, machine).message


@pytest.mark.parametrize(
    ("text", "message_of"),
    [
        ("NVRM: The NVIDIA GeForce GTX 870M GPU installed in this system is supported through the NVIDIA 470.xx Legacy drivers.",
         "branch 470 is the last one that does"),
        ("NVRM: The NVIDIA GeForce 210 GPU installed in this system is supported through the NVIDIA Legacy drivers.", "does not support the GPU"),
    ],
)  # fmt: skip
def test_what_the_log_says_counts_most(judge: Judge, text: str, message_of: str) -> None:
    machine = refused("1199", "", loaded="", kernel_log=log(message("legacy_gpu", text)))
    finding = judge.finding(driver_supports_gpu, machine)
    assert message_of in finding.message
    assert (finding.confidence, finding.evidence[0]) == ("high", text)


@pytest.mark.parametrize(("kind", "now"), [("open_module_needed", "open"), ("open_module_cannot", "proprietary")])
def test_a_refusal_of_the_flavour_that_was_replaced_is_stale(judge: Judge, kind: str, now: str) -> None:
    machine = refused("2204", "...", loaded=now, kind=kind)
    assert judge.does_not_object(driver_supports_gpu, machine)


def test_an_old_card_beside_a_newer_one_is_not_blamed(judge: Judge) -> None:
    legacy = message(
        "legacy_gpu",
        "NVRM: The NVIDIA GeForce GT 710 GPU installed in this system is supported through the NVIDIA 470.xx Legacy drivers.",
    )
    both = Pci(devices=(gpu("2204", "nvidia"), gpu("128b", "", "0000:02:00.0")), device_count=40)
    machine = broken(pci=both, kernel_log=log(legacy), **NOTHING)
    assert judge.does_not_object(driver_supports_gpu, machine)


def test_a_virtual_function_is_not_judged_by_its_number(judge: Judge) -> None:
    part = Pci(devices=(gpu("2b85", "nvidia", physical_function="0000:01:00.0"),))
    machine = broken(pci=part, driver={"flavour": "proprietary"}, kernel_log=log(), **NOTHING)
    assert judge.does_not_object(driver_supports_gpu, machine)


@pytest.mark.parametrize("name", [name for name in built() if name.startswith(("blackwell", "volta", "pascal"))])
def test_what_follows_from_it_is_explained_by_it(name: str) -> None:
    (cause,) = diagnose(built()[name]).causes
    assert cause.id == "DRV010"
    assert {"DRV001", "DRV009", "DRV008"} <= set(cause.explains)


def test_the_healthy_machine_has_no_need_of_a_log(judge: Judge) -> None:
    assert judge.passes(driver_supports_gpu, msgspec.structs.replace(healthy(), kernel_log=None))
