"""The loader's configuration, /etc/ld.so.conf and the files that it includes, from which ldconfig builds the cache."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator

from tfgpu_doctor.host import Files

_FIRST = "/etc/ld.so.conf"
_DEEPEST = 5  # files that include each other


def line_that_names(files: Files, folder: str) -> tuple[str, int]:
    """The file and the line, from 1, that name a folder; an empty name and 0 if none does."""
    wanted = real_folder(files, folder)
    for file, line, named in _folders(files, _FIRST, _DEEPEST):
        if real_folder(files, named) == wanted:
            return file, line
    return "", 0


def _folders(files: Files, file: str, depth: int) -> Iterator[tuple[str, int, str]]:
    """Each folder with its file and line (ldconfig.c, parse_conf): "include PATTERN", or a folder, perhaps "=TYPE"."""
    for number, text in enumerate(files.text_if_any(file).splitlines(), 1):
        words = text.partition("#")[0].split()
        if words[:1] == ["include"]:
            for pattern in words[1:] if depth else ():
                for included in _matching(files, os.path.join(os.path.dirname(file), pattern)):
                    yield from _folders(files, included, depth - 1)
        elif words and words[0] != "hwcap":
            yield file, number, words[0].partition("=")[0]


def _matching(files: Files, pattern: str) -> list[str]:
    folder, name = os.path.split(pattern)
    return [f"{folder}/{each}" for each in files.names_if_any(folder) if fnmatch.fnmatch(each, name)]


def real_folder(files: Files, folder: str) -> str:
    """A folder with every link followed; as it is written if links form a loop."""
    try:
        return files.real_path(folder)
    except OSError:
        return os.path.normpath(folder)
