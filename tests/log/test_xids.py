"""The codes of NVIDIA's drivers in a log: each speaks for what the table says of it."""

from __future__ import annotations

import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.signatures import Hit
from tfgpu_doctor.log.xids import xid_signatures

KNOWLEDGE = read_knowledge()


def names_of(kind: str, *codes: int) -> list[str]:
    hits = [Hit(line, f"Xid {code}", {kind: str(code)}) for line, code in enumerate(codes, 1)]
    return [name for name, _ in xid_signatures({kind: hits}, KNOWLEDGE)]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (13, "xid_application"), (31, "xid_application"), (43, "xid_application"), (48, "xid_memory"),
        (62, "xid_application"), (63, "xid_memory"), (64, "xid_memory"), (68, "xid_application"),
        (79, "xid_off_the_bus"), (92, "xid_memory"), (94, "xid_memory"), (95, "xid_memory"), (140, "xid_memory"),
        (171, "xid_memory"), (54, "xid_off_the_bus"), (137, "xid_application"),
    ],
)  # fmt: skip
def test_a_code_speaks_for_its_cause(code: int, name: str) -> None:
    assert names_of("xid", code) == [name]


@pytest.mark.parametrize("code", [45, 74, 106, 109, 119, 120, 121, 154, 999999])
def test_a_code_that_may_be_anything_speaks_for_nothing(code: int) -> None:
    assert names_of("xid", code) == []


@pytest.mark.parametrize("code", [11012, 12028, 20034, 24007])
def test_a_code_of_a_switch_names_no_cause_of_the_gpus(code: int) -> None:
    assert names_of("sxid", code) == []


def test_every_line_has_its_own() -> None:
    assert names_of("xid", 48, 45, 79) == ["xid_memory", "xid_off_the_bus"]


def test_the_rules_know_the_names() -> None:
    known = {name for rule in KNOWLEDGE.log_rules for name in (*rule.any, *rule.all)}
    context = {name for _, code in KNOWLEDGE.xids for name in names_of("xid", code)}
    assert context <= known


def test_a_rule_names_the_cause_of_the_table() -> None:
    for (kind, code), row in KNOWLEDGE.xids.items():
        for name in names_of(kind, code):
            labels = {rule.label for rule in KNOWLEDGE.log_rules if name in rule.any}
            assert row.cause in labels or row.likely[0] == "application"
