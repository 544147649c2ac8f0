"""Measure how often comparisons are correct here: a variant that a sleep slows by 10 %, and two equal variants.

    python tools/measure_comparisons.py [--runs 20] [--seconds 4]

Run it with a Python that has tfgpu-doctor[bench]. Prints the number of times of each verdict, within one run of
comparisons and between two runs as judged by `bench --compare`.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from tabulate import tabulate

from tfgpu_doctor.bench.measurement import Plan, measure
from tfgpu_doctor.bench.regression import compare
from tfgpu_doctor.bench.verdict import judge
from tfgpu_doctor.model.facts.bench import Bench, Comparison
from tfgpu_doctor.perf_tests.other_work import Reading

SLOWDOWN = 0.1
_SIDE = 400
_NUMBERS = np.random.default_rng(seed=7).standard_normal((_SIDE, _SIDE))


def work() -> None:
    """Do a few milliseconds of real work."""
    for _ in range(4):
        np.linalg.multi_dot([_NUMBERS, _NUMBERS, _NUMBERS])


def slowed_down(seconds: float) -> Callable[[], None]:
    """Do the same work, and sleep."""

    def call() -> None:
        work()
        time.sleep(seconds)

    return call


def comparison(candidate: Callable[[], None], budget_s: float) -> Comparison:
    """Run one comparison of a variant with the work itself."""
    before = Reading.now()
    ratio = measure(candidate, work, plan=Plan(budget_s)).ratio
    after = Reading.now()
    verdict, reason = judge(ratio)
    return Comparison(
        suite="planted",
        name="work",
        verdict=verdict,
        reason=reason,
        ratio=ratio.value,
        interval=(ratio.low, ratio.high),
        other_work=after.others_since(before) if before and after else None,
    )


def main() -> None:
    """Measure, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    times = []
    for _ in range(20):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    usual = float(np.median(times))
    counts: Counter[tuple[str, str]] = Counter()
    others: list[float] = []
    for _ in range(options.runs):
        same, again = comparison(work, options.seconds), comparison(work, options.seconds)
        slow = comparison(slowed_down(SLOWDOWN * usual), options.seconds)
        others += [each.other_work for each in (same, again, slow) if each.other_work is not None]
        counts["10 % slower, within a run", slow.verdict] += 1
        counts["the same, within a run", same.verdict] += 1
        for name, now in (("10 % slower, between runs", slow), ("the same, between runs", again)):
            (row,) = compare(Bench(comparisons=(now,)), [Bench(comparisons=(same,))])
            counts[name, row.status] += 1
    taken = (
        f"; other processes took {np.median(others):.0%} of the CPU time, {max(others):.0%} at most" if others else ""
    )
    print(f"{options.runs} runs; the work takes {usual * 1000:.1f} ms{taken}")
    print(tabulate([(*key, number) for key, number in sorted(counts.items())], headers=("planted", "verdict", "runs")))


if __name__ == "__main__":
    main()
