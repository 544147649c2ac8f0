"""Real machines, as the captures of other projects show them: judged by hand before the doctor saw them.

`causes` of expected.json must be found, `may` of it can be; every other cause is a false alarm. None of them has a Python
environment, so whether TensorFlow computes there was not asked, and no report is healthy.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from every import every
from locations import RECORDS, TESTS
from replayed import facts_of, report_on

RECORDED = [name for name, path in RECORDS.items() if path.parent.parent.name == "recorded"]
# Machines that the doctor judges wrongly, and what is missing. One that it learnt to judge has to be removed here.
MISSES: dict[str, str] = {}
# What follows from another cause has no line of its own: a GPU that the driver does not support does not start either, and
# one that hangs is to be reset.
FOLLOWS = {"gpu_start_failed": "driver_does_not_support_gpu", "gpu_reset_required": "gpu_hang"}


@functools.cache
def expected_of(machine: str) -> dict[str, Any]:
    return dict(json.loads(RECORDS[machine].with_name("expected.json").read_text()))


CAPTURED = [name for name in RECORDED if "may" in expected_of(name)]


def wrong_of(machine: str) -> list[str]:
    """What the doctor says that is not so, and what it does not say; empty if the diagnosis is right."""
    expected, report = expected_of(machine), report_on(machine)
    labels = [cause.label for cause in report.causes]
    told = {*labels, *(label for label, first in FOLLOWS.items() if first in labels and first in expected["causes"])}
    wrong = [f"misses {label}" for label in expected["causes"] if label not in told]
    wrong += [f"alarm {label}" for label in labels if label not in (*expected["causes"], *expected["may"])]
    if expected["state"] == "healthy":
        wrong += [f"error {cause.label}" for cause in report.causes if cause.severity == "error"]
    if None not in (expected["fit"], report.fit) and expected["fit"] != report.fit:
        wrong.append(f"says fit={report.fit}")
    return wrong


def test_there_are_enough() -> None:
    assert len(CAPTURED) >= 25


@pytest.mark.parametrize("kind", ["synthetic", "recorded"])
def test_the_readme_counts_them(kind: str) -> None:
    count = sum(path.parent.parent.name == kind for path in RECORDS.values())
    assert f"- `{kind}/` ({count} machines): " in (TESTS / "machines/README.md").read_text("utf-8")


@every("machine", CAPTURED, least=25)
def test_the_diagnosis_is_right(machine: str) -> None:
    if machine not in MISSES:
        assert wrong_of(machine) == []


@every("machine", sorted(MISSES), least=0)
def test_a_miss_is_still_one(machine: str) -> None:
    assert wrong_of(machine) != []


@every("machine", RECORDED, least=25)
def test_every_one_names_its_source(machine: str) -> None:
    source = expected_of(machine)["source"]
    assert source.get("machine") or (source["repository"] and source["path"] and len(source["blob"]) == 40)
    assert source.get("machine") or source["licence"]
    assert source["taken"] if "machine" in source else source["read"]


@every("machine", CAPTURED)
def test_nothing_was_examined_but_the_gpus_and_their_driver(machine: str) -> None:
    facts = facts_of(machine)
    assert facts.target is None
    assert facts.runtime is None
    assert report_on(machine).computes is None


@pytest.mark.parametrize("machine", ["h100-loaded", "azure-ndmv4-8-a100"])
def test_identities_are_masked(machine: str) -> None:
    nvml = facts_of(machine).nvml
    assert nvml is not None
    assert [gpu.uuid for gpu in nvml.gpus] == [f"GPU-00000000-0000-0000-0000-{gpu.index:012d}" for gpu in nvml.gpus]
