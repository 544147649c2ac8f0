"""Installed packages: `pip list`, `pip freeze`, `pip show`, `conda list`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name

from tfgpu_doctor.model.facts.python import Distribution

_COMMAND = re.compile(r"(?:^|[$#%>!&;)]|\s)(pip[\d.]*|conda|mamba|micromamba) (list|freeze|show)\b(.{0,200})")
_SECTION = re.compile(r"== check pips =+")
_HEADER = re.compile(r"\s*Package\s+Version(?:\s+(?:Editable project location|Location|Installer|Build|Source))*\s*")
_RULE = re.compile(r"\s*-{3,} -{3,}[ -]*")
_ROW = re.compile(
    r"\s*([A-Za-z0-9][\w.-]{0,80}) +(\d[\w.!+-]{0,60})(?:\s+(?:pip|uv|conda|poetry|.{0,200}[/\\].{0,200}))?\s*"
)
_TWO_WORDS = re.compile(r"\s*[\w.-]{1,80} +[\w.!+-]{1,60}\s*")
_OLD_ROW = re.compile(r"\s*([A-Za-z0-9][\w.-]{0,80}) \((\d[\w.!+-]{0,60})(?:, .{1,200})?\)\s*")
_PIN = re.compile(r"\s*([A-Za-z0-9][\w.-]{0,80})==(\d[\w.!+-]{0,60})\s*")
_PIN_TO_FILE = re.compile(r"\s*([A-Za-z0-9][\w.-]{0,80}) @ \S{1,500}\s*|\s*-e \S{1,500}\s*|\s*# Editable .*")
_CONDA_HEADER = re.compile(r"\s*# packages in environment at .{1,300}:\s*")
_CONDA_ROW = re.compile(r"\s*([a-z0-9_][\w.-]{0,80})\s+([\w.!+-]{1,60})\s+([\w.+-]{1,100})(?:\s+(\S{1,200}))?\s*")
_SHOWN = re.compile(r"\s*Name: ([A-Za-z0-9][\w.-]{0,80})\s*")
_SHOWN_VERSION = re.compile(r"\s*Version: (\d[\w.!+-]{0,60})\s*")
_SHOWN_FOLDER = re.compile(r"\s*Location: (\S.{0,300})")
_FEWEST_PINS = 5  # in a row that are no excerpt of a list of requirements
_FEWEST_OLD_ROWS = 3
_MOST_COMMENTS = 4  # between the title and the first package
# What the doctor reads of conda-meta (workers/describe_target.py).
_CONDA_RECORDS = ("tensorflow", "_tflow_select", "cudatoolkit", "cudnn", "cuda-", "libcudnn")
# Builds that contain Python modules; and packages of conda whose distribution has another name, or that have none.
_OF_PYTHON = re.compile(r"(?:^|_)py(?:\d|h|_)|py[23]\d")
_OTHER_NAMES = {
    "pytorch": "torch",
    "tensorflow-base": "",
    "tensorflow-gpu": "",
    "tensorflow-mkl": "",
    "tensorflow-eigen": "",
}


@dataclass
class Listing:
    """One list of packages: where it begins (the line, from 1), and whether it names every package."""

    name: str
    line: int
    complete: bool = False
    distributions: dict[str, Distribution] = field(default_factory=dict)
    conda: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, version: str, installer: str = "", folder: str = "") -> None:
        """Add a distribution by its canonical name."""
        canonical = canonicalize_name(name)
        self.distributions.setdefault(
            canonical, Distribution(name=canonical, version=version, installer=installer, folder=folder)
        )


_NOTHING = Listing("", 0)


def read_packages(lines: Sequence[str]) -> list[Listing]:
    """Every list of packages in a text."""
    found: list[Listing] = []
    place = 0
    while place < len(lines):
        read = _listing_at(lines, place)
        if read and read[0].distributions | read[0].conda:
            found.append(read[0])
        place = max(place + 1, read[1] if read else 0)
    return found


def together(listings: Sequence[Listing]) -> tuple[tuple[Distribution, ...], dict[str, str], bool]:
    """The distributions and conda's packages of one environment, and whether they are all: texts may list several.

    The one counts that lists TensorFlow, then the longest; others only add what `pip show` or conda says.
    """
    if not listings:
        return (), {}, False
    of_pip = [each for each in listings if each.name != "conda list"]
    of_conda = [each for each in listings if each.name == "conda list"]
    chosen = [max(each, key=_weight) for each in (of_pip, of_conda) if each]
    singles = [each for each in of_pip if each.name == "pip show"]
    distributions: dict[str, Distribution] = {}
    for listing in (*chosen, *singles):
        for name, distribution in listing.distributions.items():
            distributions.setdefault(name, distribution)
    conda = chosen[-1].conda if of_conda else {}
    return tuple(distributions.values()), conda, any(each.complete for each in chosen)


def _weight(listing: Listing) -> tuple[bool, bool, int]:
    has_tensorflow = any(
        name in ("tensorflow", "tf-nightly") or name.startswith("tensorflow-") for name in listing.distributions
    )
    return has_tensorflow, listing.complete, len(listing.distributions)


def _listing_at(lines: Sequence[str], place: int) -> tuple[Listing, int] | None:
    """The list that begins in that line, and the place of the line after it."""
    line = lines[place]
    if _HEADER.fullmatch(line):
        rule = place + 1 < len(lines) and _RULE.fullmatch(lines[place + 1])
        return _rows(lines, place + (2 if rule else 1), Listing("pip list", place + 1, complete=bool(rule)))
    if line.lstrip().startswith("# packages in environment") and _CONDA_HEADER.fullmatch(line):
        return _conda(lines, place + 1, Listing("conda list", place + 1, complete=True))
    if "==" in line and _SECTION.search(line):
        return _rows(lines, place + 1, Listing("tf_env_collect", place + 1))
    if "Name: " in line and _SHOWN.fullmatch(line):
        return _shown(lines, place)
    if "==" in line and _PIN.fullmatch(line):
        return _pins(lines, place, Listing("pip freeze", place + 1), _FEWEST_PINS)
    if "(" in line and _OLD_ROW.fullmatch(line):
        return _old_rows(lines, place)
    command = _COMMAND.search(line) if "list" in line or "freeze" in line else None
    return _after_command(lines, place + 1, command) if command else None


def _after_command(lines: Sequence[str], place: int, command: re.Match[str]) -> tuple[Listing, int] | None:
    """The rows below a command that was typed; filtered by grep, they have no header."""
    if place >= len(lines) or _HEADER.fullmatch(lines[place]) or _CONDA_HEADER.fullmatch(lines[place]):
        return None  # it is read from there on
    partial = "|" in command[3] or "grep" in command[3]
    if command[1].startswith("pip"):
        if _PIN.fullmatch(lines[place]):
            complete = command[2] == "freeze" and not partial
            return _pins(lines, place, Listing("pip freeze", place + 1, complete=complete), 1)
        return _rows(lines, place, Listing("pip list", place + 1))
    return _conda(lines, place, Listing("conda list", place + 1))


def _rows(lines: Sequence[str], place: int, listing: Listing) -> tuple[Listing, int] | None:
    while place < len(lines):
        row = _ROW.fullmatch(lines[place])
        if row:
            listing.add(row[1], row[2])
        elif not _TWO_WORDS.fullmatch(lines[place]) or not _ROW.fullmatch("".join(lines[place + 1 : place + 2])):
            break  # a version may begin with a letter, but so does the text below the list
        place += 1
    return (listing, place) if listing.distributions else None


def _old_rows(lines: Sequence[str], place: int) -> tuple[Listing, int] | None:
    listing = Listing("pip list", place + 1)
    while place < len(lines) and (row := _OLD_ROW.fullmatch(lines[place])):
        listing.add(row[1], row[2])
        place += 1
    listing.complete = len(listing.distributions) > _FEWEST_OLD_ROWS
    return (listing if len(listing.distributions) >= _FEWEST_OLD_ROWS else _NOTHING, place)


def _pins(lines: Sequence[str], place: int, listing: Listing, fewest: int) -> tuple[Listing, int] | None:
    before = " ".join(lines[max(0, place - 2) : place]).lower()
    while place < len(lines):
        if row := _PIN.fullmatch(lines[place]):
            listing.add(row[1], row[2])
        elif not _PIN_TO_FILE.fullmatch(lines[place]):
            break
        place += 1
    if len(listing.distributions) < fewest or "requirements" in before:
        listing = _NOTHING
    return listing, place


def _shown(lines: Sequence[str], place: int) -> tuple[Listing, int] | None:
    name, version = (
        _SHOWN.fullmatch(lines[place]),
        _SHOWN_VERSION.fullmatch(lines[place + 1] if place + 1 < len(lines) else ""),
    )
    if not name or not version or not any("Summary:" in line for line in lines[place + 2 : place + 4]):
        return None
    folders = (_SHOWN_FOLDER.fullmatch(line.rstrip()) for line in lines[place + 2 : place + 30])
    folder = next((each[1] for each in folders if each), "")
    listing = Listing("pip show", place + 1)
    listing.add(name[1], version[1], folder=folder)
    return listing, place + 2


def _conda(lines: Sequence[str], place: int, listing: Listing) -> tuple[Listing, int] | None:
    start = place
    while place < min(len(lines), start + _MOST_COMMENTS) and lines[place].lstrip().startswith("#"):
        place += 1
    start = place
    while place < len(lines) and (row := _CONDA_ROW.fullmatch(lines[place])):
        _add_conda(listing, *row.groups())
        place += 1
    return (listing, place) if place > start else None


def _add_conda(listing: Listing, name: str, version: str, build: str, channel: str | None) -> None:
    if channel == "pypi" or build.startswith("pypi_"):
        listing.add(name, version, "pip")
        return
    if name.startswith(_CONDA_RECORDS):
        listing.conda[name] = f"{version} {build}"
    known_as = _OTHER_NAMES.get(name, name)
    if known_as and _OF_PYTHON.search(build):
        listing.add(known_as, version, "conda")
