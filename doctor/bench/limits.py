"""What a figure comes to beside the most that the same machine was seen to do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfgpu_doctor.model.facts.bench import Figure


def with_measured_limits(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """The same figures, each that is bounded by another of the run beside that one's value.

    A data sheet tells what the chip could do; what a plain large operation reached here, with this driver, these clocks
    and this TensorFlow, tells what a program could.
    """
    reached = {(figure.name, figure.unit, figure.device): figure.value for figure in figures}
    return tuple(
        msgspec.structs.replace(figure, measured_limit=reached.get((figure.bounded_by, figure.unit, figure.device)))
        if figure.bounded_by
        else figure
        for figure in figures
    )
