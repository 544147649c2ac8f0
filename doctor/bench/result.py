"""The result of `tfgpu-doctor bench`: comparisons, metrics, regressions, and the doctor's diagnosis of the machine."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.bench.conditions import Changed
from tfgpu_doctor.bench.reasons import reasons
from tfgpu_doctor.bench.regression import Regression
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric
from tfgpu_doctor.model.report import MachineSummary, Report, RootCause, TargetSummary

_SPEEDS = ("TFLOP/s", "GB/s")


class BenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The document. `causes` are the doctor's root causes, ranked: why GPU comparisons did not run, or why one is slow.

    `exit_code`: 0: results are as expected; 1: a finding, or slower than the reference; 3: inconclusive; 130: interrupted.
    A GPU comparison whose candidate is not faster gives 1, with `strict` one on the CPU as well. What could not be measured,
    not precisely enough, or not be judged against the reference, is neither a pass nor a failure: it gives 3.
    """

    schema: int = 2
    doctor: str
    recorded: str
    suite_version: str
    suites: tuple[str, ...]  # that were ordered; empty: all
    budget_s: float | None
    interrupted: bool
    exit_code: int = 0
    why: tuple[str, ...] = ()  # the reasons for the exit code, if it is not 0
    target: TargetSummary
    machine: MachineSummary
    causes: tuple[RootCause, ...]
    comparisons: tuple[Comparison, ...]
    metrics: tuple[Metric, ...]
    skipped: dict[str, str]
    failed: dict[str, str]
    busy: dict[str, str]  # GPUs that were not measured, as others use them
    gpus_listed: int  # by TensorFlow; 0: none, or not known
    gpus_not_measured: tuple[str, ...]  # of these, where work for one GPU was measured on others only
    problems: tuple[str, ...]
    strict: bool
    reference: str  # the run to compare with; empty if none was selected
    reference_runs: int  # its number of saved runs
    changed: tuple[Changed, ...]  # what else differs from the reference
    regressions: tuple[Regression, ...]
    seconds: float

    @property
    def untold(self) -> int:
        """The number of comparisons that could not be judged against the reference.

        New comparisons do not count, unless all are new: then nothing was compared.
        """
        statuses = [each.status for each in self.regressions]
        if set(statuses) == {"no reference"}:
            return len(statuses)
        return statuses.count("missing") + statuses.count("unstable")


def make_result(
    report: Report, bench: Bench, *, reference: str = "", runs: int = 0, changed: tuple[Changed, ...] = (),
    regressions: tuple[Regression, ...] = (), seconds: float, strict: bool = False,
) -> BenchReport:  # fmt: skip
    """Combine the results of one run."""
    result = BenchReport(
        doctor=report.doctor,
        recorded=report.recorded,
        suite_version=bench.suite_version,
        suites=bench.suites,
        budget_s=bench.budget_s,
        interrupted=report.interrupted or bench.interrupted,
        target=report.target,
        machine=report.machine,
        causes=report.causes,
        comparisons=bench.comparisons,
        metrics=bench.metrics,
        skipped=bench.skipped,
        failed=bench.failed,
        busy=bench.busy,
        gpus_listed=bench.gpus_listed,
        gpus_not_measured=_not_measured(bench),
        problems=bench.problems,
        strict=strict,
        reference=reference,
        reference_runs=runs,
        changed=changed,
        regressions=regressions,
        seconds=round(seconds, 2),
    )
    return ended(result)


def ended(result: BenchReport) -> BenchReport:
    """Return the result with its exit code, and the reasons for it."""
    found = reasons(result)
    return msgspec.structs.replace(
        result, exit_code=found[0].code if found else 0, why=tuple(each.text for each in found)
    )


def _not_measured(bench: Bench) -> tuple[str, ...]:
    """Return the GPUs that TensorFlow lists and on which no work for a single GPU was measured, if any was on others.

    Comparisons and speeds count; other metrics do where there are neither.
    """
    compared = {
        device
        for each in bench.comparisons
        if each.interval and not (each.candidate and each.candidate.also)
        for device in (each.device, each.baseline.device if each.baseline else "")
    }
    speeds = {each.device for each in bench.metrics if each.unit == _SPEEDS[0] or (each.unit in _SPEEDS and each.limit)}
    listed = [f"GPU:{number}" for number in range(bench.gpus_listed)]
    measured = {*listed} & (compared | speeds or {each.device for each in bench.metrics})
    return tuple(each for each in listed if each not in measured) if measured else ()
