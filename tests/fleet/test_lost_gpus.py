"""A node that lost a GPU, in fleets where no majority says how many GPUs a node has."""

from __future__ import annotations

import datetime as dt
import pathlib

import pytest
from made_up_fleet import MadeUpFleet
from replayed import facts_of

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.fleet.fleet import Fleet
from tfgpu_doctor.fleet.known import KnownIssue
from tfgpu_doctor.fleet.lost_gpus import Counted, lost
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.page import render_fleet
from tfgpu_doctor.fleet.settings import GPU_COUNTS, settings_of

NVML = "GPUs that NVML lists"


def compared(folder: pathlib.Path, *counts: int, golden: str = "", issues: tuple[KnownIssue, ...] = ()) -> Fleet:
    """Nodes with so many GPUs, healthy by their own reports: where the hypervisor gives 7, the node cannot miss the eighth."""
    fleet = MadeUpFleet(len(counts))
    for name, count in zip(fleet.nodes, counts, strict=True):
        model = fleet.nodes[name]["settings"]["GPU models"].partition(" x ")[2]
        fleet.set(name, {**dict.fromkeys(GPU_COUNTS, str(count)), "GPU models": f"{count} x {model}"})
    fleet.write(folder, whole=False)
    return merge(str(folder), golden=golden, issues=issues)


@pytest.mark.parametrize(
    ("counts", "short"),
    [
        ((8, 7), (1,)),
        ((8, 7, 8, 7), (1, 3)),
        ((8, 7, 6), (1, 2)),
        ((8, 8, 7, 7, 7, 7, 7), (2, 3, 4, 5, 6)),
        ((4, 3), (1,)),
        ((4, 4, 8, 8, 7, 7), (4, 5)),
        ((4, 3, 4, 8, 8, 3), (1, 5)),
    ],
)
def test_a_number_that_no_machine_is_built_with_is_a_lost_gpu(
    tmp_path: pathlib.Path, counts: tuple[int, ...], short: tuple[int, ...]
) -> None:
    found = compared(tmp_path, *counts)
    assert found.exit_code == 1
    assert found.statuses["differs"] == tuple(f"n{place:05}" for place in short)
    told = {each.setting for drift in found.drift for each in drift.differences}
    assert set(GPU_COUNTS) <= told
    text = render_fleet(found, "text", width=200)
    assert f"{NVML} {counts[short[-1]]} (others " in text
    assert not any(varied.setting == NVML and any(group.value == str(counts[short[0]]) for group in varied.groups) for varied in found.varied)  # fmt: skip


@pytest.mark.parametrize(
    "counts",
    [(4, 8), (8, 4, 4, 4, 8, 8, 8, 8), (1, 2), (10, 8), (0, 8), (*(4,) * 10, *(8,) * 30), (*(7,) * 20, *(8,) * 20)],
    ids=["two", "eight", "workstations", "ten", "no GPU", "forty", "batch"],
)
def test_machines_that_are_built_differently_are_groups(tmp_path: pathlib.Path, counts: tuple[int, ...]) -> None:
    found = compared(tmp_path, *counts)
    assert (found.exit_code, found.drift) == (0, ())
    assert NVML in {each.setting for each in found.varied}


def test_the_golden_node_and_known_issues_settle_it(tmp_path: pathlib.Path) -> None:
    found = compared(tmp_path / "golden", 8, 7, golden="n00001")
    assert found.statuses["differs"] == ("n00000",)
    issues = tuple(
        KnownIssue(nodes=("n00001",), cause=each, owner="anna", until=dt.date(2999, 1, 1)) for each in GPU_COUNTS
    )
    assert compared(tmp_path / "known", 8, 7, issues=issues).exit_code == 0


def test_where_most_nodes_have_fewer_the_one_with_more_is_the_odd_one(tmp_path: pathlib.Path) -> None:
    found = compared(tmp_path, *(7,) * 15, 8)
    assert found.statuses["differs"] == ("n00015",)


def test_what_a_node_has_less_of_is_compared_with_the_next_larger_number() -> None:
    def counted(value: int, gpus: int, nodes: int, *, usual: bool = True) -> Counted:
        return Counted(kind=0, name=0, value=value, gpus=gpus, nodes=nodes, usual=usual)

    found = lost([counted(1, 16, 3), counted(2, 8, 3), counted(3, 7, 3), counted(4, 6, 1, usual=False)])
    assert [(each.gpus, full.gpus) for each, full in found] == [(7, 8), (6, 8)]


def test_the_settings_have_these_names() -> None:
    facts = facts_of("hgx-8-gpus-at-work")
    assert set(GPU_COUNTS) <= settings_of(facts, diagnose(facts)).keys()
