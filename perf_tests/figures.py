"""What figures have in common: how long they are measured, and how their intervals are written."""

from __future__ import annotations

from tfgpu_doctor.bench import Measured, Plan
from tfgpu_doctor.perf_tests.timing import LEAST_READING_S


def plan_of(seconds: float, device: str) -> Plan:
    """Return the plan of a figure. A round on a GPU is long enough for what its launches and the waiting cost."""
    return Plan(seconds, least_round_s=LEAST_READING_S) if "GPU" in device else Plan(seconds)


def interval(measured: Measured) -> str:
    """Format the interval of a ratio."""
    return f"95 % interval {measured.ratio.low:.2f} to {measured.ratio.high:.2f}"
