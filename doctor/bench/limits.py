"""What a metric comes to beside the most that the same machine was seen to do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfgpu_doctor.model.facts.bench import Metric


def with_measured_limits(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The same metrics, each that is bounded by another of the run beside that one's value.

    A data sheet tells what the chip could do; what a plain large operation reached here, with this driver, these clocks
    and this TensorFlow, tells what a program could.
    """
    reached = {(metric.name, metric.unit, metric.device): metric.value for metric in metrics}
    return tuple(
        msgspec.structs.replace(metric, measured_limit=reached.get((metric.bounded_by, metric.unit, metric.device)))
        if metric.bounded_by
        else metric
        for metric in metrics
    )
