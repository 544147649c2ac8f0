"""One thing that is asked of a machine, what was measured, and what became of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from tfgpu_doctor.accept.terms import Profile, Resolved
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import Report, Result

Outcome = Literal["met", "missed", "not measured", "explained", "allowed"]
OUTCOMES: tuple[Outcome, ...] = ("met", "missed", "not measured", "explained", "allowed")
HOLDING: tuple[Outcome, ...] = ("met", "allowed")
OF_A_CHECK = ("checks", "goal", "require", "allowed")
_LOCAL = "/job:localhost/replica:0/task:0/device:"  # what TensorFlow puts before the name of each device
_LONGEST = 500  # characters of what was measured: names of GPUs and errors may be of any length


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the certificate. `profile` is where it is from; `reason` says why it was not met, or is allowed.

    A row is `explained` where it does not hold because of others, which stand for it: `explained_by` are their keys.
    """

    key: str  # "gpus", "speed-ups.training/step[cnn]"; no two rows have the same
    title: str
    required: str
    measured: str = ""
    outcome: Outcome
    reason: str = ""
    remedy: str = ""  # of what was not measured: what makes it measurable
    explained_by: tuple[str, ...] = ()
    profile: str

    @property
    def check(self) -> str:
        """The id of the check that it is about; empty where it is about something else."""
        kind, _, id = self.key.partition(".")
        return id if kind in OF_A_CHECK else ""

    @property
    def holds(self) -> bool:
        """Whether it stands in nobody's way."""
        return self.outcome in HOLDING


@dataclass(frozen=True)
class Asked:
    """What is asked, before it is known what was measured."""

    key: str
    title: str
    required: str
    profile: str

    def _row(self, outcome: Outcome, measured: str, reason: str, remedy: str = "") -> Requirement:
        return Requirement(
            key=self.key, title=self.title, required=self.required, profile=self.profile, outcome=outcome,
            measured=_short(measured), reason=_short(reason), remedy=remedy,
        )  # fmt: skip

    def met(self, measured: str) -> Requirement:
        """It was measured, and is as asked for."""
        return self._row("met", measured, "")

    def missed(self, measured: str, reason: str = "") -> Requirement:
        """It was measured, and is not as asked for."""
        return self._row("missed", measured, reason)

    def judged(self, fits: bool, measured: str, reason: str = "") -> Requirement:
        """One or the other."""
        return self.met(measured) if fits else self.missed(measured, reason)

    def unmeasured(self, why: str, remedy: str) -> Requirement:
        """It could not be measured, and what would make it measurable."""
        return self._row("not measured", "", why, remedy)

    def allowed(self, measured: str, reason: str) -> Requirement:
        """It is not as it should be, and the profile allows that."""
        return self._row("allowed", measured, reason)


@dataclass(frozen=True)
class Case:
    """All that a verdict is made of. `report` holds every check, `counted` the results that the profile selects."""

    facts: Facts
    report: Report
    counted: tuple[Result, ...]
    resolved: Resolved
    goal: str  # the id of the check that tells whether the machine does what it is for
    today: dt.date

    @property
    def profile(self) -> Profile:
        """What is asked."""
        return self.resolved.profile

    @property
    def anew(self) -> str:
        """What to do where a record does not hold what the profile asks for."""
        return f"run `tfgpu-doctor accept --profile {self.resolved.name}` on the machine itself, to its end"

    def ask(self, key: str, title: str, required: str, by: str = "") -> Asked:
        """A requirement, with the profile that it is from: the one that sets the key, or the key `by`."""
        return Asked(key, title, required, self.resolved.source(by or key))

    def why_unknown(self, fact: str, otherwise: str) -> str:
        """Why a fact is not there."""
        unknown: Mapping[str, str] = self.facts.unknown
        return unknown.get(fact) or otherwise


def _short(text: str) -> str:
    text = text.replace(_LOCAL, "")
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
