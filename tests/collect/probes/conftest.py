"""Fixtures of the tests of the probes: a made-up machine, and recorded answers of children."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tfgpu_doctor.collect.probe import Probe, Request
from tfgpu_doctor.collect.probes import child
from tfgpu_doctor.host import Completed, Host
from tfgpu_doctor.model.facts.attempt import Attempt


@dataclass(frozen=True)
class Asked:
    """A command that a probe ran: its arguments, its deadline, what it set in the environment."""

    argv: list[str]
    deadline_s: float
    variables: dict[str, str]


class Recorded(Host):
    """A host on which every command ends as recorded."""

    def __init__(self, root: str, environment: Mapping[str, str], done: Completed, asked: list[Asked]) -> None:
        super().__init__(root, environment)
        self._done, self._asked = done, asked

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        variables: Mapping[str, str] | None = None,
        until: Any = None,
        memory_bytes: float | None = None,
    ) -> Completed:
        self._asked.append(Asked(list(argv), deadline_s, dict(variables or {})))
        return self._done


class Machine:
    """A machine whose files lie under a folder of the test's own."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.asked: list[Asked] = []
        root.mkdir()

    def file(self, path: str, content: str | bytes = "") -> pathlib.Path:
        """Write a file, and the folders above it."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def folder(self, path: str) -> pathlib.Path:
        """Make a folder, and those above it."""
        place = self.root / path.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        return place

    def link(self, path: str, target: str) -> pathlib.Path:
        """Make a symbolic link, and the folders above it."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
        return place

    def ask(
        self, probe: Probe, *, environment: Mapping[str, str] | None = None, done: Completed | None = None, **known: Any
    ) -> Any:
        """The fact that a probe gives here; with `done`, every command ends so, else it is run for real."""
        variables = environment or {}
        host = Recorded(str(self.root), variables, done, self.asked) if done else Host(str(self.root), variables)
        given = {"host": host, "request": Request(python=sys.executable), **known}
        return probe.function(**{name: given[name] for name in probe.parameters})

    def child(
        self, done: Completed, python: str, program: str, arguments: Sequence[str] = (), **how: Any
    ) -> tuple[Attempt, dict[str, Any], list[str]]:
        """What is made of a program of `workers/` that ended so."""
        host = Recorded(str(self.root), {}, done, self.asked)
        return child.ask(host, python, program, arguments, **{"deadline_s": 15.0, **how})


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """A machine without any file."""
    return Machine(tmp_path / "machine")


@pytest.fixture
def closed_to_me(tmp_path: pathlib.Path) -> None:
    """Skip where permissions do not bind the one who runs the tests."""
    closed = tmp_path / "closed to all"
    closed.touch(mode=0)
    readable = os.access(closed, os.R_OK)
    closed.unlink()
    if readable:
        pytest.skip("the one who runs the tests may read everything")
