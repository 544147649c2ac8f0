"""Add to each metric the maximum that was measured on the same machine."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfgpu_doctor.model.facts.bench import Metric


def with_measured_limits(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the metrics; each metric that is bounded by another metric of the run gets that metric's value as a limit.

    A data sheet states what the chip can reach. The value that a simple large operation reaches on this machine, with
    its driver, clocks and TensorFlow, shows what a program can reach.
    """
    reached = {(metric.name, metric.unit, metric.device): metric.value for metric in metrics}
    return tuple(
        msgspec.structs.replace(metric, measured_limit=reached.get((metric.bounded_by, metric.unit, metric.device)))
        if metric.bounded_by
        else metric
        for metric in metrics
    )
