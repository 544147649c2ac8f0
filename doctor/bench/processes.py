"""Combine what several processes measured of each comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from tfgpu_doctor.bench.ratio import LEAST_PROCESSES, ratio_of_processes
from tfgpu_doctor.bench.verdict import judge
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.bench import Comparison, Side


def combined(rows: Sequence[Comparison], processes: int) -> list[Comparison]:
    """Return each comparison once, with its ratio and verdict, from the rows of up to that many processes.

    A comparison that could not run in one of them did not run; a fault in any is the reason. One that fewer than
    `LEAST_PROCESSES` measured has no interval: the verdict is `not run`, and the ratio is their mean.
    """
    found: dict[str, list[Comparison]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return [_one(each, processes) for each in found.values()]


def _one(rows: Sequence[Comparison], processes: int) -> Comparison:
    if failed := [row for row in rows if not row.process_ratios]:
        return next((row for row in failed if not row.harmless), failed[0])
    if len(rows) == 1 and rows[0].interval:  # this process judged alone
        return rows[0]
    ratios = tuple(row.process_ratios[0] for row in rows)
    logs = [math.log(ratio) for ratio in ratios]
    other = [(row.other_work, row.took_s or 1.0) for row in rows if row.other_work is not None]
    known = msgspec.structs.replace(
        rows[0], ratio=math.exp(math.fsum(logs) / len(logs)), process_ratios=ratios,
        rounds=sum(row.rounds for row in rows), took_s=round(math.fsum(row.took_s for row in rows), 3),
        spans=tuple(span for row in rows for span in row.spans),
        candidate=_side([row.candidate for row in rows]), baseline=_side([row.baseline for row in rows]),
        other_work=round(math.fsum(share * s for share, s in other) / math.fsum(s for _, s in other), 3) if other else None,
    )  # fmt: skip
    if len(rows) < LEAST_PROCESSES:
        why = f"{len(rows)} of {amount(processes, 'process')} measured it, and an interval needs {LEAST_PROCESSES}"
        return msgspec.structs.replace(known, verdict="not run", reason=why)
    ratio = ratio_of_processes(logs)
    verdict, reason = judge(ratio, known.at_least)
    return msgspec.structs.replace(
        known, verdict=verdict, reason=reason, ratio=ratio.value, interval=(ratio.low, ratio.high)
    )


def _side(sides: Sequence[Side | None]) -> Side | None:
    """The side of the first process, whose caches were the coldest, with the rounds of all."""
    seconds = tuple(each for side in sides if side for each in side.seconds)
    return msgspec.structs.replace(sides[0], seconds=seconds) if sides[0] else None
