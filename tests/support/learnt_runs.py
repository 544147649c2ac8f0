"""Examinations of a machine that is now a little faster, now slower, to learn from."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

import msgspec
from judged import bench, comparison, metric, recorded_machine
from stressed import speed, stress, stress_round, stressed_gpu, under_stress

from tfgpu_doctor.model.facts import Facts, encode_facts


def run(times: float = 1.0, facts: Facts | None = None) -> Facts:
    """One examination of a machine that is now a little faster, now slower."""
    facts = facts or under_stress(
        stress(stressed_gpu(rounds=(stress_round(speeds=(speed("float32", teraflops=24.0 * times),)),)))
    )
    comparisons = (comparison(ratio=20.0 * times), comparison("training", "step[cnn]", 6.0 * times))
    return msgspec.structs.replace(facts, bench=bench(*comparisons, metrics=(metric(0.9 * times),)))


def recorded_at(hours: Iterable[int], folder: pathlib.Path, machine: str = "dgx-8-gpus-healthy") -> list[str]:
    """The options for recordings of a machine at these hours, each in a file of its own in the folder."""
    facts, words = recorded_machine(machine), []
    for place, hour in enumerate(hours):
        record = msgspec.structs.replace(facts, recorded=f"2026-11-20T{hour:02}:00:00Z")
        (folder / f"run{place}.json").write_bytes(encode_facts(record))
        words += ["--facts", f"run{place}.json"]
    return words
