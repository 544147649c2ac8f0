"""What was read of a GPU under stress, as the figures of findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from tfgpu_doctor.checks.devices import Row
from tfgpu_doctor.model.facts.stress import Readings, StressedGpu


def under_load(gpu: StressedGpu, known: Sequence[Readings]) -> list[Row]:
    """Return clocks, temperature and power, each with its limit, and what limited the clocks in which share of the samples."""
    clocks = [each.sm_mhz for each in known if each.sm_mhz]
    power = [each.power_w for each in known if each.power_w is not None]
    reasons = {word: max(each.reasons.get(word, 0.0) for each in known) for each in known for word in each.reasons}
    return [
        ("SM clock under load", fmean(clocks) if clocks else None, "MHz"),
        ("lowest SM clock under load", min((e.lowest_sm_mhz for e in known if e.lowest_sm_mhz), default=None), "MHz"),
        ("highest SM clock", gpu.max_sm_mhz, "MHz"),
        ("temperature under load", max((e.temperature_c for e in known if e.temperature_c), default=None), "°C"),
        ("slowdown temperature", gpu.slowdown_c, "°C"),
        ("power under load", fmean(power) if power else None, "W"),
        ("power limit", gpu.power_limit_w, "W"),
        *((f"clocks limited by {word}", share, "") for word, share in sorted(reasons.items())),
    ]


def speeds(best: Mapping[str, float], peaks: Mapping[str, float]) -> list[Row]:
    """Return the speed in each precision, and the data sheet's peak where it is known."""
    rows: list[Row] = [(f"{name} matrix product", speed, "TFLOP/s") for name, speed in best.items()]
    rows += [(f"{name} matrix product: peak", peaks[name], "TFLOP/s") for name in best if name in peaks]
    rows += [
        (f"{name} matrix product: share of the peak", best[name] / peaks[name], "") for name in best if name in peaks
    ]
    return rows


def drift(first: Mapping[str, float], last: Mapping[str, float], ends: Sequence[Readings]) -> list[Row]:
    """Return the speed in each precision, the clock, temperature and power, at the start and at the end."""
    rows: list[Row] = []
    for name in first:
        if name in last:
            rows += [
                (f"{name} matrix product at the start", first[name], "TFLOP/s"),
                (f"{name} matrix product at the end", last[name], "TFLOP/s"),
                (f"{name} matrix product: loss of speed", 1 - last[name] / first[name], ""),
            ]
    for when, each in zip(("start", "end"), ends, strict=False):
        rows += [
            (f"SM clock at the {when}", each.sm_mhz, "MHz"),
            (f"temperature at the {when}", each.temperature_c, "°C"),
            (f"power at the {when}", each.power_w, "W"),
        ]
    return rows
