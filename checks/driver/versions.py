"""DRV: are the versions of the driver, its libraries and CUDA compatible?"""

from __future__ import annotations

from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.compute_capability import kernels_for
from tfgpu_doctor.knowledge.driver_branches import is_newer_than_branch, last_branch
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import ModuleFiles
from tfgpu_doctor.model.facts.machine import Container, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Libraries, LibraryFile, Nvml
from tfgpu_doctor.model.facts.python import Runtime, TensorFlow
from tfgpu_doctor.model.tags import PARTIAL, version_of

_LEAST_DRIVER_MAJOR = 100
_VERSION_MISMATCH = 18  # NVML_ERROR_LIB_RM_VERSION_MISMATCH


def driver_system(system: System) -> str:
    """Return the system whose driver is in use: Windows in WSL."""
    return "Windows" if system.wsl else system.os


@check(
    "DRV002",
    "the driver is new enough for the CUDA that TensorFlow uses",
    family="Driver",
    tags=(
        PARTIAL,
        version_of("driver"),
    ),
    stage=Stage.WHEEL,
    after=("DRV001", "PKG002"),
    causes=("driver_too_old",),
    sources=("https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",),
)
def driver_is_new_enough(
    tensorflow: TensorFlow,
    system: System,
    knowledge: Knowledge,
    driver: Driver | None = None,
    nvml: Nvml | None = None,
    cuda_driver: CudaDriver | None = None,
    runtime: Runtime | None = None,
) -> Yielded:
    """A TensorFlow built with CUDA 12.x runs on any driver that supports CUDA 12.0. With an older driver it still
    lists the GPU, but fails at the first kernel.

    Fix: upgrade the driver, or install a TensorFlow built with an older CUDA.
    """
    built_with, supported = tensorflow.cuda_version, cuda_driver.cuda_version if cuda_driver else ""
    found = (driver.version if driver else "") or (nvml.driver_version if nvml else "")
    if not built_with:
        raise Skip("this TensorFlow does not report the CUDA that it was built with")
    if supported and _supports(supported, built_with, knowledge):
        yield Evidence(f"the driver supports CUDA {supported}, TensorFlow was built with {built_with}")
        return
    os = driver_system(system)
    minimum = knowledge.minimum_driver(built_with, os)
    if minimum is None:
        raise Skip(f"CUDA {built_with} is newer than the doctor's tables")
    if not found and not supported:
        raise NotMeasured("the driver's version is unknown")
    needed = minimum.driver(os)
    if runtime and runtime.computes:
        yield Evidence(f"TensorFlow computes on a GPU with driver {found or 'of unknown version'}")
    elif last := _last_for_gpus(needed, os, tensorflow, cuda_driver, nvml, knowledge):
        raise Skip(
            f"no driver of the GPU runs CUDA {built_with}, which needs {needed}: the last branch is {last}; TFB002 judges the GPU"
        )
    elif supported or version(found) < version(needed):
        yield Finding(
            f"driver {found or 'for CUDA ' + supported} is older than {needed}, needed by CUDA {built_with}",
            cause="driver_too_old",
            evidence=(
                f"TensorFlow {tensorflow.version} was built with CUDA {built_with} ({tensorflow.cuda_named_by})",
                *([f"cuDriverGetVersion: this driver supports CUDA up to {supported}"] if supported else ()),
                f"CUDA {minimum.cuda} runs on driver {needed} or newer ({minimum.source})",
            ),
            fix=Fix(
                f"Upgrade the driver to {needed} or newer, or use a TensorFlow that was built with an older CUDA."
                + _package_in_its_place(built_with, found, os, nvml, knowledge)
            ),
        )
    else:
        yield Evidence(f"driver {found}, at least {needed} needed")


def _last_for_gpus(
    needed: str,
    os: str,
    tensorflow: TensorFlow,
    cuda_driver: CudaDriver | None,
    nvml: Nvml | None,
    knowledge: Knowledge,
) -> str:
    """Return the last driver branch of the GPUs if the needed driver is newer for each, and TensorFlow has no kernels for it."""
    gpus = (cuda_driver.gpus if cuda_driver else ()) or (nvml.gpus if nvml else ())
    branches = set()
    for gpu in gpus:
        last = last_branch(gpu.compute_capability, knowledge)
        has_kernels = kernels_for(gpu.compute_capability, tensorflow.compute_capabilities) != "never"
        if last is None or has_kernels or not is_newer_than_branch(needed, last, os):
            return ""
        branches.add(last.value)
    return ", ".join(sorted(branches))


def _package_in_its_place(built_with: str, driver: str, os: str, nvml: Nvml | None, knowledge: Knowledge) -> str:
    """Return how to run without a new driver, on data-centre GPUs where NVIDIA supports that."""
    names = [gpu.name for gpu in (nvml.gpus if nvml else ())]
    package = knowledge.compat_package(built_with, driver, names) if os == "Linux" else None
    if package is None:
        return ""
    return (
        f" If driver {driver} must stay, the package {package.package} provides CUDA {package.cuda} for this GPU (forward "
        "compatibility); its folder `compat` must come first in LD_LIBRARY_PATH."
    )


def _supports(supported: str, built_with: str, knowledge: Knowledge) -> bool:
    """Whether a driver for one CUDA runs programs built with another; since CUDA 11 only the major version matters."""
    first = version(knowledge.compatibility["minor-version"].since)
    ours, theirs = version(supported), version(".".join(built_with.split(".")[:2]))
    return ours.major >= theirs.major if theirs >= first else ours >= theirs


@check(
    "DRV006",
    "the driver's libraries and its kernel module have the same version",
    family="Driver",
    stage=Stage.DRIVER,
    after=("DRV001", "LIB001", "LIB002"),
    causes=("driver_library_version_mismatch", "cuda_compat_package_conflict"),
    sources=(
        "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/release-notes.html",
    ),
)
def libraries_match_module(
    driver: Driver,
    driver_libraries: Libraries,
    cuda_driver: CudaDriver,
    nvml: Nvml | None = None,
    module_files: ModuleFiles | None = None,
    container: Container | None = None,
) -> Yielded:
    """libcuda and the kernel module must have exactly the same version; after an upgrade without a reboot they differ.
    The only exception is the cuda-compat package, on data-centre GPUs only.

    Fix: reboot (or reload the module); in a container, provide the libraries of the host's version, and remove
    /usr/local/cuda/compat from the loader's path.
    """
    copy = next((each for each in driver_libraries.copies if each.real_path == cuda_driver.library), None)
    copy = copy or next((each for each in driver_libraries.named("libcuda.so.1") if each.on_loader_path), None)
    refused = cuda_driver.init_code in (803, 804)
    told_by_nvml = bool(nvml and nvml.error_code == _VERSION_MISMATCH)
    of_image = None if told_by_nvml else _mounted_compat(copy, driver, driver_libraries, container)
    compat = bool(copy and copy.kind == "compat") or of_image is not None
    differ = bool(copy and copy.kind == "driver" and not compat and _is_other(copy.version, driver.version))
    module = driver.version or "of unknown version"
    on_disk = module_files.file.version if module_files and module_files.file else ""
    evidence = [f"libcuda is {copy.real_path}"] if copy else []
    evidence += [f"{of_image.real_path} of the image has the same version"] if of_image else []
    evidence += _said_of_versions(driver, on_disk, nvml if told_by_nvml else None)
    evidence += [f"cuInit returned {cuda_driver.init_code}, {cuda_driver.init_name}"] if refused else []
    if copy and copy.version and copy.version == driver.version and not (refused or told_by_nvml):
        yield Evidence(f"libcuda and the kernel module are both {driver.version}")
    elif cuda_driver.works and not told_by_nvml:
        kind = "the forward-compatibility library" if compat else "libcuda"
        yield Evidence(f"cuInit succeeds with {kind} {cuda_driver.library} and kernel module {module}")
    elif compat and refused:
        yield _refused_compat(evidence, mounted=of_image is not None)
    elif differ or told_by_nvml or refused:
        versions = (
            f"libcuda has version {copy.version}, but the loaded kernel module has version {module}"
            if copy and differ
            else ""
        )
        yield Finding(
            versions or f"the driver's libraries do not match the loaded kernel module {module}",
            cause="driver_library_version_mismatch",
            confidence="high" if differ or told_by_nvml else "medium",
            evidence=tuple(evidence),
            fix=Fix(_how_to_match(driver.version, on_disk, container)),
        )
    else:
        raise NotMeasured("the versions of libcuda and of the kernel module are not both known, or cannot be compared")


def _said_of_versions(driver: Driver, on_disk: str, nvml: Nvml | None) -> list[str]:
    """Return the versions of the loaded module and of the one on disk, and NVML's complaint, where they are known."""
    said = [f"/proc/driver/nvidia/version says {driver.version}"] if driver.version else []
    said += [f"the module on disk for this kernel is {on_disk}"] if on_disk else []
    return said + ([f"NVML says: {nvml.error_text}"] if nvml else [])


def _mounted_compat(
    copy: LibraryFile | None, driver: Driver, libraries: Libraries, container: Container | None
) -> LibraryFile | None:
    """Return the forward-compatibility library of the image, if it is what the loader found in the driver's place: before
    release 1.17.4, NVIDIA's container toolkit mounted it there by default."""
    if not (
        container and container.kind and copy and copy.kind == "driver" and _is_other(copy.version, driver.version)
    ):
        return None
    copies = libraries.named(copy.soname)
    return next((each for each in copies if each.kind == "compat" and each.version == copy.version), None)


def _refused_compat(evidence: list[str], *, mounted: bool) -> Finding:
    off_the_path = (
        "Remove the compat folder from the loader's path (LD_LIBRARY_PATH, /etc/ld.so.conf.d), or remove the "
        "cuda-compat package. If the program needs a newer CUDA, upgrade the host's driver."
    )
    out_of_the_image = (
        "The container engine mounted the image's library in the place of the driver's. Upgrade the host's driver, use an "
        "image with a CUDA that this driver supports, or remove the cuda-compat package from the image."
    )
    return Finding(
        "CUDA's forward-compatibility libcuda is loaded, but this driver or GPU rejects it",
        cause="cuda_compat_package_conflict",
        evidence=tuple(evidence),
        fix=Fix(out_of_the_image if mounted else off_the_path),
    )


def _how_to_match(loaded: str, on_disk: str, container: Container | None) -> str:
    if container and container.kind:
        return (
            f"The kernel module{f' {loaded}' if loaded else ''} is the host's: this {container.kind} container needs libraries "
            "of its version. Remove the driver's packages (libnvidia-compute, nvidia-utils) from an image, so that the engine "
            "mounts the host's libraries; in LXC, install those of that version. If they come from the host, reboot the host."
        )
    if on_disk and on_disk == loaded:
        return (
            f"A reboot does not help: the module on disk is also {on_disk}. Build the new one with DKMS (as root `dkms status`, "
            "`dkms autoinstall`), or remove all installed drivers except one and reinstall that one."
        )
    return (
        "Reboot to load the module of the new driver. If the versions still differ, remove the remains of the older "
        "driver (`dpkg -l | grep nvidia`, or `nvidia-uninstall` after a .run install) and install one driver."
    )


def _is_other(library: str, module: str) -> bool:
    """Whether two driver versions differ. A Jetson's libcuda is numbered 1.1, which does not indicate the driver's version."""
    known = bool(library and module) and version(library).major >= _LEAST_DRIVER_MAJOR
    return known and library != module
