"""Odd results of the perf suites, for the test that no check breaks on any."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric

WORDS = st.sampled_from(["", "matmul", "a b", "$HOME"])
NUMBERS = st.none() | st.sampled_from([0.0, 0.5, 5.0, 1e12])


def many(of: Any, most: int = 3) -> Any:
    return st.lists(of, max_size=most).map(tuple)


BENCH_FACTS = {
    "bench": st.builds(
        Bench,
        comparisons=many(
            st.builds(
                Comparison,
                suite=WORDS,
                name=WORDS,
                verdict=st.sampled_from(["faster", "not shown", "slower", "too noisy", "not run"]),
                reason=WORDS,
                ratio=NUMBERS,
                interval=st.none() | st.just((0.9, 1.1)),
                on_gpu=st.booleans(),
            )
        ),
        metrics=many(
            st.builds(
                Metric,
                suite=WORDS,
                name=WORDS,
                value=st.sampled_from([0.0, 50.0, 1e12]),
                unit=st.sampled_from(["TFLOP/s", "GB/s", "s", ""]),
                limit=NUMBERS,
            )
        ),
        failed=st.dictionaries(WORDS, WORDS, max_size=2),
        gpu_lost=WORDS,
    )
}
