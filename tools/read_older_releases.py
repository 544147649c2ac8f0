"""Write checks/data/tensorflow_older_releases.json from the wheels of TensorFlow 1.4 to 2.3.

    python tools/read_older_releases.py                          read the first and the last release of every minor version
    python tools/read_older_releases.py --only 1.12.0 1.12.3     read these releases, and keep the other rows

Each wheel is downloaded with `pip download`, so pip's own configuration applies, and is deleted after it was read: about
20 GB in total. These releases will not change, so the script needs to run again only if the table gets another field.
"""

from __future__ import annotations

import argparse
import ast
import collections
import datetime as dt
import functools
import json
import mmap
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version
from releases.package_index import IndexedWheel, Platform, platform_of
from releases.table import Row, read_table

ABOUT = (
    "TensorFlow 1.4 to 2.3, as found in the wheels of tensorflow-gpu (macOS: of tensorflow): the first and the last release "
    "of each minor version, oldest first; tools/read_older_releases.py writes this table. `packages`: those whose wheels of "
    "this release are built with CUDA. `cuda`: from the version of its PTX; `cudnn`: from the names of the libraries that it "
    "loads, or from build_info.py. `compute_capabilities`: sm_XY is machine code only, compute_XY is machine code and PTX; "
    '`capabilities_from`: "wheel" if they were read from the fat binaries of the build. `minimum_capability`: TensorFlow '
    "ignores a GPU below the lowest that it was built for. `tags`: of the wheels' names; `glibc`: the newest version that "
    "the build's own libraries require, which may be newer than a tag promises."
)
TABLE = pathlib.Path(__file__).resolve().parent.parent / "checks/data/tensorflow_older_releases.json"
FIRST, END = Version("1.4"), Version("2.4")
PROJECTS = ("tensorflow-gpu", "tensorflow")
SYSTEMS = (("linux", "x86_64"), ("windows", "x86_64"), ("macos", "x86_64"))
WHEELS_AT_ONCE = 2
_LIBRARY = re.compile(r".*/(?:_pywrap_tensorflow_internal\.(?:so|pyd)|libtensorflow_framework\.so[.\d]*)")
_CHUNK_BYTES = 16 << 20
_FAT_BINARY = struct.Struct("<IHHQ")  # magic, version, size of this header, size of what follows
_FAT_MAGIC, _FAT_VERSION = 0xBA55ED50, 1
_FAT_ENTRY = struct.Struct("<HHIQIIHHI")  # kind, -, header's size, size, -, -, PTX's minor and major, target
_PTX, _MACHINE_CODE = 1, 2
_MOST = 0.9
_CUDA_OF_PTX = {"5.0": "8.0", "6.0": "9.0", "6.1": "9.1", "6.2": "9.2", "6.3": "10.0", "6.4": "10.1", "6.5": "10.2"}

Wheels = dict[Version, dict[Platform, list[IndexedWheel]]]


class Unreadable(Exception):
    """A wheel that does not contain what this script expects."""


@dataclass(frozen=True)
class Build:
    """What one CUDA build was made for."""

    cuda: str
    cudnn: str
    targets: tuple[str, ...]
    minimum: str
    glibc: str


@dataclass(frozen=True)
class Entry:
    """Code for one target in a fat binary; `language` is the version of PTX, empty for machine code."""

    kind: int
    target: int
    language: str


Code = collections.Counter[frozenset[Entry]]


class Library:
    """A shared library in memory, searched in pieces: the `find` of mmap is slow."""

    def __init__(self, path: pathlib.Path) -> None:
        with path.open("rb") as file:
            self.content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def find(self, needle: bytes) -> Iterator[int]:
        """Yield every offset of a text."""
        for start in range(0, len(self.content), _CHUNK_BYTES):
            piece = self.content[start : start + _CHUNK_BYTES + len(needle) - 1]
            place = piece.find(needle)
            while place >= 0:
                yield start + place
                place = piece.find(needle, place + 1)

    def numbers_after(self, prefix: str) -> set[str]:
        """Return the version numbers that follow a text."""
        pieces = (self.content[place + len(prefix) : place + len(prefix) + 12] for place in self.find(prefix.encode()))
        return {match.group().decode() for piece in pieces if (match := re.match(rb"\d+(?:\.\d+)*", piece))}

    def has_literal(self, text: str) -> bool:
        """Whether the text is a string of the program."""
        return any(True for _ in self.find(f"\0{text}\0".encode()))

    @functools.cached_property
    def fat_binaries(self) -> Code:
        """Count nvcc's fat binaries by their entries."""
        return collections.Counter(entries for entries in self._fat_binaries() if entries)

    def _fat_binaries(self) -> Iterator[frozenset[Entry]]:
        for place in self.find(_FAT_MAGIC.to_bytes(4, "little")):
            _, version, header, size = _FAT_BINARY.unpack_from(self.content, place)
            start = place + header
            if (version, header) == (_FAT_VERSION, _FAT_BINARY.size) and start + size <= len(self.content):
                yield frozenset(self._entries(start, start + size))

    def _entries(self, place: int, end: int) -> Iterator[Entry]:
        while place + _FAT_ENTRY.size <= end:
            kind, _, header, size, _, _, minor, major, target = _FAT_ENTRY.unpack_from(self.content, place)
            if kind not in (_PTX, _MACHINE_CODE) or header < _FAT_ENTRY.size:
                return
            yield Entry(kind, target, f"{major}.{minor}" if kind == _PTX else "")
            place += header + size


def list_wheels(project: str) -> list[IndexedWheel]:
    """Return the project's wheels, from the links that pip reports when it finds no release that is wanted."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*_pip_download(folder), "-vvv", f"{project}==0.0.0.dev0"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    prefix = project.replace("-", "_")
    names = sorted(set(re.findall(rf"/({prefix}-[^/\s#]+\.whl)", answer.stdout + answer.stderr)))
    if not names:
        raise Unreadable(f"pip finds no wheel of {project}: {answer.stderr[-500:]}")
    return [wheel for name in names if (wheel := _wheel(name))]


def _pip_download(folder: str) -> list[str]:
    return [sys.executable, "-m", "pip", "download", "--no-cache-dir", "--no-deps", "--only-binary=:all:", "-d", folder]


def _wheel(name: str) -> IndexedWheel | None:
    try:
        _, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    return IndexedWheel(name, "", version, tags)


def group_wheels(wheels: Iterable[IndexedWheel]) -> Wheels:
    """Return the wheels of the final releases in this table's range, by release and system."""
    found: Wheels = {}
    for wheel in wheels:
        if FIRST <= wheel.version < END and not wheel.version.is_prerelease:
            found.setdefault(wheel.version, {}).setdefault(_system(wheel), []).append(wheel)
    return found


def _system(wheel: IndexedWheel) -> Platform:
    os, architecture = platform_of(wheel)
    return os, architecture.replace("intel", "x86_64")  # macosx_10_6_intel: of the Python that built the wheel


def choose(versions: Iterable[Version]) -> list[Version]:
    """Return the first and the last release of each minor version, oldest first."""
    minors: dict[tuple[int, int], list[Version]] = {}
    for version in sorted(versions):
        minors.setdefault((version.major, version.minor), []).append(version)
    return sorted({each for of_minor in minors.values() for each in (of_minor[0], of_minor[-1])})


def read_row(version: Version, wheels: dict[str, Wheels], day: str) -> Row:
    """Return a release's row. Raises Unreadable."""
    platforms = [
        _platform(system, {project: wheels[project].get(version, {}).get(system, []) for project in PROJECTS})
        for system in SYSTEMS
        if any(system in wheels[project].get(version, {}) for project in PROJECTS)
    ]
    project = PROJECTS[0] if version in wheels[PROJECTS[0]] else PROJECTS[1]
    print(f"read {version}: {', '.join(each['os'] for each in platforms)}", file=sys.stderr, flush=True)
    return {
        "version": str(version),
        "minor": f"{version.major}.{version.minor}",
        "platforms": platforms,
        "source": f"https://pypi.org/project/{project}/{version}/#files",
        "checked": day,
    }


def _platform(system: Platform, wheels: dict[str, list[IndexedWheel]]) -> Row:
    builds = {project: read_build(project, of_project[-1]) for project, of_project in wheels.items() if of_project}
    packages = [project for project, build in builds.items() if build]
    build = builds[packages[0]] if packages else None
    if len({each for each in builds.values() if each}) > 1:
        raise Unreadable(f"the packages disagree: {builds}")
    tags = {tag for each in wheels[packages[0] if packages else PROJECTS[1]] for tag in each.tags}
    return {
        "os": system[0],
        "architecture": system[1],
        "pythons": sorted({_python(tag.interpreter) for tag in tags}, key=Version),
        "tags": sorted({tag.platform for tag in tags}),
        "glibc": build.glibc if build else "",
        "packages": packages,
        "cuda": build.cuda if build else "",
        "cudnn": build.cudnn if build else "",
        "compute_capabilities": list(build.targets) if build else [],
        "capabilities_from": "wheel" if build else "",
        "minimum_capability": build.minimum if build else "",
    }


def _python(interpreter: str) -> str:
    """Return the version of Python: 3.6 for "cp36"."""
    return f"{interpreter[2]}.{interpreter[3:]}"


def read_build(project: str, wheel: IndexedWheel) -> Build | None:
    """Download a wheel and read it; None if it is built without CUDA. Raises Unreadable."""
    if _system(wheel)[0] == "macos":
        return None  # TensorFlow 1.1 was the last with CUDA for macOS
    with tempfile.TemporaryDirectory() as folder:
        path = _download(project, wheel, folder)
        with zipfile.ZipFile(path) as archive:
            settings = _settings(archive)
            if not settings.get("is_cuda_build"):
                return None
            libraries = [_extract(archive, name, folder) for name in archive.namelist() if _LIBRARY.fullmatch(name)]
        return _build(wheel.name, settings, libraries)


def _download(project: str, wheel: IndexedWheel, folder: str) -> pathlib.Path:
    tags = sorted(wheel.tags, key=str)
    options = ["--quiet", "--implementation", "cp", "--python-version", _python(tags[0].interpreter)]
    options += [part for tag in tags for part in ("--platform", tag.platform)]
    options += [part for abi in sorted({tag.abi for tag in tags}) for part in ("--abi", abi)]
    command = [*_pip_download(folder), *options, f"{project}=={wheel.version}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    path = pathlib.Path(folder, wheel.name)
    if not path.exists():
        raise Unreadable(f"pip did not download {wheel.name}: {answer.stderr[-500:]}")
    return path


def _settings(archive: zipfile.ZipFile) -> dict[str, object]:
    """Return what build_info.py assigns: single names before TensorFlow 2.3, one dictionary from then on."""
    member = next((each for each in archive.namelist() if each.endswith("/python/platform/build_info.py")), None)
    if member is None:
        raise Unreadable(f"{archive.filename} has no build_info.py")
    found: dict[str, object] = {}
    for node in ast.parse(archive.read(member)).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = ast.literal_eval(node.value)
    whole = found.get("build_info")
    return dict(whole) if isinstance(whole, dict) else found


def _extract(archive: zipfile.ZipFile, member: str, folder: str) -> Library:
    path = pathlib.Path(folder, pathlib.PurePosixPath(member).name)
    with archive.open(member) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, _CHUNK_BYTES)
    return Library(path)


def _build(name: str, settings: dict[str, object], libraries: list[Library]) -> Build:
    code = sum((library.fat_binaries for library in libraries), Code())
    targets = _targets(name, code)
    lowest = int(targets[0].partition("_")[2])
    minimum = f"{lowest // 10}.{lowest % 10}"
    if not any(library.has_literal(minimum) for library in libraries):
        raise Unreadable(f"{name} has code for {minimum}, but does not name it")
    declared = settings.get("cuda_compute_capabilities")
    if declared and _lowest(declared) != lowest:
        raise Unreadable(f"{name} declares {declared}, but contains {targets}")
    glibc = {each for library in libraries for each in library.numbers_after("GLIBC_")}
    return Build(
        cuda=_cuda(name, settings, libraries, {entry.language for entries in code for entry in entries} - {""}),
        cudnn=_cudnn(name, settings, libraries),
        targets=targets,
        minimum=minimum,
        glibc=max(glibc, key=Version, default="") if "linux" in name else "",
    )


def _lowest(declared: object) -> int:
    return min(int(number) for number in re.findall(r"_(\d+)", str(declared)))


def _cuda(name: str, settings: dict[str, object], libraries: list[Library], ptx: set[str]) -> str:
    """Return CUDA's version: that of the compiler, which must be that of the libraries and of build_info.py."""
    compiled = {_CUDA_OF_PTX.get(each, f"of PTX {each}") for each in ptx}  # PTX ISA, release notes
    loaded = {each for library in libraries for each in library.numbers_after("libcudart.so.")}
    loaded |= {f"{each[:-1]}.{each[-1]}" for library in libraries for each in library.numbers_after("cudart64_")}
    declared = _plain(str(settings.get("cuda_version") or settings.get("cuda_version_number") or ""))
    if len(compiled) != 1 or loaded - compiled or not next(iter(compiled)).startswith(declared):
        raise Unreadable(
            f"{name}: CUDA is {compiled} by its PTX, {loaded} by its libraries, {declared!r} by build_info.py"
        )
    return compiled.pop()


def _cudnn(name: str, settings: dict[str, object], libraries: list[Library]) -> str:
    found = {each for library in libraries for each in library.numbers_after("libcudnn.so.")}
    found |= {each for library in libraries for each in library.numbers_after("cudnn64_")}
    declared = _plain(str(settings.get("cudnn_version") or settings.get("cudnn_version_number") or ""))
    found |= {declared.partition(".")[0]} - {""}
    if len(found) != 1:
        raise Unreadable(f"{name}: cuDNN is {sorted(found)}")
    return found.pop()


def _plain(declared: str) -> str:
    """Return a version in the form used on Linux: 10.1 for "64_101", 7 for "64_7"."""
    number = declared.removeprefix("64_")
    return f"{number[:-1]}.{number[-1]}" if number != declared and len(number) > 1 else number


def _targets(name: str, code: Code) -> tuple[str, ...]:
    """Return the targets of most fat binaries; a few, like NCCL's, may have others."""
    if not code:
        raise Unreadable(f"{name} contains no code for GPUs")
    entries, most = code.most_common(1)[0]
    if most < code.total() * _MOST:
        raise Unreadable(f"{name}: the fat binaries disagree: {code}")
    machine_code, ptx = ({each.target for each in entries if each.kind == kind} for kind in (_MACHINE_CODE, _PTX))
    if not ptx <= machine_code:
        raise Unreadable(f"{name} has PTX without machine code: {sorted(ptx - machine_code)}")
    return tuple(f"{'compute' if target in ptx else 'sm'}_{target}" for target in sorted(machine_code))


def write_table(rows: Iterable[Row]) -> None:
    """Sort the rows and write them."""
    ordered = sorted(rows, key=lambda row: Version(row["version"]))
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in ordered)
    TABLE.write_text(f'{{\n "about": {json.dumps(ABOUT)},\n "rows": [\n{lines}\n ]\n}}\n', "utf-8")


def main() -> int:
    """Read the releases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", type=Version, default=[], metavar="VERSION")
    options = parser.parse_args()
    day = dt.datetime.now(dt.timezone.utc).date().isoformat()
    try:
        wheels = {project: group_wheels(list_wheels(project)) for project in PROJECTS}
        wanted = options.only or choose({version for of_project in wheels.values() for version in of_project})
        with ThreadPoolExecutor(WHEELS_AT_ONCE) as pool:
            rows = list(pool.map(lambda version: read_row(version, wheels, day), wanted))
    except Unreadable as error:
        print(f"{error}\nThe table is unchanged.", file=sys.stderr)
        return 1
    fresh = {row["version"] for row in rows}
    kept = [row for row in read_table(TABLE) if row["version"] not in fresh] if options.only else []
    write_table([*kept, *rows])
    print(f"{len(rows)} releases read")
    return 0


if __name__ == "__main__":
    sys.exit(main())
