"""The table of fields is complete: a new field of the facts needs a row before it may leave."""

from __future__ import annotations

from ticket.places import CLOSED, number_places, string_places

from tfgpu_doctor.ticket.fields import ACCOUNTS, NUMBERS, RULES


def test_every_string_has_a_row() -> None:
    assert sorted(set(string_places()) - set(RULES)) == [], "add what becomes of it to doctor/ticket/fields.py"


def test_every_number_has_a_row() -> None:
    rows = ACCOUNTS | {f"{struct}.{name}" for struct, names in NUMBERS.items() for name in names.split()}
    assert sorted(number_places() ^ rows) == [], "if it tells of nobody, add it to doctor/ticket/fields.py"


def test_no_row_is_of_a_field_that_is_gone() -> None:
    assert sorted(set(RULES) - set(string_places())) == []


def test_only_what_the_reader_of_facts_checks_stays_unread() -> None:
    places = string_places()
    assert [place for place, rule in RULES.items() if rule == "closed" and places[place] != CLOSED] == []
