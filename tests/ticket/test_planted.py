"""Secrets of many kinds, planted wherever facts hold a string, leave in none of a ticket's outputs."""

from __future__ import annotations

import io
import pathlib
import random
import zipfile
from collections.abc import Iterable
from typing import Any

import pytest
from every import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from locations import TESTS
from ticket.places import FREE, facts_with, string_places, with_planted
from ticket.secrets_of_kinds import KINDS, Secret

from tfgpu_doctor.model.bundle import pack
from tfgpu_doctor.model.facts import Facts, decode_facts
from tfgpu_doctor.ticket.contents import Source, Ticket, make_ticket
from tfgpu_doctor.ticket.identity import Identity
from tfgpu_doctor.ticket.preview import render_preview

MACHINES = sorted(path.parent for path in TESTS.glob("machines/*/*/facts.json"))
PLACES = sorted(place for place, what in string_places().items() if what == FREE)
NAMES = list(KINDS)
WINDOW = 12  # characters in a row that would tell a long secret


def outputs_of(ticket: Ticket) -> str:
    """All that leaves, or is shown: the page, the members of the zip as they are unpacked, the preview."""
    with zipfile.ZipFile(io.BytesIO(pack(ticket.files))) as bundle:
        members = [f"{each.filename}\n{bundle.read(each).decode()}" for each in bundle.infolist()]
    texts = (ticket.page, render_preview(ticket, whole=True), render_preview(ticket, whole=False), *members)
    lines = {line for text in texts for line in text.lower().splitlines()}
    return "\n".join(lines | {line.replace("\\", "") for line in lines})  # as in Markdown and JSON, and as meant


class Shown:
    """What a reader can find in the outputs; a search for a piece of a long secret is one look into a set."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.windows = {output[at : at + WINDOW] for at in range(len(output) - WINDOW + 1)}

    def __contains__(self, piece: str) -> bool:
        return piece in self.windows if len(piece) == WINDOW else piece in self.output


def told(shown: Shown, hidden: Iterable[str]) -> list[str]:
    """The pieces of secrets that can be read in it."""
    pieces = {piece for part in hidden for piece in pieces_of(part)}
    return [piece for piece in pieces if piece.lower() in shown]


def pieces_of(part: str) -> set[str]:
    """The whole of a short one, or of one in words; of a long one pieces that overlap."""
    if len(part) <= WINDOW or " " in part:
        return {part}
    return {part[at : at + WINDOW] for at in (*range(0, len(part) - WINDOW, WINDOW // 3), len(part) - WINDOW)}


def leaked(facts: Facts, planted: dict[str, Secret], log: bytes | None = None) -> dict[str, list[str]]:
    """What of the planted secrets can be read in the ticket, by place."""
    shown = Shown(outputs_of(make_ticket(Source(facts, Identity(), log=log))))
    found = {place: told(shown, secret.hidden) for place, secret in planted.items()}
    return {f"{place}: {planted[place].text!r}": pieces for place, pieces in found.items() if pieces}


def test_there_are_forty_kinds() -> None:
    assert len(KINDS) >= 40


def plant_in_all_places(turn: int, seed: int) -> dict[str, list[str]]:
    """Each place gets a secret of its own; with the turn, the kind goes on by one."""
    rng = random.Random(seed)
    planted: dict[str, Secret] = {}

    def fill(place: str) -> str:
        which = NAMES[(PLACES.index(place) + turn) % len(NAMES)]
        planted[f"{place} {len(planted)} {which}"] = secret = KINDS[which](rng)
        return secret.text

    return leaked(facts_with(fill), planted)


@given(turn=st.integers(0, len(NAMES) - 1), seed=st.integers(0, 2**32))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_no_secret_leaves_from_any_place(turn: int, seed: int) -> None:
    assert plant_in_all_places(turn, seed) == {}


@pytest.mark.parametrize("turn", sampled(range(len(NAMES)), 20))
def test_no_kind_of_secret_leaves_from_any_place(turn: int) -> None:
    assert plant_in_all_places(turn, seed=turn) == {}


def is_taken_for_a_version(which: str, place: str, around: Any) -> bool:
    """Four numbers as the version of a library of NVIDIA's: nobody can tell them from an address."""
    name = getattr(around, "soname", "") or getattr(around, "name", "")
    return which.startswith("ipv4") and place.endswith(".version") and name.startswith(("nvidia-", "lib"))


@pytest.mark.slow
@given(
    machine=st.sampled_from(MACHINES), which=st.sampled_from(NAMES), seed=st.integers(0, 2**32),
    how=st.sampled_from(("{secret}", "{text} {secret}", "{secret} {text}", "{text}: {secret}.", "{text} ({secret})")),
)  # fmt: skip
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_secret_leaves_a_recorded_machine(machine: pathlib.Path, which: str, seed: int, how: str) -> None:
    rng = random.Random(seed)
    planted: dict[str, Secret] = {}

    def plant(place: str, text: str, around: Any) -> str:
        if rng.random() < 0.7 or is_taken_for_a_version(which, place, around):
            return text
        planted[f"{place} {len(planted)} {which}"] = secret = KINDS[which](rng)
        return how.format(text=text, secret=secret.text)

    facts = with_planted(decode_facts((machine / "facts.json").read_bytes()), plant)
    assert leaked(facts, planted) == {}


@given(seed=st.integers(0, 2**32))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_no_secret_leaves_a_log(seed: int) -> None:
    rng = random.Random(seed)
    planted = {which: make(rng) for which, make in KINDS.items()}
    lines = [f"2026-11-21 10:11:12.123456: W tensorflow/core/x.cc:12] {each.text}" for each in planted.values()]
    assert leaked(Facts(), planted, log="\n".join(lines).encode()) == {}
