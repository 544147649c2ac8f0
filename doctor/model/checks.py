"""The check: a pure function of facts and knowledge that yields findings, and the decorator that makes one."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from tfgpu_doctor.model.finding import Evidence, Finding
from tfgpu_doctor.model.tags import Goal

_ID = re.compile(r"[A-Z]{3,8}\d{3}")


class Stage(enum.IntEnum):
    """The layer that a check examines, from the ground up: of two equally severe causes, the earlier stage comes first."""

    MACHINE = 0  # is there a GPU, and a system that can use one?
    CONTAINER = 1  # what a container, a job or a limit allows
    DRIVER = 2  # the kernel driver, its libraries and device nodes
    GPU = 3  # the GPUs as the driver reports them
    PYTHON = 4  # the interpreter, and the packages on its path
    WHEEL = 5  # the installed TensorFlow, and what it was built for
    LIBRARIES = 6  # CUDA's libraries, and what finds them
    RUNTIME = 7  # TensorFlow at run time
    MEMORY = 8
    COMPUTE = 9  # are results correct?
    STRESS = 10  # and under stress?
    SPEED = 11  # only affects speed
    ADVICE = 12  # recommendations


@dataclass(frozen=True)
class Check:
    """A check: its stable id, what is true when healthy, its stage, and the checks that must not have failed before it."""

    id: str
    title: str
    stage: Stage
    function: Callable[..., Iterable[Finding | Evidence]]
    after: tuple[str, ...]
    causes: tuple[str, ...]
    sources: tuple[str, ...]
    needs: tuple[str, ...]
    optional: tuple[str, ...]
    family: str = ""  # what a page groups it under; the letters of its id where it names none
    tags: tuple[str, ...] = ()  # see tfgpu_doctor.model.tags
    goal: Goal | None = None

    @property
    def explanation(self) -> str:
        """Why the check exists, and what to do when it fails: the docstring of its function."""
        return inspect.getdoc(self.function) or ""

    def __call__(self, *facts: Any, **named: Any) -> list[Finding | Evidence]:
        """The findings of the check for these facts; for tests of one check."""
        return list(self.function(*facts, **named))


def check(
    id: str,
    title: str,
    *,
    stage: Stage = Stage.ADVICE,
    family: str = "",
    tags: tuple[str, ...] = (),
    goal: Goal | None = None,
    after: tuple[str, ...] = (),
    causes: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
) -> Callable[[Callable[..., Iterable[Finding | Evidence]]], Check]:
    """Make a check of a generator function whose parameters are named like the facts that it needs.

    If a fact is unavailable, the check is skipped, with the reason; a parameter with a default uses the
    default instead. `knowledge` provides the tables. A check passes if it yields evidence, and no finding of severity warning or
    error; one that yields nothing is skipped.
    """
    if not _ID.fullmatch(id):
        raise ValueError(f"the id of a check must be capital letters and three digits, like ACME001; not {id!r}")

    def make(function: Callable[..., Iterable[Finding | Evidence]]) -> Check:
        parameters = inspect.signature(function).parameters.values()
        needs = tuple(each.name for each in parameters if each.default is each.empty)
        optional = tuple(each.name for each in parameters if each.default is not each.empty)
        return Check(
            id,
            title,
            stage,
            function,
            after,
            causes,
            sources,
            needs,
            optional,
            family or id.rstrip("0123456789"),
            tags,
            goal,
        )

    return make


def in_order(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Checks in the order of causes: by stage, then by how many others precede them, then by id."""
    listed: dict[str, Check] = {}
    for check in checks:
        if listed.setdefault(check.id, check) is not check:
            raise ValueError(f"two checks have the id {check.id}: {listed[check.id].title!r} and {check.title!r}")
    depths: dict[str, int] = {}
    for id in TopologicalSorter(
        {id: [each for each in check.after if each in listed] for id, check in listed.items()}
    ).static_order():
        depths[id] = 1 + max((depths[each] for each in listed[id].after if each in listed), default=-1)
    return tuple(sorted(listed.values(), key=lambda check: (check.stage, depths[check.id], check.id)))
