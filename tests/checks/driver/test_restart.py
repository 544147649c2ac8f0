"""DRV011: does an installed driver wait for a restart?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import DOCKER, cuda_that_fails, no_driver
from healthy import ANSWERED, DRIVER

from tfgpu_doctor.checks.driver.restart import no_driver_waits_for_a_restart
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.kernel import ModuleFile, ModuleFiles
from tfgpu_doctor.model.facts.nvidia import Driver, Nvml
from tfgpu_doctor.model.facts.restart import Restart

if TYPE_CHECKING:
    from checks.conftest import Judge

KERNEL, NEXT = "6.8.0-48-generic", "6.8.0-50-generic"
FILE = f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko.zst"
NOT_LOADED = Driver(running_kernel=KERNEL, built_for=(KERNEL,), secure_boot=False)
FOR_NEXT = Driver(running_kernel=KERNEL, built_for=(NEXT,), secure_boot=False)
NOTHING = Driver(running_kernel=KERNEL, secure_boot=False)
IDLE: dict[str, Any] = {
    "cuda_driver": cuda_that_fails(999, "CUDA_ERROR_UNKNOWN"),
    "nvml": Nvml(attempt=ANSWERED, error_code=9, error_text="Driver Not Loaded"),
    "runtime": None,
}
MISMATCH = Nvml(attempt=ANSWERED, error_code=18, error_text="Driver/library version mismatch")


def on_disk(version: str) -> ModuleFiles:
    return ModuleFiles(file=ModuleFile(path=FILE, version=version))


def asked_by(*packages: str) -> Restart:
    return Restart(required=True, packages=packages)


# What each machine must get: a severity, "pass" or "skip", and words of it. Written down before the rule.
VARIANTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "healthy": ("pass", DRIVER, {"module_files": on_disk(DRIVER), "restart": Restart(module_is_newer=False)}),
    "a kernel waits": ("pass", "linux-image", {"module_files": on_disk(DRIVER), "restart": asked_by(f"linux-image-{NEXT}", "linux-base")}),
    "another driver on disk": ("warning", "565.57.01", {"module_files": on_disk("565.57.01"), "restart": Restart(module_is_newer=True)}),
    "an older driver on disk": ("warning", "550.54.15", {"module_files": on_disk("550.54.15"), "restart": Restart()}),
    "another driver, and libcuda of it": ("skip", "DRV006", {
        "module_files": on_disk("565.57.01"), "cuda_driver": cuda_that_fails(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        "nvml": MISMATCH, "runtime": None}),
    "installed, not loaded": ("error", FILE, {
        "driver": NOT_LOADED, "module_files": on_disk("565.57.01"), "restart": Restart(module_is_newer=True), **IDLE}),
    "installed long ago, not loaded": ("skip", "not loaded", {
        "driver": NOT_LOADED, "module_files": on_disk("565.57.01"), "restart": Restart(module_is_newer=False), **IDLE}),
    "not loaded, time unknown": ("skip", "not loaded", {"driver": NOT_LOADED, "module_files": on_disk("565.57.01"), "restart": Restart(), **IDLE}),
    "not loaded, Secure Boot": ("skip", "Secure Boot", {
        "driver": Driver(running_kernel=KERNEL, built_for=(KERNEL,), secure_boot=True), "module_files": on_disk("565.57.01"),
        "restart": Restart(module_is_newer=True), **IDLE}),
    "packages of the driver wait": ("info", "nvidia-driver-565", {
        "module_files": on_disk(DRIVER), "restart": asked_by("nvidia-driver-565", "libnvidia-compute-565")}),
    "packages of the driver wait, not loaded": ("error", "nvidia-driver-565", {
        "driver": NOT_LOADED, "restart": asked_by("nvidia-driver-565"), **IDLE}),
    "the next kernel has the module": ("error", f"kernel {NEXT} has the module; {KERNEL}, which runs, has none", {
        "driver": FOR_NEXT, "restart": asked_by(f"linux-image-{NEXT}", "linux-base"), **IDLE}),
    "the running kernel's modules are gone": ("error", f"/lib/modules/{KERNEL} holds no modules; {NEXT} has the NVIDIA module", {
        "driver": FOR_NEXT, "module_files": ModuleFiles(), "restart": Restart(), **IDLE}),
    "no kernel has the module, nor the running one any": ("skip", "not loaded", {
        "driver": NOTHING, "module_files": ModuleFiles(), "restart": Restart(), **IDLE}),
    "the running kernel has other modules": ("skip", "not loaded", {
        "driver": FOR_NEXT, "module_files": ModuleFiles(headers=False), "restart": Restart(), **IDLE}),
    "the modules are gone, and the driver is loaded": ("skip", "another driver is installed", {
        "driver": {"running_kernel": KERNEL, "built_for": (NEXT,)}, "module_files": ModuleFiles(), "restart": Restart()}),
    "a kernel has the module, no restart asked for": ("skip", "not loaded", {"driver": FOR_NEXT, "restart": Restart(), **IDLE}),
    "the next kernel has no module": ("skip", "not loaded", {"driver": NOTHING, "restart": asked_by(f"linux-image-{NEXT}"), **IDLE}),
    "container with the file of its image": ("skip", "container", {"container": DOCKER, "restart": asked_by("nvidia-driver-565")}),
    "WSL": ("skip", "WSL", {"system": {"wsl": 2}, "restart": asked_by("nvidia-driver-565")}),
    "no GPU": ("skip", "no NVIDIA GPU", {"pci": {"devices": ()}, "driver": NOTHING, "restart": asked_by("nvidia-driver-565"), **IDLE}),
    "quick": ("pass", DRIVER, {"module_files": ModuleFiles(), "restart": Restart(module_is_newer=False), "runtime": None}),
    "no mark of any installation": ("skip", "another driver is installed", {"module_files": ModuleFiles(), "restart": Restart()}),
}  # fmt: skip


def test_a_kernel_that_an_upgrade_replaced_is_the_only_cause() -> None:
    # Arch's package of the kernel holds its modules: an upgrade removes those of the running one, and no header package of
    # it is left (https://github.com/saber-nyan/kernel-modules-hook).
    arch = Driver(running_kernel="6.16.10-arch1-1", built_for=("6.17.1-arch1-1",), secure_boot=False)
    machine = no_driver(
        driver=arch, module_files=ModuleFiles(), restart=Restart(), system={"distribution": "Arch Linux"}
    )
    [cause] = diagnose(machine).causes
    assert (cause.label, cause.id) == ("reboot_pending", "DRV011")
    assert cause.fix and "Restart the machine" in cause.fix.text and "6.16.10-arch1-1" in cause.fix.text


@pytest.mark.parametrize("name", VARIANTS)
def test_restart(judge: Judge, name: str) -> None:
    expected, words, sections = VARIANTS[name]
    if expected == "pass":
        assert words in judge.passes(no_driver_waits_for_a_restart, **sections)
    elif expected == "skip":
        assert words in judge.skips(no_driver_waits_for_a_restart, **sections)
    else:
        finding = judge.finding(no_driver_waits_for_a_restart, **sections)
        assert (finding.severity, finding.cause) == (expected, "reboot_pending")
        assert words in " ".join((finding.message, *finding.evidence))


def test_a_loaded_driver_alone_shows_no_other_that_is_installed(judge: Judge) -> None:
    unknown = {"module_files": None, "restart": None}
    assert "neither" in judge.skips(no_driver_waits_for_a_restart, **unknown)
    assert "neither" in judge.skips(no_driver_waits_for_a_restart, **{**unknown, "restart": Restart()})
    assert judge.passes(no_driver_waits_for_a_restart, **{**unknown, "restart": Restart(module_is_newer=False)})
    assert judge.passes(no_driver_waits_for_a_restart, **{**unknown, "module_files": on_disk(DRIVER)})
    nameless = {**unknown, "module_files": on_disk(DRIVER), "driver": {"version": ""}}
    assert DRIVER in judge.skips(no_driver_waits_for_a_restart, **nameless)
