"""LOD004 and LOD008: copies that arrive unchanged, and use the link that they cross."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from stressed import left_alone, stress, stressed_gpu, transfer, transfers, under_stress

from tfgpu_doctor.checks.stress.copies import copies_arrive, copies_use_the_link
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.stress import Transfer

if TYPE_CHECKING:
    from checks.conftest import Judge


def machine(*rows: Transfer, **changes: object) -> Facts:
    return under_stress(stress(stressed_gpu(0), stressed_gpu(1), transfers=rows, **changes))


def test_copies_that_arrive(judge: Judge) -> None:
    told = judge.passes(copies_arrive, machine(*transfers(0, 1)))
    assert "6 routes between host and GPU, 72 copies of 256 MiB" in told
    assert "2 routes between GPUs, 24 copies of 256 MiB" in told


@pytest.mark.parametrize(
    ("row", "label"),
    [
        (transfer("host", "GPU:1", mismatches=9), "hardware_faulty_gpu"),
        (transfer("GPU:0", "host", mismatches=9), "hardware_faulty_gpu"),
        (transfer("GPU:0", "GPU:1", mismatches=9), "multi_gpu_p2p_iommu_acs"),
    ],
    ids=["to the GPU", "from the GPU", "between GPUs"],
)
def test_a_copy_that_arrives_changed(judge: Judge, row: Transfer, label: str) -> None:
    found = judge.finding(copies_arrive, machine(transfer("host", "GPU:0"), row))
    assert "9 words" in found.message
    assert (found.cause, found.severity) == (label, "error")


def test_no_copy_is_no_pass(judge: Judge) -> None:
    hung = Attempt(outcome="timed_out", seconds=20.0, phase="copying from GPU:0 to GPU:1")
    assert "did not respond within 20 s" in judge.skips(copies_arrive, machine(transfers_attempt=hung))
    failed = transfer("host", "GPU:0", copies=0, gb_per_s=None, error="InternalError: no peer")
    for check in (copies_arrive, copies_use_the_link):
        assert "no peer" in judge.skips(check, machine(failed))
        assert "computes on it" in judge.skips(check, under_stress(stress(left_alone(0))))


def test_a_link_that_is_used(judge: Judge) -> None:
    told = judge.passes(copies_use_the_link, machine(*transfers(0, 1)))
    assert "the host to GPU 0, pinned memory: 25.3 of 31.5 GB/s (PCIe 4 x16)" in told
    assert "the host to GPU 1, pageable memory: 9.8 GB/s" in told
    assert "between GPUs: 11.0 GB/s" in told


def test_the_slowest_and_the_fastest_route_between_gpus_are_told(judge: Judge) -> None:
    across = {"host_memory": "", "pcie_generation": None, "pcie_width": None}
    routes = {(0, 1): 11.0, (1, 0): 4.5, (0, 2): 23.0, (2, 0): 12.0}
    rows = [transfer(f"GPU:{a}", f"GPU:{b}", gb_per_s=speed, **across) for (a, b), speed in routes.items()]
    load = stress(*map(stressed_gpu, range(3)), transfers=(transfer("GPU:0", "host"), *rows))
    told = judge.passes(copies_use_the_link, under_stress(load))
    assert told.splitlines()[-1] == "between GPUs: 4.5 GB/s (GPU 1 to GPU 0) to 23.0 GB/s (GPU 0 to GPU 2)"


def test_a_link_that_carries_too_little(judge: Judge) -> None:
    found = judge.finding(copies_use_the_link, machine(transfer("GPU:0", "host", gb_per_s=6.0)))
    assert "copies from GPU 0 to the host use 19% of the PCIe link" in found.message
    assert (found.cause, found.severity) == ("undetermined", "warning")
    assert "6.0 of 31.5 GB/s" in found.evidence[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"host_memory": "pageable", "gb_per_s": 3.0},
        {"host_memory": "", "gb_per_s": 3.0},
        {"pcie_generation": None, "gb_per_s": 3.0},
        {"pcie_generation": 9, "gb_per_s": 3.0},
        {"pcie_width": None, "gb_per_s": 3.0},
        {"gb_per_s": 390.0},
    ],
    ids=["pageable", "unknown memory", "unknown link", "a link of tomorrow", "unknown width", "faster than the link"],
)
def test_what_cannot_be_judged_is_a_figure_alone(judge: Judge, changes: dict[str, object]) -> None:
    row = transfer("host", "GPU:0", **changes)
    assert f"{row.gb_per_s:.1f} GB/s" in judge.skips(copies_use_the_link, machine(row))
    told = judge.passes(copies_use_the_link, machine(transfer("GPU:0", "host"), row))
    assert "25.3 of 31.5 GB/s" in told
    assert f": {row.gb_per_s:.1f} GB/s" in told


@pytest.mark.parametrize(
    ("generation", "width", "capacity"), [(3, 16, "15.8"), (5, 16, "63.0"), (4, 4, "7.9"), (1, 16, "4.0")]
)
def test_what_a_link_carries(judge: Judge, generation: int, width: int, capacity: str) -> None:
    row = transfer("host", "GPU:0", pcie_generation=generation, pcie_width=width, gb_per_s=float(capacity) * 0.8)
    assert f" of {capacity} GB/s (PCIe {generation} x{width})" in judge.passes(copies_use_the_link, machine(row))
