"""Where the loader looks for a library that is requested by name, in its order (man 8 ld.so, "Dynamic linking")."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.collect.ldso.cache import parse_loader_cache
from tfgpu_doctor.host import Files, Host

VARIABLE, CACHE, DEFAULT = "LD_LIBRARY_PATH", "ld.so.cache", "default folder"
BY_NAME_ALONE = (VARIABLE, CACHE, DEFAULT)  # these apply to every program, whichever object requests the library


@dataclass(frozen=True)
class Place:
    """A path to try, the files that contain it, and the rule that led there."""

    files: Files
    path: str
    found_by: str
    folder: str = ""  # as the rule names it


class SearchPath:
    """The loader's path for libraries of one architecture ("x86_64").

    `machine_files` contain the cache and the default folders: the host's under --root, or, for a process
    of the target, those of the system that this runs on.
    """

    def __init__(self, host: Host, architecture: str, machine_files: Files | None = None) -> None:
        self.architecture = architecture
        self.target_files = host.target_files
        self.machine_files = machine_files or host.files
        self.cache = parse_loader_cache(_content(self.machine_files, "/etc/ld.so.cache"), architecture)
        self.listed = listed_in(host.environment.get(VARIABLE) or "")  # the user's own entries
        # Every entry that applies, the doctor's own included; once is enough: the first counts.
        self.variable = split_list(host.child_environment.get(VARIABLE) or "")
        self._multiarch = f"lib/{architecture}-linux-gnu"
        self._expanded: dict[tuple[tuple[str, ...], str], list[str]] = {}
        self.default = [f"/{self._multiarch}", f"/usr/{self._multiarch}", "/lib64", "/usr/lib64", "/lib", "/usr/lib"]

    def places(self, name: str, rpath: Sequence[str] = (), runpath: Sequence[str] = ()) -> Iterator[Place]:
        """The paths to try for a name, in order; a name that contains a slash is itself a path.

        `rpath` and `runpath` are those of the requesting object, with `$ORIGIN` replaced.
        """
        if "/" in name:
            yield Place(self.target_files, name, "its path")
            return
        for folders, how in ((rpath, "RPATH"), (self.variable, VARIABLE), (runpath, "RUNPATH")):
            for folder in folders:
                yield Place(self.target_files, f"{folder}/{name}", how, folder)
        for path in self.cache.get(name, ()):
            yield Place(self.machine_files, path, CACHE, folder_of(path))
        for folder in self.default:
            yield Place(self.machine_files, f"{folder}/{name}", DEFAULT, folder)

    def expand(self, folders: Sequence[str], origin: str) -> list[str]:
        """The folders of an RPATH or RUNPATH, each once, `$ORIGIN` and `$LIB` replaced; those with other tokens are omitted."""
        key = (tuple(folders), origin)
        if key not in self._expanded:  # TensorFlow's paths have hundreds of folders and are used for every library
            self._expanded[key] = self._expand(folders, origin)
        return list(self._expanded[key])

    def _expand(self, folders: Sequence[str], origin: str) -> list[str]:
        library = self._multiarch if self.machine_files.exists(f"/{self._multiarch}") else "lib64"
        expanded = []
        for folder in folders:
            for token, value in (("ORIGIN", origin), ("LIB", library), ("PLATFORM", self.architecture)):
                folder = folder.replace(f"${{{token}}}", value).replace(f"${token}", value)  # noqa: PLW2901
            expanded.append(folder.rstrip("/") or "/")
        return list(dict.fromkeys(folder for folder in expanded if "$" not in folder))


def listed_in(text: str) -> list[str]:
    """The entries of a variable like LD_LIBRARY_PATH: an empty entry means the working folder, an empty text means none."""
    return [folder or "." for folder in text.replace(";", ":").split(":")] if text else []


def split_list(text: str) -> list[str]:
    """The entries of a variable like LD_LIBRARY_PATH, each once."""
    return list(dict.fromkeys(listed_in(text)))


def _content(files: Files, path: str) -> bytes:
    try:
        return files.read_bytes(path)
    except OSError:
        return b""


def folder_of(path: str) -> str:
    """The value of `$ORIGIN` in a library that was loaded by this path: links are not followed."""
    return os.path.dirname(path) or "."
