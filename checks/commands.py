"""Commands that a fix proposes: every word quoted, none that needs root or destroys anything."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.model import Fix
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.python import Target, TensorFlow


def pip(target: Target, *words: str) -> tuple[str, ...]:
    """A pip command in the target; none where that Python refuses them (PEP 668)."""
    if target.externally_managed:
        return ()
    return (shlex.join([target.executable, "-m", "pip", *words]),)


def bring_cuda_libraries(target: Target, tensorflow: TensorFlow, knowledge: Knowledge, why: str) -> Fix:
    """Let pip bring the CUDA libraries of this very TensorFlow, where its release can be installed so."""
    first = knowledge.boundaries["first_release_with_working_cuda_extra"].value
    nightly = tensorflow.distribution == "tf-nightly"
    if not nightly and version(tensorflow.version) < version(first):
        return Fix(
            f"{why} This release cannot bring them by pip: install the CUDA {tensorflow.cuda_version} and cuDNN "
            f"{tensorflow.cudnn_version} libraries, or a TensorFlow from {first} on with its extra [and-cuda]."
        )
    if target.externally_managed:
        return Fix(f"{why} This Python refuses pip: make a virtual environment first, `python3 -m venv`.")
    wanted = "tf-nightly[and-cuda]" if nightly else f"tensorflow[and-cuda]=={tensorflow.version.partition('+')[0]}"
    return Fix(why, pip(target, "install", wanted))


def prepend_library_path(folders: Sequence[str]) -> str:
    """The shell command that puts folders before what LD_LIBRARY_PATH holds."""
    listed = ":".join(shlex.quote(folder) for folder in folders)
    return f"export LD_LIBRARY_PATH={listed}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"


def library_path_without(environment: Environment, *folders: str) -> tuple[str, ...]:
    """The shell command that takes folders off LD_LIBRARY_PATH; none where they are not on it."""
    unwanted = {os.path.normpath(folder) for folder in folders}
    listed = [folder for folder in (environment.get("LD_LIBRARY_PATH") or "").split(":") if folder]
    kept = [folder for folder in listed if os.path.normpath(folder) not in unwanted]
    if len(kept) == len(listed):
        return ()
    return (f"export LD_LIBRARY_PATH={':'.join(map(shlex.quote, kept))}",) if kept else ("unset LD_LIBRARY_PATH",)
