"""A scrubbed line has the signatures that it had: a ticket's log leads to the same causes."""

from __future__ import annotations

import io

import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log import Scanner
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.ticket.identity import Identity
from tfgpu_doctor.ticket.scrub import Scrub

SIGNATURES = read_knowledge().log_signatures
EXAMPLES = [(row.name, row.example) for row in SIGNATURES if row.example]
SECRET = {"says_container"}  # the example is the name of a host


def signatures_of(text: str) -> set[str]:
    scanner = Scanner(SIGNATURES)
    scanner.scan(io.BytesIO(text.encode()))
    return set(scanner.found)


def test_the_examples_are_those_of_both_tables() -> None:
    assert {row.name for row in read_knowledge().log_messages} <= {name for name, _ in EXAMPLES}
    assert {name for name, _ in EXAMPLES} >= SECRET


@pytest.mark.parametrize("row", [row for row in EXAMPLES if row[0] not in SECRET], ids=lambda row: row[0])
def test_the_example_of_a_signature_keeps_it(row: tuple[str, str]) -> None:
    name, example = row
    assert signatures_of(Scrub(Facts(), Identity()).text(example)) == signatures_of(example), name
