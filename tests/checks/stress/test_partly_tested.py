"""A part of a stress test: some patterns, little of the memory, one direction, one precision. The rest is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from healthy import ANSWERED
from locations import RECORDS
from stressed import (
    SPEEDS,
    exactness,
    pattern,
    readings,
    speed,
    stress,
    stress_round,
    stressed_gpu,
    transfer,
    transfers,
    under_stress,
)

from tfgpu_doctor.checks.stress.copies import copies_use_the_link
from tfgpu_doctor.checks.stress.patterns import PATTERNS, memory_keeps
from tfgpu_doctor.checks.stress.results import gpus_agree, results_repeat
from tfgpu_doctor.checks.stress.speed import as_fast_as_its_model, clocks_hold, speed_lasts
from tfgpu_doctor.collect.workers import stress_memory
from tfgpu_doctor.model import Evidence, Finding
from tfgpu_doctor.model.facts import Facts, decode_facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.stress import MemoryPattern, StressedGpu, StressRound

if TYPE_CHECKING:
    from checks.conftest import Judge

GIB = 1 << 30
NAMES = ("0x55", "0xAA", "address", "random")
ALL = tuple(map(pattern, NAMES))
OOM = {"tested_bytes": 0, "placed_on": "", "error": "ResourceExhaustedError: OOM when allocating"}
STOPPED = Attempt(outcome="timed_out", seconds=90.0, phase="memory with pattern 0xAA, round 1")


def machine(*gpus: StressedGpu, **changes: object) -> Facts:
    return under_stress(stress(*gpus, **changes))


def with_rounds(*rounds: dict[str, Any], index: int = 0, **changes: Any) -> StressedGpu:
    return stressed_gpu(index, rounds=tuple(stress_round(**each) for each in rounds), **changes)


# LOD003


def test_the_patterns_are_those_that_the_test_writes() -> None:
    assert PATTERNS == stress_memory.PATTERNS == NAMES


@pytest.mark.parametrize(
    "rows",
    [
        ALL[:1],
        ALL[:3],
        (*ALL[:3], pattern("random", **OOM)),
        (*ALL[:3], pattern("random", tested_bytes=0)),
        (*ALL[:3], pattern("random", placed_on="/job:localhost/replica:0/task:0/device:CPU:0")),
    ],
    ids=["the first alone", "three of four", "the last failed", "no byte of the last", "the last elsewhere"],
)
def test_memory_is_not_sound_by_a_part_of_the_patterns(judge: Judge, rows: tuple[MemoryPattern, ...]) -> None:
    reason = judge.skips(memory_keeps, machine(with_rounds({"memory": rows})))
    assert "GPU 0 (NVIDIA GeForce RTX 3090)" in reason
    assert "random" in reason


@pytest.mark.parametrize(
    "tested", [(GIB >> 4,) * 4, (21 * GIB, 21 * GIB, 21 * GIB, GIB)], ids=["little of it", "little by one pattern"]
)
def test_memory_is_not_sound_by_little_of_it(judge: Judge, tested: tuple[int, ...]) -> None:
    rows = tuple(pattern(name, tested_bytes=size) for name, size in zip(NAMES, tested, strict=True))
    reason = judge.skips(memory_keeps, machine(with_rounds({"memory": rows})))
    assert "of the 23.0 GiB that were free" in reason
    assert "end other programs that use this GPU" in reason


def test_of_free_memory_that_is_not_known_no_part_is_enough(judge: Judge) -> None:
    assert "how much memory was free" in judge.skips(memory_keeps, machine(stressed_gpu(free_bytes=None)))


@pytest.mark.parametrize(
    ("free", "tested", "integrated"),
    [(23 * GIB, 21 * GIB, False), (3 * GIB // 2, 33 * GIB >> 6, False), (100 * GIB, 17 * GIB, True)],
    ids=["a card", "a small card", "memory of the host"],
)
def test_what_the_test_itself_leaves_free_is_no_lack(judge: Judge, free: int, tested: int, integrated: bool) -> None:
    rows = tuple(pattern(name, tested_bytes=tested) for name in NAMES)
    gpu = with_rounds({"memory": rows}, free_bytes=free, integrated=integrated)
    assert judge.passes(memory_keeps, machine(gpu))


def test_what_one_round_lacks_another_has(judge: Judge) -> None:
    late = (*ALL[:3], pattern("random", **OOM))
    assert judge.passes(memory_keeps, machine(with_rounds({}, {"memory": late}, {"memory": ALL[:1]})))


def test_the_first_pattern_of_a_large_gpu_may_reach_half_of_its_memory(judge: Judge) -> None:
    """On an H200 the first pattern, which waits for kernels to load, reached 46 % of the memory in its time."""
    facts = decode_facts(RECORDS["h200-deep-cudnn-misses-nvrtc"].read_bytes())
    assert "63.9 GiB of the 139.3 GiB" in judge.passes(memory_keeps, facts)


def test_flipped_bits_are_told_beside_a_gpu_that_was_tested_in_part(judge: Judge) -> None:
    bad = with_rounds({"memory": (pattern("0x55", mismatches=2),)})
    part = with_rounds({"memory": ALL[:2]}, index=1)
    yielded = judge(memory_keeps, machine(bad, part))
    assert ["GPU 0" in each.message for each in yielded if isinstance(each, Finding)] == [True]
    assert any("GPU 1 " in each.text and "random" in each.text for each in yielded if isinstance(each, Evidence))


# LOD001, LOD002


def test_results_that_were_compared_with_nothing_are_not_right(judge: Judge) -> None:
    rows = tuple(exactness(name, deviation=None) for name in ("matmul", "convolution"))
    assert "float64" in judge.skips(results_repeat, machine(with_rounds({"exactness": rows})))


def test_a_test_that_ended_in_its_first_products_tells_nothing_of_the_others(judge: Judge) -> None:
    cut = stressed_gpu(rounds=(StressRound(exactness=(exactness(),)),), attempt=STOPPED)
    assert "was not measured" in judge.skips(results_repeat, machine(cut))
    whole = stressed_gpu(rounds=(stress_round(), StressRound(exactness=(exactness(),))), attempt=STOPPED)
    assert judge.passes(results_repeat, machine(whole))


def test_two_gpus_that_agree_say_nothing_of_a_third(judge: Judge) -> None:
    failed = exactness("convolution", iterations=0, digests=(), error="UnimplementedError: none")
    third = with_rounds({"exactness": (exactness(), failed, exactness(precision="float16"))}, index=2)
    reason = judge.skips(gpus_agree, machine(stressed_gpu(0), stressed_gpu(1), third))
    assert "GPU 2 " in reason


def test_an_operation_that_one_of_two_gpus_lacks_is_no_agreement(judge: Judge) -> None:
    second = with_rounds({"exactness": (exactness(), exactness("convolution"))}, index=1)
    assert "GPU 1 " in judge.skips(gpus_agree, machine(stressed_gpu(0), second))


def test_gpus_without_a_promise_are_not_called_single(judge: Judge) -> None:
    both = [stressed_gpu(index, deterministic=False) for index in range(2)]
    assert "no two GPUs" not in judge.skips(gpus_agree, machine(*both))


# LOD006 to LOD009


def test_a_soak_whose_clocks_were_read_for_a_while_is_no_pass(judge: Judge) -> None:
    died = Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase="reading GPU 0")
    gpu = with_rounds({}, {"readings": None}, {"readings": None})
    assert "SIGSEGV" in judge.skips(clocks_hold, machine(gpu, level="soak", sampling=died))
    assert judge.passes(clocks_hold, machine(with_rounds({}, {}), level="soak", sampling=died))


def test_a_speed_that_nothing_is_known_of_is_not_the_expected_one(judge: Judge) -> None:
    unknown = stressed_gpu(0, name="NVIDIA Tomorrow 1")
    reason = judge.skips(as_fast_as_its_model, machine(unknown))
    assert "float32 24.1" in reason
    assert "the peak values of this model are unknown" in reason
    assert "Tomorrow" in judge.skips(as_fast_as_its_model, machine(unknown, stressed_gpu(1)))


def test_a_precision_without_a_speed_is_no_pass(judge: Judge) -> None:
    rows = (*map(speed, ("float32", "tf32")), speed("float16", teraflops=None, iterations=0))
    assert "float16" in judge.skips(as_fast_as_its_model, machine(with_rounds({"speeds": rows})))
    lacks = with_rounds({"speeds": tuple(map(speed, ("float32", "tf32")))}, index=1)
    assert "bfloat16" in judge.skips(as_fast_as_its_model, machine(stressed_gpu(0), lacks))


def test_a_precision_that_this_tensorflow_lacks_is_told(judge: Judge) -> None:
    rows = (*map(speed, ("float32", "tf32")), speed("float16", teraflops=None, error="NotFoundError: none"))
    assert "NotFoundError" in judge.passes(as_fast_as_its_model, machine(with_rounds({"speeds": rows})))


def test_the_last_round_that_is_whole_is_compared(judge: Judge) -> None:
    slow = tuple(speed(name, teraflops=value / 2) for name, value in SPEEDS.items())
    cut = {"began_s": 600.0, "speeds": (speed("float32"),)}
    gpu = with_rounds({}, {"began_s": 570.0, "speeds": slow, "readings": readings()}, cut)
    assert "50% slower" in judge.finding(speed_lasts, machine(gpu, level="soak")).message
    assert "before a second round" in judge.skips(speed_lasts, machine(with_rounds({}, cut), level="soak"))


def test_a_link_is_not_used_in_both_directions_by_one(judge: Judge) -> None:
    rows = (transfer("GPU:0", "host"), transfer("host", "GPU:0", host_memory="pageable", gb_per_s=9.8))
    assert "the host to GPU 0" in judge.skips(copies_use_the_link, machine(transfers=rows))


def test_the_link_of_one_gpu_is_none_of_another(judge: Judge) -> None:
    unknown = {"pcie_generation": None, "pcie_width": None}
    rows = tuple(
        msgspec.structs.replace(each, **unknown) if "GPU:1" in (each.source, each.destination) else each
        for each in transfers(0, 1)
    )
    both = (stressed_gpu(0), stressed_gpu(1))
    assert "GPU 1" in judge.skips(copies_use_the_link, machine(*both, transfers=rows, transfers_attempt=ANSWERED))
    assert judge.passes(copies_use_the_link, machine(*both))
