"""Rules by the names that users of SageMaker's profiler rules know: `LowGPUUtilization(threshold_p95=60)`.

Their definitions and defaults are in checks/data/watch_rules.json. A look of theirs comes every 0.5 s, one of ours every
second: `patience` and `window` keep their time. In place of the I/O wait of CPUs stands PSI's share of the time in which
a task waits for storage, and in place of a single CPU core the program's share of those that it may use.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.watching.result import RuleResult

PATTERN = re.compile(r"\s*(?P<name>[A-Z]\w*)\s*(\((?P<values>[^()]*)\))?\s*")
_LOOK_S = 0.5  # SageMaker's
_KNOWN = 0.8  # of the looks
_MOST = 6 * 3600  # looks that are kept
_BINS = 50  # of a histogram of utilisation: 2 % each

Values = Mapping[str, float | None]
Judge = Callable[[Sequence[Values], Mapping[str, float]], bool]


@dataclass(frozen=True)
class NamedRule:
    """A rule by its name, with all of its parameters."""

    text: str
    name: str
    parameters: Mapping[str, float]


def parse_named_rule(text: str) -> NamedRule:
    """Read a name, and parameters in parentheses. Raises ValueError with what is wrong."""
    found, shown = PATTERN.fullmatch(text), " ".join(text.split())
    if not found:
        raise ValueError(f"{text!r} is no rule; write it like 'LowGPUUtilization(threshold_p95=60)'")
    known = read_knowledge().watch_rules
    if found["name"] not in known:
        raise ValueError(f"{found['name']!r} is not known; there are {', '.join(known)}")
    parameters = dict(known[found["name"]].parameters)
    for word in (each.strip() for each in (found["values"] or "").split(",") if each.strip()):
        name, _, value = (part.strip() for part in word.partition("="))
        if name not in parameters:
            raise ValueError(f"{found['name']} has no {name!r}; it has {', '.join(parameters)}")
        if not re.fullmatch(r"\d+(\.\d+)?", value):
            raise ValueError(f"{word!r} in {shown!r} is no number; write it like {name}={parameters[name]:g}")
        parameters[name] = float(value)
    for name in ("window", "scan_interval_us"):
        if parameters.get(name, 1) <= 0:
            raise ValueError(f"{name} in {shown!r} must be larger than 0")
    return NamedRule(shown, found["name"], parameters)


@dataclass
class NamedRuleWatch:
    """A rule, and what was seen so far."""

    rule: NamedRule
    broken_s: float | None = None  # when it was broken first, since the begin
    _looks: list[Values] = field(default_factory=list)
    _first_s: float | None = None
    _passed_s: float = 0.0
    _judged_s: float | None = None

    def add(self, at_s: float, values: Values) -> bool:
        """Add a look; return whether the rule is broken for the first time now."""
        self._first_s = at_s if self._first_s is None else self._first_s
        self._passed_s = at_s - self._first_s
        self._looks.append(values)
        del self._looks[:-_MOST]
        every_s = self.rule.parameters["scan_interval_us"] / 1e6
        due = self._judged_s is None or at_s - self._judged_s >= every_s
        if self.broken_s is not None or self._passed_s < self._patience_s or not due or self._unknown():
            return False
        self._judged_s = at_s
        if _JUDGES[self.rule.name](self._looks, self.rule.parameters):
            self.broken_s = at_s
        return self.broken_s is not None

    @property
    def _patience_s(self) -> float:
        if self.rule.name == "MaxInitializationTime":
            return 60 * self.rule.parameters["threshold"]
        return self.rule.parameters.get("patience", 0.0) * _LOOK_S

    def _unknown(self) -> str:
        """Why it cannot be judged; empty if it can."""
        if self.rule.name == "StepOutlier":
            return "the times of single steps are not kept"
        if self.rule.name == "MaxInitializationTime":
            known = any(each.get("steps") is not None for each in self._looks)
            return "" if known else "nobody knows whether there was a step: no recording was read"
        for name in _NEEDS[self.rule.name]:
            known_looks = sum(any(value is not None for value in _each(look, name)) for look in self._looks)
            if known_looks < _KNOWN * len(self._looks):
                return f"{name} was not known"
        return ""

    def result(self) -> RuleResult:
        """What became of the rule."""
        broken: bool | None = self.broken_s is not None
        why = ""
        if not broken and self.rule.name != "StepOutlier" and self._passed_s < self._patience_s:
            why = f"the run was shorter than {self._patience_s:g} s"
        elif not broken and (why := self._unknown()):
            broken = None
        return RuleResult(rule=self.rule.text, broken=broken, at_s=self.broken_s, why=why)


def _each(look: Values, name: str) -> list[float | None]:
    """The value of each GPU, or the one value of a name that has no GPU."""
    return [value for key, value in look.items() if key.startswith(name + ".")] or [look.get(name)]


def _series(looks: Sequence[Values], name: str) -> dict[str, list[float]]:
    """The values of each GPU, by its number."""
    found: dict[str, list[float]] = {}
    for look in looks:
        for key, value in look.items():
            if key.startswith(name + ".") and value is not None:
                found.setdefault(key.rpartition(".")[2], []).append(value)
    return found


def _window(looks: Sequence[Values], parameters: Mapping[str, float]) -> Sequence[Values]:
    return looks[-max(1, round(parameters["window"] * _LOOK_S)) :]


def _percentile(values: Sequence[float], share: float) -> float:
    """With linear interpolation, as numpy.quantile."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _low_use(looks: Sequence[Values], parameters: Mapping[str, float]) -> bool:
    return any(
        100 * _percentile(each, 0.95) < parameters["threshold_p95"]
        or 100 * _percentile(each, 0.05) < parameters["threshold_p5"]
        for each in _series(_window(looks, parameters), "gpu_util").values()
    )


def _bottleneck(name: str, limit: str) -> Judge:
    def judge(looks: Sequence[Values], parameters: Mapping[str, float]) -> bool:
        hits = sum(
            100 * (look.get(name) or 0.0) > parameters[limit]
            and any(each is not None and 100 * each < parameters["gpu_threshold"] for each in _gpus(look))
            for look in looks
        )
        return 100 * hits > parameters["threshold"] * len(looks)

    return judge


def _gpus(look: Values) -> list[float | None]:
    return [value for key, value in look.items() if key.startswith("gpu_util.")]


def _batch_size(looks: Sequence[Values], parameters: Mapping[str, float]) -> bool:
    looks = _window(looks, parameters)
    cpu = [each for look in looks if (each := look.get("cpu")) is not None]
    if not cpu or 100 * _percentile(cpu, 0.95) >= parameters["cpu_threshold_p95"]:
        return False
    used, full = _series(looks, "gpu_util"), _series(looks, "gpu_memory")
    return any(
        100 * _percentile(used[gpu], 0.95) < parameters["gpu_threshold_p95"]
        and 100 * _percentile(full[gpu], 0.95) < parameters["gpu_memory_threshold_p95"]
        for gpu in used.keys() & full.keys()
    )


def _memory_increase(looks: Sequence[Values], parameters: Mapping[str, float]) -> bool:
    """Any window since the last scan against the one before it."""
    size = max(1, round(parameters["window"] * _LOOK_S))
    scanned = 2 * size + math.ceil(parameters["scan_interval_us"] / 1e6)
    return any(
        100 * (statistics.fmean(each[at : at + size]) - statistics.fmean(each[at - size : at])) > parameters["increase"]
        for each in _series(looks[-scanned:], "gpu_memory").values()
        for at in range(size, len(each) - size + 1)
    )


def _unbalanced(looks: Sequence[Values], parameters: Mapping[str, float]) -> bool:
    found = [_histogram(each) for each in _series(looks, "gpu_util").values()]
    return any(
        _distance(first, second) > parameters["threshold"]
        for at, first in enumerate(found)
        for second in found[at + 1 :]
    )


def _histogram(values: Sequence[float]) -> dict[int, float]:
    counts = Counter(min(_BINS - 1, int(value * _BINS)) for value in values)
    return {place: count / len(values) for place, count in counts.items()}


def _distance(first: Mapping[int, float], second: Mapping[int, float]) -> float:
    """The distance of Jensen and Shannon: 0 for the same distribution, 0.83 for two that share nothing."""
    whole = 0.0
    for place in first.keys() | second.keys():
        one, other = first.get(place, 0.0), second.get(place, 0.0)
        middle = (one + other) / 2
        whole += sum(each * math.log(each / middle) for each in (one, other) if each > 0) / 2
    return math.sqrt(max(0.0, whole))


def _no_step(looks: Sequence[Values], parameters: Mapping[str, float]) -> bool:  # noqa: ARG001 - the others need it
    return not any(each.get("steps") for each in looks)


_NEEDS = {
    "LowGPUUtilization": ("gpu_util",), "CPUBottleneck": ("gpu_util", "cpu"), "IOBottleneck": ("gpu_util", "io_stalled"),
    "BatchSize": ("gpu_util", "gpu_memory", "cpu"), "GPUMemoryIncrease": ("gpu_memory",), "LoadBalancing": ("gpu_util",),
}  # fmt: skip
_JUDGES: dict[str, Judge] = {
    "LowGPUUtilization": _low_use, "CPUBottleneck": _bottleneck("cpu", "cpu_threshold"),
    "IOBottleneck": _bottleneck("io_stalled", "io_threshold"), "BatchSize": _batch_size,
    "GPUMemoryIncrease": _memory_increase, "LoadBalancing": _unbalanced, "MaxInitializationTime": _no_step,
}  # fmt: skip
