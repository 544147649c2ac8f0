"""GPU, DRV: GPUs that are switched off, or that the driver does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import no_driver
from every import every
from healthy import broken, node

from tfgpu_doctor.checks.gpu.unclaimed import driver_takes_gpu, gpu_is_switched_on
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import DeviceNodes, Driver

if TYPE_CHECKING:
    from checks.conftest import Judge

KEPLER = PciDevice(address="0000:01:00.0", vendor="10de", device="102d", class_code="030200")
INTEL = PciDevice(address="0000:00:02.0", vendor="8086", device="9bc4", class_code="030000", driver="i915")
NOT_LOADED = Driver(running_kernel="6.8.0-48-generic")
OFF = {"prime": "off"}


# GPU006


def test_a_machine_without_a_switch_is_not_judged(judge: Judge) -> None:
    assert judge.skips(gpu_is_switched_on) == "nothing on this system switches GPUs off"


@pytest.mark.parametrize(
    ("switch", "evidence"),
    [({"prime": "off"}, "/etc/prime-discrete says off"), ({"bbswitch": "OFF"}, "/proc/acpi/bbswitch says OFF")],
)
def test_a_gpu_that_is_switched_off(judge: Judge, switch: dict[str, Any], evidence: str) -> None:
    machine = no_driver(driver=Driver(running_kernel="6.8.0-48-generic", **switch))
    finding = judge.finding(gpu_is_switched_on, machine)
    assert (finding.cause, finding.severity) == ("optimus_gpu_powered_off", "error")
    assert evidence in finding.evidence


@pytest.mark.parametrize("prime", ["on", "on-demand"])
def test_a_gpu_that_is_switched_on(judge: Judge, prime: str) -> None:
    machine = no_driver(driver=Driver(running_kernel="6.8.0-48-generic", prime=prime))
    assert judge.passes(gpu_is_switched_on, machine) == f"/etc/prime-discrete says {prime}"


def test_a_driver_that_works_counts_for_more_than_a_file(judge: Judge) -> None:
    assert judge.passes(gpu_is_switched_on, driver=OFF) == "/etc/prime-discrete says off, and the driver is loaded"


def test_a_gpu_that_was_taken_off_the_bus_is_not_called_missing() -> None:
    """`prime-select intel` removes the device from the PCI bus."""
    off = Driver(running_kernel="6.8.0-48-generic", prime="off")
    report = diagnose(no_driver(driver=off, pci=Pci(devices=(INTEL,), device_count=20)))
    assert [cause.label for cause in report.causes] == ["optimus_gpu_powered_off"]


ENVYCONTROL, SUPERGFXD = "/etc/udev/rules.d/50-remove-nvidia.rules", "/etc/modprobe.d/supergfxd.conf"
ONLY_INTEL = Pci(devices=(INTEL,), device_count=20)


def removed_by(path: str) -> Driver:
    return Driver(running_kernel="6.8.0-48-generic", removed_by=path)


@every("path, fix", [(ENVYCONTROL, "envycontrol -s hybrid"), (SUPERGFXD, "supergfxctl -m Hybrid")])
def test_a_gpu_that_a_program_takes_off_the_bus_at_each_boot(path: str, fix: str) -> None:
    """EnvyControl's integrated mode: `lspci` shows Intel's GPU alone, https://github.com/bayasdev/envycontrol/issues/198"""
    report = diagnose(no_driver(driver=removed_by(path), pci=ONLY_INTEL))
    assert [cause.label for cause in report.causes] == ["optimus_gpu_powered_off"]
    assert f"{path} takes NVIDIA's GPU off the PCI bus" in report.causes[0].evidence
    assert report.causes[0].fix
    assert fix in report.causes[0].fix.text


@every("pci", [None, Pci(devices=(INTEL, KEPLER), device_count=21)])
def test_a_gpu_that_is_on_the_bus_all_the_same_was_not_taken_off(judge: Judge, pci: Pci | None) -> None:
    machine = no_driver(driver=removed_by(ENVYCONTROL), pci=pci)
    assert judge.passes(gpu_is_switched_on, machine) == f"{ENVYCONTROL} takes NVIDIA's GPU off the PCI bus"


def test_a_gpu_that_works_was_not_taken_off(judge: Judge) -> None:
    assert "the driver is loaded" in judge.passes(gpu_is_switched_on, driver={"removed_by": ENVYCONTROL})


# DRV009

NO_GPUS: dict[str, Any] = {
    "driver": {"gpus": ()},
    "pci": Pci(devices=(KEPLER,), device_count=20),
    "cuda_driver": {"gpus": (), "init_code": 100},
    "nvml": {"gpus": ()},
}


def test_a_driver_that_takes_no_gpu(judge: Judge) -> None:
    finding = judge.finding(driver_takes_gpu, **NO_GPUS)
    assert (finding.cause, finding.severity) == ("driver_does_not_support_gpu", "error")
    assert "Tesla K80, 10de:102d at 0000:01:00.0, is bound to no driver" in finding.evidence
    assert "the loaded module is the open kernel module, which needs Turing or newer" in finding.evidence


@pytest.mark.parametrize(
    ("device", "version", "named"),
    [
        ("102d", "560.35.03", "branch 470, the last"),
        ("1b06", "590.44.01", "branch 580, the last"),
        ("102d", "470.57.02", ""),
        ("1b06", "", ""),
        ("2204", "590.44.01", ""),
        ("ffff", "590.44.01", ""),
    ],
)
def test_the_last_branch_for_an_old_gpu_is_named(judge: Judge, device: str, version: str, named: str) -> None:
    gpu = PciDevice(address="0000:01:00.0", vendor="10de", device=device, class_code="030200")
    driver = {"gpus": (), "version": version, "modules": ("nvidia",)}
    finding = judge.finding(driver_takes_gpu, **{**NO_GPUS, "pci": Pci(devices=(gpu,)), "driver": driver})
    assert finding.fix and named in finding.fix.text
    assert bool(named) == ("the last one for this GPU" in finding.fix.text)


def test_its_missing_nodes_are_explained_by_it() -> None:
    nodes = DeviceNodes(nodes=(node("/dev/nvidiactl"),), uid=1000)
    report = diagnose(broken(**NO_GPUS, device_nodes=nodes, runtime=None))
    assert report.causes[0].label == "driver_does_not_support_gpu"
    assert {"DEV001", "DRV008"} <= set(report.causes[0].explains)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {**NO_GPUS, "driver": {"gpus": ("0000:01:00.0",)}},
        {"pci": Pci(devices=(KEPLER,)), "driver": {"gpus": ()}},
    ],
    ids=["healthy", "it holds a GPU", "CUDA lists a GPU"],
)
def test_a_driver_that_holds_a_gpu_passes(judge: Judge, changes: dict[str, Any]) -> None:
    assert judge.passes(driver_takes_gpu, **changes)


def test_a_gpu_that_another_driver_holds_is_not_unsupported(judge: Judge) -> None:
    given = PciDevice(address="0000:01:00.0", vendor="10de", device="2204", class_code="030000", driver="vfio-pci")
    assert "vfio-pci" in judge.skips(driver_takes_gpu, **{**NO_GPUS, "pci": Pci(devices=(given,), device_count=20)})


def test_without_the_module_there_is_nothing_to_judge(judge: Judge) -> None:
    assert judge.skips(driver_takes_gpu, driver=NOT_LOADED) == "NVIDIA's module is not loaded"
