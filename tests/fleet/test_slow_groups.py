"""Several whole nodes that are slow together, such as those of one rack; and noise that looks like it and is not."""

from __future__ import annotations

import datetime as dt
import math
import pathlib
import random
from collections.abc import Callable

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from fleet_days import FleetDays
from made_up_fleet import MEASURED, MadeUpFleet

from tfgpu_doctor.fleet.fleet import Fleet
from tfgpu_doctor.fleet.known import KnownIssue
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.page import render_fleet
from tfgpu_doctor.fleet.retest import chosen_again
from tfgpu_doctor.fleet.slow_groups import NodeLevel, slow_nodes

CLOSING = "No node is slower than noise explains."


def slowed(
    folder: pathlib.Path, nodes: int, slow: int, *, gpus: int = 8, slow_gpus: int = 8, **options: object
) -> Fleet:
    """A fleet of which the first nodes are 20 % slower in the first measurement, on so many of their GPUs."""
    fleet = FleetDays(nodes, gpus=gpus, measured=2)
    for place in range(slow):
        for gpu in range(slow_gpus):
            fleet.drifts[place, gpu, 0] = lambda _: -math.log(0.8)
    fleet.write(folder, 0)
    return merge(str(folder), **options)  # type: ignore[arg-type]


def test_a_slow_rack_is_a_finding(tmp_path: pathlib.Path) -> None:
    found = slowed(tmp_path, 100, 3)
    assert (found.exit_code, found.suspects) == (1, ())
    (group,) = found.slow_groups
    assert group.nodes == found.statuses["suspect"] == ("n00000", "n00001", "n00002")
    assert (group.measurement, group.others, group.against) == (MEASURED[0][0], 97, "peers")
    assert group.change == pytest.approx(0.25, abs=0.03)  # seconds
    text = " ".join(render_fleet(found, "text", width=300).split())
    assert "100 nodes: 3 suspect, 97 good." in text
    assert f"3 nodes: n00000, n00001, n00002: {MEASURED[0][0]} " in text
    assert "against 97 other nodes" in text
    assert "look for what they share" in text
    assert CLOSING not in text
    assert MEASURED[0][0] in render_fleet(found, "html").partition("node-rows")[2]


def test_a_slow_group_is_not_tested_again_as_if_each_had_its_own_fault(tmp_path: pathlib.Path) -> None:
    assert chosen_again(slowed(tmp_path, 100, 3), {}, (), failures=False) == ()


def test_a_known_slow_group_is_green(tmp_path: pathlib.Path) -> None:
    issue = KnownIssue(nodes=("n[00000-00002]",), cause=MEASURED[0][0], owner="anna", until=dt.date(2999, 1, 1))
    found = slowed(tmp_path, 100, 3, issues=(issue,))
    assert (found.exit_code, len(found.statuses["known"])) == (0, 3)
    assert CLOSING not in render_fleet(found, "text")


def test_a_batch_of_other_machines_is_a_note(tmp_path: pathlib.Path) -> None:
    found = slowed(tmp_path, 120, 24)
    assert (found.exit_code, found.suspects, found.slow_groups) == (0, (), ())
    assert any(each.note for each in found.series)
    assert CLOSING not in " ".join(render_fleet(found, "text").split())


@pytest.mark.parametrize(
    ("nodes", "slow", "is_one"),
    [
        (12, 2, False),
        (12, 3, False),
        (13, 3, True),
        (100, 19, True),
        (100, 20, False),
        (1000, 49, True),
        (1000, 50, False),
    ],
    ids=["two", "a quarter", "three", "19", "a batch", "49 of 1,000", "a large batch"],
)
def test_a_group_is_neither_single_nodes_nor_a_batch(nodes: int, slow: int, is_one: bool) -> None:
    levels = [NodeLevel(each, 8, 8, 0.2) if each < slow else NodeLevel(each, 8, 0, 0.0) for each in range(nodes)]
    assert len(slow_nodes(levels, 0.1)) == (slow if is_one else 0)


def test_slow_devices_of_other_nodes_make_the_measurement_unstable() -> None:
    levels = [NodeLevel(each, 8, 8 if each < 4 else 1, 0.2 if each < 4 else 0.0) for each in range(40)]
    assert slow_nodes(levels, 0.1) == []


def test_a_rack_that_got_slower_is_told_by_its_own_history(tmp_path: pathlib.Path) -> None:
    """Nodes that are so different from each other that only their own earlier runs show it."""
    fleet = FleetDays(100, measured=2)
    fleet.own *= 6
    for day in range(3):
        fleet.write(tmp_path / str(day), day)
    for place in range(3):
        for gpu in range(8):
            fleet.drifts[place, gpu, 0] = lambda _: -math.log(0.8)
    fleet.write(tmp_path / "now", 3)
    found = merge(str(tmp_path / "now"), history=[str(tmp_path / str(day)) for day in range(3)])
    (group,) = found.slow_groups
    assert (group.against, group.nodes, group.others) == ("own history", ("n00000", "n00001", "n00002"), 97)
    assert group.change == pytest.approx(0.25, abs=0.03)
    assert group.value == pytest.approx(MEASURED[0][2] * 1.25, rel=0.3)
    assert "against their own history, adjusted for the change of 97 other nodes" in " ".join(
        render_fleet(found, "text", width=300).split()
    )


def test_nodes_with_one_gpu_are_a_slow_group_too(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(100)
    for node in list(fleet.nodes)[:12]:
        fleet.slow(node, 16, by=0.2)
    fleet.write(tmp_path, whole=False)
    found = merge(str(tmp_path))
    assert (found.exit_code, [len(each.nodes) for each in found.slow_groups]) == (1, [12])


def test_one_node_with_many_slow_gpus_is_one_exception(tmp_path: pathlib.Path) -> None:
    found = slowed(tmp_path, 12, 1, gpus=16, slow_gpus=16)
    assert found.statuses["suspect"] == ("n00000",)
    assert len(found.suspects) == 16
    assert found.slow_groups == ()


def test_slow_devices_at_one_place_of_many_nodes_are_no_slow_nodes(tmp_path: pathlib.Path) -> None:
    """Two of eight GPUs behind the other socket: so are the machines built."""
    found = slowed(tmp_path, 40, 40, slow_gpus=2)
    assert (found.exit_code, found.slow_groups) == (0, ())


# Noise

Noise = Callable[[random.Random], float]  # the deviation of a whole node, in standard deviations


def student(freedom: float) -> Noise:
    return lambda chance: chance.gauss(0, 1) / (chance.gammavariate(freedom / 2, 2) / freedom) ** 0.5


def disturbed(share: float, length: float) -> Noise:
    """Now and then other work on the node makes everything slower, by an amount that differs each time."""
    return lambda chance: chance.gauss(0, 1) + (chance.expovariate(1 / length) if chance.random() < share else 0)


@pytest.mark.parametrize("nodes", [60, 300, 2000])
@pytest.mark.parametrize(
    "noise",
    [student(1), student(2), student(3), disturbed(1, 4), disturbed(0.3, 6), disturbed(0.1, 6), disturbed(0.1, 12)],
    ids=["t1", "t2", "t3", "exponential", "a third", "a tenth", "a tenth, long"],
)
def test_noise_that_all_gpus_of_a_node_share_is_no_slow_group(noise: Noise, nodes: int) -> None:
    """Limits of 6 standard deviations: the tails are far beyond, on whole nodes, but have no gap, or the nodes are not alike."""
    chance, found, limit = random.Random(nodes), 0, 6.0
    rounds = 20_000 // nodes
    for _ in range(rounds):
        middles = [noise(chance) for _ in range(nodes)]
        levels = [NodeLevel(each, 8, 8 if middle > limit else 0, middle) for each, middle in enumerate(middles)]
        found += bool(slow_nodes(levels, limit))
    assert found <= 0.04 * rounds, f"{found} of {rounds}"
