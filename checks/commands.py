"""Commands that a fix proposes. Every word is quoted; no command needs root or destroys anything."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.cudnn_code import cudnn_cap, cudnn_caps
from tfgpu_doctor.knowledge.release_needs import folders_not_looked_in
from tfgpu_doctor.knowledge.requirements import requirements_on
from tfgpu_doctor.knowledge.schema import TensorFlowRelease
from tfgpu_doctor.model import Fix
from tfgpu_doctor.model.facts.machine import Environment, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Target, TensorFlow

BUILDS_FOR_ARM = (
    "On a Jetson, install NVIDIA's wheel: https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/; "
    "on a server, use NVIDIA's container nvcr.io/nvidia/tensorflow with the tag that `tfgpu-doctor advise` prints."
)
NOT_FROM_PIP = f"pip's TensorFlow for 64-bit Arm is built without CUDA. {BUILDS_FOR_ARM}"


def pip(target: Target, *words: str) -> tuple[str, ...]:
    """Return the commands that let pip do this in the target; empty if that Python rejects pip (PEP 668).

    An environment that uv made has no pip: there, uv does the same (https://docs.astral.sh/uv/pip/packages/). A new one has
    nothing that tells who made it, nor a pip. In one of conda or pixi without pip, Python's own copy of it comes first.
    """
    if target.rejects_pip:
        return ()
    made_by = {each.installer.lower().partition(" ")[0] for each in target.distributions}
    empty = target.attempt.answered and not target.distributions
    has_pip = target.find("pip") is not None
    if target.extends or (not has_pip and ("uv" in made_by or empty)):
        action, *rest = words
        options = [each for each in rest if each != "-y"]  # uv asks nothing
        return (shlex.join(["uv", "pip", action, "--python", target.lasting_python, *options]),)
    # where pip installed something, it is there, listed or not; PDM leaves no name, nor do a Linux distribution's packages
    lacks_pip = not has_pip and "pip" not in made_by and (made_by - {""} or target.prefix != target.base_prefix)
    command = shlex.join([target.executable, "-m", "pip", *words])
    return (shlex.join([target.executable, "-m", "ensurepip"]), command) if made_by and lacks_pip else (command,)


def has_no_cuda_wheel(system: System | None, knowledge: Knowledge) -> bool:
    """Whether TensorFlow's wheels for this system are built without CUDA although NVIDIA's are not: on 64-bit Arm Linux."""
    if system is None or system.os != "Linux":
        return False
    wheels = knowledge.tensorflow_releases[-1].wheels_for("linux", system.architecture)
    return wheels is not None and not wheels.cuda


def requirement(system: System | None) -> str:
    """Return the requirement that installs TensorFlow with what it needs to use this system's GPU; [and-cuda] is for Linux."""
    return "tensorflow" if system and system.os != "Linux" else "tensorflow[and-cuda]"


def cudnn_caps_for(
    release: TensorFlowRelease, system: System | None, cuda_driver: CudaDriver | None, knowledge: Knowledge
) -> list[str]:
    """Return what pip must install beside a release for a cuDNN that has code for the GPUs that CUDA lists."""
    if system and system.os != "Linux":
        return []
    capabilities = [gpu.compute_capability for gpu in (cuda_driver.gpus if cuda_driver else ())]
    return cudnn_caps(release.cuda_extra, capabilities, knowledge)


def bring_cuda_libraries(
    target: Target, tensorflow: TensorFlow, knowledge: Knowledge, why: str, cuda_driver: CudaDriver | None = None
) -> Fix:
    """Return the fix that installs this TensorFlow's CUDA libraries with pip, if the release supports that.

    If CUDA lists a GPU that newer releases of cuDNN have no code for, pip gets an older cuDNN.
    """
    first = knowledge.boundaries["first_release_with_working_cuda_extra"].value
    nightly = tensorflow.distribution == "tf-nightly"
    if not nightly and version(tensorflow.version) < version(first):
        return Fix(
            f"{why} pip cannot install them for this release: install the CUDA {tensorflow.cuda_version} and cuDNN "
            f"{tensorflow.cudnn_version} libraries, or TensorFlow {first} or newer with the extra [and-cuda]."
        )
    if target.rejects_pip:
        return Fix(f"{why} This Python rejects pip: create a virtual environment first, `python3 -m venv`.")
    number = tensorflow.version.partition("+")[0]
    wanted = "tf-nightly[and-cuda]" if nightly else f"tensorflow[and-cuda]=={number}"
    releases = () if nightly else knowledge.tensorflow_releases
    missed = next((folders_not_looked_in(each) for each in releases if each.version == number), [])
    folders = ", ".join(f"nvidia/{name}" for name in missed)
    repair = shlex.join(["tfgpu-doctor", "fix", "--apply", "--python", target.lasting_python])
    then = f" This release does not search {folders}: after that, run `{repair}`." if folders else ""
    capabilities = [gpu.compute_capability for gpu in (cuda_driver.gpus if cuda_driver else ())]
    needed = requirements_on(target, tensorflow.distribution, "nvidia-cudnn")
    caps = [cap for each in needed if (cap := cudnn_cap(each, capabilities, knowledge))]
    return Fix(f"{why}{then}", pip(target, "install", wanted, *caps))


def reinstall(target: Target, wheel: str) -> Fix:
    """Return the fix that installs a wheel again, "nvidia-cudnn-cu12==9.3.0.75". An index has no local versions (PEP 440)."""
    if "+" in wheel:
        return Fix(f"Reinstall {wheel} from where it came from: PyPI does not have this version.")
    return Fix(f"Reinstall {wheel}.", pip(target, "install", "--force-reinstall", "--no-deps", wheel))


def prepend_library_path(folders: Sequence[str]) -> str:
    """Return the shell command that prepends folders to LD_LIBRARY_PATH."""
    listed = ":".join(shlex.quote(folder) for folder in folders)
    return f"export LD_LIBRARY_PATH={listed}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"


def library_path_without(environment: Environment, *folders: str) -> tuple[str, ...]:
    """Return the shell command that removes folders from LD_LIBRARY_PATH; empty if they are not on it."""
    unwanted = {os.path.normpath(folder) for folder in folders}
    listed = [folder for folder in (environment.get("LD_LIBRARY_PATH") or "").split(":") if folder]
    kept = [folder for folder in listed if os.path.normpath(folder) not in unwanted]
    if len(kept) == len(listed):
        return ()
    return (f"export LD_LIBRARY_PATH={':'.join(map(shlex.quote, kept))}",) if kept else ("unset LD_LIBRARY_PATH",)
