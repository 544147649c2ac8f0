"""How the loader would resolve each library that TensorFlow opens, determined from files alone."""

from __future__ import annotations

import os

from tfgpu_doctor.collect.ldso.copies import copies_of
from tfgpu_doctor.collect.ldso.owners import Owners, header_version
from tfgpu_doctor.collect.ldso.resolver import Loaded, Outcome, Resolver
from tfgpu_doctor.collect.ldso.search_path import SearchPath, folder_of, split_list
from tfgpu_doctor.collect.ldso.shared_object import Unloadable
from tfgpu_doctor.collect.probe import Unavailable, probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import OpenedLibrary
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import Libraries
from tfgpu_doctor.model.facts.python import Target, TensorFlow
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

# All releases since 1.15 open libraries from here (tsl::internal::LoadDynamicLibrary), for every caller.
_OPENER = "libtensorflow_framework.so.2"


@probe(waits_for="the libraries that TensorFlow opens")
def resolution(
    host: Host,
    system: System,
    target: Target,
    tensorflow: TensorFlow,
    cuda_libraries: Libraries,
    driver_libraries: Libraries,
) -> Resolution:
    """Resolve each library as the loader would in a process that has imported TensorFlow."""
    if system.os != "Linux":
        raise Unavailable(f"libraries can only be resolved on Linux, not on {system.os}")
    rows = read_knowledge().opened_libraries(tensorflow.version, tensorflow.cuda_version, tensorflow.cudnn_version)
    if tensorflow.built_with_cuda is False:
        raise Unavailable(f"this {tensorflow.distribution} is built without CUDA: it opens no CUDA libraries")
    search = SearchPath(host, system.architecture, host.target_files)
    resolver = Resolver(search, _program_rpath(search, target))
    resolver.preload(split_list((host.environment.get("LD_PRELOAD") or "").replace(" ", ":")))
    opener = _opener(resolver, os.path.join(tensorflow.folder, _OPENER))
    owners = Owners(host, target)
    opened: dict[str, Outcome] = {}
    libraries = []
    for row in rows:
        asker = (opened[row.asked_by].loaded if row.asked_by in opened else None) or opener
        outcome = opened[row.soname] = resolver.open(row.soname, asker)
        copies = [*cuda_libraries.copies, *driver_libraries.copies]
        libraries.append(_describe(row, outcome, resolver, asker, owners, [copy.path for copy in copies]))
    return Resolution(
        opener=opener.place.path,
        search_folders=tuple(search.expand(opener.words.runpath or opener.words.rpath, folder_of(opener.place.path))),
        libraries=tuple(libraries),
        copies=copies_of(resolver, owners, target.working_folder),
    )


def _opener(resolver: Resolver, path: str) -> Loaded:
    try:
        opener = resolver.load_file(path)
    except Unloadable as error:
        raise Unavailable(f"{path} cannot be loaded: {error}") from error
    if opener is None:
        raise Unavailable(f"{path}, which opens the libraries, does not exist")
    return opener


def _program_rpath(search: SearchPath, target: Target) -> list[str]:
    """The RPATH of the interpreter itself; conda's has one."""
    try:
        program = Resolver(search).load_file(target.executable)
    except Unloadable:
        return []
    if program is None or program.words.runpath:
        return []
    return search.expand(program.words.rpath, folder_of(program.real_path))


def _wheel(missing: str, refused: str, resolver: Resolver, owners: Owners) -> str:
    """The wheel that lists the missing file, or that installed the refused one."""
    return owners.wheel_of(resolver.search.target_files.real_path(refused)) if refused else owners.wheel_with(missing)


def _describe(
    row: OpenedLibrary, outcome: Outcome, resolver: Resolver, asker: Loaded, owners: Owners, copies: list[str]
) -> ResolvedLibrary:
    loaded = outcome.loaded
    places = resolver.candidates(row.soname, asker)
    seen: dict[str, str] = {}
    for place in places:
        seen.setdefault(place.files.real_path(place.path), os.path.normpath(place.path))
    missing = outcome.chain[-1] if outcome.chain else ""
    refused = os.path.normpath(outcome.refused) if outcome.refused else ""
    origin, version = owners.of(loaded.real_path) if loaded else ("", "")
    # Of several names in the chain, the first is that of a file that was found, although it cannot be loaded.
    chosen = loaded.place if loaded else resolver.taken[row.soname].place if len(outcome.chain) > 1 else None
    if loaded and not version and row.cudnn:
        version = header_version(loaded.place.files, loaded.real_path)
    return ResolvedLibrary(
        soname=row.soname,
        found=loaded is not None,
        needed_by_tensorflow=row.needed,
        asked_by=row.asked_by,
        path=os.path.normpath(chosen.path) if chosen else "",
        real_path=chosen.files.real_path(chosen.path) if chosen else "",
        version=version,
        origin=origin,
        wheel=_wheel(missing, outcome.refused, resolver, owners),
        found_by=loaded.place.found_by if loaded else "",
        error=f"{refused}: {outcome.error}" if refused else "",
        missing_chain=outcome.chain,
        shadowed=tuple(path for real, path in seen.items() if loaded and real != loaded.real_path),
        elsewhere=tuple(path for path in copies if os.path.basename(path) == missing and path != refused),
    )
