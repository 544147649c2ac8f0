"""What the rules for bottlenecks look at, and what they find."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tfgpu_doctor.model import Confidence
from tfgpu_doctor.tracing.breakdown import Breakdown
from tfgpu_doctor.tracing.intervals import length
from tfgpu_doctor.tracing.pipeline import Pipeline, Stage
from tfgpu_doctor.tracing.python_samples import HostWork, host_work
from tfgpu_doctor.tracing.recorded import Profile
from tfgpu_doctor.tracing.steps import Steps

HIGH, MODERATE = 0.2, 0.1  # XProf calls 5 % of waiting moderate and 20 % high; below 10 % is not worth a change
FEW_STEPS = 3  # with fewer, nothing is told
LAUNCH_HIGH = 0.15  # of launching, while a GPU waits for it: as XProf calls it
_COMPILED, _COMPILED_SHARE = 3, 0.3  # so often at least, and in so many of the steps: not only at the begin
_NUMBER = re.compile(r"_\d+$")  # that TensorFlow gives to each graph of a function


def too_few(count: int) -> str:
    """Why a recording of so many steps does not tell."""
    return f"it holds {count} whole step{'s' * (count != 1)}; {FEW_STEPS} are needed, ten are better"


@dataclass
class Found:
    """A bottleneck: the label, how sure, the share of the steps' time that it takes, and what in the trace says so.

    `high` is the share from which it is the verdict, `saved` what of the share can go at most, if not all of it.
    """

    label: str
    confidence: Confidence
    share: float
    evidence: list[str]
    stage: Stage | None = None
    words: dict[str, str] = field(default_factory=dict)  # for the texts of the verdict
    high: float = HIGH
    saved: float | None = None


@dataclass
class Case:
    """All that the rules look at."""

    profile: Profile
    steps: Steps
    pipeline: Pipeline | None
    times: Breakdown

    def share(self, *parts: str) -> float:
        """The share of some parts of the steps' time."""
        return sum(self.times.share(part) for part in parts)

    def ms(self, part: str) -> float:
        """The time of a part in a step, in ms."""
        return length(self.times.parts[part]) / max(1, self.steps.count)

    def compiled_often(self) -> tuple[str, int]:
        """The function that XLA compiles again and again, and how often it did; no name and 0 if it does not."""
        program, times = max(self.profile.programs.items(), key=lambda each: each[1], default=("", 0))
        if times < max(_COMPILED, _COMPILED_SHARE * self.steps.count):
            return "", 0
        name = program.partition("__XlaMustCompile")[0].removeprefix("a_inference_")
        return _NUMBER.sub("", name) or name, times

    def host(self) -> HostWork:
        """What the samples show of the host's time."""
        return host_work(self.profile.samples, self.times.parts["host"])
