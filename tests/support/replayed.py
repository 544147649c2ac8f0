"""The machines under tests/machines, each read and diagnosed once in a process."""

from __future__ import annotations

import functools

import pytest
from every import sampled
from locations import RECORDS

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts, decode_facts
from tfgpu_doctor.model.report import Report

NAMES = list(RECORDS)
each_machine = pytest.mark.parametrize("machine", sampled(NAMES, 12))  # where all are too much for one test


@functools.cache
def facts_of(machine: str) -> Facts:
    """What was recorded of a machine."""
    return decode_facts(RECORDS[machine].read_bytes())


@functools.cache
def report_on(machine: str) -> Report:
    """The diagnosis of a machine by all of its facts."""
    return diagnose(facts_of(machine))
