"""DRV: does an installed driver wait for a restart of the machine?"""

from __future__ import annotations

import re

from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import ModuleFiles
from tfgpu_doctor.model.facts.machine import Container, Pci, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Nvml
from tfgpu_doctor.model.facts.restart import Restart

_OF_DRIVER = re.compile(r"(?:lib)?nvidia-|cuda-drivers|xserver-xorg-video-nvidia")
_KERNEL = re.compile(r"linux-image-(?:unsigned-)?(\d\S*)")
_VERSION_MISMATCH = 18  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
_REFUSED = (803, 804)  # CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
_FIX = "Restart the machine, so that the installed driver is loaded."


@check(
    "DRV011",
    "no installed driver waits for a restart",
    family="Driver",
    stage=Stage.DRIVER,
    after=("GPU001", "CNT001", "DRV003"),
    causes=("reboot_pending",),
    sources=(
        "https://github.com/oddmario/NVIDIA-Ubuntu-Driver-Guide/issues/4",
        "https://github.com/rocker-org/ml/issues/28",
        "https://github.com/NVIDIA/nvidia-docker/issues/804",
        "https://manpages.ubuntu.com/manpages/noble/en/man5/update-motd.5.html",
        "https://github.com/saber-nyan/kernel-modules-hook",
    ),
)
def no_driver_waits_for_a_restart(
    driver: Driver,
    system: System | None = None,
    pci: Pci | None = None,
    container: Container | None = None,
    restart: Restart | None = None,
    module_files: ModuleFiles | None = None,
    cuda_driver: CudaDriver | None = None,
    nvml: Nvml | None = None,
) -> Yielded:
    """A running kernel keeps its module: a driver that was installed or upgraded after the start is used only after the
    next one. The package manager asks for the restart in /run/reboot-required. Where an upgrade removes the modules of
    the running kernel, as on Arch, no module can be loaded until then.

    Fix: restart the machine.
    """
    if (system and (system.os != "Linux" or system.wsl)) or (container and container.kind):
        raise Skip("in WSL, in a container and on other systems, these files are not those of the driver's machine")
    if pci and not pci.nvidia_gpus:
        raise Skip("there is no NVIDIA GPU on the PCI bus")
    waiting = [each for each in (restart.packages if restart else ()) if _OF_DRIVER.match(each)]
    on_disk = module_files.file.version if module_files and module_files.file else ""
    if not (driver.version or "nvidia" in driver.modules):
        yield _not_loaded(driver, waiting, restart, module_files)
    elif _is_mismatch(cuda_driver, nvml):
        raise Skip("DRV006 judges a libcuda that does not match the loaded module")
    else:
        if on_disk and not driver.version:
            raise NotMeasured(f"the module on disk is {on_disk}, and the version of the loaded one is unknown")
        if not on_disk and not _tells_of_installs(restart):
            raise NotMeasured(
                "neither the module on disk nor a list of packages shows whether another driver is installed"
            )
        yield from _loaded(driver, on_disk, waiting, restart)


def _tells_of_installs(restart: Restart | None) -> bool:
    """Whether the marks of an installation are known: only Debian's and Ubuntu's packages write a file."""
    return restart is not None and (restart.required or restart.module_is_newer is not None)


def _loaded(driver: Driver, on_disk: str, waiting: list[str], restart: Restart | None) -> Yielded:
    """Yield whether another driver than the loaded one is installed."""
    if on_disk and driver.version and on_disk != driver.version:
        yield Finding(
            f"driver {on_disk} is installed, but {driver.version} is loaded until the machine is restarted",
            cause="reboot_pending",
            severity="warning",
            evidence=(
                f"/proc/driver/nvidia/version says {driver.version}",
                f"the module on disk for kernel {driver.running_kernel} is {on_disk}",
                *_asked(waiting),
            ),
            fix=Fix(_FIX),
        )
    elif waiting:
        yield Finding(
            "packages of the driver ask for a restart of the machine",
            cause="reboot_pending",
            severity="info",
            evidence=_asked(waiting),
            fix=Fix(_FIX),
        )
        yield Evidence(f"driver {driver.version} is loaded")
    else:
        kernels = [each for each in (restart.packages if restart else ()) if _KERNEL.match(each)]
        asked = f"; a restart is asked for by {', '.join(kernels)}" if kernels else ""
        yield Evidence(f"driver {driver.version} is loaded{' and on disk' if on_disk else ''}{asked}")


def modules_gone(driver: Driver, files: ModuleFiles | None) -> str:
    """Return that the modules of the running kernel were removed, and that another kernel has NVIDIA's; else nothing.
    NixOS keeps no modules in this folder, so that no kernel is known to have NVIDIA's."""
    if not files or files.headers is not None or not driver.built_for or driver.running_kernel in driver.built_for:
        return ""
    return f"/lib/modules/{driver.running_kernel} holds no modules; {', '.join(driver.built_for)} has the NVIDIA module"


def start_installed_kernel(running: str) -> Fix:
    """Return the fix where the modules of the running kernel were removed."""
    return Fix(
        f"Restart the machine, so that an installed kernel runs. If {running} starts again, install its modules."
    )


def _is_mismatch(cuda_driver: CudaDriver | None, nvml: Nvml | None) -> bool:
    return bool((cuda_driver and cuda_driver.init_code in _REFUSED) or (nvml and nvml.error_code == _VERSION_MISMATCH))


def _asked(packages: list[str]) -> tuple[str, ...]:
    return (f"/run/reboot-required.pkgs lists {', '.join(packages[:8])}",) if packages else ()


def _not_loaded(driver: Driver, waiting: list[str], restart: Restart | None, files: ModuleFiles | None) -> Finding:
    """Return the finding if the driver was installed after the start; the other reasons have their own checks."""
    if driver.secure_boot and driver.running_kernel in driver.built_for:
        raise Skip("Secure Boot is on, and may be why the module is not loaded")
    if gone := modules_gone(driver, files):
        return Finding(
            f"the modules of the running kernel {driver.running_kernel} were removed, and the NVIDIA driver cannot be loaded",
            cause="reboot_pending",
            evidence=(gone, *_asked(waiting)),
            fix=start_installed_kernel(driver.running_kernel),
        )
    kernels = [found.group(1) for each in (restart.packages if restart else ()) if (found := _KERNEL.match(each))]
    following = next((each for each in kernels if each in driver.built_for and each != driver.running_kernel), "")
    path = files.file.path if files and files.file else ""
    newer = bool(restart and restart.module_is_newer and driver.running_kernel in driver.built_for)
    if not (newer or waiting or (following and driver.running_kernel not in driver.built_for)):
        raise Skip("the module is not loaded, and nothing shows that it was installed after the start")
    asking = waiting or [each for each in (restart.packages if restart else ()) if following and following in each]
    evidence = [f"{path or 'the module'} was installed after the machine was started"] if newer else []
    evidence += (
        [f"kernel {following} has the module; {driver.running_kernel}, which runs, has none"] if following else []
    )
    return Finding(
        "the NVIDIA driver was installed after the machine was started, and is not loaded",
        cause="reboot_pending",
        evidence=(*evidence, *_asked(asking)),
        fix=Fix(_FIX if following or not newer else f"{_FIX} `modprobe nvidia` as root may be enough."),
    )
