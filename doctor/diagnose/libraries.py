"""The copies of the libraries that TensorFlow opens, as the loader would choose them."""

from __future__ import annotations

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.nvidia import Libraries, LibraryFile
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.resolution import Resolution
from tfgpu_doctor.model.report import LibraryCopy

_KINDS = {"driver": "NVIDIA driver", "stub": "stub of a toolkit", "compat": "cuda-compat", "wsl": "Windows' driver"}


def list_libraries(facts: Facts) -> tuple[LibraryCopy, ...]:
    """List the libraries of CUDA and the driver: the copy that the loader would choose, or at least the copies that exist."""
    resolved = _resolved(facts.resolution) if facts.resolution else _looked_up(facts)
    names = {each.soname for each in resolved}
    driver = dict.fromkeys(copy.soname for copy in _copies(facts.driver_libraries) if copy.soname not in names)
    return (*(_on_disk(soname, facts) for soname in driver), *resolved)


def _resolved(resolution: Resolution) -> list[LibraryCopy]:
    return [
        LibraryCopy(
            soname=each.soname, found=each.found, needed=each.needed_by_tensorflow, version=each.version,
            origin=each.origin, path=each.path, found_by=each.found_by, error=each.error,
            missing_chain=each.missing_chain, shadowed=each.shadowed, elsewhere=each.elsewhere,
        )
        for each in resolution.libraries
    ]  # fmt: skip


def _looked_up(facts: Facts) -> list[LibraryCopy]:
    """List the libraries that this release opens and that have a copy or were opened; used if there is no resolution."""
    wheel = facts.tensorflow
    if wheel is None or not wheel.built_with_cuda or facts.cuda_libraries is None:
        return []
    rows = read_knowledge().opened_libraries(wheel.version, wheel.cuda_version, wheel.cudnn_version)
    copies = (*_copies(facts.driver_libraries), *_copies(facts.cuda_libraries))
    seen = {each.soname for each in copies} | {
        each.soname for each in (facts.runtime.libraries if facts.runtime else ())
    }
    return [_on_disk(row.soname, facts, needed=row.needed) for row in rows if row.soname in seen]


def _on_disk(soname: str, facts: Facts, *, needed: bool = True) -> LibraryCopy:
    """Return a library with its known copies; libcuda or TensorFlow itself reported which of them is used."""
    copies = [
        each
        for fact in (facts.driver_libraries, facts.cuda_libraries)
        for each in _copies(fact)
        if each.soname == soname
    ]
    taken = facts.cuda_driver.library if facts.cuda_driver else ""
    opened, error = _opened(facts.runtime, soname)
    if opened is None and any(each.real_path == taken or each.on_loader_path for each in copies):
        opened = True
    first = (
        next((copy for copy in copies if copy.real_path == taken), copies[0])
        if copies and opened is not False
        else None
    )
    others = [copy for copy in copies if copy is not first]
    return LibraryCopy(
        soname=soname, found=opened, needed=needed, error=error, version=first.version if first else "",
        path=first.path if first else "", found_by=first.found_in if first and first.on_loader_path else "",
        origin=_brought_by(first, _copies(facts.driver_libraries)) if first else "",
        shadowed=tuple(copy.path for copy in others if first and copy.on_loader_path),
        elsewhere=tuple(copy.path for copy in others if not first or not copy.on_loader_path),
    )  # fmt: skip


def _brought_by(copy: LibraryFile, driver: tuple[LibraryFile, ...]) -> str:
    if copy in driver:
        return _KINDS.get(copy.kind, copy.kind)
    return copy.found_in if copy.found_in in ("pip", "conda") else ""


def _copies(fact: Libraries | None) -> tuple[LibraryFile, ...]:
    return fact.copies if fact else ()


def _opened(runtime: Runtime | None, soname: str) -> tuple[bool | None, str]:
    """Return whether TensorFlow's log reports that it opened the library, and its error."""
    load = next((each for each in (runtime.libraries if runtime else ()) if each.soname == soname), None)
    return (load.opened, load.error) if load else (None, "")
