"""LIB: are the CUDA libraries that TensorFlow opens at run time installed at all?"""

from __future__ import annotations

from tfgpu_doctor.checks.commands import bring_cuda_libraries
from tfgpu_doctor.checks.libraries.lost_libraries import CUDA, failed_loads, said_of
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import Libraries
from tfgpu_doctor.model.facts.python import Runtime, Target, TensorFlow

_FIRST_OF_SHARED_SONAMES = 11  # the CUDA from which on a soname names the major version alone
_PIP = "https://www.tensorflow.org/install/pip"


@check(
    "LIB004",
    "the CUDA libraries that TensorFlow opens are installed",
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
    runtime: Runtime | None = None,
) -> Yielded:
    """The wheel brings no CUDA: `pip install tensorflow` alone cannot use a GPU unless a toolkit of the same major
    version is installed. TensorFlow then says "Could not find cuda drivers", though the driver is fine.

    Fix: `pip install 'tensorflow[and-cuda]'`, of the same version.
    """
    if not tensorflow.cuda_version:
        raise Skip("this TensorFlow does not say which CUDA it was built with")
    if system.os != "Linux":
        raise Skip(f"which libraries it opens is not known on {system.os}")
    if runtime and runtime.gpus:
        yield Evidence(f"TensorFlow lists {len(runtime.gpus)} GPUs")
        return
    wanted = _wanted(tensorflow, runtime)
    opened = {load.soname for load in runtime.libraries if load.opened} if runtime else set()
    absent = [name for name in wanted if name not in opened and not cuda_libraries.named(name)]
    cudart = next((name for name in wanted if name.startswith("libcudart.so.")), "")
    if cudart and cudart in absent:
        if not runtime and not _is_from_pip(target, tensorflow):
            raise Skip("where a build that is not pip's looks for CUDA shows only when TensorFlow runs")
        yield _not_installed(tensorflow, cuda_libraries, target, knowledge, cudart, absent, runtime)
    elif not wanted:
        raise Skip("TensorFlow did not say which libraries it opens")
    elif absent and not runtime:
        raise Skip(f"{', '.join(absent)} was not found; whether TensorFlow finds it shows only when it runs")
    else:
        yield Evidence(f"found on disk: {', '.join(name for name in wanted if name not in absent)}")


def _is_from_pip(target: Target, tensorflow: TensorFlow) -> bool:
    """Whether this is the wheel of the package index, of which it is known where it looks for libraries."""
    found = target.find(tensorflow.distribution)
    by_pip = bool(found and found.installer in ("pip", "uv", "poetry", ""))
    return by_pip and not tensorflow.folder.startswith("/nix/store/")


def _not_installed(
    tensorflow: TensorFlow,
    libraries: Libraries,
    target: Target,
    knowledge: Knowledge,
    cudart: str,
    absent: list[str],
    runtime: Runtime | None,
) -> Finding:
    others = _other_toolkits(libraries)
    said = [said_of(load) for load in (failed_loads(runtime) if runtime else ())]
    return Finding(
        f"{cudart} is not installed; only {', '.join(others)} is"
        if others
        else f"TensorFlow was installed without the CUDA {tensorflow.cuda_version} libraries that it opens",
        cause=_label(cudart, others),
        evidence=(
            f"TensorFlow {tensorflow.version} is built with CUDA {tensorflow.cuda_version}, "
            f"cuDNN {tensorflow.cudnn_version or 'of unknown version'}",
            f"found nowhere: {', '.join(absent)}",
            *said[:2],
        ),
        fix=bring_cuda_libraries(
            target,
            tensorflow,
            knowledge,
            "Let pip bring the libraries that this TensorFlow was built with; the driver itself is fine.",
        ),
    )


def _wanted(tensorflow: TensorFlow, runtime: Runtime | None) -> list[str]:
    """The sonames: as TensorFlow's log names them, else the CUDA runtime's and cuDNN's, from the build's versions."""
    named = [load.soname for load in runtime.libraries if CUDA.fullmatch(load.soname)] if runtime else []
    if named:
        return named
    parts = tensorflow.cuda_version.split(".")
    # libcudart carries the minor version too in CUDA 10.x (10.1) and 11.x (always 11.0)
    suffix = {"10": ".".join(parts[:2]), "11": "11.0"}.get(parts[0], parts[0])
    cudnn = tensorflow.cudnn_version.partition(".")[0]
    return [f"libcudart.so.{suffix}", *([f"libcudnn.so.{cudnn}"] if cudnn else ())]


def _other_toolkits(libraries: Libraries) -> list[str]:
    """The CUDA runtimes on the loader's path that are part of a toolkit: cuBLAS lies there as well.

    A runtime alone, as some program brought it along, is nobody's attempt to give TensorFlow its libraries.
    """
    names = {copy.soname for copy in libraries.copies if copy.on_loader_path}
    whole = any(name.startswith("libcublas.so.") for name in names)
    return sorted(name for name in names if whole and name.startswith("libcudart.so."))


def _label(wanted: str, others: list[str]) -> str:
    """Before CUDA 11 every minor version had sonames of its own, and counts as a major one."""
    if not others:
        return "pip_without_and_cuda_extra"
    major = _major(wanted)
    same = major >= _FIRST_OF_SHARED_SONAMES and any(_major(other) == major for other in others)
    return "cuda_toolkit_wrong_minor" if same else "cuda_toolkit_wrong_major"


def _major(soname: str) -> int:
    head = soname.partition(".so.")[2].partition(".")[0]
    return int(head) if head.isdecimal() else 0
