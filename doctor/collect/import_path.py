"""The modules of a failed import that hide others of the same name: who put their places on Python's path, and whose they are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tfgpu_doctor.host import Files
from tfgpu_doctor.model.facts.copies import Copy

_COMPILED = (".so", ".pyd")


class Culprit(msgspec.Struct, frozen=True):
    """The file of a module that the exception names, or of its traceback."""

    file: str
    named: bool


class ImportPath(msgspec.Struct, frozen=True):
    """Where the target's Python looked for modules, in its order, when the import failed."""

    search_path: tuple[str, ...] = ()
    standard: str = ""  # the folder of the standard library
    sites: tuple[str, ...] = ()
    user_site: str = ""
    here: str = ""  # the working folder, where relative entries of PYTHONPATH begin
    working_folder: str = ""  # if it is on the path

    def is_foreign(self, folder: str, files: Files) -> bool:
        """Whether a folder is neither the standard library's nor a site-packages folder of this Python, by a link neither."""
        own = {_real(files, each) for each in (self.standard, f"{self.standard}/lib-dynload", *self.sites)}
        return _real(files, folder) not in own

    def folder_of(self, file: str) -> str:
        """The folder of the search path that a file is in, the longest if there are several; empty if it is in none."""
        holding = [each for each in self.search_path if file.startswith(os.path.join(each, ""))]
        return max(holding, key=len, default="")

    def is_foreign_file(self, file: str, files: Files) -> bool:
        """The same of a file."""
        return self.is_foreign(self.folder_of(file), files)


def copies_in_trouble(
    files: Files, culprits: Any, import_path: Any, variable: str, error: str = ""
) -> list[dict[str, Any]]:
    """The modules that a failed import ended in and that hide another, as JSON has them, the likeliest culprit first.

    `culprits` and `import_path` are what the program says (`workers/run_tensorflow.py`), `variable` is PYTHONPATH, and
    `error` is the exception.
    """
    try:
        rows = msgspec.convert(culprits, list[Culprit])
        path = msgspec.convert(import_path, ImportPath)
    except msgspec.ValidationError:  # another program printed this
        return []
    if error.startswith("ModuleNotFoundError") and any(
        row.named and not path.is_foreign_file(row.file, files) for row in rows
    ):
        # An installed package lacks a part of itself: whoever asked for that part is innocent.
        rows = [row for row in rows if row.named]
    # The exception was raised in the innermost frame that is not the standard library's.
    frames = [row.file for row in rows if not row.named and path.folder_of(row.file) != path.standard]
    innermost = frames[0] if frames else ""
    found: dict[str, Copy] = {}
    for row in rows:
        copy = _copy(files, row.file, path, variable, named=row.named or row.file == innermost)
        if copy and not (copy.name in found and found[copy.name].named):
            found[copy.name] = copy
    return [msgspec.to_builtins(copy) for copy in sorted(found.values(), key=lambda copy: not copy.named)]


def _copy(files: Files, file: str, path: ImportPath, variable: str, *, named: bool) -> Copy | None:
    """The module that a file belongs to; None if it hides nothing, or is where the target's own packages are."""
    folder = path.folder_of(file)
    if not folder or not path.is_foreign(folder, files):
        return None
    name, taken = _module(files, folder, file)
    later = path.search_path[path.search_path.index(folder) + 1 :]
    same = _real(files, folder)
    place = next((each for each in later if _real(files, each) != same and _file_of(files, each, name)), "")
    if not place:
        return None
    instead = _file_of(files, place, name)
    return Copy(
        name=name,
        path=taken,
        named=named,
        owner=_owner(files, folder, taken),
        instead=instead,
        instead_owner=_owner(files, place, instead),
        **_placed_by(files, folder, path, variable),
    )


def _module(files: Files, folder: str, file: str) -> tuple[str, str]:
    """The topmost package or module with a file of its own that a file belongs to, and that file.

    A folder without __init__.py is a namespace, which packages in several places share: `google` in `google.protobuf`.
    """
    parts = os.path.relpath(file, folder).split(os.sep)
    for depth in range(1, len(parts)):
        start = os.path.join(folder, *parts[:depth], "__init__.py")
        if files.exists(start):
            return ".".join(parts[:depth]), start
    return ".".join([*parts[:-1], parts[-1].partition(".")[0]]), file


def _file_of(files: Files, folder: str, name: str) -> str:
    """The file that a name would be imported from if only this folder were searched; a namespace's folder, or nothing."""
    stem = os.path.join(folder, *name.split("."))
    above, last = os.path.split(stem)
    compiled = [each for each in files.names_if_any(above) if each.startswith(f"{last}.") and each.endswith(_COMPILED)]
    tried = (f"{stem}/__init__.py", *(f"{above}/{each}" for each in compiled), f"{stem}.py", stem)
    return next((each for each in tried if files.exists(each)), "")


def _owner(files: Files, folder: str, file: str) -> str:
    """The distribution that lists a file in its RECORD, with its version; empty if none does."""
    inside = os.path.relpath(file, folder)
    first = re.sub(r"[-_.]+", "_", inside.split(os.sep)[0].partition(".")[0]).lower()
    infos = [each for each in files.names_if_any(folder) if each.endswith(".dist-info")]
    for info in sorted(infos, key=lambda each: not each.lower().startswith(f"{first}-")):
        if f"\n{inside}," in "\n" + files.text_if_any(f"{folder}/{info}/RECORD"):
            return info.removesuffix(".dist-info").replace("-", " ", 1)
    return ""


def _placed_by(files: Files, folder: str, path: ImportPath, variable: str) -> dict[str, Any]:
    """The fields that say what put a folder on Python's path."""
    entries = variable.split(os.pathsep) if variable else []
    same = [each for each in entries if _norm(os.path.join(path.here, each)) == _norm(folder)]
    if path.working_folder and _norm(folder) == _norm(path.working_folder) and path.search_path[0] == folder:
        return {"placed_by": "working folder", "entry": folder}
    if same:
        others = tuple(each for each in entries if each not in same)
        return {"placed_by": "PYTHONPATH", "entry": same[0], "number": entries.index(same[0]) + 1, "others": others}
    if path.user_site and _norm(folder) == _norm(path.user_site):
        return {"placed_by": "user site", "entry": folder}
    file, line = next(_lines_that_name(files, folder, path), ("", 0))
    if file:
        return {"placed_by": ".pth file", "entry": folder, "file": file, "line": line}
    return {"placed_by": "start of Python", "entry": folder}


def _lines_that_name(files: Files, folder: str, path: ImportPath) -> Iterator[tuple[str, int]]:
    """Each .pth file and line that adds a folder: it is the folder's path, or code that contains it (site.addpackage)."""
    for place in dict.fromkeys((*path.sites, path.user_site, *path.search_path)):
        for name in [each for each in files.names_if_any(place) if place and each.endswith(".pth")]:
            for number, text in enumerate(files.text_if_any(f"{place}/{name}").splitlines(), 1):
                is_code = text.startswith(("import ", "import\t"))
                if (is_code and folder in text) or (not is_code and _norm(os.path.join(place, text)) == _norm(folder)):
                    yield f"{place}/{name}", number


def _norm(folder: str) -> str:
    """Return a path as Python puts it on its own path: it follows no links (site.makepath)."""
    return os.path.normpath(folder)


def _real(files: Files, folder: str) -> str:
    """Return where a folder is: by a link, the same one may be on the path twice."""
    try:
        return files.real_path(folder)
    except OSError:
        return _norm(folder)
