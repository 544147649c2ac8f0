"""What `fleet history` says is new, gone, or comes and goes: on made-up fleets of which the truth is written down first."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

import numpy as np
from doctor_command import run_doctor
from fleet_days import FleetDays, date

from tfgpu_doctor.fleet.history import Event, History
from tfgpu_doctor.fleet.history_read import history_of
from tfgpu_doctor.fleet.history_words import event_lines, history_headline
from tfgpu_doctor.fleet.node import Cause, NodeOutcome, encode_node
from tfgpu_doctor.fleet.reporting import missing_node
from tfgpu_doctor.fleet.store import Store
from tfgpu_doctor.fleet.store_write import ingest

CHECK = "KRN001"
XID = Cause(label="gpu_off_the_bus", id=CHECK, title="Xid 79", severity="error", devices=("GPU-1",))
Had = Callable[[int, str], tuple[Cause, ...]]


def told(
    folder: pathlib.Path, had: Had, days: int, nodes: int = 10, checks: Callable[[int, str], str] | None = None
) -> History:
    """The history of a store of so many days. `checks`: the outcome of the check, where it is not what the causes make it."""
    fleet = FleetDays(nodes, gpus=1, measured=1)
    fleet.causes = had

    def outcome(day: int, node: str) -> dict[str, str]:
        usual = "fail" if any(each.id == CHECK for each in had(day, node)) else "pass"
        return {CHECK: (checks(day, node) if checks else "") or usual}

    fleet.checks = outcome
    store = Store(str(folder / "store"), create=True)
    for day in range(days):
        fleet.write(folder / str(day), day)
        ingest(str(folder / str(day)), store)
    return history_of(store)


def names(events: tuple[Event, ...]) -> set[str]:
    return {each.node for each in events}


def test_new_gone_and_steady(tmp_path: pathlib.Path) -> None:
    def had(day: int, node: str) -> tuple[Cause, ...]:
        there = {"n00001": day == 3, "n00002": day == 2, "n00003": True, "n00004": day < 2}
        return (XID,) if there.get(node) else ()

    found = told(tmp_path, had, 4)
    assert (names(found.new), names(found.recovered), names(found.flapping)) == ({"n00001"}, {"n00002"}, set())
    assert found.new[0].devices == ("GPU-1",)
    assert (found.new[0].before, found.recovered[0].before) == ("2026-01-03", "2026-01-03")
    assert found.exit_code == 1


def test_the_same_cause_on_another_gpu_is_new_and_the_first_is_gone(tmp_path: pathlib.Path) -> None:
    def had(day: int, node: str) -> tuple[Cause, ...]:
        other = Cause(label=XID.label, id=XID.id, title="other words", severity="error", devices=("GPU-2",))
        return () if node != "n00001" else (other,) if day == 3 else (XID,)

    found = told(tmp_path, had, 4)
    assert [each.devices for each in found.new] == [("GPU-2",)]
    assert [each.devices for each in found.recovered] == [("GPU-1",)]


def test_other_words_are_the_same_cause(tmp_path: pathlib.Path) -> None:
    def had(day: int, node: str) -> tuple[Cause, ...]:
        return (Cause(label="hot", id=CHECK, title=f"{80 + day} °C", severity="warning"),) if node == "n00001" else ()

    found = told(tmp_path, had, 4)
    assert not found.new + found.recovered + found.flapping


@pytest.mark.parametrize("outcome", ["skip", "blocked", "crash"])
def test_what_was_not_judged_has_not_gone(tmp_path: pathlib.Path, outcome: str) -> None:
    found = told(
        tmp_path,
        lambda day, node: (XID,) if node == "n00001" and day < 3 else (),
        4,
        checks=lambda day, node: outcome if node == "n00001" and day == 3 else "",
    )
    assert found.recovered == ()
    assert found.exit_code == 0


def test_what_comes_back_after_a_day_without_judgement_is_not_new(tmp_path: pathlib.Path) -> None:
    found = told(
        tmp_path,
        lambda day, node: (XID,) if node == "n00001" and day != 2 else (),
        4,
        checks=lambda day, node: "skip" if node == "n00001" and day == 2 else "",
    )
    assert not found.new + found.recovered + found.flapping


def test_a_cause_of_every_other_day_flaps_and_is_neither_new_nor_gone(tmp_path: pathlib.Path) -> None:
    found = told(tmp_path, lambda day, node: (XID,) if node == "n00001" and day % 2 else (), 7)
    assert (names(found.new), names(found.recovered), names(found.flapping)) == (set(), set(), {"n00001"})
    assert found.flapping[0].changes == 6


def test_a_node_that_falls_silent_is_new_and_one_that_comes_back_is_told(tmp_path: pathlib.Path) -> None:
    fleet = FleetDays(10, gpus=1, measured=1)
    store = Store(str(tmp_path / "store"), create=True)
    for day in range(3):
        fleet.write(tmp_path / str(day), day)
        silent = {0: (), 1: ("n00002",), 2: ("n00001",)}[day]
        for name in silent:
            (tmp_path / f"{day}/{name}.json").unlink()
        ingest(str(tmp_path / str(day)), store, expected=fleet.names)
    found = history_of(store)
    assert [(each.node, each.label) for each in found.new] == [("n00001", "no report")]
    assert [(each.node, each.label) for each in found.recovered] == [("n00002", "no report")]


def test_two_days_are_compared(tmp_path: pathlib.Path) -> None:
    fleet = FleetDays(10, gpus=1, measured=1)
    fleet.causes = lambda day, node: (XID,) if (node == "n00001") == (day == 1) and node < "n00004" else ()
    fleet.settings = lambda day, node: {
        **({"kernel": "new"} if day and node < "n00005" else {}), **({"$X": "1"} if not day else {}),
        **({"found on one day": "1"} if day else {}),
    }  # fmt: skip
    store = Store(str(tmp_path / "store"), create=True)
    for day in range(2):
        fleet.write(tmp_path / str(day), day)
        ingest(str(tmp_path / str(day)), store)
    between = history_of(store, days=(date(0), date(1))).between
    assert between is not None
    (cause,) = between.causes
    assert (cause.before, cause.after, cause.got, cause.lost) == (3, 1, ("n00001",), ("n00000", "n00002", "n00003"))
    changed = {(each.setting, each.after): len(each.nodes) for each in between.settings}
    assert changed == {("kernel", "new"): 5, ("$X", None): 10}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_states_at_random_agree_with_a_plain_loop(tmp_path: pathlib.Path, seed: int) -> None:
    """40 nodes over 10 days, each with a cause, without, not judged, or silent, as chance has it."""
    chance = np.random.default_rng(seed)
    states = chance.choice(["had", "passed", "skipped", "silent"], p=[0.25, 0.45, 0.15, 0.15], size=(40, 10))
    fleet = FleetDays(40, gpus=1, measured=1)

    def state(day: int, node: str) -> str:
        return str(states[int(node[1:]), day])

    fleet.causes = lambda day, node: (XID,) if state(day, node) == "had" else ()
    fleet.checks = lambda day, node: {CHECK: {"had": "fail", "passed": "pass"}.get(state(day, node), "skip")}
    store = Store(str(tmp_path / "store"), create=True)
    for day in range(10):
        fleet.write(tmp_path / str(day), day)
        for node in fleet.names:
            if state(day, node) == "silent":
                (tmp_path / f"{day}/{node}.json").unlink()
        ingest(str(tmp_path / str(day)), store, expected=fleet.names)
    wanted: dict[str, set[str]] = {"new": set(), "recovered": set(), "flapping": set()}
    for node in fleet.names:
        known = [each for each in states[int(node[1:])] if each in ("had", "passed")]
        if "had" not in known or state(9, node) not in ("had", "passed"):
            continue
        changes = sum(a != b for a, b in itertools.pairwise(known))
        if changes >= 3:
            wanted["flapping"].add(node)
        elif known[-1] == "had" and (len(known) == 1 or known[-2] == "passed"):
            wanted["new"].add(node)
        elif known[-1] == "passed" and known[-2:][0] == "had":
            wanted["recovered"].add(node)
    found = history_of(store)
    got = {kind: {each.node for each in getattr(found, kind) if each.id == CHECK} for kind in wanted}
    assert got == wanted


def test_who_is_busy_is_neither_silent_nor_recovered_and_each_reason_has_its_line(tmp_path: pathlib.Path) -> None:
    """n00001 has a cause, is busy, and is examined again; n00002 is busy on the last day; n00003 hangs and n00004 dies on it."""
    fleet = FleetDays(10, gpus=1, measured=1)
    fleet.causes = lambda day, node: (XID,) if node == "n00001" else ()
    fleet.checks = lambda day, node: {CHECK: "fail" if node == "n00001" else "pass"}
    silent: dict[int, dict[str, tuple[NodeOutcome, str]]] = {
        1: {"n00001": ("busy", "its GPUs were not free")},
        2: {
            "n00002": ("busy", "its GPUs were not free"), "n00003": ("hung", "no response"), "n00004": ("died", "gone"),
            "n00005": ("not granted", "no GPU"),
        },
    }  # fmt: skip
    store = Store(str(tmp_path / "store"), create=True)
    for day in range(3):
        fleet.write(tmp_path / str(day), day)
        for name, (outcome, reason) in silent.get(day, {}).items():
            (tmp_path / f"{day}/{name}.json").write_bytes(encode_node(missing_node(name, outcome, reason)))
        ingest(str(tmp_path / str(day)), store)
    found = history_of(store)
    assert {(each.node, each.title) for each in found.new} == {
        ("n00003", "hung: no response"),
        ("n00004", "died: gone"),
    }
    assert (found.recovered, found.flapping) == ((), ())
    lines = list(event_lines(found.new))
    assert sorted(lines) == ["1 node: n00003: hung: no response", "1 node: n00004: died: gone"]


@pytest.mark.parametrize("outcome", ["busy", "not granted"])
def test_a_day_on_which_nobody_was_judged_is_no_pass(tmp_path: pathlib.Path, outcome: NodeOutcome) -> None:
    fleet = FleetDays(10, gpus=1, measured=1)
    store = Store(str(tmp_path / "store"), create=True)
    for day in range(3):
        fleet.write(tmp_path / str(day), day)
        for file in (tmp_path / str(day)).glob("n*.json") if day == 2 else ():
            file.write_bytes(encode_node(missing_node(file.stem, outcome, "the batch system gave none")))
        ingest(str(tmp_path / str(day)), store, day=date(day))
    found = history_of(store)
    assert (found.new, found.exit_code, found.nodes) == ((), 3, 0)
    assert history_headline(found) == f"Not judged: no node reported on {date(2)}."
    one = history_of(store, node="n00001")
    assert (one.exit_code, history_headline(one)) == (3, f"Not judged: n00001 did not report on {date(2)}.")


def test_an_empty_folder_is_not_stored(tmp_path: pathlib.Path) -> None:
    """It would be the last day of the history, on which nothing is new."""
    (tmp_path / "reports").mkdir()
    arguments = (
        "fleet",
        "ingest",
        str(tmp_path / "reports"),
        "--store",
        str(tmp_path / "store"),
        "--day",
        "2026-01-01",
    )
    done = run_doctor(*arguments)
    assert (done.returncode, Store(str(tmp_path / "store")).runs()) == (3, [])
    assert "not stored; 0 nodes" in done.stdout
    assert run_doctor(*arguments, "--expect", "n1").returncode == 3
    assert len(Store(str(tmp_path / "store")).runs()) == 1  # a node that was expected is silent


def test_several_messages_of_one_cause_are_told_by_its_meaning() -> None:
    events = [
        Event(
            node=f"n{place}", id=CHECK, label="hardware_ecc_error", devices=(), severity="error",
            title=f"GPU 1 has {place} errors", before=None, changes=0, present=True,
        )
        for place in range(3)
    ]  # fmt: skip
    (line,) = event_lines(events)
    assert line.startswith("3 nodes: n0, n1, n2: the GPU's memory")


def test_on_its_first_day_nothing_is_new(tmp_path: pathlib.Path) -> None:
    found = told(tmp_path, lambda day, node: (XID,), 1)
    assert (found.new, found.recovered, found.flapping, found.exit_code) == ((), (), (), 0)
    assert any("the store has one day" in note for note in found.notes)
