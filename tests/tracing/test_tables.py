"""The tables that trace reads: what events mean, and what is said of each verdict."""

from __future__ import annotations

import re
import string

import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import TraceEvent, TraceVerdict
from tfgpu_doctor.tracing.recorded import PASSED_OVER, Kinds

EVENTS = read_knowledge().trace_events
KINDS = {
    PASSED_OVER, "memory", "input wait", "iterator", "python", "user function", "tracing", "xla compile", "xla run", "call",
    "eager", "executor", "run", "collective", "checkpoint", "operation", "copy",
}  # fmt: skip
WORDS = {"stage", "function", "place", "what"}


@pytest.mark.parametrize("row", EVENTS, ids=lambda row: row.example)
def test_an_event_is_found_by_its_own_row(row: TraceEvent) -> None:
    assert Kinds().of(row.example) == row.kind


def test_the_kinds_of_events_are_those_that_the_code_asks_for() -> None:
    assert {row.kind for row in EVENTS} == KINDS


def test_rows_name_their_releases_and_source() -> None:
    assert not [
        row for row in EVENTS if not re.fullmatch(r"2\.\d+", row.first) or not re.fullmatch(r"2\.\d+", row.last)
    ]
    assert not [row for row in EVENTS if not row.source or not re.fullmatch(r"\d{4}-\d\d-\d\d", row.checked)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("EagerLocalExecute: __inference_multi_step_on_iterator_1215", "call"),
        ("EagerLocalExecute: IteratorGetNext", "input wait"),
        ("EagerLocalExecute: MatMul", "eager"),
        ("StatefulPartitionedCall/sequential_1/dense_1/Relu:_MklNativeFusedMatMul", "operation"),
        ("save/SaveV2:SaveV2", "checkpoint"),
        ("PyFunc:PyFunc", "python"),
        ("MapAndBatchConsume", PASSED_OVER),
        ("train_step", "other"),
        ("", "other"),
    ],
)
def test_names_that_are_alike_are_told_apart(name: str, kind: str) -> None:
    assert Kinds().of(name) == kind


@pytest.mark.parametrize("row", read_knowledge().trace_verdicts.values(), ids=lambda row: row.verdict)
def test_what_is_said_of_a_verdict(row: TraceVerdict) -> None:
    texts = (row.title, row.fix)
    named = {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}
    assert named <= WORDS
    assert row.title and row.source
    assert bool(row.fix) == (row.verdict != "compute_bound")
    assert not row.title.endswith(".")
