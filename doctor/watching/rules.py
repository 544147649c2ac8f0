"""Rules that fail a run: `gpu_idle > 40 % for 5 min`."""

from __future__ import annotations

import re
import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.tracing import TraceReport
from tfgpu_doctor.watching.held_gpus import held
from tfgpu_doctor.watching.named_rules import NamedRule, NamedRuleWatch, parse_named_rule
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import RuleResult

# Name, what it is, and its unit: shares are written in per cent.
VALUES = {
    "gpu_util": ("the mean utilisation of the GPUs", "%"),
    "gpu_idle": ("100 % less gpu_util", "%"),
    "gpu_memory": ("the memory in use on the fullest GPU", "%"),
    "input_wait": ("the share of the steps that waits for input, by the last recording", "%"),
    "step_ms": ("the mean step, by the last recording", "ms"),
    "cpu": ("the CPUs that the program uses, of those that it may use", "%"),
    "cpu_queued": ("the CPUs that its threads wait for, of those that it may use", "%"),
    "throttled": ("the periods in which its CPU quota was used up", "%"),
    "io_stalled": ("the time in which tasks wait for storage", "%"),
    "memory": ("its memory, of the limit of its control group", "%"),
}
_PATTERN = re.compile(
    r"\s*(?P<name>\w+)\s*(?P<sign><=|>=|<|>)\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>%|ms|s)?"
    r"(?:\s+for\s+(?P<time>\d+(?:\.\d+)?)\s*(?P<per>s|min|m|h))?\s*"
)
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_USUAL_S = 60.0
_KNOWN = 0.8  # of the looks
_COVERED = 0.95  # of the time


@dataclass(frozen=True)
class Rule:
    """A condition on the mean of a value over `seconds`; shares are of 1 here."""

    text: str
    name: str
    sign: str
    value: float
    seconds: float

    def holds(self, mean: float) -> bool:
        """Whether the condition, which fails the run, is met."""
        return {"<": mean < self.value, "<=": mean <= self.value, ">": mean > self.value, ">=": mean >= self.value}[
            self.sign
        ]


AnyRule = Rule | NamedRule


def parse_rule(text: str) -> AnyRule:
    """Read a rule, or the name of one of SageMaker's. Raises ValueError with what is wrong."""
    if re.match(r"\s*[A-Z]", text):
        return parse_named_rule(text)
    found = _PATTERN.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no rule; write it like 'gpu_idle > 40 % for 5 min'")
    name, unit = found["name"], found["unit"]
    if name not in VALUES:
        raise ValueError(f"{name!r} in {text!r} is not known; there are {', '.join(VALUES)}")
    right = VALUES[name][1]
    if unit not in ((right, None) if right == "%" else (right, "s", None)):
        raise ValueError(f"{name} in {text!r} is measured in {right}")
    value = float(found["value"])
    if right == "%":
        value /= 100
    elif unit == "s":
        value *= 1000
    seconds = float(found["time"]) * _SECONDS[found["per"]] if found["time"] else _USUAL_S
    if seconds <= 0:
        raise ValueError(f"the time in {text!r} must be longer than 0 s")
    return Rule(" ".join(text.split()), name, found["sign"], value, seconds)


def values_of(
    reading: Reading, gpus: Sequence[GpuReading], report: TraceReport | None, *, recordings: int = 0,
    trained: bool = False,
) -> dict[str, float | None]:  # fmt: skip
    """The values that rules speak of, at this moment; shares of 1, None where nobody knows.

    Named rules judge each GPU: `gpu_util.0`. `steps` is 1 if a recording had some (`trained`), 0 if none of the `recordings` had.

    Of the GPUs those count that the program holds memory on, or may see where NVML does not tell.
    """
    gpus = held(gpus)
    whole = reading.cpus or reading.machine_cpus
    used = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    full = [gpu.used_bytes / gpu.total_bytes for gpu in gpus if gpu.used_bytes is not None and gpu.total_bytes]
    util = sum(used) / len(used) if used else None
    limit = reading.memory_limit_bytes
    return {
        "gpu_util": util, "gpu_idle": None if util is None else 1 - util, "gpu_memory": max(full, default=None),
        "input_wait": report.shares.input if report else None, "step_ms": report.steps.mean_ms if report else None,
        "cpu": reading.cpu / whole if whole else None,
        "cpu_queued": reading.queued / whole if whole and reading.queued is not None else None,
        "throttled": reading.throttled, "io_stalled": reading.io_stalled,
        "memory": reading.memory_bytes / limit if limit else None,
        "steps": 1.0 if trained else 0.0 if recordings else None,
        **{f"gpu_util.{gpu.index}": gpu.utilization for gpu in gpus},
        **{
            f"gpu_memory.{gpu.index}": None if gpu.used_bytes is None or not gpu.total_bytes else gpu.used_bytes / gpu.total_bytes
            for gpu in gpus
        },
    }  # fmt: skip


def watch_rule(rule: AnyRule) -> RuleWatch | NamedRuleWatch:
    """What follows a rule."""
    return NamedRuleWatch(rule) if isinstance(rule, NamedRule) else RuleWatch(rule)


@dataclass
class RuleWatch:
    """A rule, and the values of its last `seconds`."""

    rule: Rule
    broken_s: float | None = None  # when it was broken first, since the begin
    _looks: deque[tuple[float, float | None]] = field(default_factory=deque)
    _known: bool = False
    _covered: bool = False
    _longest_s: float = 0.0
    _first_s: float | None = None
    _looked_s: float = 0.0
    _since_s: float | None = None

    def add(self, at_s: float, values: Mapping[str, float | None]) -> bool:
        """Add a look; return whether the rule is broken for the first time now."""
        value = values.get(self.rule.name)
        self._first_s = at_s if self._first_s is None else self._first_s
        self._looked_s = at_s - self._first_s
        self._looks.append((at_s, value))
        while len(self._looks) > 1 and at_s - self._looks[1][0] >= self.rule.seconds:
            self._looks.popleft()
        known = [each for _, each in self._looks if each is not None]
        self._known = self._known or bool(known)
        self._follow(at_s, value)
        if at_s - self._looks[0][0] < _COVERED * self.rule.seconds or len(known) < _KNOWN * len(self._looks):
            return False
        self._covered = True
        if self.broken_s is None and self.rule.holds(statistics.fmean(known)):
            self.broken_s = at_s
            return True
        return False

    def _follow(self, at_s: float, value: float | None) -> None:
        if value is None or not self.rule.holds(value):
            self._since_s = None
            return
        self._since_s = at_s if self._since_s is None else self._since_s
        self._longest_s = max(self._longest_s, at_s - self._since_s)

    def result(self) -> RuleResult:
        """What became of the rule."""
        broken: bool | None = self.broken_s is not None
        why = ""
        if not self._known:
            broken, why = None, f"{self.rule.name} was never known"
        elif not self._covered and self._looked_s < self.rule.seconds:
            why = f"the run was shorter than {self.rule.seconds:g} s"
        elif not self._covered:
            broken, why = None, f"{self.rule.name} was not known for {self.rule.seconds:g} s together"
        return RuleResult(
            rule=self.rule.text, broken=broken, at_s=self.broken_s, longest_s=round(self._longest_s, 1), why=why
        )
