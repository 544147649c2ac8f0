"""LIB: does the loader find the driver's libraries, and do they belong to the driver?"""

from __future__ import annotations

import os

from tfgpu_doctor.checks.commands import library_path_without, prepend_library_path
from tfgpu_doctor.checks.wsl import INSTALL_IN_WINDOWS
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.machine import Environment, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Libraries, LibraryFile, Nvml
from tfgpu_doctor.model.facts.python import Runtime, TensorFlow
from tfgpu_doctor.model.facts.resolution import Resolution
from tfgpu_doctor.model.tags import LIBRARIES

_STUB, _HIDDEN = 34, 100  # CUDA_ERROR_STUB_LIBRARY, CUDA_ERROR_NO_DEVICE
_WSL = "https://docs.nvidia.com/cuda/wsl-user-guide/index.html"
_DXG = "https://devblogs.microsoft.com/directx/directx-heart-linux/"  # /dev/dxg serves the GPU of any vendor


@check(
    "LIB001",
    "the loader finds the driver library libcuda.so.1",
    family="Libraries",
    tags=(LIBRARIES,),
    stage=Stage.DRIVER,
    after=("GPU001", "CNT001", "CNT002", "DRV001", "PKG001", "LIB008"),
    causes=("no_nvidia_driver", "wsl_libcuda_not_on_path", "gpu_libs_not_found"),
    sources=("https://man7.org/linux/man-pages/man8/ld.so.8.html", _WSL, _DXG),
)
def libcuda_is_found(
    cuda_driver: CudaDriver,
    driver_libraries: Libraries,
    system: System,
    resolution: Resolution | None = None,
    runtime: Runtime | None = None,
) -> Yielded:
    """TensorFlow opens libcuda.so.1 by name; if the loader does not find it, TensorFlow prints `UNKNOWN ERROR (303)`.

    Fix: install the driver's user-space libraries, or add their folder to the loader's path.
    """
    if system.os != "Linux":
        raise Skip(f"there is no libcuda.so.1 on {system.os}")
    if cuda_driver.library:
        yield Evidence(f"the loader opened {cuda_driver.library}")
    elif not cuda_driver.library_error:
        raise NotMeasured(f"the process that opens libcuda {cuda_driver.attempt.ending}")
    elif found := _found_by_tensorflow("libcuda.so.1", resolution, runtime):
        yield Evidence(found)
    else:
        yield _without_libcuda(cuda_driver, driver_libraries.named("libcuda.so.1"), system)


def _found_by_tensorflow(soname: str, resolution: Resolution | None, runtime: Runtime | None) -> str:
    """Return the evidence that TensorFlow finds a library that an interpreter alone does not find, or an empty string.

    The RUNPATH of TensorFlow's own library counts for what it opens: nixpkgs adds the driver's folder to it.
    """
    if runtime and runtime.gpus:
        return f"TensorFlow lists {amount(len(runtime.gpus), 'GPU')}"
    if runtime and any(load.soname == soname and not load.opened for load in runtime.libraries):
        return ""
    each = resolution.find(soname) if resolution else None
    if each is None or each.found_by not in ("RUNPATH", "RPATH") or "/stubs/" in each.path + each.real_path:
        return ""
    return f"the {each.found_by} of TensorFlow leads to {each.path}"


def _without_libcuda(cuda_driver: CudaDriver, copies: tuple[LibraryFile, ...], system: System) -> Finding:
    beside = next((copy for copy in copies if copy.kind in ("driver", "wsl") and not copy.on_loader_path), None)
    evidence = (cuda_driver.library_error, *(f"a copy is at {copy.path} ({copy.found_in})" for copy in copies))
    if beside:
        folder = os.path.dirname(beside.path)
        return Finding(
            f"libcuda.so.1 is in {folder}, where the loader does not search",
            cause="wsl_libcuda_not_on_path" if beside.kind == "wsl" else "gpu_libs_not_found",
            evidence=evidence,
            fix=Fix("Add that folder to the loader's path.", (prepend_library_path([folder]),)),
        )
    if system.wsl:
        return Finding(
            "WSL contains no libcuda: Windows has no NVIDIA driver that supports WSL, or this PC has no NVIDIA GPU",
            cause="no_nvidia_driver",
            confidence="medium",
            evidence=(*evidence, "/usr/lib/wsl/lib has no libcuda.so.1", "WSL 2 has /dev/dxg with a GPU of any vendor"),
            fix=Fix(
                f"{INSTALL_IN_WINDOWS} If this PC has no NVIDIA GPU, no action is needed to run on the CPU; ignore what "
                "TensorFlow prints about CUDA and cuInit."
            ),
        )
    broken = any(copy.on_loader_path for copy in copies)
    return Finding(
        "libcuda.so.1 exists but cannot be opened" if broken else "the driver's library libcuda.so.1 is not installed",
        cause="no_nvidia_driver",
        evidence=evidence,
        fix=Fix(
            "Install the driver's user-space libraries in the version of the kernel module (Ubuntu: "
            "libnvidia-compute-NNN), or reinstall the driver. In a container, the engine must provide them."
        ),
    )


@check(
    "LIB002",
    "libcuda is the driver's own library, not a stub or a stray copy",
    family="Libraries",
    tags=(LIBRARIES,),
    stage=Stage.DRIVER,
    after=("LIB001",),
    causes=("libcuda_stub_loaded", "foreign_libcuda_bundled"),
    sources=("https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",),
)
def libcuda_is_the_drivers_own(
    cuda_driver: CudaDriver,
    driver_libraries: Libraries,
    environment: Environment,
    system: System,
    driver: Driver | None = None,
) -> Yielded:
    """The CUDA toolkit ships a stub of libcuda for linking, and images or package managers may include a stray copy;
    neither can drive a GPU. With a stub, cuInit returns 34.

    Fix: remove the folder from LD_LIBRARY_PATH; the driver's own copy comes from the host, or from Windows in WSL.
    """
    if not cuda_driver.library:
        raise Skip("libcuda was not opened")
    copies = driver_libraries.named("libcuda.so.1")
    loaded = next((copy for copy in copies if cuda_driver.library in (copy.path, copy.real_path)), None)
    own = next((copy for copy in copies if copy is not loaded and _is_own(copy, system, driver)), None)
    folders = [os.path.dirname(path) for path in (cuda_driver.library, *([loaded.path] if loaded else ()))]
    where = (f"the loader opened {cuda_driver.library}", *([f"the driver's own copy is {own.path}"] if own else ()))
    code = cuda_driver.init_code
    hidden = code == _HIDDEN and not system.wsl
    is_stub = code == _STUB or "/stubs/" in cuda_driver.library
    if is_stub:
        yield Finding(
            f"the loader opens the CUDA toolkit's stub of libcuda in {folders[0]}",
            cause="libcuda_stub_loaded",
            evidence=(
                *where,
                *(["cuInit returned 34, CUDA_ERROR_STUB_LIBRARY"] if code == _STUB else ()),
            ),
            fix=_without(folders, environment, own),
        )
    elif own and not cuda_driver.works and not hidden and _is_stray(cuda_driver.library, loaded, system):
        answer = (
            f"with that copy cuInit returned {code}" if code is not None else f"that copy {cuda_driver.attempt.ending}"
        )
        yield Finding(
            f"the loader opens a copy of libcuda in {folders[0]} that is not the driver's",
            cause="foreign_libcuda_bundled",
            evidence=(*where, answer),
            fix=_without(folders, environment, own),
        )
    else:
        yield Evidence(f"the loader opened {cuda_driver.library}")


def _is_own(copy: LibraryFile, system: System, driver: Driver | None) -> bool:
    """Whether a copy belongs to the driver: it has the module's version, or Windows provides it to WSL."""
    if system.wsl:
        return copy.kind == "wsl"
    return copy.kind == "driver" and bool(driver and driver.version and copy.version == driver.version)


def _is_stray(library: str, loaded: LibraryFile | None, system: System) -> bool:
    """Whether the loaded copy belongs to no driver. A copy with a version in its name belongs to some NVIDIA driver, and
    DRV006 judges it; in WSL, every copy that Windows did not provide is stray."""
    if system.wsl:
        return loaded is None or loaded.kind != "wsl"
    return "/compat/" not in library and (loaded is None or (loaded.kind == "driver" and not loaded.version))


def _without(folders: list[str], environment: Environment, own: LibraryFile | None) -> Fix:
    """Remove folders from LD_LIBRARY_PATH, or say where else they may come from."""
    if command := library_path_without(environment, *folders):
        return Fix(f"Remove {folders[-1]} from LD_LIBRARY_PATH.", command)
    if own:
        return Fix(
            "Put the folder of the driver's own copy first.", (prepend_library_path([os.path.dirname(own.path)]),)
        )
    return Fix(
        f"Remove {folders[0]} from the loader's path (/etc/ld.so.conf.d, `ldconfig`), and provide the driver's own copy."
    )


@check(
    "LIB005",
    "the loader finds the driver library libnvidia-ml.so.1",
    family="Libraries",
    tags=(LIBRARIES,),
    stage=Stage.DRIVER,
    after=("LIB001", "LIB008", "CNT002"),
    causes=("gpu_libs_not_found",),
    sources=("https://docs.nvidia.com/deploy/nvml-api/index.html",),
)
def libnvidia_ml_is_found(
    nvml: Nvml,
    driver_libraries: Libraries,
    system: System,
    knowledge: Knowledge,
    tensorflow: TensorFlow | None = None,
    resolution: Resolution | None = None,
    runtime: Runtime | None = None,
) -> Yielded:
    """TensorFlow 2.20 and later register no GPU, without a message, if libnvidia-ml.so.1 cannot be opened.

    Fix: install all of the driver's user-space libraries; start a container with the capability `utility`.
    """
    first = knowledge.boundaries["first_release_that_needs_nvml"].value
    if system.os != "Linux":
        raise Skip(f"there is no libnvidia-ml.so.1 on {system.os}")
    found = _found_by_tensorflow("libnvidia-ml.so.1", resolution, runtime)
    if (runtime and runtime.gpus) or (nvml.library_error and found):
        yield Evidence(found)
    elif nvml.library_error and tensorflow and version(tensorflow.version) < version(first):
        raise Skip(f"libnvidia-ml.so.1 cannot be opened; TensorFlow before {first} does not need it")
    elif nvml.library_error:
        copies = driver_libraries.named("libnvidia-ml.so.1")
        beside = next((copy for copy in copies if not copy.on_loader_path and copy.kind != "stub"), None)
        yield Finding(
            "libnvidia-ml.so.1 cannot be opened, and without it TensorFlow registers no GPU",
            cause="gpu_libs_not_found",
            evidence=(nvml.library_error, *(f"a copy is at {copy.path}" for copy in copies)),
            fix=Fix("Add its folder to the loader's path.", (prepend_library_path([os.path.dirname(beside.path)]),))
            if beside
            else Fix(
                "Install all of the driver's user-space libraries (Ubuntu: libnvidia-compute-NNN). In a container, set "
                "NVIDIA_DRIVER_CAPABILITIES=compute,utility."
            ),
        )
    elif not nvml.attempt.answered:
        raise NotMeasured(f"NVML {nvml.attempt.ending}")
    else:
        yield Evidence("nvidia-ml-py opened it")
