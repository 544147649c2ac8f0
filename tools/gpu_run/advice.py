"""Part 9: whether what `trace` advises helps on this GPU, and by how much."""

from __future__ import annotations

import statistics

from gpu_run.workbench import NotRun, Workbench, document_of

_HELPS = 1.05  # times as fast as before; the advice claims more


def advice(bench: Workbench) -> None:
    """Measure each fault beside its fixes; a fix that brings nothing is a finding."""
    done = bench.program("advice", "advice")
    document = document_of(done.output)
    if document is None:
        raise NotRun(f"no figures: {done.complaint}")
    for verdict, why in document["missing"].items():
        bench.shortened.append(f"{verdict}: {why}")
    rows = [row for verdict, ways in document["seconds"].items() for row in compared(bench, verdict, ways)]
    bench.table("What the advice brings", ("verdict", "as it was", "ms", "advised", "ms", "times as fast", "lowest",
                "highest", "rounds"), rows)  # fmt: skip


def compared(bench: Workbench, verdict: str, ways: dict[str, list[float]]) -> list[tuple[object, ...]]:
    """Return a row for each fix of a verdict; `ways` holds the seconds of each round, the first way is as it was."""
    (was, before), *fixes = ways.items()
    rows = []
    for name, after in fixes:
        ratios = sorted(one / other for one, other in zip(before, after, strict=True))
        ratio = statistics.median(ratios)
        if ratio < _HELPS:
            bench.found(f"{verdict}: {name} is {ratio:.2f} times as fast as {was}: the advice brings little here")
        times = (f"{each:.2f}" for each in (ratio, ratios[0], ratios[-1]))
        ms = [round(1000 * statistics.median(each), 3) for each in (before, after)]
        rows.append((verdict, was, ms[0], name, ms[1], *times, len(ratios)))
    return rows
