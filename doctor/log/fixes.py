"""Fixes filled in with what is known: the release, its CUDA, its package, and the commands of the user's system."""

from __future__ import annotations

import re

from tfgpu_doctor.knowledge import version
from tfgpu_doctor.knowledge.release_needs import ReleaseNeeds, with_another_python
from tfgpu_doctor.knowledge.schema import TensorFlowRelease
from tfgpu_doctor.log.context import Context

_ONE_NAME_PER_MAJOR = 11  # from CUDA 11 on, the names of most libraries have the major version only (release notes)
# Commands of Linux in questions, and those that tell the same on Windows.
_ON_WINDOWS = (
    (
        re.compile(r"`ls -d /usr/local/cuda\*`(?: and `ldconfig[^`]*`|, `conda list cudatoolkit`)?"),
        "`where cudart64_*.dll` and `nvcc --version`",
    ),
    (re.compile(r"`ls /usr/local \| grep cuda`"), "`nvcc --version`"),
    (re.compile(r"\| grep (?:-i )?(?:-e )?"), "| findstr /i "),
    (re.compile(r"`lspci[^`]*`"), "the list of display adapters in the Device Manager"),
    (re.compile(r"`(?:sudo )?(?:dmesg|lsmod|dkms|ldd|uname|grep)[^`]*`"), "the Device Manager's state of the GPU"),
    (re.compile(r"\bwhich python\b"), "where python"),
)  # fmt: skip
_LIBRARIES = (
    "cuda_toolkit_wrong_major", "cuda_toolkit_wrong_minor", "cuda_not_installed", "gpu_libs_not_found", "cudnn_version_mismatch",
    "pip_without_and_cuda_extra",
)  # fmt: skip
_FOR_ARM = (
    " Its wheels for 64-bit Arm are built without CUDA: to use a GPU, install NVIDIA's wheel for its JetPack version on a "
    "Jetson, and use NVIDIA's NGC container on a server."
)


def filled_fix(label: str, context: Context, needs: ReleaseNeeds | None, newest: TensorFlowRelease) -> str:
    """Return the fix for a cause on this machine; empty where the general one says as much."""
    if needs is None:
        return _another_python(context, newest) if label == "unsupported_python_version" else ""
    if label in _LIBRARIES and needs.has_gpu_build:
        return _libraries(context, needs)
    if label == "unsupported_python_version" and needs.pythons:
        return f"Use a Python that TensorFlow {needs.minor} has wheels for: {', '.join(needs.pythons)}."
    if label == "cpu_package_shadows_gpu_package" and needs.gpu_package:
        return (
            "Keep one package: `pip uninstall -y tensorflow tensorflow-cpu tensorflow-gpu`, then "
            f"`pip install {_requirement(needs.gpu_package, context, needs)}`."
        )
    return ""


def _another_python(context: Context, newest: TensorFlowRelease) -> str:
    """Return how to get a Python that the newest release supports, if the one of the log is too new for it."""
    if version(context.values.get("python", "")).release[:2] <= version(newest.pythons[-1]).release:
        return ""
    on_linux = context.platform in ("linux", "")
    lacks_cuda = on_linux and context.knows("arm") and not _has_cuda_on_arm(newest)
    commands = with_another_python(newest, cuda=on_linux and not lacks_cuda)
    text = (
        f"TensorFlow {newest.version} has wheels for Python {', '.join(newest.pythons)}. uv (https://docs.astral.sh/uv) "
        f"downloads one: {', then '.join(f'`{each}`' for each in commands)}."
    )
    return f"{text}{_FOR_ARM}" if lacks_cuda else text


def _has_cuda_on_arm(release: TensorFlowRelease) -> bool:
    return any(wheel.cuda for wheel in release.wheels if (wheel.os, wheel.architecture) == ("linux", "aarch64"))


def as_typed(text: str, context: Context) -> str:
    """Return a text with the commands of Windows in place of those of Linux, if the machine runs Windows."""
    if context.platform != "windows":
        return text
    for linux, windows in _ON_WINDOWS:
        text = linux.sub(windows, text)
    return text


def _libraries(context: Context, needs: ReleaseNeeds) -> str:
    """Return how to get the libraries of a release: from pip where it brings them, else from NVIDIA."""
    if needs.cuda_extra and context.platform in ("linux", "") and not context.knows("conda"):
        extra = _requirement("tensorflow[and-cuda]", context, needs)
        return f'`pip install "{extra}"` brings CUDA {needs.cuda} and cuDNN {needs.cudnn}, which this release needs.'
    by_minor = int(needs.cuda.partition(".")[0]) < _ONE_NAME_PER_MAJOR
    exactly = f"CUDA {needs.cuda} and cuDNN {needs.cudnn}, in exactly {'these' if by_minor else 'these major'} versions"
    text = f"TensorFlow {needs.minor} needs {exactly}: install them"
    if context.platform == "windows":
        return f"{text}, add the `bin` folder of both to PATH, and open a new terminal."
    if context.knows("container"):
        return f"{text} in the image, or use the image `tensorflow/tensorflow:{needs.minor}.0-gpu`."
    return f"{text}, and add their `lib64` folder to LD_LIBRARY_PATH before Python starts."


def _requirement(package: str, context: Context, needs: ReleaseNeeds) -> str:
    given = context.values.get("tensorflow", "")
    version = given if given.startswith(f"{needs.minor}.") and given.replace(".", "").isdigit() else f"{needs.minor}.*"
    return f"{package}=={version}"
