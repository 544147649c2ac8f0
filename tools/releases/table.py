"""The rows of checks/data/tensorflow_releases.json: derived from wheels, and written completely or not at all."""

from __future__ import annotations

import json
import os
import pathlib
import re
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

from packaging.tags import Tag
from packaging.version import Version

from releases.fetching import Unreachable
from releases.package_index import IndexedWheel, Platform, platform_of
from releases.wheel_contents import Contents

ABOUT = (
    "TensorFlow's final releases from 2.4 on, as declared by their wheels; tools/read_releases.py writes this table. "
    "`compute_capabilities` come from build_info.py, from 2.22 on from the kernels: sm_XY is machine code only, compute_XY is "
    "machine code and PTX. "
    "`cuda_extra` lists the requirements of [and-cuda]; `runpath` lists the folders under nvidia/ that "
    "libtensorflow_framework.so.2 searches; `stands_for` is the package that contains the code of a wheel without code."
)
_LINUX_GPU = ("linux", "x86_64")
_ORDER = ("linux", "windows", "macos")
_GLIBC_OF_NAME = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}  # PEPs 513, 571, 599
Row = dict[str, Any]


def make_row(version: Version, read: Sequence[tuple[IndexedWheel, Contents]], runpath: Sequence[str], day: str) -> Row:
    """Make the row of a release from all its wheels. Raises Unreachable if wheels of one platform differ, or none is Linux's."""
    platforms: dict[Platform, list[tuple[IndexedWheel, Contents]]] = {}
    for wheel, contents in read:
        platforms.setdefault(platform_of(wheel), []).append((wheel, contents))
    if _LINUX_GPU not in platforms:
        raise Unreachable(f"TensorFlow {version} has no wheel for Linux on x86_64")
    ours = platforms[_LINUX_GPU][0][1]
    return {
        "version": str(version),
        "wheels": [_wheels(each, platforms[each]) for each in sorted(platforms, key=_place)],
        "requires_python": ours.requires_python,
        "requires": list(ours.requires),
        "cuda_extra": list(ours.cuda_extra),
        "runpath": list(runpath),
        "source": f"https://pypi.org/project/tensorflow/{version}/#files",
        "checked": day,
    }


def _place(platform: Platform) -> tuple[int, bool, str]:
    return _ORDER.index(platform[0]), platform != _LINUX_GPU, platform[1]


def _wheels(platform: Platform, read: Sequence[tuple[IndexedWheel, Contents]]) -> Row:
    contents = {each for _, each in read}
    if len(contents) != 1:
        raise Unreachable(f"the wheels disagree: {', '.join(sorted(wheel.name for wheel, _ in read))}")
    one = contents.pop()
    tags = {tag for wheel, _ in read for tag in wheel.tags}
    return {
        "os": platform[0],
        "architecture": platform[1],
        "pythons": sorted({_python(tag) for tag in tags}, key=Version),
        "tags": sorted({tag.platform for tag in tags}),
        "glibc": max((_glibc(wheel) for wheel, _ in read), key=Version) if platform[0] == "linux" else "",
        "cuda": one.cuda,
        "cudnn": one.cudnn,
        "compute_capabilities": list(one.compute_capabilities),
        "stands_for": one.stands_for,
    }


def _python(tag: Tag) -> str:
    """Return the version of Python: 3.10 for "cp310"."""
    return f"3.{tag.interpreter.removeprefix('cp3')}"


def _glibc(wheel: IndexedWheel) -> str:
    """Return the oldest glibc that a wheel runs on; each of its tags names one."""
    return min((_glibc_of(tag.platform) for tag in wheel.tags), key=Version)


def _glibc_of(platform: str) -> str:
    if found := re.match(r"manylinux_(\d+)_(\d+)_", platform):
        return f"{found.group(1)}.{found.group(2)}"
    return _GLIBC_OF_NAME.get(platform.partition("_")[0], "0")


def read_table(path: pathlib.Path) -> list[Row]:
    """Return the existing rows; no rows if the file does not exist."""
    rows: list[Row] = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    return rows


def write_table(path: pathlib.Path, rows: Iterable[Row]) -> None:
    """Sort the rows, and replace the old file atomically."""
    ordered = sorted(rows, key=lambda row: Version(row["version"]))
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in ordered)
    content = f'{{\n "about": {json.dumps(ABOUT)},\n "rows": [\n{lines}\n ]\n}}\n'
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".new", encoding="utf-8", delete=False) as new:
        new.write(content)
    os.chmod(new.name, 0o644)
    os.replace(new.name, path)
