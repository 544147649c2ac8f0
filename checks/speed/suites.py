"""BEN: the results of the perf suites on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfgpu_doctor.checks.devices import Row, figures_of
from tfgpu_doctor.checks.speed.judging import but_fast, judged, name_of, said, share, slowing
from tfgpu_doctor.checks.unseen import tell_missing
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric
from tfgpu_doctor.model.tags import SUITES_STOPPED, requirement

_UNITS = ("TFLOP/s", "GB/s")


@check(
    "BEN001",
    "the GPU is faster than the CPU, and the recommended optimizations make it faster",
    family="Perf suites",
    tags=(requirement("speed-ups"),),
    stage=Stage.ADVICE,
    after=("GPU004", "GPU005", "HLT004", "BEN003"),
    causes=("gpu_thermal_or_power_throttling",),
    sources=("https://www.tensorflow.org/guide/gpu_performance_analysis",),
)
def gpu_beats_cpu(bench: Bench, knowledge: Knowledge) -> Yielded:
    """Each comparison interleaves two variants of the same work and records where each ran. On a machine with a GPU, the
    candidate must be faster by more than the noise.

    A comparison that is too noisy, or that lacked memory, is neither a pass nor a fault. Neither is one that a GPU loses to the
    CPUs although its large matrix products are as fast as is due: then the CPUs are fast, or many.

    Fix: check clocks, link and other users of the GPU first; then run `tfgpu-doctor bench SUITE --budget full`.
    """
    comparisons = [comparison for comparison in bench.comparisons if comparison.on_gpu]
    if not comparisons:
        raise Skip("no comparison ran on a GPU")
    found = judged(comparisons, bench.metrics, knowledge)
    if len(found.unmeasured) == len(comparisons):
        raise NotMeasured("; ".join(map(_not_judged, found.unmeasured)))
    for comparison in found.won:
        yield Evidence(f"{name_of(comparison)}: {comparison.ratio:.1f} times as fast")
    for comparison, speeds in found.to_cpus:
        yield Evidence(f"{name_of(comparison)}: {but_fast(comparison, speeds)}")
    for comparison in found.unmeasured:
        yield Evidence(_not_judged(comparison))
    if found.lost:
        yield _lost(found.lost, len(comparisons), knowledge)


def _lost(lost: Sequence[Comparison], count: int, knowledge: Knowledge) -> Finding:
    """Return the finding for the comparisons that are lost, of so many on the GPU."""
    slowed = slowing(lost, knowledge)
    return Finding(
        f"{len(lost)} of {amount(count, 'comparison')} on the GPU {'does' if len(lost) == 1 else 'do'} not show a "
        "faster candidate: "
        f"{', '.join(map(name_of, lost[:4]))}" + (", ..." if len(lost) > 4 else ""),
        cause="gpu_thermal_or_power_throttling" if slowed else UNDETERMINED,
        confidence="medium" if slowed else "low",
        evidence=(
            *(f"{name_of(comparison)}: {comparison.verdict}, {comparison.reason}" for comparison in lost),
            *slowed,
        ),
        fix=Fix(
            "Check whether other processes use the GPU and what limits its clocks, then run only this suite.",
            (
                "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",
                f"tfgpu-doctor bench {lost[0].suite} --budget full",
            ),
        ),
        devices=_devices(lost),
        figures=figures_of("", _ratios(lost, count)),
    )


def _not_judged(comparison: Comparison) -> str:
    return f"{name_of(comparison)} could not be judged: {comparison.verdict}, {comparison.reason}"


def _devices(measured: Iterable[Comparison | Metric]) -> tuple[str, ...]:
    """Return the GPUs that ran the candidates, or the work of the metrics."""
    return tuple(dict.fromkeys(each.device for each in measured if each.device.startswith("GPU:")))


def _ratios(lost: Sequence[Comparison], count: int) -> list[Row]:
    return [
        ("comparisons that show no faster candidate", len(lost), ""),
        ("comparisons on the GPU", count, ""),
        *((f"{name_of(each)}: times as fast", each.ratio, "") for each in lost),
    ]


@check(
    "BEN002",
    "the GPU performs close to its data sheet",
    family="Perf suites",
    tags=(requirement("metric-fractions"),),
    stage=Stage.ADVICE,
    after=("BEN001",),
    sources=("https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",),
)
def gpu_comes_near_its_limits(bench: Bench, knowledge: Knowledge) -> Yielded:
    """Large matrix products and copies reach what many healthy GPUs of the model reach; if not, something limits the GPU.

    The data sheet alone says too little: healthy A100s reach 82 to 85 % of it in products, and 67 to 74 % in copies. Where
    nobody measured many GPUs of a model, the share of the data sheet is reported, and nothing is required.

    Fix: run `tfgpu-doctor --level deep`, which checks clocks, temperature and power while the GPU works.
    """
    # A metric that is bounded by another metric is a whole training step, which does not reach the peak.
    limited = [
        (metric, metric.limit)
        for metric in bench.metrics
        if metric.limit and metric.unit in _UNITS and not metric.bounded_by
    ]
    if not limited:
        raise Skip("no metric with a known limit was measured")
    slow = False
    for metric, limit in limited:
        least = float(knowledge.boundaries["bench_least_share_of_usual"].value)
        if metric.usual and metric.value < least * metric.usual:
            slow = True
            yield Finding(
                f"{said(metric)}, {metric.value / metric.usual:.0%} of what GPUs of this model usually reach",
                severity="warning",
                confidence="low",
                evidence=(
                    f"{metric.usual:,.4g} {metric.unit} is usual, at least {least:.0%} of it is due: {metric.usual_source}",
                    f"{limit:,.4g} {metric.unit} is the limit: {metric.limit_source}",
                ),
                fix=Fix(
                    "Check clocks, temperature and power while the GPU works.",
                    ("tfgpu-doctor --level deep",),
                ),
                devices=_devices([metric]),
                figures=figures_of("".join(_devices([metric])), _speeds(metric)),
            )
        else:
            yield Evidence(f"{said(metric)}, {share(metric)}")
    judged = {metric.device for metric, _ in limited if metric.usual}
    unknown = [f"{said(metric)}, {share(metric)}" for metric, _ in limited if metric.device not in judged]
    missing = f"what GPUs of this model usually reach is not known: {'; '.join(unknown)}" if unknown else ""
    yield from tell_missing(missing, found=slow)


def _speeds(metric: Metric) -> list[Row]:
    name = f"{metric.suite} {metric.name}"
    return [
        (name, metric.value, metric.unit),
        (f"{name}: usual value", metric.usual, metric.unit),
        (f"{name}: share of the usual value", metric.value / metric.usual if metric.usual else None, ""),
        (f"{name}: limit", metric.limit, metric.unit),
    ]


@check(
    "BEN003",
    "the GPU responds until the perf suites end",
    family="Perf suites",
    tags=(SUITES_STOPPED,),
    stage=Stage.ADVICE,
    after=("GPU004", "GPU005", "HLT004"),
    sources=("https://docs.nvidia.com/deploy/gpu-debug-guidelines/index.html",),
)
def gpu_answers_to_the_end(bench: Bench) -> Yielded:
    """If a GPU worked before the suites but not during them, it was lost under load, or one of their kernels broke it.

    Fix: check the kernel log for the cause; `tfgpu-doctor` reads it.
    """
    if not any(comparison.on_gpu for comparison in bench.comparisons) and not bench.gpu_lost:
        raise Skip("nothing ran on a GPU")
    if bench.gpu_lost:
        yield Finding(
            "the GPU no longer responds after the perf suites ran on it",
            cause=UNDETERMINED,
            confidence="low",
            evidence=(bench.gpu_lost,),
            fix=Fix(
                "Diagnose the machine in its current state: an Xid in the kernel log names the event.",
                ("tfgpu-doctor",),
            ),
            devices=_devices(bench.comparisons),
        )
        return
    if cut := _cut_off(bench):
        raise NotMeasured(cut)
    ended = sum(comparison.on_gpu and comparison.verdict != "not run" for comparison in bench.comparisons)
    if not ended:
        raise Skip("no comparison on the GPU was completed")
    yield Evidence(f"completed comparisons on the GPU: {ended}")


@check(
    "BEN004",
    "the perf suites' verifications of results pass",
    family="Perf suites",
    tags=(requirement("suites"),),
    stage=Stage.ADVICE,
    after=("GPU004", "GPU005", "HLT004", "BEN003"),
    sources=("https://www.tensorflow.org/guide/gpu",),
)
def suites_find_nothing_wrong(bench: Bench) -> Yielded:
    """In addition to comparisons, the suites verify results: gradients of replicas, values against float64, released memory,
    a decreasing loss. A failure there is an error regardless of speed.

    Fix: run only that suite to see whether it fails again, then follow its message.
    """
    if not (bench.comparisons or bench.metrics or bench.failed):
        raise Skip("the suites measured nothing")
    if bench.failed:
        first = next(iter(bench.failed))
        yield Finding(
            f"{amount(len(bench.failed), 'test')} of the perf suites failed; the first is {first.rpartition('::')[2]}",
            cause=UNDETERMINED,
            confidence="low",
            evidence=tuple(f"{test}: {why}" for test, why in bench.failed.items()),
            fix=Fix("Run only its suite to see whether it fails again.", (f"tfgpu-doctor bench {_suite(first)}",)),
            figures=figures_of("", [("failed tests", len(bench.failed), "")]),
        )
        return
    if cut := _cut_off(bench):
        raise NotMeasured(cut)
    yield Evidence(f"no wrong result; comparisons: {len(bench.comparisons)}, metrics: {len(bench.metrics)}")


def _cut_off(bench: Bench) -> str:
    """Return what kept the suites from their end; empty if nothing did."""
    if bench.problems:
        return f"a suite did not finish: {bench.problems[0]}"
    return "the suites were interrupted" if bench.interrupted else ""


def _suite(test: str) -> str:
    """Return the suite of a test: `test_numerics.py::test_sums[GPU]` belongs to numerics."""
    return test.partition("::")[0].removeprefix("test_").removesuffix(".py")
