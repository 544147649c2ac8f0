"""BEN: what the perf suites measured on this machine."""

from __future__ import annotations

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric

_SLOWING = ("hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown", "hw_slowdown")
_FRACTIONS = {"TFLOP/s": "bench_least_share_of_peak", "GB/s": "bench_least_share_of_bandwidth"}


@check(
    "BEN001",
    "the GPU beats the CPU, and what is said to speed it up does",
    stage=Stage.ADVICE,
    after=("GPU004", "GPU005", "HLT004", "BEN003"),
    causes=("gpu_thermal_or_power_throttling",),
    sources=("https://www.tensorflow.org/guide/gpu_performance_analysis",),
)
def gpu_beats_cpu(bench: Bench, knowledge: Knowledge) -> Yielded:
    """Each comparison measures one thing done in two ways, interleaved, with proof of where it ran. On a machine with a GPU the
    GPU's side has to win by a margin that the noise cannot explain.

    Fix: look at clocks, link and other users of the GPU first; then `tfgpu-doctor bench SUITE --budget full`.
    """
    comparisons = [comparison for comparison in bench.comparisons if comparison.on_gpu]
    if not comparisons:
        raise Skip("no comparison on a GPU was held")
    lost = [comparison for comparison in comparisons if not (comparison.ratio and comparison.verdict == "faster")]
    for comparison in comparisons:
        if comparison not in lost:
            yield Evidence(f"{_name(comparison)}: {comparison.ratio:.1f} times as fast")
    if lost:
        slowing = _slowing(lost, knowledge)
        yield Finding(
            f"{len(lost)} of {len(comparisons)} comparisons on the GPU are not won: {', '.join(map(_name, lost[:4]))}"
            + (", ..." if len(lost) > 4 else ""),
            cause="gpu_thermal_or_power_throttling" if slowing else UNDETERMINED,
            confidence="medium" if slowing else "low",
            evidence=(
                *(f"{_name(comparison)}: {comparison.verdict}, {comparison.reason}" for comparison in lost),
                *slowing,
            ),
            fix=Fix(
                "See whether others use the GPU and what limits its clocks, then measure the suite alone.",
                (
                    "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",
                    f"tfgpu-doctor bench {lost[0].suite} --budget full",
                ),
            ),
        )


def _name(comparison: Comparison) -> str:
    return f"{comparison.suite} {comparison.name}"


def _slowing(comparisons: list[Comparison], knowledge: Knowledge) -> list[str]:
    """What NVML said while these were held that slows a GPU down."""
    least = float(knowledge.boundaries["load_throttled_share"].value)
    return [
        f"{_name(comparison)}: GPU {gpu} was limited by {reason} in {share:.0%} of {seen.samples} looks"
        for comparison in comparisons
        for gpu, seen in comparison.readings.items()
        for reason, share in seen.reasons.items()
        if reason in _SLOWING and share >= least
    ]


@check(
    "BEN002",
    "the GPU comes near what its data sheet says",
    stage=Stage.ADVICE,
    after=("BEN001",),
    sources=("https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",),
)
def gpu_comes_near_its_limits(bench: Bench, knowledge: Knowledge) -> Yielded:
    """Large matrix products and copies come near the peak of the data sheet; a GPU that stays far below is held back.

    Fix: `tfgpu-doctor --level deep` looks at clocks, heat and power while the GPU works.
    """
    # What is bounded by another metric is a whole step: nobody expects it to reach the peak.
    limited = [
        (metric, metric.limit)
        for metric in bench.metrics
        if metric.limit and metric.unit in _FRACTIONS and not metric.bounded_by
    ]
    if not limited:
        raise Skip("nothing was measured whose limit is known")
    for metric, limit in limited:
        least = float(knowledge.boundaries[_FRACTIONS[metric.unit]].value)
        if metric.value < least * limit:
            yield Finding(
                f"{_said(metric)}, {metric.value / limit:.0%} of what is possible",
                severity="warning",
                confidence="low",
                evidence=(f"{limit:,.4g} {metric.unit}: {metric.limit_source}", f"at least {least:.0%} is usual"),
                fix=Fix(
                    "Look at clocks, heat and power while it works.",
                    ("tfgpu-doctor --level deep",),
                ),
            )
        else:
            yield Evidence(f"{_said(metric)}, {metric.value / limit:.0%} of what is possible")


def _said(metric: Metric) -> str:
    return f"{metric.suite} {metric.name} on {metric.device}: {metric.value:,.4g} {metric.unit}"


@check(
    "BEN003",
    "the GPU answers until the perf suites end",
    stage=Stage.ADVICE,
    after=("GPU004", "GPU005", "HLT004"),
    sources=("https://docs.nvidia.com/deploy/gpu-debug-guidelines/index.html",),
)
def gpu_answers_to_the_end(bench: Bench) -> Yielded:
    """A GPU that computed before the suites and does not during them was lost under load, or one of their kernels broke it.

    Fix: see what the kernel's log says of it now; `tfgpu-doctor` reads it.
    """
    if not any(comparison.on_gpu for comparison in bench.comparisons) and not bench.gpu_lost:
        raise Skip("nothing ran on a GPU")
    if bench.gpu_lost:
        yield Finding(
            "the GPU answers no more since the perf suites ran on it",
            cause=UNDETERMINED,
            confidence="low",
            evidence=(bench.gpu_lost,),
            fix=Fix(
                "Look at the machine as it is now: an Xid in the kernel's log names what happened.", ("tfgpu-doctor",)
            ),
        )
        return
    ended = sum(comparison.on_gpu and comparison.verdict != "not run" for comparison in bench.comparisons)
    if not ended:
        raise Skip("no comparison on the GPU came to its end")
    yield Evidence(f"comparisons on the GPU that came to their end: {ended}")


@check(
    "BEN004",
    "what the perf suites verify beside speed holds",
    stage=Stage.ADVICE,
    after=("GPU004", "GPU005", "HLT004", "BEN003"),
    sources=("https://www.tensorflow.org/guide/gpu",),
)
def suites_find_nothing_wrong(bench: Bench) -> Yielded:
    """Beside their comparisons the suites verify answers: gradients of replicas, numbers against float64, memory that is given
    back, a loss that goes down. What fails there is wrong at any speed.

    Fix: run the suite alone, to see whether it fails again; then what its message names.
    """
    if not (bench.comparisons or bench.metrics or bench.failed):
        raise Skip("the suites measured nothing")
    if bench.failed:
        first = next(iter(bench.failed))
        yield Finding(
            f"{len(bench.failed)} tests of the perf suites found something wrong, first {first.rpartition('::')[2]}",
            cause=UNDETERMINED,
            confidence="low",
            evidence=tuple(f"{test}: {why}" for test, why in bench.failed.items()),
            fix=Fix("Run its suite alone and see whether it fails again.", (f"tfgpu-doctor bench {_suite(first)}",)),
        )
        return
    yield Evidence(f"no answer wrong; comparisons: {len(bench.comparisons)}, metrics: {len(bench.metrics)}")


def _suite(test: str) -> str:
    """`test_numerics.py::test_sums[GPU]` belongs to numerics."""
    return test.partition("::")[0].removeprefix("test_").removesuffix(".py")
