"""What a check is: a pure function of facts and knowledge that yields findings, and the decorator that makes one."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from tfgpu_doctor.model.finding import Evidence, Finding

_ID = re.compile(r"[A-Z]{3,8}\d{3}")


class Stage(enum.IntEnum):
    """What a check looks at, from the ground up: of two causes that are equally grave, that of the earlier stage is first."""

    MACHINE = 0  # is there a GPU, and a system that can use one?
    CONTAINER = 1  # what a container, a job or a limit lets through
    DRIVER = 2  # the kernel driver, its libraries and device nodes
    GPU = 3  # what the driver says of each GPU
    PYTHON = 4  # the interpreter, and what lies on its path
    WHEEL = 5  # the TensorFlow that is installed, and what it was built for
    LIBRARIES = 6  # CUDA's libraries, and who finds them
    RUNTIME = 7  # TensorFlow as it runs
    MEMORY = 8
    COMPUTE = 9  # are results right?
    STRESS = 10  # and under load?
    SPEED = 11  # what only costs time
    ADVICE = 12  # what may be known


@dataclass(frozen=True)
class Check:
    """A check: its stable id, what is true when healthy, its stage, the checks that must not have failed before it."""

    id: str
    title: str
    stage: Stage
    function: Callable[..., Iterable[Finding | Evidence]]
    after: tuple[str, ...]
    causes: tuple[str, ...]
    sources: tuple[str, ...]
    needs: tuple[str, ...]
    optional: tuple[str, ...]

    @property
    def explanation(self) -> str:
        """Why the check exists, and what to do when it fails: the docstring of its function."""
        return inspect.getdoc(self.function) or ""

    def __call__(self, *facts: Any, **named: Any) -> list[Finding | Evidence]:
        """What the check yields for these facts; for tests of one check."""
        return list(self.function(*facts, **named))


def check(
    id: str,
    title: str,
    *,
    stage: Stage = Stage.ADVICE,
    after: tuple[str, ...] = (),
    causes: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
) -> Callable[[Callable[..., Iterable[Finding | Evidence]]], Check]:
    """Make a check of a generator function whose parameters are named as the facts it needs.

    A fact that could not be had makes the check skip, with the reason; a parameter with a default takes the
    default instead. `knowledge` gives the tables. To pass is to yield no finding of severity warning or error.
    """
    if not _ID.fullmatch(id):
        raise ValueError(f"the id of a check is capital letters and three digits, like ACME001; not {id!r}")

    def make(function: Callable[..., Iterable[Finding | Evidence]]) -> Check:
        parameters = inspect.signature(function).parameters.values()
        needs = tuple(each.name for each in parameters if each.default is each.empty)
        optional = tuple(each.name for each in parameters if each.default is not each.empty)
        return Check(id, title, stage, function, after, causes, sources, needs, optional)

    return make


def in_order(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Checks in the order in which causes lie: by stage, then by how many others come before one, then by id."""
    listed = {check.id: check for check in checks}
    depths: dict[str, int] = {}
    for id in TopologicalSorter(
        {id: [each for each in check.after if each in listed] for id, check in listed.items()}
    ).static_order():
        depths[id] = 1 + max((depths[each] for each in listed[id].after if each in listed), default=-1)
    return tuple(sorted(listed.values(), key=lambda check: (check.stage, depths[check.id], check.id)))
