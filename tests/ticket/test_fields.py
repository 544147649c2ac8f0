"""Every field of the facts has a rule of redaction: without one it may not leave."""

from __future__ import annotations

import msgspec
import pytest
from ticket.places import FREE, string_places, structs_of_facts

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.redaction import Version, redactions_of
from tfgpu_doctor.ticket.scrub import Scrub


def test_every_field_has_a_rule() -> None:
    without = [
        f"{struct.__name__}.{name}"
        for struct in structs_of_facts()
        for name, rule in redactions_of(struct).items()
        if rule.plain
    ]
    assert sorted(without) == [], "give it a type of doctor/model/redaction.py"


def test_every_text_that_may_hold_anything_has_a_rule() -> None:
    ruled = set[str]()
    for struct in structs_of_facts():
        for name, rule in redactions_of(struct).items():
            ruled |= {f"{struct.__name__}.{name}"} if rule.values else set()
            ruled |= {f"{struct.__name__}.{name}[]"} if rule.keys else set()
    assert sorted(place for place, what in string_places().items() if what == FREE and place not in ruled) == []


class Careless(System, frozen=True):
    """A fact with a field whose author thought of no rule."""

    serial: str = ""


class Careful(System, frozen=True):
    """The same, with a rule."""

    asset: Version = ""


def test_a_field_without_a_rule_stops_the_ticket() -> None:
    machine = {"os": "Linux", "release": "6.8.0", "architecture": "x86_64"}
    with pytest.raises(KeyError, match=r"Careless\.serial has no rule"):
        Scrub(Facts()).fact(msgspec.convert({**machine, "serial": "1320022"}, Careless))
    assert Scrub(Facts()).fact(msgspec.convert({**machine, "asset": "2.1"}, Careful)).asset == "2.1"
