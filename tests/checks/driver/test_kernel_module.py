"""DRV: is the right kernel driver installed and loaded?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_kernel import LOADED, log, message
from built_machines import cuda_without_library, no_driver
from every import every
from healthy import ANSWERED, DRIVER, broken

from tfgpu_doctor.checks.driver.kernel_module import (
    driver_is_loaded,
    module_is_built_for_kernel,
    secure_boot_lets_module_in,
)
from tfgpu_doctor.checks.driver.nouveau import nouveau_is_not_loaded
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver

if TYPE_CHECKING:
    from checks.conftest import Judge

KERNEL = "6.8.0-48-generic"
UNLOADED = Driver(running_kernel=KERNEL)
HUNG = CudaDriver(attempt=Attempt(outcome="timed_out", seconds=15.0, phase="cuInit"))
JETSON = {"architecture": "aarch64", "board": "NVIDIA Jetson AGX Orin Developer Kit"}


def rtx(driver: str = "nvidia", address: str = "0000:01:00.0") -> PciDevice:
    return PciDevice(address=address, vendor="10de", device="2204", class_code="030000", driver=driver)


# DRV001


def test_a_loaded_module_passes(judge: Judge) -> None:
    assert judge.passes(driver_is_loaded) == f"kernel module {DRIVER} (open)"


def test_a_loaded_module_of_unknown_flavour_passes(judge: Judge) -> None:
    assert "unknown flavour" in judge.passes(driver_is_loaded, driver={"flavour": ""})


@pytest.mark.parametrize("cuda", [cuda_without_library(), HUNG, None])
@pytest.mark.parametrize("driver", [Driver(modules=("nvidia",)), Driver(version=DRIVER)])
def test_a_version_or_a_module_shows_that_it_is_loaded(judge: Judge, driver: Driver, cuda: CudaDriver | None) -> None:
    for check in (driver_is_loaded, module_is_built_for_kernel):
        assert judge.passes(check, driver=driver, cuda_driver=cuda, nvml=None)


@pytest.mark.parametrize("cuda", [cuda_without_library(), HUNG, None, CudaDriver(attempt=ANSWERED, init_code=0)])
def test_a_cuda_that_lists_no_gpu_does_not_stand_for_the_driver(judge: Judge, cuda: CudaDriver | None) -> None:
    finding = judge.finding(driver_is_loaded, no_driver(cuda_driver=cuda))
    assert finding.cause == "no_nvidia_driver"
    assert ("libcuda" in str(finding.evidence)) == bool(cuda and cuda.library_error)


def test_a_gpu_without_its_driver_has_none(judge: Judge) -> None:
    finding = judge.finding(driver_is_loaded, no_driver())
    assert (finding.cause, finding.severity, finding.confidence) == ("no_nvidia_driver", "error", "high")
    assert finding.evidence[1] == "NVIDIA GeForce RTX 3090 at 0000:01:00.0 is bound to the kernel driver none"
    assert "libcuda.so.1: cannot open" in finding.evidence[2]
    assert finding.fix and "sudo ubuntu-drivers install" in finding.fix.text
    assert finding.fix.commands == ()


@pytest.mark.parametrize(
    ("distribution", "command"),
    [
        ("Debian GNU/Linux 12 (bookworm)", "after `contrib non-free non-free-firmware` in the apt sources"),
        ("Debian GNU/Linux 13 (trixie)", "`sudo apt install linux-headers-amd64 nvidia-driver`"),
        ("Fedora Linux 41 (Workstation Edition)", "`sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda`"),
        ("Ubuntu 24.04.1 LTS", "(`sudo ubuntu-drivers install`)"),
        ("Arch Linux", "docs.nvidia.com"),
        ("", "docs.nvidia.com"),
    ],
)
def test_the_fix_is_the_distributions_own(judge: Judge, distribution: str, command: str) -> None:
    finding = judge.finding(driver_is_loaded, no_driver(system={"distribution": distribution}))
    assert finding.fix and command in finding.fix.text


def test_a_gpu_kept_for_a_virtual_machine_is_told_as_such(judge: Judge) -> None:
    finding = judge.finding(driver_is_loaded, no_driver(pci={"devices": (rtx("vfio-pci"),)}))
    assert finding.cause == "no_nvidia_driver"
    assert "bound to the kernel driver vfio-pci" in finding.evidence[1]
    assert finding.fix and "vfio-pci" in finding.fix.text


def test_a_gpu_that_cuda_lists_needs_no_module_to_be_seen(judge: Judge) -> None:
    assert judge.passes(driver_is_loaded, driver=UNLOADED) == "cuInit succeeds and lists a GPU"


def test_a_gpu_that_nvml_lists_needs_no_module_to_be_seen(judge: Judge) -> None:
    assert judge.passes(driver_is_loaded, driver=UNLOADED, cuda_driver=HUNG) == "NVML lists a GPU"


def test_without_a_gpu_on_the_bus_no_module_is_missed(judge: Judge) -> None:
    for pci in (None, Pci(), Pci(device_count=40)):
        assert "no NVIDIA GPU" in judge.skips(driver_is_loaded, driver=UNLOADED, cuda_driver=None, nvml=None, pci=pci)


@pytest.mark.parametrize("version", [1, 2])
def test_in_wsl_the_driver_is_windows_own(judge: Judge, version: int) -> None:
    assert "Windows" in judge.skips(driver_is_loaded, driver=UNLOADED, system={"wsl": version})


@pytest.mark.parametrize("os", ["Windows", "Darwin"])
def test_modules_are_asked_for_on_linux_alone(judge: Judge, os: str) -> None:
    assert os in judge.skips(driver_is_loaded, driver=Driver(), system={"os": os})


def test_a_jetson_whose_cuda_fails_is_not_told_to_install_a_driver(judge: Judge) -> None:
    # its GPU belongs to the module nvgpu, and is on no PCI bus
    machine = broken(system=JETSON, driver=UNLOADED, pci=Pci(device_count=3), nvml=None, cuda_driver=HUNG)
    assert judge.does_not_object(driver_is_loaded, machine)


# DRV003


def test_a_gpu_bound_to_nvidia_passes(judge: Judge) -> None:
    assert judge.passes(nouveau_is_not_loaded) == "0000:01:00.0 is bound to nvidia"


@pytest.mark.parametrize("name", ["nouveau", "nova_core", "nova"])
def test_a_gpu_held_by_an_open_source_driver_has_no_cuda(judge: Judge, name: str) -> None:
    finding = judge.finding(
        nouveau_is_not_loaded,
        no_driver(pci={"devices": (rtx(name),)}, driver=Driver(modules=("nouveau",))),
    )
    assert (finding.cause, finding.severity) == ("nouveau_loaded", "error")
    assert finding.message == f"the GPU at 0000:01:00.0 is bound to the {name} driver, which does not support CUDA"
    assert finding.evidence == (
        f"/sys/bus/pci/devices/0000:01:00.0/driver is {name}",
        "NVIDIA's own module is not loaded",
    )
    assert finding.fix and "blacklist nouveau" in finding.fix.text


@pytest.mark.parametrize("name", ["", "nvidia", "vfio-pci", "i915"])
def test_other_drivers_are_not_nouveau(judge: Judge, name: str) -> None:
    evidence = judge.passes(nouveau_is_not_loaded, pci={"devices": (rtx(name),)})
    assert evidence == f"0000:01:00.0 is bound to {name or 'no driver'}"


def test_nouveau_that_holds_no_gpu_is_no_fault(judge: Judge) -> None:
    assert judge.passes(nouveau_is_not_loaded, driver={"modules": ("nouveau", "nvidia", "nvidia_uvm")})


def test_without_a_gpu_on_the_bus_nouveau_is_not_judged(judge: Judge) -> None:
    intel = PciDevice(address="0000:00:02.0", vendor="8086", device="46a6", class_code="030000", driver="i915")
    assert judge.skips(nouveau_is_not_loaded, pci=Pci(devices=(intel,))) == "no NVIDIA GPU on the PCI bus"


def test_a_display_card_on_nouveau_is_no_fault_where_another_gpu_computes(judge: Judge) -> None:
    devices = (rtx(), rtx("nouveau", "0000:02:00.0"))
    assert all(
        finding.severity != "error" for finding in judge.findings(nouveau_is_not_loaded, pci={"devices": devices})
    )


NO_BUS: dict[str, Any] = {"pci": None, "driver": None, "cuda_driver": None, "nvml": None}
TAKEN = message("taken_by_another", "NVRM: This can occur when a driver such as: nouveau, rivafb", 7195.0)


def test_where_the_bus_is_unknown_the_kernel_log_says_that_another_driver_has_the_gpu(judge: Judge) -> None:
    finding = judge.finding(nouveau_is_not_loaded, **NO_BUS, kernel_log=log(messages=(TAKEN,)))
    assert (finding.cause, finding.severity, finding.confidence) == ("nouveau_loaded", "error", "medium")
    assert finding.fix and "vfio-pci" in finding.fix.text


@pytest.mark.parametrize("messages", [(), (TAKEN, LOADED)], ids=["nothing said", "loaded since"])
def test_where_nothing_shows_the_driver_of_the_gpu_it_is_not_judged(judge: Judge, messages: Any) -> None:
    assert "neither the PCI bus" in judge.skips(nouveau_is_not_loaded, **NO_BUS, kernel_log=log(messages=messages))


def test_a_gpu_that_works_was_not_taken(judge: Judge) -> None:
    assert judge.passes(nouveau_is_not_loaded, pci=None, kernel_log=log(messages=(TAKEN,)))


# DRV004


def test_secure_boot_that_let_the_module_in_passes(judge: Judge) -> None:
    assert judge.passes(secure_boot_lets_module_in, driver={"secure_boot": True}) == "the module is loaded"


def test_secure_boot_that_is_off_passes(judge: Judge) -> None:
    driver = Driver(running_kernel=KERNEL, built_for=(KERNEL,), secure_boot=False)
    assert judge.passes(secure_boot_lets_module_in, driver=driver) == "Secure Boot is off"


def test_secure_boot_is_blamed_for_a_module_that_is_installed_and_not_loaded(judge: Judge) -> None:
    driver = Driver(running_kernel=KERNEL, built_for=(KERNEL,), secure_boot=True)
    finding = judge.finding(secure_boot_lets_module_in, driver=driver)
    assert (finding.cause, finding.severity, finding.confidence) == ("secure_boot_blocks_module", "error", "medium")
    assert KERNEL in finding.evidence[1]
    assert finding.fix and "mokutil" in finding.fix.text
    assert finding.fix.commands == ()


@pytest.mark.parametrize("loaded", [{"modules": ("nvidia",)}, {"version": DRIVER}])
def test_a_module_that_is_loaded_was_let_in(judge: Judge, loaded: dict[str, Any]) -> None:
    driver = Driver(running_kernel=KERNEL, built_for=(KERNEL,), secure_boot=True, **loaded)
    assert judge.passes(secure_boot_lets_module_in, driver=driver)


def test_firmware_that_does_not_tell_is_no_fault(judge: Judge) -> None:
    driver = Driver(running_kernel=KERNEL, built_for=(KERNEL,), secure_boot=None)
    assert "does not report" in judge.skips(secure_boot_lets_module_in, driver=driver)


@pytest.mark.parametrize("built_for", [(), ("6.8.0-45-generic",)])
def test_secure_boot_is_not_blamed_where_there_is_no_module_to_load(judge: Judge, built_for: tuple[str, ...]) -> None:
    driver = Driver(running_kernel=KERNEL, built_for=built_for, secure_boot=True)
    assert "no NVIDIA module is installed" in judge.skips(secure_boot_lets_module_in, driver=driver)


def bound_to(*drivers: str) -> Pci:
    return Pci(devices=tuple(rtx(driver, f"0000:0{place}:00.0") for place, driver in enumerate(drivers, 1)))


SIGNED = Driver(running_kernel=KERNEL, built_for=(KERNEL,), secure_boot=True)


def test_secure_boot_is_not_blamed_where_the_gpu_is_kept_for_a_virtual_machine(judge: Judge) -> None:
    # hosts of pass-through blacklist the nvidia module: https://pve.proxmox.com/wiki/PCI_Passthrough
    machine = no_driver(driver=SIGNED, pci=bound_to("vfio-pci"))
    assert "bound to vfio-pci" in judge.skips(secure_boot_lets_module_in, machine)
    [cause] = diagnose(machine).causes
    assert (cause.label, cause.id) == ("no_nvidia_driver", "DRV001")
    assert cause.fix and "vfio-pci" in cause.fix.text


@every("drivers", [(), ("",), ("vfio-pci", ""), ("nvidia",)], key=str)
def test_secure_boot_is_blamed_where_a_gpu_waits_for_the_module(judge: Judge, drivers: tuple[str, ...]) -> None:
    machine = no_driver(driver=SIGNED, pci=bound_to(*drivers))
    assert judge.finding(secure_boot_lets_module_in, machine).cause == "secure_boot_blocks_module"
    assert judge.finding(secure_boot_lets_module_in, machine, pci=None).cause == "secure_boot_blocks_module"


def test_a_module_that_the_kernel_refused_is_blamed_whatever_holds_the_gpu(judge: Judge) -> None:
    refusal = message("module_refused", "Loading of module with unavailable key is rejected")
    machine = no_driver(driver=SIGNED, pci=bound_to("vfio-pci"), kernel_log=log(refusal))
    assert judge.finding(secure_boot_lets_module_in, machine).confidence == "high"


# DRV005


def test_a_module_that_is_loaded_was_built(judge: Judge) -> None:
    assert (
        judge.passes(module_is_built_for_kernel, driver={"built_for": ("6.8.0-45-generic",)}) == "the module is loaded"
    )


def test_a_module_for_the_running_kernel_passes(judge: Judge) -> None:
    driver = Driver(running_kernel=KERNEL, built_for=("6.8.0-45-generic", KERNEL))
    assert judge.passes(module_is_built_for_kernel, driver=driver) == f"a module for {KERNEL} is installed"


def test_a_module_for_other_kernels_alone_is_not_built_for_this_one(judge: Judge) -> None:
    driver = Driver(running_kernel=KERNEL, built_for=("6.8.0-44-generic", "6.8.0-45-generic"))
    finding = judge.finding(module_is_built_for_kernel, driver=driver)
    assert (finding.cause, finding.severity) == ("kernel_module_not_built_for_kernel", "error")
    assert KERNEL in finding.message
    assert finding.evidence == ("under /lib/modules, only 6.8.0-44-generic, 6.8.0-45-generic has the module",)
    assert finding.fix and f"linux-headers-{KERNEL}" in finding.fix.text
    assert finding.fix.commands == ()


def test_without_any_module_under_lib_modules_it_cannot_be_told(judge: Judge) -> None:
    # NixOS keeps modules elsewhere, a container holds none
    assert "no NVIDIA module is installed" in judge.skips(module_is_built_for_kernel, driver=UNLOADED)
