"""Machines judged by profiles, as the command judges them, on a day of the test's choice."""

from __future__ import annotations

import datetime as dt
import pathlib
from typing import Any

from locations import RECORDS

from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.accept.judging import judge
from tfgpu_doctor.accept.reading import read_profile
from tfgpu_doctor.accept.requirement import Requirement
from tfgpu_doctor.accept.terms import Resolved
from tfgpu_doctor.accept.vocabulary import Vocabulary
from tfgpu_doctor.bench import SUITE_VERSION
from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.model.facts import Facts, decode_facts
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric

TODAY = dt.date(2026, 11, 21)
VOCABULARY = Vocabulary(tuple(check.id for check in ALL_CHECKS))


def profile_of(toml: str, folder: pathlib.Path, name: str = "mine.toml") -> Resolved:
    """The profile that a file with that content is."""
    path = folder / name
    path.write_text(toml, "utf-8")
    return read_profile(str(path), VOCABULARY)


def shipped(name: str) -> Resolved:
    return read_profile(name, VOCABULARY)


def recorded_machine(name: str) -> Facts:
    return decode_facts(RECORDS[name].read_bytes())


def judged(facts: Facts, profile: Resolved, today: dt.date = TODAY, **more: Any) -> Certificate:
    """The certificate, with its digest."""
    fields = {"issued": "2026-11-21T12:00:00Z", "subject": "node 7", **more}
    return judge(facts, profile, today=today, **fields).proved()


def rows_of(certificate: Certificate) -> dict[str, Requirement]:
    """The rows by key; each has its own."""
    rows = {row.key: row for row in certificate.requirements}
    assert len(rows) == len(certificate.requirements)
    return rows


def red(certificate: Certificate) -> list[str]:
    """The keys of the rows that stand against the machine by themselves."""
    return [row.key for row in certificate.requirements if row.outcome in ("missed", "not measured")]


def comparison(
    suite: str = "device_placement", name: str = "gpu[matmul]", ratio: float = 20.0, **changes: Any
) -> Comparison:
    """A comparison on the GPU, won by so much, give or take 2 %."""
    fields: dict[str, Any] = {
        "suite": suite, "name": name, "verdict": "faster", "ratio": ratio, "interval": (ratio * 0.98, ratio * 1.02),
        "rounds": 9, "device": "GPU:0", "on_gpu": True,
    }  # fmt: skip
    return Comparison(**{**fields, **changes})


def metric(share: float = 0.8, **changes: Any) -> Metric:
    """A figure that reaches a share of what is possible."""
    fields: dict[str, Any] = {
        "suite": "device_placement", "name": "copy in the device", "value": share * 936.0, "unit": "GB/s",
        "device": "GPU:0", "limit": 936.0, "limit_source": "the data sheet",
    }  # fmt: skip
    return Metric(**{**fields, **changes})


def bench(*comparisons: Comparison, metrics: tuple[Metric, ...] = (), **changes: Any) -> Bench:
    """A run of the suites as they are now."""
    return Bench(
        **{"suite_version": SUITE_VERSION, "seconds": 40.0, "comparisons": comparisons, "metrics": metrics, **changes}
    )
