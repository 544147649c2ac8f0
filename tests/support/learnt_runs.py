"""Examinations of a machine that is now a little faster, now slower, to learn from."""

from __future__ import annotations

import msgspec
from judged import bench, comparison, metric
from stressed import speed, stress, stress_round, stressed_gpu, under_stress

from tfgpu_doctor.model.facts import Facts


def run(times: float = 1.0, facts: Facts | None = None) -> Facts:
    """One examination of a machine that is now a little faster, now slower."""
    facts = facts or under_stress(
        stress(stressed_gpu(rounds=(stress_round(speeds=(speed("float32", teraflops=24.0 * times),)),)))
    )
    comparisons = (comparison(ratio=20.0 * times), comparison("training", "step[cnn]", 6.0 * times))
    return msgspec.structs.replace(facts, bench=bench(*comparisons, metrics=(metric(0.9 * times),)))
