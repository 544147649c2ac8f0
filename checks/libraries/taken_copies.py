"""LIB: is each library that the loader takes whole, and the one of the package that provides it?"""

from __future__ import annotations

import os
from collections.abc import Iterable

from tfgpu_doctor.checks.commands import prepend_library_path, reinstall
from tfgpu_doctor.checks.copies import counted, evidence_of, in_place_of, repair
from tfgpu_doctor.checks.libraries.lost_libraries import LostLibrary, lost_libraries
from tfgpu_doctor.knowledge import version
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.copies import Copy
from tfgpu_doctor.model.facts.machine import Pci
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Libraries, Nvml
from tfgpu_doctor.model.facts.python import Runtime, Target
from tfgpu_doctor.model.facts.resolution import Resolution
from tfgpu_doctor.model.tags import LIBRARIES

_LOADER = "https://man7.org/linux/man-pages/man8/ld.so.8.html"


@check(
    "LIB008",
    "the loader takes the driver's own libraries, and they are whole",
    family="Libraries",
    tags=(LIBRARIES,),
    stage=Stage.DRIVER,
    after=("PKG001",),
    causes=("library_shadowed",),
    sources=(_LOADER,),
)
def driver_libraries_are_taken(
    resolution: Resolution, cuda_driver: CudaDriver | None = None, nvml: Nvml | None = None
) -> Yielded:
    """The loader takes the first file named libcuda.so.1 on its path. If that file is damaged, the search ends there, and
    the driver's own copy behind it is not tried.

    Fix: take the folder of the damaged file out of LD_LIBRARY_PATH, or remove the file.
    """
    works = {
        "libcuda.so.1": bool(cuda_driver and cuda_driver.works),
        "libnvidia-ml.so.1": bool(nvml and nvml.works),
    }
    hiding = [each for each in resolution.copies if each.name in works and each.error and each.instead]
    if broken := [each for each in hiding if not works[each.name]]:
        yield _refused(broken, [], files_in_use(resolution))
    elif taken := [each for each in resolution.libraries if each.soname in works and each.found]:
        yield Evidence("; ".join(f"{each.soname} is {each.path}" for each in taken))
    else:
        raise Skip("the loader finds none of them")


@check(
    "LIB009",
    "the loader takes the CUDA libraries of the package that provides them, and they are whole",
    family="Libraries",
    tags=(LIBRARIES,),
    stage=Stage.LIBRARIES,
    after=("PKG002", "PKG003", "LIB008"),
    causes=("library_shadowed", "ld_library_path_shadows_pip_libs", "gpu_libs_not_found"),
    sources=(_LOADER,),
)
def cuda_libraries_are_taken(
    cuda_libraries: Libraries,
    target: Target,
    resolution: Resolution,
    runtime: Runtime | None = None,
    pci: Pci | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """A folder on LD_LIBRARY_PATH, or a line of /etc/ld.so.conf.d, can put another copy of a library before the one that pip
    installed. If that copy is damaged, incomplete or older, TensorFlow fails, and reinstalling the package changes nothing.

    Fix: take that folder out of the variable, or remove the file.
    """
    has_gpu = bool((pci and pci.nvidia_gpus) or (cuda_driver and cuda_driver.gpus))
    if runtime and runtime.version and not (has_gpu or runtime.import_error):
        raise Skip("TensorFlow imports, and there is no GPU that needs them")
    lost = [(each, _culprit(each, resolution)) for each in lost_libraries(cuda_libraries, resolution, runtime)]
    groups: dict[tuple[str, str], list[tuple[LostLibrary, Copy]]] = {}
    for each, copy in lost:
        if copy and (copy.instead or each.pip_copies):
            groups.setdefault((copy.placed_by, copy.entry), []).append((each, copy))
    for pairs in groups.values():
        yield _finding(pairs, resolution)
    if not groups and (own := _own_damage(lost, runtime)):
        yield _damaged(own, target)
    elif not groups:
        yield _proof(resolution)


def _culprit(lost: LostLibrary, resolution: Resolution) -> Copy | None:
    """Return the copy that is to blame for a lost library: itself, or the one that asks for it without its own parts."""
    copies = {each.name: each for each in resolution.copies}
    own = copies.get(lost.missing)
    if own and own.error:
        return None if own.owner.startswith("pip: ") else own
    if "undefined symbol" in lost.damage or "version `" in lost.damage:
        return next(
            (copy for name, copy in copies.items() if name in lost.damage and copy.path not in lost.damage), None
        )
    asker = copies.get(lost.chain[-2] if len(lost.chain) > 1 else lost.asked_by)
    return asker if asker and not asker.owner.startswith("pip: ") and asker.instead and not lost.damage else None


def _finding(pairs: list[tuple[LostLibrary, Copy]], resolution: Resolution) -> Finding:
    copies = list(dict.fromkeys(copy for _, copy in pairs))
    if any(copy.error for copy in copies):
        return _refused([copy for copy in copies if copy.error], [lost for lost, _ in pairs], files_in_use(resolution))
    first = copies[0]
    those = [lost for lost, copy in pairs if copy == first]
    taken = resolution.find(first.name)
    right = first.instead_owner.rpartition(" ")[2]
    number = taken.version if taken else ""
    older = bool(number and right) and version(number) < version(right)
    wrong_symbol = any(lost.damage for lost in those)
    is_other = first.placed_by == "LD_LIBRARY_PATH" and (older or wrong_symbol)
    what = f"{first.name} {number}".strip()
    problem = (
        f"{those[0].soname} cannot be opened with it"
        if wrong_symbol
        else f"{len(those)} libraries that it opens are not found"
        if len(those) > 1
        else f"{those[0].missing} is not found"
    )
    return Finding(
        f"the loader takes {what} from {first.path} instead of {in_place_of(first)}, and {problem}",
        cause="ld_library_path_shadows_pip_libs" if is_other else "library_shadowed",
        evidence=(*counted((each.said, each.soname) for each in those), *evidence_of(first)),
        fix=repair(first, in_use=files_in_use(resolution)),
    )


def _refused(copies: list[Copy], lost: list[LostLibrary], in_use: list[str]) -> Finding:
    """Return the finding for files in one place that cannot be loaded."""
    first, rest = copies[0], copies[1:]
    more = f"; {len(rest)} more there: {', '.join(each.name for each in rest)}" if rest else ""
    pips = next((path for each in lost for path in each.pip_copies), "")
    hidden = in_place_of(first) if first.instead else f"{pips}, which pip installed"
    fix = repair(first, in_use=in_use) if first.instead else _search_first(first, pips)
    said = [each.said for each in lost if first.path not in each.said.partition(": it is ")[0]]
    return Finding(
        f"the loader takes {first.path} instead of {hidden}, and cannot load it: {first.error}{more}",
        cause="library_shadowed",
        evidence=(*said[:1], *evidence_of(first), *(f"{each.path}: {each.error}" for each in rest[:3])),
        fix=fix,
    )


def _search_first(copy: Copy, path: str) -> Fix:
    """Return the fix if the right copy is outside of the loader's path: LD_LIBRARY_PATH can put its folder first."""
    folder = os.path.dirname(path)
    text = f"Search {folder} first. Then replace {copy.path} by a whole copy, or remove it, for other programs' sake."
    return Fix(text, (prepend_library_path([folder]),))


def files_in_use(resolution: Resolution) -> list[str]:
    """Return the files that are loaded and that no other copy replaces."""
    return [each.path for each in resolution.libraries if each.found and not each.shadowed]


def _own_damage(lost: Iterable[tuple[LostLibrary, Copy | None]], runtime: Runtime | None) -> LostLibrary | None:
    """Return a damaged library of a wheel if the run ended while importing TensorFlow, which opens it without asking."""
    if not runtime or runtime.version or runtime.attempt.answered:
        return None
    return next((each for each, _ in lost if each.damage and each.wheel), None)


def _damaged(lost: LostLibrary, target: Target) -> Finding:
    return Finding(
        f"{lost.missing}, which {lost.wheel} installed, cannot be loaded: {lost.damage}",
        cause="gpu_libs_not_found",
        evidence=(lost.said,),
        fix=reinstall(target, lost.wheel),
    )


def _proof(resolution: Resolution) -> Evidence:
    """Return the evidence: what the loader takes, or that no file is refused. Raise Skip if nothing was found."""
    found = [each for each in resolution.libraries if each.found]
    if not found:
        raise Skip("the loader finds none of them")
    hiding = [
        f"{each.path} comes before {each.instead}" for each in resolution.copies if each.instead and not each.error
    ]
    return Evidence("; ".join([f"{amount(len(found), 'library')} can be loaded", *hiding[:3]]))
