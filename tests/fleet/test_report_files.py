"""What lies in a fleet's folder: every file is merged or named, and none of them hangs, fills or breaks the comparison."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest
from made_up_fleet import MadeUpFleet, sample
from processor_time import least_seconds

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from tfgpu_doctor.fleet.fleet import Fleet, Series
from tfgpu_doctor.fleet.formats import FLEET_FORMATS
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.node import encode_node, file_name
from tfgpu_doctor.fleet.page import render_fleet
from tfgpu_doctor.fleet.reporting import missing_node


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    MadeUpFleet(8).write(tmp_path)
    return tmp_path


def refused(folder: pathlib.Path, name: str) -> str:
    """Why the one file that is no report is none."""
    found = merge(str(folder))
    assert found.heard == 8
    (file,) = found.files
    assert file.file == name
    assert found.exit_code == (1 if file.fault else 0)
    return file.why


def test_every_length_that_a_file_may_be_cut_at_is_named(folder: pathlib.Path) -> None:
    whole = (folder / "n00001.json").read_bytes()
    for length in (0, 1, 20, 100, 2000, whole.index(b'"report"'), len(whole) // 2, len(whole) - 3, len(whole) - 2):
        (folder / "cut.json").write_bytes(whole[:length])
        why = refused(folder, "cut.json")
        assert why == "empty" if not length else why.startswith("truncated")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[]", "not a node report"),
        (b"\x00\x01\x02", "not a node report"),
        (b"\xff\xfe{\x00", "not a node report"),
        (b"\x1f\x8b\x08", "not a node report"),
        (b"{}", "not a node report of this doctor"),
        (b'{"schema": 1, "healthy": true, "results": []}', "not a node report of this doctor"),
        (b'{"kind": "tfgpu-doctor node", "schema": 2, "node": "x"}', "its schema is 2"),
        (b'{"kind": "tfgpu-doctor node", "schema": 1, "node": 5}', "not a valid node report"),
        (b'{"kind": "tfgpu-doctor node", "schema": 1, "node": "x", "outcome": "fine"}', "not a valid node report"),
        (b'{"kind": "tfgpu-doctor node", "schema": 1, "node": "", "outcome": "reported"}', "its node name has 0"),
        (b'{"kind": "tfgpu-doctor node", "schema": 1, "node": "x", "outcome": "reported", "settings": [1]}', "not a valid node report"),
        (b'{"kind": "tfgpu-doctor node", "schema": 1, "node": "x", "outcome": "reported", "checks": {"A": 1}}', "not a valid node report"),
        (b"[" * 100_000, "not a node report"),
        (b'{"a":' * 100_000, "truncated, or not JSON"),
    ],
)  # fmt: skip
def test_foreign_files_are_named(content: bytes, why: str, folder: pathlib.Path) -> None:
    (folder / "other.json").write_bytes(content)
    assert refused(folder, "other.json").startswith(why)


def test_a_file_of_a_gigabyte_costs_one_line_and_is_not_read(folder: pathlib.Path) -> None:
    def look() -> None:
        assert refused(folder, "huge.json") == "too large to be a report (1.1 GB)"

    merge(str(folder))
    with (folder / "huge.json").open("wb") as file:
        file.truncate(1 << 30)
    assert least_seconds(look) < 2


def test_pipes_links_and_folders_are_named_and_not_opened(folder: pathlib.Path) -> None:
    os.mkfifo(folder / "pipe.json")
    os.symlink("/dev/zero", folder / "zero.json")
    os.symlink("gone", folder / "gone.json")
    (folder / "folder.json").mkdir()
    found = merge(str(folder))
    assert {each.file: each.why for each in found.files} == {
        "pipe.json": "not a regular file", "zero.json": "a link, which is not followed", "gone.json": "a link, which is not followed",
        "folder.json": "a folder",
    }  # fmt: skip


def test_what_lies_beside_the_reports_is_named_without_fault(folder: pathlib.Path) -> None:
    (folder / "slurm-17.out").write_text("x")
    assert refused(folder, "slurm-17.out") == "not a .json file"


def test_what_was_left_unfinished_is_a_fault(folder: pathlib.Path) -> None:
    (folder / "n00009.json.4711.140000.part").write_text('{"schema"')
    assert refused(folder, "n00009.json.4711.140000.part") == "an unfinished write"


def test_names_that_are_no_utf_8_are_named(folder: pathlib.Path) -> None:
    for name in (b"\xff.json", b"\xfe.txt"):
        pathlib.Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(b"x")
    (folder / "alone.json").write_bytes((folder / "n00001.json").read_bytes().replace(b"n00001", b"\\ud800x"))
    found = merge(str(folder))
    assert {each.file for each in found.files} == {"\ufffd.json", "\ufffd.txt", "alone.json"}
    for format_ in FLEET_FORMATS:
        render_fleet(found, format_).encode()


def test_a_second_report_of_a_node_is_named(folder: pathlib.Path) -> None:
    for name in ("a-copy.json", "z-copy.json"):
        (folder / name).write_bytes((folder / "n00001.json").read_bytes())
    found = merge(str(folder))
    assert {(each.file, each.why) for each in found.files} == {
        (name, "a second report for the node n00001") for name in ("a-copy.json", "z-copy.json")
    }
    assert len(found.statuses["good"]) == 8


def test_a_renamed_report_is_the_node_s_all_the_same(folder: pathlib.Path) -> None:
    (folder / "n00001.json").rename(folder / "the-first-node.json")
    found = merge(str(folder))
    assert (found.heard, found.files) == (8, ())


def test_a_report_in_another_layout_is_read_whole(folder: pathlib.Path) -> None:
    path = folder / "n00001.json"
    path.write_text(json.dumps(dict(reversed(json.loads(path.read_bytes()).items())), indent=2))
    assert merge(str(folder)).heard == 8


def test_what_waits_for_nodes_writes_is_read(folder: pathlib.Path) -> None:
    for node in ("../x", "a/b", "\u202enode"):
        (folder / file_name(node)).write_bytes(encode_node(missing_node(node, "hung", "no answer")))
    found = merge(str(folder))
    assert found.statuses["silent"] == tuple(sorted(("../x", "a/b", "\u202enode")))


def test_a_name_in_a_text_does_not_end_the_report_early(folder: pathlib.Path) -> None:
    path = folder / "n00001.json"
    document = json.loads(path.read_bytes())
    document["settings"]["$X"] = ',"report":{'
    path.write_bytes(json.dumps(document, separators=(",", ":")).encode() + b"\n")
    (drift,) = merge(str(folder)).drift
    assert drift.differences[0].value == ',"report":{'


def with_value(folder: pathlib.Path, value: str) -> tuple[Fleet, Series]:
    """The fleet in which the first measurement of a node is that, and the series of this measurement."""
    path = folder / "n00001.json"
    head = path.read_bytes()
    at = head.index(b'"value":') + len(b'"value":')
    path.write_bytes(head[:at] + value.encode() + head[head.index(b",", at) :])
    found = merge(str(folder))
    (series,) = [each for each in found.series if each.measurement == json.loads(head)["measurements"][0]["name"]]
    return found, series


@pytest.mark.parametrize("value", ["-1", "0", "1e-320", "1e-16", "1e19"])
def test_values_that_are_none_are_left_out(value: str, folder: pathlib.Path) -> None:
    found, series = with_value(folder, value)
    assert (found.heard, found.files) == (8, ())
    assert found.notes == ("1 value is outside the range of any measurement and left out",)
    assert (series.nodes, series.values) == (7, 7)
    assert {each.values for each in found.series if each != series} == {8}


def test_the_largest_value_of_all_is_compared(folder: pathlib.Path) -> None:
    found, series = with_value(folder, "1e18")
    assert (found.notes, series.values) == ((), 8)


def test_a_value_that_no_number_holds_makes_the_report_none(folder: pathlib.Path) -> None:
    found, series = with_value(folder, "1e999")
    assert [each.file for each in found.files] == ["n00001.json"]
    assert "Number out of range" in found.files[0].why
    assert (found.heard, found.notes, series.values) == (7, (), 7)


def test_thousands_of_settings_and_endless_names_are_bounded(folder: pathlib.Path) -> None:
    head, _ = sample()
    troubles: dict[str, dict[str, Any]] = {
        "many": {"settings": {f"s{number}": "x" for number in range(3000)}},
        "long": {"settings": {"kernel": "x" * 1_000_000}},
        "named": {"node": "x" * 1000},
        "measured": {"measurements": [{"name": f"m{number}", "value": 1, "unit": "s"} for number in range(6000)]},
    }
    for name, changes in troubles.items():
        (folder / f"{name}.json").write_text(json.dumps({**head, "node": name, **changes}))
    found = merge(str(folder))
    assert {each.file for each in found.files} == {"many.json", "named.json", "measured.json"}
    assert found.heard == 9
    assert max(len(each.value or "") for drift in found.drift for each in drift.differences) == 300


def test_settings_that_are_no_utf_8_are_said_to_be_so(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(3)
    fleet.write(tmp_path)
    path = tmp_path / "n00001.json"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"settings":{"', b'"settings":{"\xa4', 1))
    assert path.read_bytes() != content
    found = merge(str(tmp_path))
    assert [each.file for each in found.files] == ["n00001.json"]
    assert "not a valid node report" in found.files[0].why
