"""How comparisons count: won, lost, not measured, or lost to the CPUs of the machine by a GPU that is as fast as is due."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.clock_limits import SLOWING
from tfgpu_doctor.model.facts.bench import Comparison, Metric

_SUITE, _PRODUCT, _UNIT = "device_placement", "matmul ", "TFLOP/s"
_OF_BOTH_SIDES = (" in float32", " in tf32")  # a CPU computes in float32, and a GPU in either


@dataclass(frozen=True)
class Judged:
    """Comparisons by what they say of the machine.

    `lost`: the candidate is not shown to be faster, or something went wrong. `unmeasured`: neither a pass nor a fault.
    `to_cpus`: lost by a GPU to the CPUs, with the metrics that show that it computes as fast as is due.
    """

    won: tuple[Comparison, ...] = ()
    lost: tuple[Comparison, ...] = ()
    unmeasured: tuple[Comparison, ...] = ()
    to_cpus: tuple[tuple[Comparison, tuple[Metric, ...]], ...] = ()


def judged(comparisons: Iterable[Comparison], metrics: Sequence[Metric], knowledge: Knowledge) -> Judged:
    """Sort comparisons; the metrics are those of the same run."""
    won, lost, unmeasured, to_cpus = [], [], [], []
    for each in comparisons:
        if each.verdict == "faster" and each.ratio:
            won.append(each)
        elif not is_measured(each):
            unmeasured.append(each)
        elif each.verdict != "not run" and (shown := _shown_fast(each, metrics, knowledge)):
            to_cpus.append((each, shown))
        else:
            lost.append(each)
    return Judged(tuple(won), tuple(lost), tuple(unmeasured), tuple(to_cpus))


def is_measured(comparison: Comparison) -> bool:
    """Whether a comparison tells something: it has a ratio that is precise enough, or could not run because of a fault."""
    if comparison.verdict == "not run":
        return not comparison.harmless and comparison.ratio is None  # with a ratio: of too few processes
    return comparison.verdict != "too noisy"


def slowing(comparisons: Iterable[Comparison], knowledge: Knowledge) -> list[str]:
    """Return the slowdown reasons that NVML reported during these comparisons."""
    least = float(knowledge.boundaries["load_throttled_share"].value)
    return [
        f"{name_of(comparison)}: GPU {gpu} was limited by {reason} in {share:.0%} of {amount(seen.samples, 'sample')}"
        for comparison in comparisons
        for gpu, seen in comparison.readings.items()
        for reason, share in seen.reasons.items()
        if reason in SLOWING and share >= least
    ]


def name_of(comparison: Comparison) -> str:
    """Return a comparison's name with its suite's, as reports have it."""
    return f"{comparison.suite} {comparison.name}"


def but_fast(comparison: Comparison, speeds: Iterable[Metric]) -> str:
    """Say how much faster than the CPUs the GPU of a comparison was, and what shows that it is as fast as is due."""
    told = "; ".join(f"{said(metric)}, {share(metric)}" for metric in speeds)
    ratio = f"{comparison.ratio:.2f} times as fast as the CPUs of this machine"
    return f"{ratio}, but the GPU itself computes as fast as is due: {told}"


def said(metric: Metric) -> str:
    """Return the value of a metric with its unit, and where it was measured."""
    return f"{metric.suite} {metric.name} on {metric.device}: {metric.value:,.4g} {metric.unit}"


def share(metric: Metric) -> str:
    """Say which share of its limit a metric reaches, or of what is usual where no limit is known."""
    if metric.limit:
        return f"{metric.value / metric.limit:.0%} of the limit"
    return f"{metric.value / metric.usual:.0%} of what GPUs of this model usually reach" if metric.usual else ""


def due(metric: Metric, knowledge: Knowledge) -> float | None:
    """Return the least that a large matrix product is to reach on its GPU; None if nobody knows.

    Of what many healthy GPUs of the model reach, or else of the data sheet's peak, as `accept` asks.
    """
    if metric.usual:
        return float(knowledge.boundaries["bench_least_share_of_usual"].value) * metric.usual
    return float(knowledge.boundaries["asked_peak_fraction"].value) * metric.limit if metric.limit else None


def _shown_fast(comparison: Comparison, metrics: Sequence[Metric], knowledge: Knowledge) -> tuple[Metric, ...]:
    """Return the products that show that the GPU of a comparison with the CPUs is as fast as is due; empty if none do.

    How much faster a GPU is depends on the number of CPUs, too: 224 of them compute a small step as fast as any GPU.
    Where one GPU that it used is slower than is due, in any precision, or heat slowed one meanwhile, nothing is shown.
    """
    candidate, baseline = comparison.candidate, comparison.baseline
    if not (candidate and baseline and candidate.device.startswith("GPU") and baseline.device.startswith("CPU")):
        return ()
    used = (candidate.device, *candidate.also)
    products = [
        (metric, least)
        for metric in metrics
        if metric.device in used and _is_product(metric) and (least := due(metric, knowledge)) is not None
    ]
    if slowing([comparison], knowledge) or any(metric.value < least for metric, least in products):
        return ()
    found = tuple(metric for metric, _ in products if metric.name.endswith(_OF_BOTH_SIDES))
    return found if any(metric.device == candidate.device for metric in found) else ()


def _is_product(metric: Metric) -> bool:
    return (
        metric.suite == _SUITE and metric.name.startswith(_PRODUCT) and metric.unit == _UNIT and not metric.bounded_by
    )
