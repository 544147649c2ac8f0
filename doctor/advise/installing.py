"""The commands that install a release with all that it opens, and what to know about them."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from packaging.requirements import Requirement

from tfgpu_doctor.advise.target_spec import TargetSpec
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.schema import TensorFlowRelease, Wheels

ENVIRONMENT = "tensorflow-gpu"  # the environment that the commands make
# Folders of pip's packages that TensorFlow opens a library of by itself; others are found through these.
_OPENED = ("cublas", "cuda_runtime", "cudnn", "cufft", "cusolver", "cusparse")
_NOT_ON_INDEX = ("tensorrt", "tensorrt-bindings", "tensorrt-libs")


def cuda_extra_works(release: TensorFlowRelease) -> bool:
    """Whether pip can install tensorflow[and-cuda] of this release: it has the extra, and asks for no tensorrt-libs."""
    names = {Requirement(each).name for each in release.cuda_extra}
    return bool(names) and not names & set(_NOT_ON_INDEX)


def folders_not_looked_in(release: TensorFlowRelease) -> list[str]:
    """Folders that [and-cuda] fills and TensorFlow opens a library of, and that its RUNPATH does not name."""
    brought = {
        Requirement(each).name.split("-cu1")[0].removeprefix("nvidia-").replace("-", "_") for each in release.cuda_extra
    }
    return [name for name in _OPENED if name in brought and release.runpath and name not in release.runpath]


def commands_for(release: TensorFlowRelease, wheels: Wheels, spec: TargetSpec, knowledge: Knowledge) -> list[str]:
    """What to type, in order, none as root: an environment unless there is one, TensorFlow, and a look at the result."""
    python = spec.python or wheels.pythons[-1]
    caps = [*_caps(release, knowledge)]
    if not release.cuda_extra:
        return _with_conda(release, wheels, python, caps, spec.os)
    target = spec.interpreter or ENVIRONMENT
    interpreter = spec.interpreter or f"{ENVIRONMENT}/bin/python"
    made = [] if spec.interpreter else [f"python{python} -m venv {ENVIRONMENT}"]
    if cuda_extra_works(release):
        wanted = [f"tensorflow[and-cuda]=={release.version}"]
    else:
        pins = [each for each in release.cuda_extra if Requirement(each).name not in _NOT_ON_INDEX]
        wanted = [f"tensorflow=={release.version}", *pins]
    mended = [f"tfgpu-doctor fix --apply --python {shlex.quote(target)}"] if folders_not_looked_in(release) else []
    return [
        *made,
        shlex.join([interpreter, "-m", "pip", "install", *wanted, *caps]),
        *mended,
        f"tfgpu-doctor --python {shlex.quote(target)}",
    ]


def notes_for(release: TensorFlowRelease, spec: TargetSpec, knowledge: Knowledge) -> list[str]:
    """What a person must know before the commands."""
    notes = []
    folders = ", ".join(f"nvidia/{name}" for name in folders_not_looked_in(release))
    if folders:
        notes.append(
            f"TensorFlow {release.version} does not look in {folders}, where pip puts a library that it opens, and then "
            "registers no GPU; `tfgpu-doctor fix` links it where TensorFlow looks, `tfgpu-doctor env` prints the "
            "LD_LIBRARY_PATH that does the same."
        )
    if release.cuda_extra and not cuda_extra_works(release):
        row = knowledge.boundaries["first_release_with_working_cuda_extra"]
        notes.append(f"{row.about} ({row.source}); the commands name its other packages one by one.")
    if not release.cuda_extra:
        notes.append(
            "This release has no extra [and-cuda]: conda brings CUDA and cuDNN (https://www.tensorflow.org/install/pip)."
        )
    if spec.os == "wsl":
        notes.append("Inside WSL install no NVIDIA driver: that of Windows is used.")
    return notes


def _caps(release: TensorFlowRelease, knowledge: Knowledge) -> list[str]:
    """Upper bounds that a release needs and its own metadata does not have."""
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


def _with_conda(release: TensorFlowRelease, wheels: Wheels, python: str, caps: list[str], os: str) -> list[str]:
    quote: Callable[[str], str] = shlex.quote if os != "windows" else lambda text: f'"{text}"' if "<" in text else text
    wanted = " ".join(quote(each) for each in (f"tensorflow=={release.version}", *caps))
    prefix = f"$(conda run -n {ENVIRONMENT} printenv CONDA_PREFIX)"
    path = f'conda env config vars set -n {ENVIRONMENT} LD_LIBRARY_PATH="{prefix}/lib"'
    return [
        f"conda create -y -n {ENVIRONMENT} -c conda-forge python={python} cudatoolkit={wheels.cuda} cudnn={wheels.cudnn}",
        f"conda run -n {ENVIRONMENT} python -m pip install {wanted}",
        *([path] if os != "windows" else []),
        f"conda activate {ENVIRONMENT}",
    ]
