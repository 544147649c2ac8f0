"""LOD004 and LOD008: copies that arrive unchanged, and use the link that they cross."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from stressed import left_alone, stress, stressed_gpu, transfer, transfers, under_stress

from tfgpu_doctor.checks.stress.copies import copies_arrive, copies_use_the_link
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model import Evidence
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.stress import Transfer

if TYPE_CHECKING:
    from checks.conftest import Judge


MODULE = "tensorflow.python.framework.errors_impl."
OPERATION = f"{MODULE}InternalError: "
WITH_HOST = transfers(0, 1)[:6]
ACROSS = transfers(0, 1)[6]  # from GPU 0 to GPU 1


def evidence(judge: Judge, facts: Facts) -> list[str]:
    return [each.text for each in judge(copies_arrive, facts) if isinstance(each, Evidence)]


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


def test_a_route_is_measured_if_one_kind_of_host_memory_arrives(judge: Judge) -> None:
    full = transfer("host", "GPU:0", copies=0, gb_per_s=None, error=f"{MODULE}ResourceExhaustedError: OOM")
    assert judge.passes(copies_arrive, machine(*transfers(0, 1), full))


def test_no_copy_is_no_pass(judge: Judge) -> None:
    hung = Attempt(outcome="timed_out", seconds=20.0, phase="copying from GPU:0 to GPU:1")
    assert "did not respond within 20 s" in judge.skips(copies_arrive, machine(transfers_attempt=hung))
    failed = transfer("host", "GPU:0", copies=0, gb_per_s=None, error="InternalError: no peer")
    for check in (copies_arrive, copies_use_the_link):
        assert "no peer" in judge.skips(check, machine(failed))
        assert "computes on it" in judge.skips(check, under_stress(stress(left_alone(0))))


def ending(phase: str = "copying from GPU:0 to GPU:1", outcome: str = "timed_out", **changes: Any) -> Attempt:
    return Attempt(**{"outcome": outcome, "seconds": 44.0, "phase": phase, **changes})


def test_a_copy_between_gpus_that_hangs(judge: Judge) -> None:
    """The copies with the host came before, and arrived."""
    facts = machine(*WITH_HOST, transfers_attempt=ending(), transfers_phase_s=31.0)
    found = judge.finding(copies_arrive, facts)
    assert found.message.startswith("the copy from GPU 0 to GPU 1 hangs: the copy test did not respond within 44 s")
    assert (found.cause, found.severity, found.confidence) == ("multi_gpu_p2p_iommu_acs", "error", "medium")
    assert "this step alone ran for 31 s" in found.evidence
    assert len(found.devices) == 2
    assert any("no copy from GPU 0 to GPU 1, GPU 1 to GPU 0 was measured" in line for line in evidence(judge, facts))
    report = diagnose(facts)
    assert [(cause.id, cause.label) for cause in report.causes] == [("LOD004", "multi_gpu_p2p_iommu_acs")]
    assert report.fit is False


def test_a_copy_with_the_host_that_hangs(judge: Judge) -> None:
    facts = machine(*WITH_HOST[:3], transfers_attempt=ending("copying from host to GPU:1"), transfers_phase_s=31.0)
    found = judge.finding(copies_arrive, facts)
    assert (found.cause, found.devices) == ("gpu_hang", (stressed_gpu(1).uuid,))


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("", "undetermined"),
        ("CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered", "hardware_ecc_error"),
    ],
)
def test_a_copy_that_ends_the_process(judge: Judge, line: str, label: str) -> None:
    crash = ending(outcome="killed_by_signal", signal="SIGSEGV", stderr=(line,))
    found = judge.finding(copies_arrive, machine(*WITH_HOST, transfers_attempt=crash, transfers_phase_s=0.4))
    assert "the copy from GPU 0 to GPU 1 crashes: the copy test was killed by SIGSEGV" in found.message
    assert (found.cause, found.severity) == (label, "error")


@pytest.mark.parametrize(
    ("attempt", "phase_s", "reason"),
    [
        (ending(), None, "did not respond within 44 s"),
        (ending(), 9.0, "did not respond within 44 s"),
        (ending("importing TensorFlow"), 40.0, "during 'importing TensorFlow'"),
        (ending("importing TensorFlow", "killed_by_signal", signal="SIGSEGV"), 3.0, "killed by SIGSEGV"),
        (ending(outcome="killed_by_signal", signal="SIGKILL"), 31.0, "killed by SIGKILL"),
        (ending("", "unparsable"), None, "cannot be parsed"),
    ],
    ids=["unknown for how long", "short", "starting", "starting crashed", "out of memory", "not understood"],
)
def test_routes_that_were_not_reached_are_not_judged(
    judge: Judge, attempt: Attempt, phase_s: float | None, reason: str
) -> None:
    told = judge.skips(copies_arrive, machine(*WITH_HOST, transfers_attempt=attempt, transfers_phase_s=phase_s))
    assert "no copy from GPU 0 to GPU 1, GPU 1 to GPU 0 was measured: the copy test " in told
    assert reason in told


def test_an_exception_of_the_copy_test_is_the_reason(judge: Judge) -> None:
    told = judge.skips(copies_arrive, machine(*WITH_HOST, transfers_error="MemoryError: no memory"))
    assert told.endswith("was measured: the copy test failed: MemoryError: no memory")


def test_an_interruption_is_the_reason(judge: Judge) -> None:
    killed = ending(outcome="killed_by_signal", signal="SIGSEGV")
    assert "interrupted" in judge.skips(copies_arrive, machine(*WITH_HOST, transfers_attempt=killed, interrupted=True))


@pytest.mark.parametrize(
    ("ends", "error", "label"),
    [
        (("GPU:0", "GPU:1"), "CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS", "undetermined"),
        (("GPU:0", "host"), "CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS", "hardware_faulty_gpu"),
        (("host", "GPU:1"), "CUDA_ERROR_ECC_UNCORRECTABLE", "hardware_ecc_error"),
        (("host", "GPU:1"), "something that nobody knows", "undetermined"),
    ],
)
def test_a_copy_that_fails(judge: Judge, ends: tuple[str, str], error: str, label: str) -> None:
    """Whatever follows on the same GPUs fails, too, and is the same error."""
    rows = [
        transfer(*ends, copies=0, gb_per_s=None, error=OPERATION + error),
        transfer("GPU:1", "GPU:0", copies=0, gb_per_s=None, error=OPERATION + error),
    ]
    found = judge.finding(copies_arrive, machine(*WITH_HOST, *rows))
    assert f"fails: {OPERATION}{error}" in found.message
    assert (found.cause, found.severity) == (label, "error")
    assert "copies fail also from GPU 1 to GPU 0" in found.evidence


@pytest.mark.parametrize("error", ["ResourceExhaustedError: OOM", "UnimplementedError: no copy of this type"])
def test_a_copy_that_did_not_fit_is_not_judged(judge: Judge, error: str) -> None:
    row = transfer("GPU:0", "GPU:1", copies=0, gb_per_s=None, error=f"{MODULE}{error}")
    told = judge.skips(copies_arrive, machine(*[each for each in transfers(0, 1) if each != ACROSS], row))
    assert told == f"no copy from GPU 0 to GPU 1 was measured: {MODULE}{error}"


def test_more_gpus_have_more_routes_than_time(judge: Judge) -> None:
    gpus = [stressed_gpu(index) for index in range(4)]
    rows = transfers(0, 1, 2, 3)
    some = under_stress(stress(*gpus, transfers=rows[:-5]))
    assert judge.passes(copies_arrive, some).endswith("\nno time was left for 5 other routes between GPUs")
    none = under_stress(stress(*gpus, transfers=rows[:-12]))
    told = judge.skips(copies_arrive, none)
    assert (
        told == "no copy from GPU 0 to GPU 1, GPU 0 to GPU 2, GPU 0 to GPU 3 and 9 more was measured: no time was left"
    )


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
def test_what_cannot_be_judged_is_no_pass(judge: Judge, changes: dict[str, object]) -> None:
    row = transfer("host", "GPU:0", **changes)
    assert f"{row.gb_per_s:.1f} GB/s" in judge.skips(copies_use_the_link, machine(row))
    assert "the host to GPU 0" in judge.skips(copies_use_the_link, machine(transfer("GPU:0", "host"), row))
    beside = machine(transfer("GPU:0", "host"), row, transfer("host", "GPU:0"))
    assert f": {row.gb_per_s:.1f} GB/s" in judge.passes(copies_use_the_link, beside)


@pytest.mark.parametrize(
    ("generation", "width", "capacity"), [(3, 16, "15.8"), (5, 16, "63.0"), (4, 4, "7.9"), (1, 16, "4.0")]
)
def test_what_a_link_carries(judge: Judge, generation: int, width: int, capacity: str) -> None:
    row = transfer("host", "GPU:0", pcie_generation=generation, pcie_width=width, gb_per_s=float(capacity) * 0.8)
    assert f" of {capacity} GB/s (PCIe {generation} x{width})" in judge.passes(copies_use_the_link, machine(row))
