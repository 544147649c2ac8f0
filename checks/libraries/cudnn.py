"""LIB: does the cuDNN that is loaded fit the one that TensorFlow was built with?"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from tfgpu_doctor.checks.commands import bring_cuda_libraries, library_path_without
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.requirements import Requirement, requirements_on
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import Libraries, LibraryFile
from tfgpu_doctor.model.facts.python import Distribution, Runtime, Target, TensorFlow
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

_COMPLAINT = re.compile(
    r"Loaded runtime CuDNN library: (\S+?)\s+(?:\(.*?\) )?but source was compiled with: (\d[\d.]*\d)", re.IGNORECASE
)


@check(
    "LIB007",
    "the cuDNN that is loaded fits the one TensorFlow was built with",
    stage=Stage.LIBRARIES,
    after=("LIB004", "PKG009"),
    causes=("cudnn_version_mismatch", "ld_library_path_shadows_pip_libs"),
    sources=("https://docs.nvidia.com/deeplearning/cudnn/latest/developer/forward-compatibility.html",),
)
def cudnn_fits(
    tensorflow: TensorFlow,
    target: Target,
    environment: Environment,
    knowledge: Knowledge,
    cuda_libraries: Libraries | None = None,
    resolution: Resolution | None = None,
    runtime: Runtime | None = None,
) -> Yielded:
    """cuDNN must be of the major version that TensorFlow was built with, and at least of its minor version; the first
    convolution fails otherwise. A folder on LD_LIBRARY_PATH wins over the copy that pip brought.

    Fix: take the older copy off LD_LIBRARY_PATH, or let pip install the cuDNN that this release asks for.
    """
    said = next((found for line in (runtime.log if runtime else ()) if (found := _COMPLAINT.search(line))), None)
    done = [
        each for each in (runtime.computations if runtime else ()) if each.operation == "convolution" and each.is_right
    ]
    needed = next(iter(requirements_on(target, tensorflow.distribution, "nvidia-cudnn")), None)
    installed = target.find(needed.name) if needed else None
    again = bring_cuda_libraries(
        target, tensorflow, knowledge, "Let pip install the cuDNN that this TensorFlow asks for."
    )
    copies = tuple(copy for copy in (cuda_libraries.copies if cuda_libraries else ()) if _is_cudnn(copy))
    places = tuple(f"{copy.path} (found in {copy.found_in})" for copy in copies)
    if said:
        loaded, built = said.groups()
        message = f"cuDNN {loaded} is loaded, and TensorFlow was built with {built}"
        yield _shadowed(message, said.string, copies, environment) or Finding(
            message, cause="cudnn_version_mismatch", evidence=(said.string, *places), fix=again
        )
    elif done:
        yield Evidence(f"a convolution on {done[0].device} gave the CPU's result")
    elif older := _older_copy(resolution, needed, environment, again):
        yield older
    elif not tensorflow.cudnn_version:
        raise Skip("this TensorFlow does not say which cuDNN it was built with")
    elif needed and installed and (needed.is_undercut_by(installed.version) or _is_other_major(needed, installed)):
        yield Finding(
            f"cuDNN {installed.version} is installed, and TensorFlow {tensorflow.version} asks for {needed.specifier}",
            cause="cudnn_version_mismatch",
            evidence=(f"{installed.name} {installed.version} in {installed.folder}", *places),
            fix=again,
        )
    elif needed and installed:
        yield Evidence(f"{installed.name} {installed.version} is what TensorFlow asks for ({needed.specifier})")
    else:
        raise Skip("which cuDNN will be loaded shows only when TensorFlow runs a convolution on a GPU")


def _older_copy(
    resolution: Resolution | None, needed: Requirement | None, environment: Environment, again: Fix
) -> Finding | None:
    """The finding where the copy that the loader takes is no wheel's and of an older minor version than asked for.

    TensorFlow itself compares major and minor version (cuda_dnn.cc, "matching major and equal or higher minor version").
    """
    taken = next((each for each in (resolution.libraries if resolution else ()) if _is_main(each)), None)
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
    message = f"the loader takes cuDNN {taken.version} from {taken.path}, and TensorFlow asks for {needed.specifier}"
    evidence = (f"found through {taken.found_by}", *(f"it hides {path}" for path in taken.shadowed))
    if taken.found_by == "LD_LIBRARY_PATH" and taken.shadowed:
        without = library_path_without(environment, os.path.dirname(taken.path))
        fix = Fix("Start Python without that folder on LD_LIBRARY_PATH.", without)
        return Finding(message, "ld_library_path_shadows_pip_libs", fix, evidence)
    return Finding(message, "cudnn_version_mismatch", again, evidence)


def _is_main(library: ResolvedLibrary) -> bool:
    return library.found and library.soname.startswith("libcudnn.so.")


def _is_cudnn(copy: LibraryFile) -> bool:
    return copy.soname.startswith("libcudnn.so.")


def _is_other_major(needed: Requirement, installed: Distribution) -> bool:
    """Whether the major versions differ; within one, a newer cuDNN serves as well as the one that is pinned."""
    known = version("0") < version(installed.version) and bool(needed.lowest)
    return known and version(installed.version).major != version(needed.lowest).major


def _shadowed(message: str, line: str, copies: Sequence[LibraryFile], environment: Environment) -> Finding | None:
    """The finding where LD_LIBRARY_PATH puts a cuDNN before pip's of the same name; None where it does not."""
    brought = next((copy for copy in copies if copy.found_in == "pip"), None)
    first = next(
        (copy for copy in copies if brought and copy.found_in == "LD_LIBRARY_PATH" and copy.soname == brought.soname),
        None,
    )
    if first is None:
        return None
    folder = os.path.dirname(first.path)
    return Finding(
        f"{message}: LD_LIBRARY_PATH puts {first.path} before pip's copy",
        cause="ld_library_path_shadows_pip_libs",
        evidence=(line, *(f"{copy.path} (found in {copy.found_in})" for copy in copies)),
        fix=Fix("Start Python without that folder on LD_LIBRARY_PATH.", library_path_without(environment, folder)),
    )
