"""What a part works with: its folder, its time, commands that are kept, tables and findings."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpu_run import children
from gpu_run.children import Done
from gpu_run.results import Command, Finding, Table

TOOLS = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = TOOLS / "gpu_run/programs"
TRAININGS = TOOLS.parent / "tests/tracing/programs.py"
SMALL = "RECORD_GPU_SMALL"  # set: the programs take sizes that a processor computes in seconds
_LEAST_S = 3.0  # no command is begun for less
_CPUS_EACH, _MOST_BESIDE = 3, 8  # of what runs side by side: a start of TensorFlow keeps about two busy

T = TypeVar("T")


class NotRun(Exception):
    """The part cannot run here; the message says why."""


@dataclass(frozen=True)
class Setting:
    """What holds for all parts of a run."""

    folder: pathlib.Path
    doctor: tuple[str, ...]  # the command
    variables: Mapping[str, str | None]
    stand_in: bool = False
    even_if_busy: bool = False
    may_change_gpu: bool = False

    @property
    def record(self) -> pathlib.Path:
        """The machine, as the doctor recorded it before the first part."""
        return self.folder / "facts.json"

    def facts(self) -> dict[str, Any]:
        """That record as JSON."""
        found: dict[str, Any] = json.loads(self.record.read_bytes())
        return found


@dataclass
class Workbench:
    """One part that is running."""

    name: str
    setting: Setting
    seconds: float
    began: float = field(default_factory=time.monotonic)
    commands: list[Command] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    shortened: list[str] = field(default_factory=list)  # what there was no time for

    @property
    def folder(self) -> pathlib.Path:
        """Where its commands write."""
        path = self.setting.folder / self.name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def left_s(self) -> float:
        """The time left."""
        return self.seconds - (time.monotonic() - self.began)

    def enough(self, seconds: float, what: str) -> bool:
        """Whether so much time is left; else it is written down that this was not reached."""
        if self.left_s >= seconds:
            return True
        self.shortened.append(what)
        return False

    def run(
        self,
        name: str,
        argv: Sequence[str],
        limit_s: float | None = None,
        variables: Mapping[str, str | None] | None = None,
    ) -> Done:
        """Run a command until its limit, or the end of the part's time."""
        limit = max(_LEAST_S, min(self.left_s, limit_s or self.left_s))
        done = children.run(name, argv, self.folder, limit, {**self.setting.variables, **(variables or {})})
        self.commands.append(Command(done.name, done.argv, done.exit_code, done.seconds, done.ended))
        return done

    def doctor(
        self,
        name: str,
        *arguments: str,
        limit_s: float | None = None,
        variables: Mapping[str, str | None] | None = None,
    ) -> Done:
        """Run the doctor."""
        return self.run(name, [*self.setting.doctor, *arguments], limit_s, variables)

    def program(self, name: str, module: str, *arguments: str, limit_s: float | None = None) -> Done:
        """Run one of the programs, with the Python that runs this tool."""
        path = self.setting.variables.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
        variables = {"PYTHONPATH": os.pathsep.join(filter(None, (path, str(TOOLS))))}
        return self.run(name, [sys.executable, "-m", f"gpu_run.programs.{module}", *arguments], limit_s, variables)

    def document(self, done: Done) -> dict[str, Any] | None:
        """The JSON document that a command printed; None and a finding if it printed none."""
        found = document_of(done.output)
        if found is None:
            self.found(f"{done.name} gave no document: {done.complaint}")
        return found

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Keep a table."""
        self.tables.append(Table(title, tuple(headers), tuple(tuple(row) for row in rows), self.name))

    def found(self, what: str) -> None:
        """Keep something that was wrong."""
        self.findings.append(Finding(self.name, what))

    def side_by_side(self, least_s: float, tasks: Mapping[str, Callable[[], T]]) -> dict[str, T]:
        """Run tasks that time nothing, as many at once as there are CPUs for; return the results of those with time left."""
        jobs = min(_MOST_BESIDE, max(1, len(os.sched_getaffinity(0)) // _CPUS_EACH))
        with ThreadPoolExecutor(jobs) as pool:
            try:
                futures = {name: pool.submit(self._in_time, least_s, name, task) for name, task in tasks.items()}
                return {name: result for name, future in futures.items() for result in future.result()}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                children.end_marked(self.setting.variables.get(children.MARK) or "")
                raise

    def _in_time(self, least_s: float, name: str, task: Callable[[], T]) -> tuple[T, ...]:
        return (task(),) if self.enough(least_s, name) else ()

    @property
    def busy_option(self) -> tuple[str, ...]:
        """The option by which the doctor loads a GPU that others use, if that was allowed."""
        return ("--even-if-busy",) if self.setting.even_if_busy else ()


def document_of(text: str) -> dict[str, Any] | None:
    """The JSON object in a text: the whole of it, or its last line."""
    for part in (text, *text.strip().splitlines()[-1:]):
        try:
            found = json.loads(part)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def labels(document: Mapping[str, Any]) -> list[str]:
    """The causes that a report names, best first."""
    return [cause["label"] for cause in document.get("causes", ())]
