"""Look at the target: as it is where a GPU works, and by rehearsal where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tfgpu_doctor.cli.configuration import Configuration
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.collect.examination import Interrupted, examine
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.diagnose.plugins import load_checks
from tfgpu_doctor.fix.bounds import NotPossible
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.rehearse.build import BuildError
from tfgpu_doctor.rehearse.rehearsing import RehearsalError, rehearse

# What tells whether a GPU works here, and what a plan is made of; no TensorFlow is imported for it.
_QUICK_FACTS = ("cuda_driver", "target", "resolution")


@dataclass(frozen=True)
class Look:
    """A way to look at a target, as often as need be, and the facts that a plan is made of."""

    facts: Facts
    rehearses: bool
    again: Callable[[], Report]


def choose_look(configuration: Configuration) -> Look:
    """The way that fits this machine; every check counts but those ignored. Raises KeyboardInterrupt."""
    configuration = msgspec.structs.replace(configuration, select=())
    facts = _examine(configuration, only=_QUICK_FACTS)
    works = bool(facts.cuda_driver and facts.cuda_driver.works and facts.cuda_driver.gpus)
    look = _look_at_machine if works else _rehearse
    return Look(facts, not works, lambda: look(configuration))


def _look_at_machine(configuration: Configuration) -> Report:
    checks, broken = load_checks()
    return diagnose(_examine(configuration), checks=checks, selection=configuration.selection, broken=broken)


def _rehearse(configuration: Configuration) -> Report:
    """The report of a rehearsal. Raises NotPossible where none can be held here."""
    try:
        with Waiting() as waiting:
            report = rehearse(configuration, on_wait=waiting.show)
    except (BuildError, RehearsalError) as error:
        raise NotPossible(f"without a GPU the environment is looked at by rehearsal, which failed: {error}") from error
    if report.interrupted:
        raise KeyboardInterrupt
    return report


def _examine(configuration: Configuration, only: tuple[str, ...] | None = None) -> Facts:
    try:
        with Waiting() as waiting:
            return examine(
                python=configuration.python, deadline_s=configuration.deadline, on_wait=waiting.show, only=only
            )
    except Interrupted as stop:
        raise KeyboardInterrupt from stop
