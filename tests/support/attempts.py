"""What every command promises whatever it is given, looked at from outside: a hostile attempt and what it broke."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from doctor_command import clean_environment

_LONGEST_S = 90.0
_MOST_BYTES = 700 << 20  # of the doctor or of one of its children
_CODES = (0, 1, 2, 3)
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
_COMMAND = re.compile(rb"^\s*(?:::[a-z-]+|##\[|##vso\[|##teamcity\[)", re.MULTILINE)
_OWN_WORDS = (b"Traceback (most recent call last)", b"the doctor itself failed")  # a target's may stand in the report


@dataclass(frozen=True)
class Surroundings:
    """What a process is started with; `without`: variables that are not set."""

    variables: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    closed: tuple[int, ...] = ()  # of its standard descriptors
    limits: Mapping[str, int] = field(default_factory=dict)  # by the names of the module resource


@dataclass(frozen=True)
class Attempt:
    """Something hostile that is put into a folder, and the command that meets it there.

    `command`: without the program's name; its working folder is the attempt's, its temporary folder and HOME are its own.
    """

    name: str
    make: Callable[[pathlib.Path], object]
    command: tuple[str, ...]
    around: Surroundings = Surroundings()
    most_bytes: int = _MOST_BYTES


class Runner:
    """Runs attempts, each in a process of its own that is forked from one which has the doctor imported.

    It has to be ended. A process that the tests' own process started would count that one's memory as its own.
    """

    def __init__(self) -> None:
        program = pathlib.Path(__file__).with_name("forked_doctor.py")
        self._server = subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
            env=clean_environment(),
        )  # fmt: skip

    def end(self) -> None:
        self._server.communicate(timeout=_LONGEST_S)

    def broken_promises(self, attempt: Attempt) -> list[str]:
        """What does not hold; empty if all does. The attempt is made in a new folder."""
        with tempfile.TemporaryDirectory(prefix="hostile-") as place:
            folder, temporary, home = (pathlib.Path(place) / name for name in ("here", "tmp", "home"))
            for each in (folder, temporary, home):
                each.mkdir()
            attempt.make(folder)
            return self._looked_at(attempt, folder, temporary, home)

    def _looked_at(
        self, attempt: Attempt, folder: pathlib.Path, temporary: pathlib.Path, home: pathlib.Path
    ) -> list[str]:
        own = {"HOME": str(home), "TMPDIR": str(temporary), "XDG_CACHE_HOME": str(home / "cache")}
        out, said = home.parent / "out", home.parent / "said"
        pid, code, most_bytes = self._run(attempt, folder, out, said, own)
        broken = []
        if code is None:
            broken.append(f"it does not end within {_LONGEST_S:g} s")
        elif code not in _CODES:
            broken.append(f"exit code {code}")
        if most_bytes > attempt.most_bytes:
            broken.append(f"{most_bytes >> 20} MiB of memory")
        broken += _of_text("standard output", out.read_bytes(), attempt.command)
        broken += _of_text("standard error", said.read_bytes(), ())
        if left := sorted(path.name for path in temporary.iterdir()):
            broken.append(f"left in the temporary folder: {', '.join(left[:3])}")
        if alive := _session(pid):
            broken.append(f"processes left: {alive}")
        return broken

    def _run(
        self, attempt: Attempt, folder: pathlib.Path, out: pathlib.Path, said: pathlib.Path, variables: dict[str, str]
    ) -> tuple[int, int | None, int]:
        assert self._server.stdin
        assert self._server.stdout
        around = attempt.around
        everything = {**clean_environment(**variables), **around.variables}
        given = {name: value for name, value in everything.items() if name not in around.without}
        order = {
            "command": attempt.command, "folder": str(folder), "out": str(out), "said": str(said), "variables": given,
            "closed": around.closed, "limits": around.limits, "longest_s": _LONGEST_S,
        }  # fmt: skip
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        return answer["pid"], answer["code"], answer["bytes"]


def _of_text(name: str, text: bytes, command: tuple[str, ...]) -> list[str]:
    words = _OWN_WORDS if name == "standard error" else ()
    found = [f"{name}: {word.decode()}: {text[-300:]!r}" for word in words if word in text]
    if control := _CONTROL.search(text):
        found.append(f"{name}: {control[0]!r} in {text[max(0, control.start() - 60) : control.end() + 20]!r}")
    if forged := _COMMAND.search(text):
        found.append(f"{name}: {text[forged.start() : forged.end() + 40]!r}")
    if "json" in command and "--format" in command and text:
        try:
            json.loads(text)
        except ValueError as error:
            found.append(f"{name}: no JSON: {error}")
    return found


def _session(leader: int) -> list[int]:
    """The processes that were started with that one and still run (Linux)."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat") if sys.platform == "linux" else ():
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[3]) == leader and words[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found
