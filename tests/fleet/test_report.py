"""Who is slow and what differs, found among made-up fleets; and healthy fleets of which hardly anyone is suspected."""

from __future__ import annotations

import datetime as dt
import pathlib
import statistics
from typing import Any

import msgspec
import pytest
from made_up_fleet import MEASURED, MODELS, MadeUpFleet, Noise, normal, skewed, student

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from tfgpu_doctor.fleet.fleet import Fleet
from tfgpu_doctor.fleet.known import KnownIssue
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.page import render_fleet
from tfgpu_doctor.fleet.thresholds import FEWEST_PEERS, least_z


def merged(fleet: MadeUpFleet, folder: pathlib.Path, **options: object) -> Fleet:
    fleet.write(folder, whole=False)
    return merge(str(folder), **options)  # type: ignore[arg-type]


# Healthy fleets


@pytest.mark.slow
@pytest.mark.parametrize("count", [60, 300, 1000, 10_000])
@pytest.mark.parametrize(
    ("noise", "models"),
    [(normal, 4), (student(3), 2), (student(5), 1), (skewed, 3)],
    ids=["normal", "t3", "t5", "skewed"],
)
def test_of_healthy_nodes_one_in_a_thousand_is_suspected(
    noise: Noise, models: int, count: int, tmp_path: pathlib.Path
) -> None:
    found = merged(MadeUpFleet(count, noise=noise, models=models, seed=count), tmp_path)
    assert len(found.statuses["suspect"]) <= max(1, count // 1000)
    assert found.statuses["differs"] == ()
    assert found.heard == count
    assert {kind.name for kind in found.kinds} == set(MODELS[:models])
    assert {each.nodes for each in found.series} <= {count // models, count // models + 1}


def test_a_healthy_fleet_is_a_pass(tmp_path: pathlib.Path) -> None:
    found = merged(MadeUpFleet(50), tmp_path)
    assert found.exit_code == 0
    assert len(found.statuses["good"]) == 50
    assert not found.causes + found.drift + found.suspects + found.varied + found.files + found.silent


# What is planted


@pytest.mark.slow
@pytest.mark.parametrize(("count", "models"), [(1000, 1), (10_000, 3)])
def test_all_slow_nodes_and_all_drifts_are_found(count: int, models: int, tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(count, models=models, seed=7)
    slow = {f"n{number * 37 + 5:05}": number % len(MEASURED) for number in range(20)}
    drifted = {f"n{number * 41 + 11:05}": f"5.15.0-{number}" for number in range(20)}
    for node, place in slow.items():
        fleet.slow(node, place)
    for node, kernel in drifted.items():
        fleet.set(node, {"kernel": kernel})
    found = merged(fleet, tmp_path)
    assert {each.node: each.measurement for each in found.suspects if each.node in slow} == {
        node: MEASURED[place][0] for node, place in slow.items()
    }
    assert len(set(found.statuses["suspect"]) - set(slow)) <= count // 1000
    assert {node: each.differences[0].value for each in found.drift for node in each.nodes} == drifted
    assert all(each.differences[0].setting == "kernel" for each in found.drift)
    assert found.exit_code == 1


def test_twenty_slow_nodes_on_one_measurement_do_not_hide_each_other(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(1000, seed=3)
    slow = {f"n{number * 50:05}" for number in range(20)}
    for node in slow:
        fleet.slow(node, 16)
    found = merged(fleet, tmp_path)
    assert {each.node for each in found.suspects} == slow
    assert {each.against for each in found.suspects} == {"peers"}
    each = found.suspects[0]
    assert each.value < each.limit < each.expected
    assert each.change == pytest.approx(each.value / each.expected - 1)


def test_what_is_less_than_anyone_would_act_on_is_no_finding(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(200, noise=lambda chance: 0.05 * chance.gauss(0, 1))
    fleet.slow("n00007", 16, by=0.03)
    assert merged(fleet, tmp_path).suspects == ()


def test_what_is_faster_is_no_suspect(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(100)
    fleet.slow("n00007", 16, by=-0.5)
    assert merged(fleet, tmp_path).exit_code == 0


def test_too_few_peers_are_told(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(FEWEST_PEERS - 1)
    fleet.slow("n00000", 16, by=0.9)
    found = merged(fleet, tmp_path)
    assert found.suspects == ()
    assert all("requires 6" in each.note and each.limit is None for each in found.series)
    assert not any(kind.compared for kind in found.kinds)


def test_a_few_peers_show_who_is_at_half_the_speed(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(8)
    fleet.slow("n00003", 16, by=0.5)
    assert [each.node for each in merged(fleet, tmp_path).suspects] == ["n00003"]


def test_a_slow_group_is_told_and_its_members_are_not_suspects(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(1000)
    for node in list(fleet.nodes)[:150]:
        fleet.slow(node, 16, by=0.2)
    found = merged(fleet, tmp_path)
    assert found.suspects == ()
    (told,) = [each for each in found.series if each.note]
    assert told.measurement == MEASURED[16][0]
    assert "150 of 1,000" in told.note


def test_fewer_peers_take_a_larger_z() -> None:
    limits = [least_z(count) for count in range(FEWEST_PEERS, 60)]
    assert limits == sorted(limits, reverse=True)
    assert limits[0] == pytest.approx(31.5)
    assert least_z(100_000) == 6.0


# Settings


def test_two_legitimate_groups_are_groups(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(1000)
    for node in list(fleet.nodes)[:400]:
        fleet.set(node, {"transparent huge pages": "always"})
    for node in list(fleet.nodes)[400:]:
        fleet.set(node, {"transparent huge pages": "madvise"})
    fleet.set("n00999", {"transparent huge pages": "never"})
    found = merged(fleet, tmp_path)
    (varied,) = found.varied
    assert [(each.value, each.count) for each in varied.groups] == [("madvise", 599), ("always", 400)]
    assert [each.nodes for each in found.drift] == [("n00999",)]


def test_a_little_less_memory_is_no_drift_and_a_lost_module_is(tmp_path: pathlib.Path) -> None:
    """The kernel keeps a part for itself, so equal nodes have a little more or less than 2014.5 GiB."""
    fleet = MadeUpFleet(20, models=2)
    for place, node in enumerate(fleet.nodes):
        fleet.set(node, {"memory": "251 GiB" if place % 2 else "2015 GiB"})
    for node, memory in (("n00002", "2014 GiB"), ("n00004", "1983 GiB"), ("n00003", "252 GiB"), ("n00005", "unknown")):
        fleet.set(node, {"memory": memory})
    found = merged(fleet, tmp_path)
    assert {each.nodes: (each.differences[0].value, each.differences[0].usual) for each in found.drift} == {
        ("n00004",): ("1983 GiB", "2015 GiB"), ("n00005",): ("unknown", "251 GiB"),
    }  # fmt: skip
    found = merge(str(tmp_path), golden="n00002")
    assert {each.nodes: (each.differences[0].value, each.differences[0].usual) for each in found.drift} == {
        ("n00004",): ("1983 GiB", "2014 GiB"), ("n00005",): ("unknown", "251 GiB"),
    }  # fmt: skip


def test_what_differs_on_every_node_is_no_drift(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(200)
    for node in fleet.nodes:
        fleet.set(node, {"$SLURMD_NODENAME": node})
    found = merged(fleet, tmp_path)
    assert found.drift == ()
    assert [(each.setting, each.values, each.groups) for each in found.varied] == [("$SLURMD_NODENAME", 200, ())]
    assert found.exit_code == 0


def test_a_variable_that_one_node_has_or_lacks_is_drift(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(20)
    for node in fleet.nodes:
        fleet.set(node, {"$NCCL_IB_HCA": "mlx5"} if node != "n00003" else {"$LD_PRELOAD": "x.so"})
    (drift,) = merged(fleet, tmp_path).drift
    assert drift.nodes == ("n00003",)
    assert {(each.setting, each.value, each.usual) for each in drift.differences} == {
        ("$NCCL_IB_HCA", None, "mlx5"), ("$LD_PRELOAD", "x.so", None),
    }  # fmt: skip


def test_a_setting_that_could_not_be_read_is_no_drift(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(20)
    del fleet.nodes["n00003"]["settings"]["kernel"]  # shared by all: nobody has it
    fleet.nodes["n00004"]["settings"] = {**fleet.nodes["n00004"]["settings"]}
    del fleet.nodes["n00004"]["settings"]["system"]
    assert merged(fleet, tmp_path).drift == ()


def test_a_node_that_lost_a_gpu_keeps_its_peers(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(20)
    fleet.set("n00003", {"GPU models": f"7 x {MODELS[0]}", "GPUs that NVML lists": "7"})
    found = merged(fleet, tmp_path)
    assert [kind.nodes for kind in found.kinds] == [20]
    assert [(each.nodes, len(each.differences)) for each in found.drift] == [(("n00003",), 2)]


def test_a_node_whose_gpus_do_not_answer_is_compared_by_what_it_tells(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(20)
    settings = {name: value for name, value in fleet.nodes["n00003"]["settings"].items() if name != "GPU models"}
    fleet.nodes["n00003"]["settings"] = {**settings, "kernel": "old"}
    found = merged(fleet, tmp_path)
    assert [(each.nodes, each.kind) for each in found.drift] == [(("n00003",), MODELS[0])]


def test_a_golden_node_overrules_the_majority(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(20, models=2)
    fleet.set("n00004", {"kernel": "new", "$XLA_FLAGS": "y"})
    found = merged(fleet, tmp_path, golden="n00004")
    (drift,) = found.drift
    assert len(drift.nodes) == 9  # of its kind, without itself
    assert {(each.setting, each.usual) for each in drift.differences} == {("kernel", "new"), ("$XLA_FLAGS", "y")}
    with pytest.raises(KeyError):
        merge(str(tmp_path), golden="n99999")


# Causes, silence, the second look, history


def test_causes_come_with_their_nodes(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(12)
    broken = MadeUpFleet(3, machine="tensorflow-2.21.0-misses-cusolver", healthy=False)
    for place, node in enumerate(broken.nodes.values()):
        fleet.nodes[f"b{place}"] = {**node, "node": f"b{place}"}
    found = merged(fleet, tmp_path)
    assert found.causes[0].nodes == ("b0", "b1", "b2")
    assert found.causes[0].severity == "error"
    assert found.statuses["fails"] == ("b0", "b1", "b2")
    assert len(found.patterns) == 2


def test_nodes_without_a_report_are_named_with_their_reasons(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(10)
    nothing: dict[str, Any] = {"exit_code": None, "settings": {}, "measurements": (), "checks": {}}
    fleet.nodes["n00001"].update(nothing, outcome="hung", reason="no answer within 300 s")
    fleet.nodes["n00002"].update(nothing, outcome="died", reason="killed by signal 9")
    found = merged(fleet, tmp_path, expected=[*fleet.nodes, "n77777"])
    assert {(each.outcome, each.nodes) for each in found.silent} == {
        ("hung", ("n00001",)), ("died", ("n00002",)), ("not heard of", ("n77777",)),
    }  # fmt: skip
    assert found.statuses["silent"] == ("n00001", "n00002", "n77777")
    assert (found.heard, found.expected, found.exit_code) == (8, 11, 1)


def test_a_node_that_was_not_judged_is_no_pass(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(10)
    fleet.nodes["n00001"]["exit_code"] = 3
    found = merged(fleet, tmp_path)
    assert found.exit_code == 3
    assert found.not_judged == ("n00001",)


def test_why_nodes_were_not_judged_is_said_by_reason_with_what_to_do(tmp_path: pathlib.Path) -> None:
    """Also of a report of an earlier doctor, which has no reason; a node that somebody looks after is not among them."""
    fleet = MadeUpFleet(20)
    why = "TFW004 was skipped: no Python environment was examined"
    for name in ("n00001", "n00002"):
        fleet.nodes[name].update(exit_code=3, unjudged=why)
    fleet.nodes["n00003"].update(exit_code=3, unjudged="a check crashed: XYZ001: its own bug")
    fleet.nodes["n00004"].update(exit_code=3)
    del fleet.nodes["n00004"]["unjudged"]
    nothing: dict[str, Any] = {"exit_code": None, "settings": {}, "measurements": (), "checks": {}}
    for name in ("n00005", "n00006"):
        fleet.nodes[name].update(nothing, outcome="busy", reason="its GPUs were not free")
    issue = KnownIssue(nodes=("n00006",), cause="busy", owner="bob", until=dt.date(2999, 1, 1))
    found = merged(fleet, tmp_path, issues=(issue,))
    assert [(each.nodes, each.reason) for each in found.unjudged] == [
        (("n00001", "n00002"), why),
        (("n00003",), "a check crashed: XYZ001: its own bug"),
        (("n00005",), "busy, its GPUs were not free"),
        (("n00004",), "the doctor ended with exit code 3 and its report has no reason"),
    ]
    assert sorted(name for each in found.unjudged for name in each.nodes) == sorted(found.not_judged)
    text = render_fleet(found, "text", width=400)
    assert f"2 nodes: n00001, n00002: {why}; next: run `tfgpu-doctor -v` on such a node" in text
    assert "next: this is a defect of the check and not of the node" in text
    assert "busy, its GPUs were not free; next: examine them again when nobody uses their GPUs" in text
    assert why in render_fleet(found, "markdown")
    page = render_fleet(found, "html")
    assert page.count("TFW004 was skipped") == 3  # the section, and the row of each node
    assert page.count("busy, its GPUs were not free") == 2


def test_a_suite_that_measured_nothing_is_said(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(10)
    why = "multi_worker: the workers do not find each other"
    for name in ("n00001", "n00002"):
        fleet.nodes[name].update(exit_code=3, reason=why)
    found = merged(fleet, tmp_path)
    assert [(each.reason, each.nodes) for each in found.not_measured] == [(why, ("n00001", "n00002"))]
    assert (found.exit_code, found.not_judged) == (3, ("n00001", "n00002"))
    text = render_fleet(found, "text", width=120, colour=False)
    assert text.count("n00001") == 1
    assert f"Asked for, but not measured\n  • 2 nodes: n00001, n00002: {why}" in text


def test_nobody_at_all_is_no_pass(tmp_path: pathlib.Path) -> None:
    assert merge(str(tmp_path)).exit_code == 3
    assert merge(str(tmp_path), expected=["a"]).exit_code == 3


def test_only_who_is_slow_twice_is_bad(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(50)
    for node in ("n00003", "n00004", "n00005"):
        fleet.slow(node, 16, by=0.2)
    fleet.write(tmp_path)
    again = MadeUpFleet(50, seed=2)
    again.slow("n00003", 16, by=0.2)
    again.write(tmp_path / "second", only={"n00003", "n00004", "n00030"})
    found = merge(str(tmp_path))
    assert found.statuses["bad"] == ("n00003",)
    assert found.statuses["suspect"] == ("n00004", "n00005")
    second = {each.node: each.second for each in found.suspects}
    assert second["n00005"] is None
    assert (second["n00003"].slow, second["n00004"].slow) == (True, False)  # type: ignore[union-attr]
    assert second["n00004"].value == pytest.approx(720, rel=0.05)  # type: ignore[union-attr]


def test_a_node_is_compared_with_its_own_earlier_runs(tmp_path: pathlib.Path) -> None:
    """Nodes that are as different as a tenth from each other, each steady by itself."""
    fleet = MadeUpFleet(60, noise=lambda chance: 5 * chance.gauss(0, 1))
    for run in range(3):
        fleet.write(tmp_path / f"run{run}")
    fleet.slow("n00007", 16, by=0.12)
    found = merged(fleet, tmp_path / "now", history=[str(tmp_path / f"run{run}") for run in range(3)])
    (suspect,) = found.suspects
    assert (suspect.node, suspect.against) == ("n00007", "own history")
    assert suspect.change == pytest.approx(-0.12, abs=0.001)
    assert found.changes == ()


def test_a_fleet_that_got_slower_as_a_whole_is_told(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(60)
    fleet.write(tmp_path / "before")
    for node in fleet.nodes:
        fleet.slow(node, 16, by=0.1)
    found = merged(fleet, tmp_path / "now", history=[str(tmp_path / "before")])
    assert found.suspects == ()
    assert [(each.measurement, round(each.change, 3), each.nodes) for each in found.changes] == [
        (MEASURED[16][0], -0.1, 60)
    ]
    assert found.exit_code == 1


def test_each_model_is_compared_with_itself(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(40, models=2)
    found = merged(fleet, tmp_path)
    assert len(found.series) == 2 * len(MEASURED)
    values = [
        each.value for node in fleet.nodes.values() for each in node["measurements"][16:17] if each.model == MODELS[1]
    ]
    series = next(each for each in found.series if (each.measurement, each.model) == (MEASURED[16][0], MODELS[1]))
    assert series.median == pytest.approx(statistics.median(values), rel=1e-3)
    assert sum(series.bins) == series.values == 20


def test_devices_of_one_node_are_each_other_s_peers(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(1)
    (node,) = fleet.nodes.values()
    one = node["measurements"][16]
    node["measurements"] = [
        msgspec.structs.replace(one, device=f"GPU:{index}", value=one.value * (0.5 if index == 5 else 1 + index / 1000))
        for index in range(8)
    ]
    assert [each.device for each in merged(fleet, tmp_path).suspects] == ["GPU:5"]
