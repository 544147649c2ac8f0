"""Examine the target: on this machine if a GPU works here, otherwise by rehearsal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tfgpu_doctor.cli.configuration import Configuration
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.collect.examination import Interrupted, examine
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.diagnose.plugins import load_checks
from tfgpu_doctor.fix import NotPossible
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.rehearse.build import BuildError
from tfgpu_doctor.rehearse.rehearsing import RehearsalError, rehearse

# The facts that show whether a GPU works here, and that a plan requires; they do not need an import of TensorFlow.
_QUICK_FACTS = ("cuda_driver", "target", "resolution")


@dataclass(frozen=True)
class Look:
    """A repeatable way to examine a target, and the facts that a plan requires."""

    facts: Facts
    rehearses: bool
    again: Callable[[], Report]


def choose_look(configuration: Configuration) -> Look:
    """Choose the way for this machine; all checks except ignored ones apply. Raises KeyboardInterrupt."""
    configuration = msgspec.structs.replace(configuration, select=())
    facts = _examine(configuration, only=_QUICK_FACTS)
    works = bool(facts.cuda_driver and facts.cuda_driver.works and facts.cuda_driver.gpus)
    look = _look_at_machine if works else _rehearse
    return Look(facts, not works, lambda: look(configuration))


def _look_at_machine(configuration: Configuration) -> Report:
    checks, broken = load_checks()
    return diagnose(_examine(configuration), checks=checks, selection=configuration.selection, broken=broken)


def _rehearse(configuration: Configuration) -> Report:
    """Return the report of a rehearsal. Raises NotPossible if a rehearsal cannot run here."""
    try:
        with Waiting() as waiting:
            report = rehearse(configuration, on_wait=waiting.show)
    except (BuildError, RehearsalError) as error:
        raise NotPossible(f"without a GPU, the environment is examined by rehearsal, which failed: {error}") from error
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
