"""LIB: are the CUDA libraries that TensorFlow opens at run time installed?"""

from __future__ import annotations

from tfgpu_doctor.checks.commands import bring_cuda_libraries
from tfgpu_doctor.checks.libraries.lost_libraries import CUDA, failed_loads, said_of
from tfgpu_doctor.checks.tensorflow.wheel import is_from_index
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Libraries
from tfgpu_doctor.model.facts.python import Runtime, Target, TensorFlow
from tfgpu_doctor.model.facts.resolution import Resolution
from tfgpu_doctor.model.tags import LIBRARIES

_FIRST_OF_SHARED_SONAMES = 11  # from this CUDA release on, a soname contains only the major version
_PIP = "https://www.tensorflow.org/install/pip"


@check(
    "LIB004",
    "the CUDA libraries that TensorFlow opens are installed",
    family="Libraries",
    tags=(LIBRARIES,),
    stage=Stage.LIBRARIES,
    after=("TFB001", "DRV008", "TFW001"),
    causes=("pip_without_and_cuda_extra", "cuda_toolkit_wrong_major", "cuda_toolkit_wrong_minor"),
    sources=(_PIP, "https://github.com/tensorflow/tensorflow/issues/66987"),
)
def cuda_libraries_are_installed(
    tensorflow: TensorFlow,
    cuda_libraries: Libraries,
    target: Target,
    system: System,
    knowledge: Knowledge,
    resolution: Resolution | None = None,
    runtime: Runtime | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """The wheel does not include CUDA: after `pip install tensorflow`, TensorFlow cannot use a GPU unless a toolkit of the
    same major version is installed. It then logs "Could not find cuda drivers", although the driver works.

    Fix: `pip install 'tensorflow[and-cuda]'` with the same version.
    """
    if not tensorflow.cuda_version:
        raise Skip("this TensorFlow does not report which CUDA it was built with")
    if system.os != "Linux":
        raise Skip(f"the libraries that TensorFlow opens on {system.os} are unknown")
    if runtime and runtime.gpus:
        yield Evidence(f"TensorFlow lists {amount(len(runtime.gpus), 'GPU')}")
        return
    wanted = _wanted(tensorflow, runtime)
    found = _found_by_tensorflow(resolution, runtime)
    absent = [name for name in wanted if name not in found and not cuda_libraries.named(name)]
    cudart = next((name for name in wanted if name.startswith("libcudart.so.")), "")
    if cudart and cudart in absent:
        if not runtime and not is_from_index(target, tensorflow):
            raise Skip(
                "this TensorFlow is not the wheel of the package index: only a run shows where it looks for CUDA"
            )
        again = bring_cuda_libraries(
            target,
            tensorflow,
            knowledge,
            "Install the libraries that this TensorFlow was built with, using pip; the driver itself works.",
            cuda_driver,
        )
        yield _not_installed(tensorflow, cuda_libraries, cudart, absent, runtime, again)
    elif not wanted:
        raise NotMeasured("TensorFlow did not report which libraries it opens")
    elif absent and not runtime:
        raise Skip(f"{', '.join(absent)} was not found; only a run shows whether TensorFlow finds it")
    else:
        yield Evidence(f"found on disk: {', '.join(name for name in wanted if name not in absent)}")


def _found_by_tensorflow(resolution: Resolution | None, runtime: Runtime | None) -> set[str]:
    """Return the libraries that TensorFlow opened, or that its own search path leads to and its log does not miss."""
    loads = runtime.libraries if runtime else ()
    lost = {load.soname for load in loads if not load.opened}
    resolved = {each.soname for each in (resolution.libraries if resolution else ()) if each.found}
    return {load.soname for load in loads if load.opened} | (resolved - lost)


def _not_installed(
    tensorflow: TensorFlow,
    libraries: Libraries,
    cudart: str,
    absent: list[str],
    runtime: Runtime | None,
    again: Fix,
) -> Finding:
    others = _other_toolkits(libraries)
    said = [said_of(load) for load in (failed_loads(runtime) if runtime else ())]
    return Finding(
        f"{cudart} is not installed; only {', '.join(others)} is installed"
        if others
        else f"TensorFlow was installed without the CUDA {tensorflow.cuda_version} libraries that it opens",
        cause=_label(cudart, others),
        evidence=(
            f"TensorFlow {tensorflow.version} was built with CUDA {tensorflow.cuda_version}, "
            f"cuDNN {tensorflow.cudnn_version or 'of unknown version'}",
            f"not found: {', '.join(absent)}",
            *said[:2],
        ),
        fix=again,
    )


def _wanted(tensorflow: TensorFlow, runtime: Runtime | None) -> list[str]:
    """Return the sonames from TensorFlow's log, or else those of the CUDA runtime and cuDNN, from the build's versions."""
    named = [load.soname for load in runtime.libraries if CUDA.fullmatch(load.soname)] if runtime else []
    if named:
        return named
    parts = tensorflow.cuda_version.split(".")
    # The soname of libcudart also contains the minor version in CUDA 10.x (10.1) and 11.x (always 11.0).
    suffix = {"10": ".".join(parts[:2]), "11": "11.0"}.get(parts[0], parts[0])
    cudnn = tensorflow.cudnn_version.partition(".")[0]
    return [f"libcudart.so.{suffix}", *([f"libcudnn.so.{cudnn}"] if cudnn else ())]


def _other_toolkits(libraries: Libraries) -> list[str]:
    """Return the CUDA runtimes on the loader's path that are part of a toolkit: cuBLAS is on the path too.

    A single runtime, which another program may have installed, was not meant to provide TensorFlow's libraries.
    """
    names = {copy.soname for copy in libraries.copies if copy.on_loader_path}
    whole = any(name.startswith("libcublas.so.") for name in names)
    return sorted(name for name in names if whole and name.startswith("libcudart.so."))


def _label(wanted: str, others: list[str]) -> str:
    """Return the cause. Before CUDA 11 each minor version had its own sonames, and counts as a major version."""
    if not others:
        return "pip_without_and_cuda_extra"
    major = _major(wanted)
    same = major >= _FIRST_OF_SHARED_SONAMES and any(_major(other) == major for other in others)
    return "cuda_toolkit_wrong_minor" if same else "cuda_toolkit_wrong_major"


def _major(soname: str) -> int:
    head = soname.partition(".so.")[2].partition(".")[0]
    return int(head) if head.isdecimal() else 0
