"""Copies of a library on disk, in the order in which the loader would take them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from tfgpu_doctor.collect.ldso.search_path import Place, SearchPath
from tfgpu_doctor.host import Files, Host
from tfgpu_doctor.model.facts.nvidia import LibraryFile

_CLASS_64 = 2  # EI_CLASS of an ELF file
_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21}  # e_machine, https://refspecs.linuxfoundation.org/elf/gabi4+/


class Search:
    """The loader's path of one host, and the copies of libraries on it."""

    def __init__(self, host: Host, architecture: str) -> None:
        self._path = SearchPath(host, architecture)

    def copies(self, soname: str, known_places: Sequence[str] = ()) -> list[LibraryFile]:
        """Every copy of one library, each real file once, the loader's choice first."""
        places = list(self._path.places(soname))
        places += [Place(self._path.machine_files, f"{folder}/{soname}", "known place") for folder in known_places]
        fitting = (place for place in places if _is_for(self._path.architecture, place.files, place.path))
        return unique(describe(place.files, soname, place.path, place.found_by) for place in fitting)

    def names_matching(self, pattern: re.Pattern[str], folders: Iterable[str] = ()) -> list[str]:
        """Sonames on the loader's path, and in further folders, that match a pattern."""
        names = set(self._path.cache)
        for folder in self._path.variable:
            names.update(self._path.target_files.names_if_any(folder))
        for folder in (*self._path.default, *folders):
            names.update(self._path.machine_files.names_if_any(folder))
        return sorted(name for name in names if pattern.fullmatch(name))


def describe(files: Files, soname: str, path: str, found_in: str) -> LibraryFile | None:
    """One copy, None if there is none."""
    try:
        size, real = files.status(path).size_bytes, files.real_path(path)
    except OSError:
        return None
    return LibraryFile(
        soname=soname,
        path=os.path.abspath(path),
        real_path=real,
        size_bytes=size,
        version=_version(soname, real),
        kind=_kind(path + real),
        found_in=found_in,
    )


def unique(copies: Iterable[LibraryFile | None]) -> list[LibraryFile]:
    """Each real file once, in the given order."""
    first: dict[str, LibraryFile] = {}
    for copy in copies:
        if copy:
            first.setdefault(copy.real_path, copy)
    return list(first.values())


def _is_for(architecture: str, files: Files, path: str) -> bool:
    """Whether a library is of this architecture; the loader skips others, for example a 32-bit one in /usr/lib."""
    try:
        head = files.read_bytes(path, limit=20)
    except OSError:
        return False
    if not head.startswith(b"\x7fELF") or len(head) < 20 or architecture not in _MACHINES:
        return True  # left to the loader to decide
    return head[4] == _CLASS_64 and int.from_bytes(head[18:20], "little") == _MACHINES[architecture]


def _version(soname: str, real_path: str) -> str:
    """The part of the real file name after the soname: libcuda.so.550.54.15 gives 550.54.15."""
    stem = soname.partition(".so")[0] + ".so."
    found = re.fullmatch(re.escape(stem) + r"(\d+\.\d+(?:\.\d+)*)", os.path.basename(real_path))
    return found.group(1) if found else ""


def _kind(paths: str) -> str:
    if "/stubs/" in paths:
        return "stub"
    if "/compat/" in paths:
        return "compat"
    return "wsl" if "/wsl/" in paths else "driver"
