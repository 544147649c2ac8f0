"""Odd facts of a load, for the test that no check breaks on any."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.stress import (
    Exactness,
    MemoryPattern,
    Readings,
    Speed,
    StressedGpu,
    StressRound,
    StressTest,
    Transfer,
)

PLACES = st.sampled_from(["", "/job:localhost/replica:0/task:0/device:GPU:0", "/device:CPU:0"])
COUNTS = st.sampled_from([0, 0, 1, 3, 1 << 40])
METRICS = st.none() | st.sampled_from([0.0, 0.4, 35.0, 2000.0, 1e12])
ERRORS = st.sampled_from(["", "odd", "errors_impl.InternalError: CUDA_ERROR_ILLEGAL_ADDRESS", "OOM when allocating"])
ENDS = st.sampled_from(["host", "GPU:0", "GPU:1", ""])


def many(of: Any, most: int = 2) -> Any:
    return st.lists(of, max_size=most).map(tuple)


ATTEMPTS = st.builds(
    Attempt,
    outcome=st.sampled_from(["answered", "answered", "failed", "killed_by_signal", "timed_out", "not_started"]),
    phase=st.sampled_from(
        ["", "products in tf32, round 1", "copying from GPU:0 to GPU:1", "copying from host to GPU:2"]
    ),
    stderr=many(ERRORS),
)
EXACTNESS = st.builds(
    Exactness, operation=st.sampled_from(["matmul", "odd"]), precision=st.sampled_from(["float32", ""]), placed_on=PLACES,
    iterations=COUNTS, elements=COUNTS, mismatches=COUNTS, deviation=METRICS, digests=many(st.sampled_from(["a", "b"])),
    error=ERRORS,
)  # fmt: skip
SPEEDS = st.builds(
    Speed, precision=st.sampled_from(["float32", "tf32", "odd"]), teraflops=METRICS, side=COUNTS, iterations=COUNTS,
    finite=st.booleans(), error=ERRORS,
)  # fmt: skip
PATTERNS = st.builds(
    MemoryPattern, pattern=st.sampled_from(["0x55", ""]), placed_on=PLACES, tested_bytes=COUNTS, mismatches=COUNTS,
    example=st.sampled_from(["", "word 3"]), error=ERRORS,
)  # fmt: skip
READINGS = st.builds(
    Readings, samples=COUNTS, sm_mhz=METRICS, temperature_c=METRICS, power_w=METRICS, utilization_percent=METRICS,
    reasons=st.dictionaries(st.sampled_from(["hw_slowdown", "sw_power_cap", "odd"]), st.sampled_from([0.0, 0.5, 1.0])),
)  # fmt: skip
ROUNDS = st.builds(
    StressRound, began_s=st.sampled_from([0.0, 60.0]), seconds=st.sampled_from([0.0, 44.0]), exactness=many(EXACTNESS),
    speeds=many(SPEEDS), memory=many(PATTERNS), readings=st.none() | READINGS,
)  # fmt: skip
GPUS = st.builds(
    StressedGpu, index=st.integers(0, 2), name=st.sampled_from(["", "NVIDIA H200", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"]),
    multiprocessors=COUNTS, mig=st.booleans(), untouched=st.sampled_from(["", "", "python (1) computes on it"]),
    busy=many(st.just("python (1) computes on it")), attempt=st.none() | ATTEMPTS, phase_s=METRICS, error=ERRORS,
    deterministic=st.booleans(), free_bytes=st.none() | COUNTS, max_sm_mhz=METRICS, power_limit_w=METRICS,
    slowdown_c=METRICS, rounds=many(ROUNDS, 3),
)  # fmt: skip
TRANSFERS = st.builds(
    Transfer, source=ENDS, destination=ENDS, host_memory=st.sampled_from(["", "pinned", "pageable"]), copied_bytes=COUNTS,
    copies=COUNTS, gb_per_s=METRICS, mismatches=COUNTS, pcie_generation=st.none() | st.integers(0, 9),
    pcie_width=st.none() | st.sampled_from([0, 4, 16]), error=ERRORS,
)  # fmt: skip
STRESS_FACTS = {
    "stress": st.builds(
        StressTest, level=st.sampled_from(["deep", "soak"]), gpus=many(GPUS, 3), transfers=many(TRANSFERS, 4),
        transfers_attempt=st.none() | ATTEMPTS, transfers_phase_s=METRICS, transfers_error=ERRORS, sampling=st.none() | ATTEMPTS,
        sampling_error=ERRORS, interrupted=st.booleans(),
    ),
}  # fmt: skip
