"""What nodes have is found again by its key, whatever its words and numbers say."""

from __future__ import annotations

import pathlib

import pytest
from made_up_fleet import MadeUpFleet

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from tfgpu_doctor.fleet.fleet import Fleet
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.node import Cause, Unmet
from tfgpu_doctor.fleet.page import render_fleet
from tfgpu_doctor.model import Figure

WORDS = "{} words of GPU 1 came back changed"


def changed(words: int, device: str = "GPU-1", label: str = "gpu_memory_wrong") -> Cause:
    figures = (Figure("words changed", words, device=device),)
    return Cause(
        label=label, id="STR003", title=WORDS.format(words), severity="error", devices=(device,) if device else (),
        figures=figures,
    )  # fmt: skip


def twice(folder: pathlib.Path, first: Cause | Unmet, second: Cause | Unmet) -> Fleet:
    """Eight nodes, of which one has a trouble in its first test and one in its retest."""
    for where, trouble in ((folder, first), (folder / "second", second)):
        fleet = MadeUpFleet(8)
        field = "causes" if isinstance(trouble, Cause) else "unmet"
        fleet.nodes["n00003"].update({field: (trouble,), "exit_code": 1})
        where.mkdir(exist_ok=True)
        fleet.write(where, only={"n00003", "n00005"} if where != folder else None)
    return merge(str(folder))


@pytest.mark.parametrize(
    ("second", "bad"),
    [
        (changed(2), True),
        (changed(3), True),
        (changed(3, device=""), True),  # it does not say on which
        (changed(2, device="GPU-2"), False),
        (changed(2, device="0000:3b:00.0"), True),  # lost since: no table gives its UUID any more
        (changed(2, label="gpu_overheats"), False),
    ],
)
def test_a_node_that_fails_twice_is_bad_whatever_the_number(tmp_path: pathlib.Path, second: Cause, bad: bool) -> None:
    fleet = twice(tmp_path, changed(2), second)
    assert ("n00003" in fleet.statuses["bad"]) == bad
    assert ("n00003" in fleet.statuses["fails"]) != bad


def test_a_cause_is_found_again_by_whichever_check(tmp_path: pathlib.Path) -> None:
    again = Cause(label="gpu_memory_wrong", id="HLT001", title="errors", severity="error", devices=("GPU-1",))
    assert twice(tmp_path, changed(2), again).statuses["bad"] == ("n00003",)


def test_a_warning_that_is_an_error_the_second_time_is_found_again(tmp_path: pathlib.Path) -> None:
    again = Cause(label="gpu_memory_wrong", id="STR003", title="worse", severity="warning", devices=("GPU-1",))
    assert twice(tmp_path, changed(2), again).statuses["bad"] == ("n00003",)


@pytest.mark.parametrize(("key", "bad"), [("speed.copy", True), ("speed.matmul", False)])
def test_a_requirement_is_found_again_by_its_key(tmp_path: pathlib.Path, key: str, bad: bool) -> None:
    first = Unmet(key="speed.copy", title="copies", required="24 GB/s", measured="11.2 GB/s on GPU:3")
    again = Unmet(key=key, title="copies", required="24 GB/s", measured="11.9 GB/s on GPU:3")
    fleet = twice(tmp_path, first, again)
    assert (fleet.statuses["bad"] == ("n00003",)) == bad
    assert [(group.title, group.examples) for group in fleet.unmet] == [
        ("copies: 24 GB/s required", ("11.2 GB/s on GPU:3",))
    ]


def test_one_cause_with_twenty_counts_is_one_row_and_one_series(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(40)
    for place, node in enumerate(list(fleet.nodes.values())[:20]):
        cause = Cause(label="hardware_ecc_error", id="GPU011", title=f"GPU 1 has {place} errors", severity="error")
        node.update(causes=(cause,), exit_code=1)
    fleet.write(tmp_path)
    found = merge(str(tmp_path))
    (group,) = found.causes
    assert len(group.nodes) == 20
    assert len(group.examples) == 3
    assert not any(character.isdigit() for character in group.title)
    text = render_fleet(found, "text", width=200, colour=False)
    assert text.count("hardware_ecc_error") == 1
    series = [line for line in render_fleet(found, "prometheus").splitlines() if "cause_nodes{" in line]
    assert series == ['tfgpu_doctor_fleet_cause_nodes{id="GPU011",label="hardware_ecc_error",severity="error"} 20.0']


def test_one_cause_with_one_message_keeps_it(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(40)
    for node in list(fleet.nodes.values())[:3]:
        node.update(
            causes=(Cause(label="driver_too_old", id="DRV002", title="driver 470 is too old", severity="error"),)
        )
    fleet.write(tmp_path)
    (group,) = merge(str(tmp_path)).causes
    assert (group.title, group.examples) == ("driver 470 is too old", ())
