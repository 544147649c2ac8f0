"""Which changes below a prefix are a fix's: an environment's folder may hold a person's own files as well."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from tfgpu_doctor.fix.record import Change
from tfgpu_doctor.host.files import Files

# The folders that only installers write to, relative to the prefix; `local` is Debian's.
_INSTALLERS = re.compile(
    r"(?P<root>local/|)(?:lib(?:64)?/(?:python|pypy)3[^/]*/(?:site|dist)-packages|include/(?:site/)?(?:python|pypy)3[^/]*)(?:/|$)"
)
_PROGRAMS = re.compile(r"(?:local/)?bin/[^/]+")  # an old kind of distribution does not list them, and pip removes them
# The lists of a distribution's files: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
_LISTS = re.compile(r"/[^/]+\.(?:dist-info/(?:RECORD|entry_points\.txt)|egg-info/installed-files\.txt)$")
# A row of a wheel's own list, which pip writes first: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
_UNPACKED = re.compile(r"[^/]+\.data/(?P<scheme>scripts|data)/(?P<name>.+)")
_PROGRAM = re.compile(r"^\s*(?P<name>[^\s=\[#][^=]*?)\s*=", re.MULTILINE)
_OUTSIDE = os.path.join(os.pardir, "")  # begins what is not below the prefix: only pip's folders are examined there
_ASIDE = "~"  # pip moves the folder `name` to `~ame` while it replaces it
_MOST_BYTES = 64 << 20


def of_fix(
    changes: Collection[Change], prefix: str, kept: str, links: Collection[str] = (), aliases: Mapping[str, str] = {}
) -> list[Change]:
    """Return the changes of folders that only installers write to, and of files that a changed distribution lists.

    `kept` is the folder with the contents before the fix, `links` are the paths of the fix's own links, `aliases` those
    of `as_named`. What remains was made by a person or another program meanwhile, and is not to be undone.
    """
    named = {change.path: as_named(change.path, aliases) for change in changes}
    listed = {as_named(link, aliases) for link in links}
    for change in changes:
        name = named[change.path]
        if is_of_installers(name) and _LISTS.search(name):
            listed.update(_listed(change, name, prefix, kept))
    folders = {above for name in listed for above in _above(name)}
    gone = {named[change.path] for change in changes if change.after is None}
    return [
        change
        for change in changes
        if is_of_installers(name := named[change.path])
        or name in listed
        or (name in folders and "folder" in (change.before and change.before.kind, change.after and change.after.kind))
        or (name in gone and _PROGRAMS.fullmatch(name))
        or _is_moved_aside(name, gone)
    ]


def as_named(name: str, aliases: Mapping[str, str]) -> str:
    """Return a real path, relative to the prefix, as the path by which pip gets there.

    `aliases` has the folders that pip reaches by a link: the real path of each, and the one with the link.
    """
    for real, alias in aliases.items():
        if name == real or name.startswith(os.path.join(real, "")):
            return alias + name[len(real) :]
    return name


def is_of_installers(name: str) -> bool:
    """Whether a path, relative to the prefix, is in a folder that only installers write to."""
    return name.startswith(_OUTSIDE) or _INSTALLERS.match(name) is not None


def _listed(change: Change, name: str, prefix: str, kept: str) -> Iterator[str]:
    """Yield the paths outside of the installers' folders in a list as it was before the fix, and as it is now."""
    before = [os.path.join(kept, change.kept)] if change.kept else []
    for path in (*before, os.path.join(prefix, change.path)):
        yield from (found for found in _names(name, _text(path)) if not is_of_installers(found))


def _names(path: str, text: str) -> Iterator[str]:
    """Yield the paths that a list names, relative to the prefix."""
    found = _INSTALLERS.match(path)
    root = found["root"] if found else ""
    folder, name = os.path.split(path)
    if name == "entry_points.txt":
        yield from (f"{root}bin/{program}" for program in _PROGRAM.findall(text))
        return
    if name == "RECORD":
        folder = os.path.dirname(folder)
    for row in _rows(text.splitlines()):
        unpacked = _UNPACKED.fullmatch(row)
        if unpacked:
            yield root + ("bin/" if unpacked["scheme"] == "scripts" else "") + unpacked["name"]
        else:
            yield os.path.normpath(os.path.join(folder, row))


def _rows(lines: Iterable[str]) -> Iterator[str]:
    """Yield the first field of each line that has one."""
    try:
        yield from (row[0] for row in csv.reader(lines) if row)
    except csv.Error:
        return  # what follows is no list


def _above(name: str) -> Iterator[str]:
    while name := os.path.dirname(name):
        yield name


def _is_moved_aside(path: str, gone: Collection[str]) -> bool:
    """Whether a part of the path is the name that pip gives to a folder that is gone now."""
    for part in (path, *_above(path)):
        folder, name = os.path.split(part)
        if name.startswith(_ASIDE) and any(
            os.path.split(other)[0] == folder and os.path.basename(other)[1:] == name[1:] for other in gone
        ):
            return True
    return False


def _text(path: str) -> str:
    """Return a list's text; empty where there is none. Names that are not UTF-8 stay what the system calls them."""
    try:
        return os.fsdecode(Files().read_bytes(path, _MOST_BYTES))
    except OSError:
        return ""
