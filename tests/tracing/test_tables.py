"""The tables that trace reads: what events mean, and what is said of each verdict."""

from __future__ import annotations

import itertools
import re
import string

import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import TraceEvent, TraceVerdict
from tfgpu_doctor.tracing.recorded import PASSED_OVER, Kinds
from tfgpu_doctor.tracing.wording import filled

EVENTS = read_knowledge().trace_events
KINDS = {
    PASSED_OVER, "memory", "input wait", "iterator", "python", "user function", "tracing", "xla compile", "xla run",
    "xla call", "call", "eager", "executor", "run", "collective", "checkpoint", "operation", "copy", "loop",
    "loop input", "making",
}  # fmt: skip
VERDICTS = read_knowledge().trace_verdicts.values()
WORDS = {
    "stage": "MapDataset:2 (Prefetch::Map)", "number": "2", "function": "train_step", "place": "load (train.py:31)",
    "what": "2 at once", "cached": "MapDataset:1 (Prefetch::Map::Map)", "random": "MapDataset:3 (Map)", "buffer": "40",
    "network": "nfs4 at filer:/sets",
}  # fmt: skip


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
        ("ReduceIterator::Root::Prefetch::Scan::FiniteTake[3]::Scan", "loop input"),
        ("ReduceIterator::Root::FiniteTake", "other"),  # Dataset.reduce, no loop
        ("Iterator::Root::Prefetch::Scan", "iterator"),
        ("train_step", "other"),
        ("", "other"),
    ],
)
def test_names_that_are_alike_are_told_apart(name: str, kind: str) -> None:
    assert Kinds().of(name) == kind


def each_verdict() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", VERDICTS, ids=lambda row: row.verdict)


def words_of(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@each_verdict()
def test_what_is_said_of_a_verdict(row: TraceVerdict) -> None:
    assert words_of(row.title + row.fix) <= set(WORDS)
    assert row.title and row.source
    assert bool(row.fix) == bool(row.code) == (row.verdict != "compute_bound")
    assert not row.title.endswith(".")


@each_verdict()
def test_a_verdict_without_an_answer_has_no_words(row: TraceVerdict) -> None:
    """Nothing is known then that could be filled in."""
    assert row.healthy is False or not re.search(r"[\[\]{}]", row.title + row.fix)


@each_verdict()
def test_whatever_is_known_the_text_is_whole(row: TraceVerdict) -> None:
    for count in range(len(WORDS) + 1):
        for known in itertools.combinations(WORDS.items(), count):
            words = dict(known)
            whole(filled(row.title, words), words, ends="")
            if row.fix:
                whole(filled(row.fix, words), words, ends=".")


@each_verdict()
def test_what_is_known_is_named(row: TraceVerdict) -> None:
    for name in words_of(row.title + row.fix):
        words = {name: WORDS[name]}
        assert WORDS[name] in filled(row.title, words) + filled(row.fix, words)


def whole(text: str, words: dict[str, str], ends: str) -> None:
    """Sentences that begin in upper case, or with a name; no mark is doubled, and nothing of the template is left."""
    for word in words.values():
        text = text.replace(word, "Name")
    assert text
    assert text == text.strip()
    assert not re.search(r"[\[\]{}|]", text)
    assert not re.search(r"  |\.\s*\.(?!\.)|[,:;]\s*[.,:;]|\s[.,:;](\s|$)|\s\(\s*\)", text)
    assert all(each[:1].isupper() for each in re.split(r"(?<=[.?!]) ", text))
    assert text.endswith(ends) and not text.endswith((",", ":", ";"))


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("It is [{place}|here].", {"place": "there"}, "It is there."),
        ("It is [{place}|here].", {}, "It is here."),
        ("It is [{place}|here].", {"place": ""}, "It is here."),
        ("It is [{place} of {what}|of {what}|here].", {"what": "x"}, "It is of x."),
        ("It is here[ ({place})].", {"what": "x"}, "It is here."),
        ("It is [{place}|here].", {"place": "{what} [a|b]"}, "It is {what} [a|b]."),
        ("", {}, ""),
    ],
)
def test_words_are_filled_in(text: str, words: dict[str, str], said: str) -> None:
    """What a trace calls something is no template."""
    assert filled(text, words) == said
