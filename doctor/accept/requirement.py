"""A requirement of a machine, the measured value, and the outcome."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from tfgpu_doctor.accept.terms import Profile, Resolved
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import Report, Result

Outcome = Literal["met", "missed", "not measured", "explained", "allowed", "not judged"]
OUTCOMES: tuple[Outcome, ...] = ("met", "missed", "not measured", "explained", "allowed", "not judged")
HOLDING: tuple[Outcome, ...] = ("met", "allowed", "not judged")
OF_A_CHECK = ("checks", "goal", "require", "allowed")
_LOCAL = "/job:localhost/replica:0/task:0/device:"  # TensorFlow's prefix of the name of each device
_LONGEST = 500  # characters of a measured value: names of GPUs and errors may have any length


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the certificate. `profile` is the profile that sets it; `reason` says why it was not met, or is allowed.

    A row is `not judged` if it was measured, but there is nothing to compare it with; it neither passes nor fails.
    A row is `explained` if it fails because of other rows: `explained_by` contains their keys.
    """

    key: str  # "gpus", "speed-ups.training/step[cnn]"; no two rows have the same
    title: str
    required: str
    measured: str = ""
    outcome: Outcome
    reason: str = ""
    remedy: str = ""  # if not measured: how to measure it
    explained_by: tuple[str, ...] = ()
    profile: str

    @property
    def check(self) -> str:
        """The id of the check that it refers to; empty if it refers to something else."""
        kind, _, id = self.key.partition(".")
        return id if kind in OF_A_CHECK else ""

    @property
    def holds(self) -> bool:
        """Whether it does not prevent acceptance."""
        return self.outcome in HOLDING


@dataclass(frozen=True)
class Asked:
    """A requirement before its measured value is known."""

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
        """Return the row of a requirement that was measured and is met."""
        return self._row("met", measured, "")

    def missed(self, measured: str, reason: str = "") -> Requirement:
        """Return the row of a requirement that was measured and is not met."""
        return self._row("missed", measured, reason)

    def judged(self, fits: bool, measured: str, reason: str = "") -> Requirement:
        """Return the row of a requirement that was measured."""
        return self.met(measured) if fits else self.missed(measured, reason)

    def unmeasured(self, why: str, remedy: str) -> Requirement:
        """Return the row of a requirement that could not be measured, with the way to measure it."""
        return self._row("not measured", "", why, remedy)

    def unjudged(self, measured: str, why: str) -> Requirement:
        """Return the row of a value that there is nothing to compare with: it is no pass and no fault."""
        return self._row("not judged", measured, why)

    def allowed(self, measured: str, reason: str) -> Requirement:
        """Return the row of a finding that the profile allows."""
        return self._row("allowed", measured, reason)


@dataclass(frozen=True)
class Case:
    """The basis of a verdict. `report` contains every check, `counted` the results that the profile selects."""

    facts: Facts
    report: Report
    counted: tuple[Result, ...]
    resolved: Resolved
    goal: str  # the id of the check that judges whether the machine serves its purpose
    today: dt.date

    @property
    def profile(self) -> Profile:
        """The requirements."""
        return self.resolved.profile

    @property
    def anew(self) -> str:
        """What to do if a record does not contain what the profile requires."""
        return (
            f"run `tfgpu-doctor accept --profile {self.resolved.name}` on the machine itself, without interrupting it"
        )

    def ask(self, key: str, title: str, required: str, by: str = "") -> Asked:
        """Return a requirement with its profile: the one that sets the key, or the key `by`."""
        return Asked(key, title, required, self.resolved.source(by or key))

    def why_unknown(self, fact: str, otherwise: str) -> str:
        """Return why a fact is missing."""
        unknown: Mapping[str, str] = self.facts.unknown
        return unknown.get(fact) or otherwise


def _short(text: str) -> str:
    text = text.replace(_LOCAL, "")
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
