"""The tables of error codes: every row well-formed, its label one of the vocabulary."""

from __future__ import annotations

import re

import pytest

from tfgpu_doctor.knowledge import Xid, read_knowledge, version

KNOWLEDGE = read_knowledge()
LIKELY = {"application", "driver", "hardware", "GPU memory", "system memory", "bus", "thermal", "power"}
each_xid = pytest.mark.parametrize("xid", KNOWLEDGE.xids.values(), ids=lambda xid: f"{xid.kind}{xid.code}")


@each_xid
def test_a_xid_is_well_formed(xid: Xid) -> None:
    assert re.fullmatch(r"[A-Z0-9_]+", xid.name)
    assert 10_000 <= xid.code < 30_000 if xid.kind == "sxid" else 1 <= xid.code < 1000
    assert xid.cause == "" or xid.cause in KNOWLEDGE.causes
    assert set(xid.likely) <= LIKELY
    assert len(set(xid.likely)) == len(xid.likely)
    assert xid.meaning == xid.meaning.strip(" .")
    assert xid.action.endswith(".")


@each_xid
def test_what_must_be_acted_upon_has_a_cause(xid: Xid) -> None:
    if xid.severity == "info":
        assert xid.cause == ""
    else:
        assert xid.cause != ""
        assert xid.action != "None is needed."


@each_xid
def test_the_drivers_of_a_xid_are_versions(xid: Xid) -> None:
    since, until = xid.drivers.since, xid.drivers.until
    assert not since or version(since) > version("400")
    assert not until or version(until) > version("200")
    assert not (since and until) or version(since) <= version(until)


def test_every_code_of_nvidias_catalogue_is_there() -> None:
    assert {code for kind, code in KNOWLEDGE.xids if kind == "xid"} >= set(range(1, 173))
    assert sum(kind == "sxid" for kind, _ in KNOWLEDGE.xids) >= 80


@pytest.mark.parametrize(
    ("code", "cause", "severity", "fatal", "likely"),
    [
        (13, "undetermined", "warning", True, "application"),
        (31, "undetermined", "warning", True, "application"),
        (43, "undetermined", "warning", True, "application"),
        (45, "", "info", True, "application"),
        (48, "hardware_ecc_error", "error", True, "hardware"),
        (54, "hardware_power_supply", "error", False, "power"),
        (62, "hardware_faulty_gpu", "error", True, "hardware"),
        (63, "hardware_ecc_error", "warning", False, "hardware"),
        (64, "hardware_ecc_error", "error", False, "hardware"),
        (74, "undetermined", "error", True, "hardware"),
        (79, "hardware_power_supply", "error", True, "power"),
        (94, "hardware_ecc_error", "error", True, "hardware"),
        (95, "hardware_ecc_error", "error", True, "hardware"),
        (119, "undetermined", "error", True, "driver"),
        (121, "", "info", False, "hardware"),
    ],
)
def test_xids_that_are_often_seen(code: int, cause: str, severity: str, fatal: bool, likely: str) -> None:
    row = KNOWLEDGE.xids["xid", code]
    assert (row.cause, row.severity, row.fatal, row.likely[0]) == (cause, severity, fatal, likely)
