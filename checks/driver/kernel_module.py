"""DRV: is the right kernel driver installed and loaded?"""

from __future__ import annotations

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import KernelLog, ModuleFiles
from tfgpu_doctor.model.facts.machine import Pci, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Nvml
from tfgpu_doctor.model.tags import NO_DRIVER, requirement

INSTALL = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"


@check(
    "DRV001",
    "the NVIDIA kernel driver is loaded",
    family="Driver",
    tags=(
        NO_DRIVER,
        requirement("driver"),
    ),
    stage=Stage.DRIVER,
    after=("GPU001", "CNT001", "DRV003", "DRV004", "DRV005", "DRV010", "DRV011"),
    causes=("no_nvidia_driver",),
    sources=(INSTALL,),
)
def driver_is_loaded(
    driver: Driver,
    system: System,
    knowledge: Knowledge,
    pci: Pci | None = None,
    cuda_driver: CudaDriver | None = None,
    nvml: Nvml | None = None,
) -> Yielded:
    """CUDA needs NVIDIA's kernel module. TensorFlow reports its absence as `UNKNOWN ERROR (303)`.

    Fix: install the driver with the distribution's own tool, then reboot: `ubuntu-drivers install`, `dnf install
    akmod-nvidia xorg-x11-drv-nvidia-cuda` of RPM Fusion, `apt install nvidia-driver` with Debian's non-free component.
    """
    if system.wsl or system.os != "Linux":
        raise Skip(
            "in WSL, the driver belongs to Windows" if system.wsl else f"kernel modules are not read on {system.os}"
        )
    if driver.version or "nvidia" in driver.modules:
        yield Evidence(f"kernel module {driver.version} ({driver.flavour or 'unknown flavour'})")
    elif cuda_driver and cuda_driver.works and cuda_driver.gpus:
        yield Evidence("cuInit succeeds and lists a GPU")
    elif nvml and nvml.gpus:
        yield Evidence("NVML lists a GPU")
    elif not (pci and pci.nvidia_gpus):
        raise Skip("there is no NVIDIA GPU on the PCI bus for it to drive")
    else:
        gpus = pci.nvidia_gpus if pci else ()
        yield Finding(
            "there is an NVIDIA GPU, but NVIDIA's kernel driver is not loaded",
            cause="no_nvidia_driver",
            evidence=(
                "no /proc/driver/nvidia/version and no nvidia module in /sys/module",
                *(
                    f"{knowledge.name_for_id(gpu.device) or 'the GPU'} at {gpu.address} is bound to the kernel driver "
                    f"{gpu.driver or 'none'}"
                    for gpu in gpus
                ),
                *([cuda_driver.library_error] if cuda_driver and cuda_driver.library_error else ()),
            ),
            fix=Fix(_how_to_install(system, {gpu.driver for gpu in gpus})),
        )


def _how_to_install(system: System, bound: set[str]) -> str:
    if "vfio-pci" in bound:
        return "The GPU is bound to vfio-pci, reserved for a virtual machine: bind it to the nvidia driver, or run inside it."
    tools = {
        "Ubuntu": "sudo ubuntu-drivers install",
        "Debian": "sudo apt install linux-headers-amd64 nvidia-driver",
        "Fedora": "sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda",
    }
    before = {
        "Debian": "after `contrib non-free non-free-firmware` in the apt sources and `sudo apt update`: ",
        "Fedora": "after RPM Fusion's nonfree repository, https://rpmfusion.org/Configuration: ",
    }
    name = next((name for name in tools if system.distribution.startswith(name)), "")
    how = f" ({before.get(name, '')}`{tools[name]}`)" if name else ""
    return f"Install the driver with the distribution's own tool{how} and reboot; `nvidia-smi` then lists the GPU: {INSTALL}"


@check(
    "DRV004",
    "Secure Boot allows the NVIDIA module to load",
    family="Driver",
    stage=Stage.DRIVER,
    after=("GPU001", "CNT001", "DRV003", "DRV005", "DRV010"),
    causes=("secure_boot_blocks_module",),
    sources=("https://wiki.debian.org/SecureBoot",),
)
def secure_boot_lets_module_in(
    driver: Driver,
    kernel_log: KernelLog | None = None,
    module_files: ModuleFiles | None = None,
    pci: Pci | None = None,
) -> Yielded:
    """With Secure Boot on, the kernel loads only modules signed with a key that the firmware trusts.

    Fix: enrol the key that DKMS signed the module with (`mokutil --import`), or disable Secure Boot.
    """
    if driver.secure_boot is None:
        raise Skip("the firmware does not report whether Secure Boot is on")
    if driver.version or "nvidia" in driver.modules:
        yield Evidence("the module is loaded")
    elif driver.secure_boot and driver.running_kernel in driver.built_for:
        refusals = kernel_log.of_kind("module_refused") if kernel_log else ()
        bound = [gpu.driver for gpu in (pci.nvidia_gpus if pci else ())]
        if bound and all(bound) and "nvidia" not in bound and not refusals:
            raise Skip(
                f"the GPUs are bound to {', '.join(dict.fromkeys(bound))}, and nothing shows that the module was rejected"
            )
        file = module_files.file if module_files else None
        guess = "" if refusals else "most likely "
        yield Finding(
            f"Secure Boot is on, and the installed NVIDIA module is not loaded: {guess}its signature is rejected",
            cause="secure_boot_blocks_module",
            confidence="high" if refusals else "medium",
            evidence=(
                "the firmware variable SecureBoot is 1",
                f"an nvidia module for kernel {driver.running_kernel} is installed and not loaded",
                *(f"kernel log: {each.text}" for each in refusals[:1]),
                *([f"the signer of the module is {file.signer or 'none'}"] if file and file.version else ()),
            ),
            fix=Fix(
                "Check `sudo dmesg | grep -i -e 'unsigned module' -e 'Key was rejected'`. If it confirms this, enrol the key "
                "(`sudo mokutil --import FILE`; Ubuntu: /var/lib/shim-signed/mok/MOK.der, else of DKMS: /var/lib/dkms/mok.pub), "
                "choose a password, reboot, and in the blue screen select Enroll MOK and type it. Or disable Secure Boot in the "
                "firmware."
            ),
        )
    elif not driver.secure_boot:
        yield Evidence("Secure Boot is off")
    else:
        raise Skip("no NVIDIA module is installed for the running kernel")


@check(
    "DRV005",
    "the NVIDIA module is built for the running kernel",
    family="Driver",
    stage=Stage.DRIVER,
    after=("GPU001", "CNT001", "DRV003", "DRV011"),
    causes=("kernel_module_not_built_for_kernel",),
    sources=("https://github.com/dell/dkms", "https://rpmfusion.org/Howto/NVIDIA"),
)
def module_is_built_for_kernel(
    driver: Driver,
    module_files: ModuleFiles | None = None,
    kernel_log: KernelLog | None = None,
    system: System | None = None,
) -> Yielded:
    """After a kernel upgrade, the module must be rebuilt; DKMS does this if the kernel headers are installed, and on
    Fedora akmods.

    Fix: install the headers of the running kernel, run `dkms autoinstall` (Fedora: `akmods --force`), and load the
    module or reboot.
    """
    if driver.version or "nvidia" in driver.modules:
        yield Evidence("the module is loaded")
        return
    kernel, dkms = driver.running_kernel, module_files.dkms if module_files else ()
    file = module_files.file if module_files else None
    misfits = kernel_log.of_kind("module_mismatch") if kernel_log else ()
    waiting = [each for each in dkms if each.state == "added"]
    if not driver.built_for and not waiting:
        raise Skip("no NVIDIA module is installed for any kernel under /lib/modules")
    if kernel in driver.built_for and not misfits:
        yield Evidence(f"a module for {kernel} is installed")
        return
    has_it = (
        f"under /lib/modules, only {', '.join(driver.built_for)} has the module"
        if driver.built_for
        else "no kernel has the module"
    )
    yield Finding(
        f"the NVIDIA module is not built for the running kernel {kernel}",
        cause="kernel_module_not_built_for_kernel",
        evidence=(
            *(misfits[0].text for _ in misfits[:1]),
            *([has_it] if kernel not in driver.built_for else ()),
            *([f"the module file {file.path} is built for kernel {file.kernel}"] if file and file.kernel else ()),
            *(f"DKMS lists {each.name}/{each.version} for it in the state {each.state!r}" for each in dkms),
            *(f"{each.log}: {each.error}" for each in dkms if each.failed_for == kernel and each.error),
        ),
        fix=Fix(_how_to_build(kernel, module_files, system)),
    )


def _how_to_build(kernel: str, files: ModuleFiles | None, system: System | None) -> str:
    failed = next((each for each in (files.dkms if files else ()) if each.failed_for == kernel), None)
    if failed and files and files.headers is not False:
        return (
            f"DKMS failed to build {failed.name}/{failed.version}; {failed.log} says why. The usual cause is a driver that is "
            "older than the kernel: upgrade the driver, or boot the previous kernel."
        )
    without_dkms = bool(files and not files.dkms)
    if without_dkms and system and system.distribution.startswith("Fedora"):
        return f"As root: `dnf install kernel-devel-{kernel}`, then `akmods --force --kernels {kernel}` and `modprobe nvidia`."
    otherwise = " If DKMS does not build this driver, install its package for this kernel." if without_dkms else ""
    return (
        f"As root, install the headers (`apt install linux-headers-{kernel}`, or `dnf install kernel-devel-{kernel}`), then "
        f"run `dkms autoinstall` and `modprobe nvidia`.{otherwise}"
    )
