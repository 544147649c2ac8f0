"""LIB: is the loaded cuDNN compatible with the version that TensorFlow was built with?"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from tfgpu_doctor.checks.commands import bring_cuda_libraries, library_path_without, prepend_library_path
from tfgpu_doctor.checks.copies import evidence_of, repair
from tfgpu_doctor.checks.libraries.cudnn_code import is_main, is_other_major, loaded_cudnn, without_code
from tfgpu_doctor.checks.libraries.taken_copies import files_in_use
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.requirements import Requirement, requirements_on
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.copies import Copy
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Libraries, LibraryFile
from tfgpu_doctor.model.facts.python import Distribution, Runtime, Target, TensorFlow
from tfgpu_doctor.model.facts.resolution import Resolution
from tfgpu_doctor.model.tags import LIBRARIES

_COMPLAINT = re.compile(
    r"Loaded runtime CuDNN library: (\S+?)\s+(?:\(.*?\) )?but source was compiled with: (\d[\d.]*\d)", re.IGNORECASE
)


@check(
    "LIB007",
    "the loaded cuDNN is compatible with the version that TensorFlow was built with",
    family="Libraries",
    tags=(LIBRARIES,),
    stage=Stage.LIBRARIES,
    after=("LIB004", "LIB009", "PKG009"),
    causes=("cudnn_version_mismatch", "ld_library_path_shadows_pip_libs"),
    sources=(
        "https://docs.nvidia.com/deeplearning/cudnn/latest/developer/forward-compatibility.html",
        "https://docs.nvidia.com/deeplearning/sdk/cudnn-support-matrix/index.html",
    ),
)
def cudnn_fits(
    tensorflow: TensorFlow,
    target: Target,
    environment: Environment,
    knowledge: Knowledge,
    cuda_libraries: Libraries | None = None,
    resolution: Resolution | None = None,
    runtime: Runtime | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """cuDNN must have the major version that TensorFlow was built with, and at least the same minor version; otherwise the
    first convolution fails. A folder on LD_LIBRARY_PATH takes precedence over the copy that pip installed. From 9.11 on, cuDNN
    has no code for GPUs before Turing (compute capability 7.5): there, matrix products work and convolutions fail.

    Fix: remove the older copy from LD_LIBRARY_PATH, or install the cuDNN that this release requires with pip; for a GPU before
    Turing, one before 9.11.
    """
    said = next((found for line in (runtime.log if runtime else ()) if (found := _COMPLAINT.search(line))), None)
    done = [
        each for each in (runtime.computations if runtime else ()) if each.operation == "convolution" and each.is_right
    ]
    needed = next(iter(requirements_on(target, tensorflow.distribution, "nvidia-cudnn")), None)
    installed = target.find(needed.name) if needed else None
    again = bring_cuda_libraries(
        target, tensorflow, knowledge, "Install the cuDNN that this TensorFlow requires, using pip.", cuda_driver
    )
    in_use = loaded_cudnn(runtime, resolution, cuda_libraries, installed)
    copies = tuple(copy for copy in (cuda_libraries.copies if cuda_libraries else ()) if is_main(copy.soname))
    places = tuple(f"{copy.path} (found in {copy.found_in})" for copy in copies)
    if said:
        loaded, built = said.groups()
        message = f"cuDNN {loaded} is loaded, but TensorFlow was built with {built}"
        yield _shadowed(message, said.string, copies, environment, resolution) or Finding(
            message, cause="cudnn_version_mismatch", evidence=(said.string, *places), fix=again
        )
    elif lacking := without_code(in_use, tensorflow, target, needed, knowledge, runtime, cuda_driver):
        yield lacking
    elif done:
        yield Evidence(f"a convolution on {done[0].device} gave the same result as the CPU")
    elif older := _older_copy(resolution, needed, environment, again):
        yield older
    else:
        yield from _by_the_wheel(tensorflow, needed, installed, places, again)


def _by_the_wheel(
    tensorflow: TensorFlow,
    needed: Requirement | None,
    installed: Distribution | None,
    places: tuple[str, ...],
    again: Fix,
) -> Yielded:
    """Yield how the installed wheel fits TensorFlow's requirement."""
    if not tensorflow.cudnn_version:
        raise Skip("this TensorFlow does not report which cuDNN it was built with")
    if needed and installed and (needed.is_undercut_by(installed.version) or is_other_major(installed.version, needed)):
        yield Finding(
            f"cuDNN {installed.version} is installed, but TensorFlow {tensorflow.version} requires {needed.specifier}",
            cause="cudnn_version_mismatch",
            evidence=(f"{installed.name} {installed.version} in {installed.folder}", *places),
            fix=again,
        )
    elif needed and installed:
        yield Evidence(f"{installed.name} {installed.version} meets TensorFlow's requirement ({needed.specifier})")
    else:
        raise Skip("only a convolution on a GPU shows which cuDNN TensorFlow loads")


def _older_copy(
    resolution: Resolution | None, needed: Requirement | None, environment: Environment, again: Fix
) -> Finding | None:
    """Return the finding if the copy that the loader selects is not from a wheel and its minor version is too old.

    TensorFlow itself compares major and minor version (cuda_dnn.cc, "matching major and equal or higher minor version").
    """
    taken = next(
        (each for each in (resolution.libraries if resolution else ()) if each.found and is_main(each.soname)), None
    )
    if (
        not taken
        or not needed
        or taken.wheel
        or taken.origin.startswith("pip:")
        or not version(taken.version).release[1:]
    ):
        return None
    if version(taken.version).release[:2] >= version(needed.lowest).release[:2]:
        return None
    copy = _copy_at(taken.path, resolution)
    message = f"the loader selects cuDNN {taken.version} from {taken.path}, but TensorFlow requires {needed.specifier}"
    hidden = (f"found through {taken.found_by}", *(f"it hides {path}" for path in taken.shadowed))
    evidence = evidence_of(copy) if copy else hidden
    if taken.found_by == "LD_LIBRARY_PATH" and taken.shadowed:
        fix = _let_through(taken.shadowed[0], (taken.path, taken.real_path), resolution, environment)
        return Finding(message, "ld_library_path_shadows_pip_libs", fix, evidence)
    return Finding(message, "cudnn_version_mismatch", again, evidence)


def _shadowed(
    message: str, line: str, copies: Sequence[LibraryFile], environment: Environment, resolution: Resolution | None
) -> Finding | None:
    """Return the finding if LD_LIBRARY_PATH puts a cuDNN before pip's copy with the same name; otherwise None."""
    brought = next((copy for copy in copies if copy.found_in == "pip"), None)
    first = next(
        (copy for copy in copies if brought and copy.found_in == "LD_LIBRARY_PATH" and copy.soname == brought.soname),
        None,
    )
    if first is None or brought is None:
        return None
    return Finding(
        f"{message}: LD_LIBRARY_PATH puts {first.path} before pip's copy",
        cause="ld_library_path_shadows_pip_libs",
        evidence=(line, *(f"{copy.path} (found in {copy.found_in})" for copy in copies)),
        fix=_let_through(brought.path, (first.path, first.real_path), resolution, environment),
    )


def _copy_at(path: str, resolution: Resolution | None) -> Copy | None:
    return next((each for each in (resolution.copies if resolution else ()) if each.path == path), None)


def _let_through(right: str, taken: tuple[str, str], resolution: Resolution | None, environment: Environment) -> Fix:
    """Return the fix by which the loader takes the right file, and not the one that LD_LIBRARY_PATH puts before it.

    `taken` is that file's path, and its real path.
    """
    folders = [os.path.dirname(path) for path in taken if path]
    in_use = [os.path.split(path) for path in (files_in_use(resolution) if resolution else ())]
    # The parts of the cuDNN that goes are of no use to the right one, which has its own.
    if any(folder == folders[0] and not name.startswith("libcudnn") for folder, name in in_use):
        text = f"Search the folder of the right cuDNN first: other libraries of {folders[0]} are in use."
        return Fix(text, (prepend_library_path([os.path.dirname(right)]),))
    if copy := _copy_at(taken[0], resolution):
        return repair(copy)
    return Fix(
        "Remove that folder from LD_LIBRARY_PATH before you start Python.", library_path_without(environment, *folders)
    )
