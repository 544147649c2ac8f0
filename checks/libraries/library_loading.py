"""LIB: does the loader find the installed CUDA libraries, undamaged and with all their dependencies?"""

from __future__ import annotations

import os

from tfgpu_doctor.checks.commands import bring_cuda_libraries, prepend_library_path, reinstall
from tfgpu_doctor.checks.copies import counted
from tfgpu_doctor.checks.libraries.lost_libraries import LostLibrary, folders_of, lost_libraries, opened_loads
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Libraries
from tfgpu_doctor.model.facts.python import Runtime, Target, TensorFlow
from tfgpu_doctor.model.facts.resolution import Resolution
from tfgpu_doctor.model.tags import LIBRARIES


@check(
    "LIB003",
    "TensorFlow finds the CUDA libraries that pip installed",
    family="Libraries",
    tags=(LIBRARIES,),
    stage=Stage.LIBRARIES,
    after=("LIB004", "LIB009", "ENV004"),
    causes=("pip_cuda_libs_not_found",),
    sources=("https://github.com/tensorflow/tensorflow/issues/63362",),
)
def pip_libraries_are_found(
    cuda_libraries: Libraries,
    tensorflow: TensorFlow,
    runtime: Runtime | None = None,
    resolution: Resolution | None = None,
) -> Yielded:
    """The RUNPATH of some releases (2.16.1: all libraries; 2.21.0: cuSOLVER) lacks the folder in which pip installs a
    library. TensorFlow then only logs "Cannot dlopen some GPU libraries", and does not name the library.

    Fix: `tfgpu-doctor fix` links them where TensorFlow looks; or add the folder to LD_LIBRARY_PATH before Python starts.
    """
    lost = [each for each in lost_libraries(cuda_libraries, resolution, runtime) if _is_out_of_sight(each)]
    if lost:
        names = list(dict.fromkeys(each.missing for each in lost))
        paths = [each.pip_copies[0] for each in lost]
        yield Finding(
            f"pip installed {', '.join(names)}, but TensorFlow {tensorflow.version} does not find "
            + ("it" if len(names) == 1 else "them"),
            cause="pip_cuda_libs_not_found",
            evidence=(
                *counted((each.said, each.soname) for each in lost),
                *counted((f"pip's copy is {path}", os.path.basename(path)) for path in paths),
            ),
            fix=Fix(
                "Add the folder to LD_LIBRARY_PATH before you start Python.", (prepend_library_path(folders_of(paths)),)
            ),
        )
    else:
        yield _proof(resolution, runtime)


def _is_out_of_sight(lost: LostLibrary) -> bool:
    """Return whether pip's copy of the missing library is undamaged, but in a folder that the loader does not search."""
    return bool(lost.pip_copies) and not lost.damage


def _proof(resolution: Resolution | None, runtime: Runtime | None) -> Evidence:
    """Return the evidence that the libraries are found. Raise Skip if there is none."""
    if opened := opened_loads(runtime):
        return Evidence(f"TensorFlow opened {', '.join(opened)}")
    found = [each for each in (resolution.libraries if resolution else ()) if each.found and each.origin]
    if found and not runtime:
        return Evidence("; ".join(f"{each.soname} from {each.origin}" for each in found if not each.asked_by))
    raise Skip("TensorFlow opened no CUDA library" if runtime else "only a run of TensorFlow can show this")


@check(
    "LIB006",
    "TensorFlow opens every CUDA library that it needs",
    family="Libraries",
    tags=(LIBRARIES,),
    stage=Stage.LIBRARIES,
    after=("LIB003", "LIB004", "LIB009", "ENV004"),
    causes=("gpu_libs_not_found", "cuda_minor_library_mix", "cuda_toolkit_wrong_minor", "cudnn_version_mismatch"),
    sources=("https://github.com/tensorflow/tensorflow/issues/66987",),
)
def every_library_opens(
    cuda_libraries: Libraries,
    target: Target,
    tensorflow: TensorFlow,
    knowledge: Knowledge,
    runtime: Runtime | None = None,
    resolution: Resolution | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """If a single library cannot be opened, TensorFlow registers no GPU. If a part of cuDNN is missing, the first
    convolution fails.

    Fix: add the folder that contains the library to LD_LIBRARY_PATH, or install the missing library.
    """
    lost = lost_libraries(cuda_libraries, resolution, runtime)
    whole_set = bring_cuda_libraries(
        target, tensorflow, knowledge, "Install one matching set of libraries, using pip.", cuda_driver
    )
    for missing in dict.fromkeys(each.missing for each in lost):
        those = [each for each in lost if each.missing == missing]
        yield _finding(those, cuda_libraries, target, whole_set)
    if not lost:
        yield _proof(resolution, runtime)


def _finding(those: list[LostLibrary], libraries: Libraries, target: Target, whole_set: Fix) -> Finding:
    """Return one finding for all libraries that cannot be loaded because of the same file."""
    first = those[0]
    name, other = first.missing, _other_versions(first.missing, libraries)
    evidence = (
        *counted((each.said, each.soname) for each in those),
        *counted((f"a copy is at {path}", os.path.dirname(path)) for path in first.other_copies),
    )
    if first.wheel and (first.damage or not (first.pip_copies or first.other_copies)):
        what = f"cannot be loaded: {first.damage}" if first.damage else "is missing"
        message = f"{name}, which {first.wheel} installed, {what}"
        return Finding(message, "gpu_libs_not_found", reinstall(target, first.wheel), evidence)
    if len(first.chain) > 1 and not first.damage:
        askers = list(dict.fromkeys(each.chain[-2] for each in those))
        message = f"{' and '.join(askers)} {'needs' if len(askers) == 1 else 'need'} {name}, which is missing"
        return Finding(message, "cuda_minor_library_mix", whole_set, evidence)
    if first.other_copies and not first.damage:
        folder = os.path.dirname(first.other_copies[0])
        fix = Fix("Add the folder to LD_LIBRARY_PATH before you start Python.", (prepend_library_path([folder]),))
        return Finding(f"{name} is in {folder}, where TensorFlow does not find it", "gpu_libs_not_found", fix, evidence)
    if name.startswith("libcudnn.so.") and not first.damage and (brought := _brought_by_pip(name, libraries)):
        message = f"{name} is not installed; pip installed {', '.join(brought)}"
        return Finding(message, "cudnn_version_mismatch", whole_set, evidence)
    if other and not first.damage:
        message = f"{name} is not installed; {', '.join(other)} is from another CUDA version"
        return Finding(message, "cuda_toolkit_wrong_minor", whole_set, evidence)
    return Finding(f"{name} cannot be opened", "gpu_libs_not_found", whole_set, evidence)


def _other_versions(soname: str, libraries: Libraries) -> list[str]:
    """Return the copies on the loader's path of the same library in another version."""
    stem = soname.partition(".so.")[0] + ".so."
    return sorted(
        {copy.soname for copy in libraries.copies if copy.on_loader_path and copy.soname.startswith(stem)} - {soname}
    )


def _brought_by_pip(soname: str, libraries: Libraries) -> list[str]:
    """Return the sonames of other versions of the same library that pip installed."""
    stem = soname.partition(".so.")[0] + ".so."
    brought = {copy.soname for copy in libraries.copies if copy.found_in == "pip" and copy.soname.startswith(stem)}
    return sorted(brought - {soname})
