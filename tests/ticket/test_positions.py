"""Names and passwords that are ordinary words go where their position tells what they are; what looks alike stays."""

from __future__ import annotations

import json
import pathlib

import pytest
from locations import TESTS

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.ticket.identity import Identity
from tfgpu_doctor.ticket.scrub import Scrub

TABLES = json.loads((pathlib.Path(__file__).parent / "positions.json").read_text("utf-8"))
GO = [row for table in ("hosts", "columns", "labels", "paths") for row in TABLES[table]]


def scrub(text: str) -> str:
    return Scrub(Facts(), Identity()).text(text)


@pytest.mark.parametrize("row", GO, ids=lambda row: row[0][:40])
def test_a_word_goes_where_its_position_tells_what_it_is(row: list[str]) -> None:
    text, *values = row
    shared = scrub(text)
    assert [value for value in values if value.lower() in shared.lower()] == []


@pytest.mark.parametrize("text", TABLES["stay"])
def test_what_only_looks_alike_stays(text: str) -> None:
    assert scrub(text) == text


def test_a_name_goes_before_the_line_that_reveals_it_too() -> None:
    log = "volta3 is slow, says rich\nvolta3-ib0 is up\nrich@volta3:~$ nvidia-smi\nvolta3 is slow, says Rich"
    assert scrub(log) == (
        "<host-1> is slow, says <user-1>\n<text-1> is up\n<user-1>@<host-1>:~$ nvidia-smi\n<host-1> is slow, says <user-1>"
    )


def test_each_replacement_in_a_line_that_is_read_again_counts_once() -> None:
    scrubbed = Scrub(Facts(), Identity())
    scrubbed.text("volta3 and 10.44.3.17\nrich@volta3:~$ nvidia-smi")
    assert {each.kind: (each.values, each.times) for each in scrubbed.replaced} == {
        "user": (1, 1),
        "host": (1, 2),
        "ip": (1, 1),
    }


def test_a_short_name_of_a_node_is_known_from_its_position_on() -> None:
    assert (
        scrub("Node: c012\nc012 is down, c013 and 12 are not")
        == "Node: <host-1>\n<host-1> is down, c013 and 12 are not"
    )


def test_the_hosts_of_a_list_are_the_same_alone() -> None:
    assert scrub("mpirun -H gpu12:8,gpu14:8 train\ngpu14 and gpu12") == (
        "mpirun -H <host-1>:8,<host-2>:8 train\n<host-2> and <host-1>"
    )


@pytest.mark.parametrize("page", ["doctor/log/command.py", "docs/security.md", "docs/guide.md"])
def test_it_is_said_that_a_report_on_a_log_is_not_redacted(page: str) -> None:
    text = " ".join((TESTS.parent / page).read_text("utf-8").split())
    assert "quotes lines as they are" in text
    assert "ticket --log" in text
