"""What is installed, beside what TensorFlow needs: versions, and the copies of libraries. The checks judge it."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.requirements import Requirement, requirements_on
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.nvidia import Libraries, LibraryFile
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.resolution import Resolution
from tfgpu_doctor.model.report import LibraryCopy, VersionRow

_JUDGED_BY = {"numpy": "PKG006", "protobuf": "PKG007"}
_KINDS = {"driver": "NVIDIA driver", "stub": "stub of a toolkit", "compat": "cuda-compat", "wsl": "Windows' driver"}


def list_versions(facts: Facts) -> tuple[VersionRow, ...]:
    """Python, TensorFlow, driver, CUDA, the C library, and the packages that TensorFlow builds on."""
    if facts.target is None:
        return ()
    rows = (*_system(facts), *_driver(facts), *_packages(facts))
    return tuple(row for row in rows if row.found or row.needed)


def _system(facts: Facts) -> Iterator[VersionRow]:
    wheel, system = facts.tensorflow, facts.system
    release = next(
        (row for row in read_knowledge().tensorflow_releases if wheel and row.version == wheel.version), None
    )
    wheels = release.wheels_for(system.os.lower(), system.architecture) if release and system else None
    by = f"TensorFlow {wheel.version}" if wheel else ""
    built = f"CUDA {wheel.cuda_version}, cuDNN {wheel.cudnn_version}" if wheel and wheel.built_with_cuda else "no CUDA"
    yield VersionRow(
        component="TensorFlow", found=f"{wheel.version}, built with {built}" if wheel else "",
        needed="a build with CUDA", check="TFB001" if wheel else "PKG002",
    )  # fmt: skip
    yield VersionRow(
        component="Python", found=facts.target.version if facts.target else "",
        needed=", ".join(wheels.pythons) if wheels else "", needed_by=by if wheels else "", check="PKG002",
    )  # fmt: skip
    if system and system.glibc:
        yield VersionRow(
            component="C library (glibc)", found=system.glibc, check="SYS003",
            needed=f"{wheels.glibc} or newer" if wheels and wheels.glibc else "",
            needed_by=by if wheels and wheels.glibc else "",
        )  # fmt: skip


def _driver(facts: Facts) -> Iterator[VersionRow]:
    """The driver, what CUDA it supports, and what code the GPUs need."""
    wheel, system = facts.tensorflow, facts.system
    built_with = wheel.cuda_version if wheel else ""
    os = "Windows" if system and (system.wsl or system.os == "Windows") else "Linux"
    minimum = read_knowledge().minimum_driver(built_with, os) if built_with else None
    by = f"CUDA {built_with}" if built_with else ""
    found = (facts.driver.version if facts.driver else "") or (facts.nvml.driver_version if facts.nvml else "")
    yield VersionRow(
        component="NVIDIA driver", found=found, needed=f"{minimum.driver(os)} or newer" if minimum else "",
        needed_by=by if minimum else "", check="DRV002" if found else "DRV001",
    )  # fmt: skip
    if facts.cuda_driver and facts.cuda_driver.cuda_version:
        yield VersionRow(
            component="CUDA that the driver supports", found=facts.cuda_driver.cuda_version,
            needed=f"{minimum.cuda} or newer" if minimum else "",
            needed_by=f"TensorFlow {wheel.version}" if wheel and minimum else "", check="DRV002",
        )  # fmt: skip
    gpus = (facts.cuda_driver.gpus if facts.cuda_driver else ()) or (facts.nvml.gpus if facts.nvml else ())
    if capabilities := dict.fromkeys(gpu.compute_capability for gpu in gpus if gpu.compute_capability):
        built_for = ", ".join(wheel.compute_capabilities) if wheel else ""
        yield VersionRow(
            component="Compute capability of the GPUs", found=", ".join(capabilities), needed=built_for,
            needed_by=f"TensorFlow {wheel.version}" if wheel and built_for else "", check="TFB002",
        )  # fmt: skip


def _packages(facts: Facts) -> Iterator[VersionRow]:
    """What TensorFlow's metadata asks for, beside what the environment has."""
    target, wheel = facts.target, facts.tensorflow
    if target is None or wheel is None:
        return
    asked = [each for name in ("numpy", "protobuf", "keras") for each in _exactly(facts, name)]
    wheels = [each for each in requirements_on(target, wheel.distribution, "nvidia-") if each.extra == "and-cuda"]
    for each in (*asked, *wheels):
        found = target.find(each.name)
        if found is None:
            continue
        judge = _JUDGED_BY.get(each.name, "") or ("PKG009" if each in wheels else "")
        yield VersionRow(
            component=each.name, found=found.version, needed=each.specifier or "any",
            needed_by=f"{wheel.distribution} {wheel.version}", check=judge,
            fits=each.allows(found.version) if judge not in _JUDGED_BY.values() else None,
        )  # fmt: skip


def _exactly(facts: Facts, name: str) -> list[Requirement]:
    assert facts.target and facts.tensorflow
    found = requirements_on(facts.target, facts.tensorflow.distribution, name)
    return [each for each in found if each.name == name and not each.extra][:1]


def list_libraries(facts: Facts) -> tuple[LibraryCopy, ...]:
    """The libraries of CUDA and of the driver: as the loader would take them, or at least which copies there are."""
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
    """What this release opens, where nobody followed the loader: as far as anybody saw a copy, or opened it."""
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
    """A library whose copies are known; which of them is taken is what libcuda or TensorFlow itself said."""
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
    """Whether TensorFlow's log says that it opened the library, and its error."""
    load = next((each for each in (runtime.libraries if runtime else ()) if each.soname == soname), None)
    return (load.opened, load.error) if load else (None, "")
