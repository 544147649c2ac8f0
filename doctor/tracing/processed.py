"""A profile that TensorBoard's plugin has already worked up (*.input_pipeline.pb): its steps and their parts, no events.

The messages: https://github.com/tensorflow/profiler/blob/v2.4.0/plugin/tensorboard_plugin_profile/protobuf/input_pipeline.proto
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass, field

from tfgpu_doctor.tracing.recorded import template
from tfgpu_doctor.tracing.wire import BYTES, FIXED64, VARINT, CutOff, double, fields, text

ENDING = "input_pipeline.pb"
_STEP_DETAILS, _OPERATION, _HARDWARE = 4, 6, 9  # of InputPipelineAnalysisResult
_ANY_VALUE = 2
_STEP_TIME = 2  # of PerGenericStepDetails, in ms, like the parts
_PARTS = {
    3: "idle",  # unknown: XProf's "all others"
    5: "copies", 6: "compute",
    7: "compute",  # copies within the GPU
    8: "host",  # operations on the host
    9: "launch", 10: "compile", 11: "input", 12: "copies", 13: "collectives",
}  # fmt: skip
_NAME, _COUNT, _TIME, _SELF, _CATEGORY = 1, 2, 3, 5, 7  # of InputOpDetails


@dataclass
class Processed:
    """The steps in ms, the parts of all of them in ms, the stages of the pipeline: calls, ms, kind of work; and on what."""

    steps: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    stages: dict[str, tuple[int, float, str]] = field(default_factory=dict)
    hardware: str = ""

    @property
    def median_ms(self) -> float:
        """The median step."""
        return statistics.median(self.steps) if self.steps else 0.0

    @property
    def mean_ms(self) -> float:
        """The mean step."""
        return statistics.fmean(self.steps) if self.steps else 0.0

    def share(self, part: str) -> float:
        """The share of a part in the steps' time, of 1."""
        return self.parts.get(part, 0.0) / sum(self.steps) if self.steps else 0.0


def read_processed(data: bytes) -> Processed:
    """Read the file. Raises ValueError if it is something else."""
    found = Processed()
    try:
        for number, kind, at, end in fields(data, 0, len(data)):
            if number == _STEP_DETAILS and kind == BYTES:
                _add_step(data, at, end, found)
            elif number == _OPERATION and kind == BYTES:
                _add_stage(data, at, end, found)
            elif number == _HARDWARE and kind == BYTES:
                found.hardware = text(data, at, end)
    except CutOff as error:
        raise ValueError(f"it is cut off: {error}") from error
    if not sum(found.steps):
        raise ValueError("it has no steps")
    if found.hardware.startswith("CPU"):  # without a GPU, operations on the host are the computation
        found.parts["compute"] += found.parts.pop("host", 0.0)
    return found


def _add_step(data: bytes, at: int, end: int, found: Processed) -> None:
    for number, kind, inner, inner_end in fields(data, at, end):
        if number == _ANY_VALUE and kind == BYTES:
            for part, part_kind, value, _ in fields(data, inner, inner_end):
                if part_kind != FIXED64:
                    continue
                if part == _STEP_TIME:
                    found.steps.append(_ms(value))
                elif part in _PARTS:
                    found.parts[_PARTS[part]] += _ms(value)


def _ms(bits: int) -> float:
    """A time; what cannot be one, in a damaged file, is none."""
    value = double(bits)
    return value if math.isfinite(value) and value > 0 else 0.0


def _add_stage(data: bytes, at: int, end: int, found: Processed) -> None:
    name, calls, own_ms, category = "", 0, 0.0, ""
    for number, kind, value, after in fields(data, at, end):
        if number == _NAME and kind == BYTES:
            name = template(text(data, value, after))
        elif number == _COUNT and kind == VARINT:
            calls = value
        elif number == _SELF and kind == FIXED64:
            own_ms = _ms(value)
        elif number == _CATEGORY and kind == BYTES:
            category = text(data, value, after)
    before = found.stages.get(name, (0, 0.0, category))
    found.stages[name] = (before[0] + calls, before[1] + own_ms, category)
