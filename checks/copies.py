"""Which copy is in trouble: one rule for libraries and modules.

A finding names the file that was taken, who put its place on the path, whose it is, and what would be taken without it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence

from tfgpu_doctor.checks.commands import prepend_library_path
from tfgpu_doctor.model import Fix
from tfgpu_doctor.model.facts.copies import Copy

_VARIABLES = ("LD_LIBRARY_PATH", "PYTHONPATH")


def evidence_of(copy: Copy) -> tuple[str, ...]:
    """Return who put the file's place on the path, whose the file is, and what would be taken without it."""
    return (
        f"{copy.path} comes first because of {_source(copy)}",
        f"it belongs to {copy.owner}" if copy.owner else "it belongs to no installed package",
        without(copy),
    )


def without(copy: Copy) -> str:
    """Return what is taken if this copy is gone."""
    if not copy.instead:
        return f"without it, no other {copy.name} would be found"
    return f"without it, {copy.instead} would be taken" + (f" ({copy.instead_owner})" if copy.instead_owner else "")


def _source(copy: Copy) -> str:
    """Return who put a place on the path, in words."""
    if copy.placed_by in _VARIABLES:
        which = copy.entry or "empty, which means the working folder"
        return f"entry {copy.number} of {copy.placed_by}: {which}"
    words = {
        "LD_PRELOAD": "LD_PRELOAD, which names it",
        "ld.so.cache": f"the loader's cache, /etc/ld.so.cache, which contains {copy.entry}",
        "ld.so.conf": f"{copy.file}, line {copy.line}: {copy.entry}",
        "default folder": f"the loader's default folder {copy.entry}",
        ".pth file": f"{copy.file}, line {copy.line}, which adds {copy.entry} to Python's path",
        "working folder": f"the working folder {copy.entry}, which Python searches first",
        "user site": f"the user site {copy.entry}, which Python searches before the environment",
        "start of Python": f"code that runs when Python starts and adds {copy.entry} (a sitecustomize.py or .pth file)",
    }
    holder = copy.file or "the Python program"
    return words.get(copy.placed_by, f"the {copy.placed_by or 'search path'} of {holder}, which names {copy.entry}")


def repair(copy: Copy, *, in_use: Iterable[str] = ()) -> Fix:
    """Return how the copy is no longer taken. `in_use` are files that nothing else replaces, and that must stay found."""
    here = os.path.dirname(copy.path)
    if copy.placed_by in _VARIABLES and here in {os.path.dirname(path) for path in in_use}:
        return Fix(f"Replace {copy.path} by a whole copy, or move it away: other files of that folder are in use.")
    if copy.placed_by in _VARIABLES:
        entries = f"entry {copy.number} out of {copy.placed_by} (and every other name of that folder)"
        what = f"Take {entries}" if copy.others else f"Unset {copy.placed_by}"
        text = f"{what} before you start Python; also where it is set (~/.bashrc, a job script)."
        return Fix(text, _variable_of(copy.placed_by, copy.others))
    if copy.placed_by == "user site":
        return Fix("Disable the user site.", ("export PYTHONNOUSERSITE=1",))
    if copy.placed_by == "working folder":
        return Fix(f"Rename {copy.path}, or start Python in another folder.")
    if copy.placed_by == ".pth file":
        return Fix(f"Remove line {copy.line} of {copy.file}, or the folder that it adds.")
    if copy.placed_by == "start of Python":
        return Fix(f"Find what adds {copy.entry} to Python's path (`python -v -c ''` shows it), and remove it.")
    return _loader_repair(copy)


def _loader_repair(copy: Copy) -> Fix:
    source = {
        "ld.so.conf": f"or take line {copy.line} out of {copy.file} and run `ldconfig` as root",
        "LD_PRELOAD": "or take it out of LD_PRELOAD",
    }.get(copy.placed_by, "or move it away")
    # The variable comes before RUNPATH, the cache and the default folders (man 8 ld.so).
    overruled = copy.instead and copy.placed_by not in ("RPATH", "LD_PRELOAD")
    first = (prepend_library_path([os.path.dirname(copy.instead)]),) if overruled else ()
    return Fix(
        f"Replace {copy.path} by a whole copy, {source}."
        + (" Until then, search the folder of the right copy first." if first else ""),
        first,
    )


def _variable_of(name: str, entries: Sequence[str]) -> tuple[str, ...]:
    return (f"export {name}={':'.join(map(shlex.quote, entries))}",) if entries else (f"unset {name}",)


def in_place_of(copy: Copy) -> str:
    """Return what is not taken: "the copy of nvidia-cublas-cu12 12.5.3.2", or the file's path if it has no known owner."""
    owner = copy.instead_owner.removeprefix("pip: ")
    return f"the copy of {owner}" if owner else copy.instead


def counted(lines: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return each line once. Of lines that differ only in their word, the first stands for all, with the others' words:
    ("a needs b", "b") and ("a needs c", "c") give "a needs b (and 1 more: c)".
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for line, word in dict.fromkeys(lines):
        groups.setdefault(line.replace(word, "{}") if word else line, []).append((line, word))
    return tuple(_with_count(group[0][0], [word for _, word in group[1:]]) for group in groups.values())


def _with_count(line: str, more: list[str]) -> str:
    return f"{line} (and {len(more)} more: {', '.join(more)})" if more else line
