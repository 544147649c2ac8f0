"""The operating system: /etc/os-release, uname -a, Python's platform, `docker info`, and TensorFlow's tf_env_collect.sh."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.model.facts.machine import System

_ARCHITECTURE = r"x86_64|aarch64|arm64|ppc64le|AMD64|i686|armv7l|riscv64"
_PRETTY = re.compile(r"""\s*PRETTY_NAME=["']?([^"'\n]{1,100})["']?\s*""")
_DESCRIPTION = re.compile(r"\s*Description:\t *(\S.{0,100}?)\s*")  # lsb_release -a
_UNAME = re.compile(rf"\s*Linux \S{{1,100}} (\d\S{{1,100}}) #\d.{{0,200}}?\b({_ARCHITECTURE})\b.{{0,60}}")
_PLATFORM = re.compile(
    rf"\bLinux-(\d\S{{1,90}}?)-({_ARCHITECTURE})(?:-[\w.]{{0,20}})?"
    r"-with-(?:(?:[\w.]{1,30}-){0,3}?glibc(\d\.\d{1,2})|\S{1,60})"
)
_WINDOWS = re.compile(r"(?:\b|_)(?:os )?platform: (Windows-\S{1,60})", re.IGNORECASE)
_MAC = re.compile(r"\b(macOS-[\d.]{1,10})-(arm64|x86_64)-")
_LDD = re.compile(r"\s*ldd \(.{1,60}\) (\d\.\d{1,2})\s*")
_RUNTIMES = re.compile(r"\s*Runtimes: (\S.{0,300}?)\s*")
_DOCKER = re.compile(r"\s*(Kernel Version|Operating System|Architecture|Default Runtime): (\S.{0,100}?)\s*")
_SECTION = re.compile(r"\s*== ([a-z][a-z -]{2,40}?)\s+=+\s*")
_PYTHON = re.compile(r"\s*(?:python version: |\()(\d)(?:\.|, )(\d{1,2})(?:\.|, )(\d{1,2})\b.{0,60}", re.IGNORECASE)
_NEAR = 30  # lines of `docker info` before and after its runtimes
_MOST_LIBRARIES = 100


@dataclass
class SystemText:
    """What a text says about the system, and the lines (from 1) that say it."""

    fields: dict[str, str] = field(default_factory=dict)
    docker_runtimes: tuple[str, ...] | None = None
    python_version: str = ""
    library_files: tuple[str, ...] = ()
    sources: dict[str, int] = field(default_factory=dict)

    def learn(self, source: str, place: int, **fields: str | None) -> None:
        """Keep what is not known yet."""
        self.sources.setdefault(source, place + 1)
        for name, value in fields.items():
            if value:
                self.fields.setdefault(name, value)

    def fact(self) -> System | None:
        """The fact; None if the text says nothing about the system."""
        if not self.fields:
            return None
        known = self.fields
        release = known.get("release", "")
        return System(
            os=known.get("os", ""),
            release=release,
            architecture=known.get("architecture", ""),
            distribution=known.get("distribution", ""),
            glibc=known.get("glibc", ""),
            wsl=_wsl(release),
        )


def read_system(lines: Sequence[str]) -> SystemText:
    """Everything that a text says about the system; the first value of each kind counts."""
    found = SystemText()
    for place, line in enumerate(lines):
        if "=" in line:
            _read_settings(found, lines, place)
        if "Linux" in line or "latform" in line or "macOS-" in line:
            _read_kernel(found, line, place)
        if ": " in line or ":\t" in line:
            _read_values(found, lines, place)
        if "ldd (" in line and (libc := _LDD.fullmatch(line)):
            found.learn("ldd --version", place, glibc=libc[1])
    return found


def _read_settings(found: SystemText, lines: Sequence[str], place: int) -> None:
    line = lines[place]
    if "PRETTY_NAME=" in line and (pretty := _PRETTY.fullmatch(line)):
        found.learn("os-release", place, os="Linux", distribution=pretty[1])
    elif "== " in line and (section := _SECTION.fullmatch(line)):
        found.sources.setdefault("tf_env_collect", place + 1)
        if section[1] == "cuda libs" and not found.library_files:
            paths = (each.strip() for each in lines[place + 1 : place + 1 + _MOST_LIBRARIES])
            found.library_files = tuple(_while_paths(paths))
        elif section[1] == "python version" and not found.python_version:
            found.python_version = _python("\n".join(lines[place + 1 : place + 4]))


def _while_paths(paths: Iterator[str]) -> list[str]:
    kept = []
    for path in paths:
        if not path.startswith("/") or " " in path:
            break
        kept.append(path[:300])
    return kept


def _python(text: str) -> str:
    found = next((each for each in map(_PYTHON.fullmatch, text.split("\n")) if each), None)
    return ".".join(found.groups()) if found else ""


def _read_kernel(found: SystemText, line: str, place: int) -> None:
    if uname := _UNAME.fullmatch(line):
        found.learn("uname -a", place, os="Linux", release=uname[1], architecture=uname[2])
    elif platform := _PLATFORM.search(line):
        release, architecture, glibc = platform.groups()
        found.learn("platform", place, os="Linux", release=release, architecture=architecture, glibc=glibc)
    elif windows := _WINDOWS.search(line):
        found.learn("platform", place, os="Windows", distribution=windows[1])
    elif mac := _MAC.search(line):
        found.learn("platform", place, os="Darwin", distribution=mac[1].replace("-", " "), architecture=mac[2])


def _read_values(found: SystemText, lines: Sequence[str], place: int) -> None:
    line = lines[place]
    if "Runtimes:" in line and found.docker_runtimes is None and (runtimes := _RUNTIMES.fullmatch(line)):
        if "runc" in runtimes[1] or "crun" in runtimes[1]:
            _read_docker(found, lines, place, runtimes[1])
    elif "Description:\t" in line and (description := _DESCRIPTION.fullmatch(line)):
        if any("Release:\t" in each for each in lines[place + 1 : place + 2]):
            found.learn("lsb_release", place, os="Linux", distribution=description[1])
    elif "ython version: " in line and not found.python_version and (version := _python(line)):
        found.python_version = version


def _read_docker(found: SystemText, lines: Sequence[str], place: int, runtimes: str) -> None:
    """`docker info`, around its list of runtimes. Docker Desktop describes its own virtual machine, not this one."""
    found.docker_runtimes = tuple(runtimes.split())
    found.sources["docker info"] = place + 1
    near = (_DOCKER.fullmatch(each) for each in lines[max(0, place - _NEAR) : place + _NEAR])
    values = {each[1]: each[2] for each in near if each}
    if values.get("Operating System") not in (None, "Docker Desktop"):
        found.learn(
            "docker info",
            place,
            os="Linux" if "Kernel Version" in values else None,
            distribution=values["Operating System"],
            release=values.get("Kernel Version"),
            architecture=values.get("Architecture"),
        )


def _wsl(release: str) -> int:
    """WSL 2's kernel is named microsoft-standard-WSL2, WSL 1's only Microsoft."""
    lowered = release.lower()
    if "microsoft" not in lowered:
        return 0
    return 2 if "wsl2" in lowered or "microsoft-standard" in lowered else 1
