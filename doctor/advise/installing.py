"""The commands that install a release with the libraries that it opens, and notes about them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from packaging.requirements import Requirement

from tfgpu_doctor.advise.target_spec import TargetSpec
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.compute_capability import kernels_for
from tfgpu_doctor.knowledge.cudnn_code import cudnn_caps
from tfgpu_doctor.knowledge.release_needs import NEW_ENVIRONMENT, folders_not_looked_in, new_environment
from tfgpu_doctor.knowledge.schema import TensorFlowRelease, Wheels

ABOUT_UV = "uv (https://docs.astral.sh/uv) creates the environment, and downloads that Python if this machine has none."
_FIRST_IN_WSL = "6.0"  # https://docs.nvidia.com/cuda/wsl-user-guide: older GPUs are not officially supported in WSL 2
# The newest releases of numpy, h5py and others have wheels for this glibc only: https://pypi.org/project/h5py/#files
_GLIBC_OF_TODAY = "2.28"
_FIRST_WITH_CONDA_ON_WINDOWS = "2.4"  # conda-forge is not known to have the CUDA and cuDNN of earlier ones for Windows
_NOT_ON_INDEX = ("tensorrt", "tensorrt-bindings", "tensorrt-libs")


def cuda_extra_works(release: TensorFlowRelease) -> bool:
    """Whether pip can install tensorflow[and-cuda] of this release: the extra exists, and does not require tensorrt-libs."""
    names = {Requirement(each).name for each in release.cuda_extra}
    return bool(names) and not names & set(_NOT_ON_INDEX)


def commands_for(release: TensorFlowRelease, wheels: Wheels, spec: TargetSpec, knowledge: Knowledge) -> list[str]:
    """Return the commands in order, none as root: create an environment if needed, install TensorFlow, check the result."""
    python = spec.python or wheels.pythons[-1]
    caps = [*_caps(release, knowledge), *_cudnn_caps(release, spec, knowledge)]
    if needs_installers(release, spec):
        packages = [_for_windows(each) for each in (f"{wheels.stands_for or 'tensorflow'}=={release.version}", *caps)]
        return [" ".join((spec.install or "python -m pip install", *packages))]
    if not release.cuda_extra:
        return _with_conda(release, wheels, python, caps, spec)
    target = spec.interpreter or NEW_ENVIRONMENT
    if cuda_extra_works(release):
        wanted = [f"tensorflow[and-cuda]=={release.version}"]
    else:
        pins = [each for each in release.cuda_extra if Requirement(each).name not in _NOT_ON_INDEX]
        wanted = [f"tensorflow=={release.version}", *pins]
    repair = [f"tfgpu-doctor fix --apply --python {shlex.quote(target)}"] if folders_not_looked_in(release) else []
    only_wheels = ["--only-binary", ":all:"] if _is_old_glibc(spec) else []
    return [
        *install_into(spec, python, *only_wheels, *wanted, *caps),
        *repair,
        f"tfgpu-doctor --python {shlex.quote(target)}",
    ]


def needs_installers(release: TensorFlowRelease, spec: TargetSpec) -> bool:
    """Whether only NVIDIA's installers bring the CUDA and cuDNN of this release: neither pip nor conda does."""
    return spec.os == "windows" and version(release.version) < version(_FIRST_WITH_CONDA_ON_WINDOWS)


def install_into(spec: TargetSpec, python: str, *packages: str) -> list[str]:
    """Return the commands that install packages into the target, or into a new environment with that Python."""
    if spec.interpreter:
        install = spec.install or shlex.join([spec.interpreter, "-m", "pip", "install"])
        return [f"{install} {shlex.join(packages)}"]
    if not spec.base:
        return [*new_environment(python, *packages)]
    pip = [f"{NEW_ENVIRONMENT}/bin/python", "-m", "pip", "install"]
    return [shlex.join([spec.base, "-m", "venv", NEW_ENVIRONMENT]), shlex.join([*pip, *packages])]


def notes_for(release: TensorFlowRelease, spec: TargetSpec, knowledge: Knowledge) -> list[str]:
    """Return the notes to read before the commands."""
    notes = []
    if release.cuda_extra and not spec.interpreter and not spec.base:
        notes.append(ABOUT_UV)
    folders = ", ".join(f"nvidia/{name}" for name in folders_not_looked_in(release))
    if folders:
        notes.append(
            f"TensorFlow {release.version} does not search {folders}, where pip puts a library that it opens, and so "
            "registers no GPU; `tfgpu-doctor fix` links the library into a folder that TensorFlow searches; `tfgpu-doctor "
            "env` prints an LD_LIBRARY_PATH with the same effect."
        )
    if release.cuda_extra and not cuda_extra_works(release):
        row = knowledge.boundaries["first_release_with_working_cuda_extra"]
        notes.append(f"{row.about} ({row.source}); the commands list its other packages individually.")
    if not release.cuda_extra:
        notes.append(
            "This release has no extra [and-cuda]: conda installs CUDA and cuDNN (https://www.tensorflow.org/install/pip)."
        )
    if _cudnn_caps(release, spec, knowledge):
        row = knowledge.boundaries["first_cudnn_without_pre_turing"]
        notes.append(
            f"cuDNN {row.value} and newer have no code for GPUs before Turing ({row.source}): the command asks for an older one."
        )
    if _is_old_glibc(spec):
        notes.append(
            f"With glibc {spec.glibc}, the newest releases of some packages that TensorFlow needs would have to be compiled: "
            "the command keeps to those that have wheels for it."
        )
    if spec.os == "wsl":
        notes.append(f"In WSL, do not install an NVIDIA driver: WSL uses the Windows driver{unsupported_in_wsl(spec)}.")
    return notes


def _is_old_glibc(spec: TargetSpec) -> bool:
    return spec.wheels_os == "linux" and bool(spec.glibc) and version(spec.glibc) < version(_GLIBC_OF_TODAY)


def unsupported_in_wsl(spec: TargetSpec) -> str:
    """Return what is to be said of a GPU in WSL that NVIDIA does not support there; empty if it does."""
    if spec.gpu is None or version(spec.gpu.compute_capability) >= version(_FIRST_IN_WSL):
        return ""
    return " (NVIDIA does not officially support GPUs before Pascal there; they may work)"


def _caps(release: TensorFlowRelease, knowledge: Knowledge) -> list[str]:
    """Return the upper bounds that a release requires but its metadata does not declare."""
    bounded = {Requirement(each).name for each in release.requires if "<" in each.partition(";")[0] or "~=" in each}
    rules = (
        ("numpy", "first_release_for_numpy_2", "numpy<2"),
        ("protobuf", "first_release_for_protobuf_4", "protobuf<3.21"),
    )
    return [
        cap
        for name, boundary, cap in rules
        if name not in bounded and version(release.version) < version(knowledge.boundaries[boundary].value)
    ]


def _cudnn_caps(release: TensorFlowRelease, spec: TargetSpec, knowledge: Knowledge) -> list[str]:
    """Return the upper bound of cuDNN for GPUs that newer releases of it have no code for."""
    wheels = release.wheels_for(spec.wheels_os, spec.architecture)
    given = (spec.gpu.compute_capability if spec.gpu else "", spec.lowest_capability)
    built = wheels.compute_capabilities if wheels else ()
    capabilities = [each for each in given if kernels_for(each, built) in ("native", "ptx")]
    return cudnn_caps(release.cuda_extra, capabilities, knowledge)


def _for_windows(text: str) -> str:
    """Quote an argument for both of Windows' shells."""
    return f'"{text}"' if "<" in text else text


def _with_conda(
    release: TensorFlowRelease, wheels: Wheels, python: str, caps: Sequence[str], spec: TargetSpec
) -> list[str]:
    quote = _for_windows if spec.os == "windows" else shlex.quote
    package = wheels.stands_for or "tensorflow"
    wanted = " ".join(quote(each) for each in (f"{package}=={release.version}", *caps))
    if _is_old_glibc(spec):  # some packages that these releases need have no wheels at all
        wanted = f"--prefer-binary {wanted}"
    prefix = f"$(conda run -n {NEW_ENVIRONMENT} printenv CONDA_PREFIX)"
    path = f'conda env config vars set -n {NEW_ENVIRONMENT} LD_LIBRARY_PATH="{prefix}/lib"'
    return [
        f"conda create -y -n {NEW_ENVIRONMENT} -c conda-forge python={python} cudatoolkit={wheels.cuda} cudnn={wheels.cudnn}",
        f"conda run -n {NEW_ENVIRONMENT} python -m pip install {wanted}",
        *([path] if spec.os != "windows" else []),
        f"conda activate {NEW_ENVIRONMENT}",
    ]
