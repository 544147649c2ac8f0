"""The result of `tfgpu-doctor bench`: comparisons, metrics, regressions, and the doctor's diagnosis of the machine."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.bench.conditions import Changed
from tfgpu_doctor.bench.regression import Regression
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric
from tfgpu_doctor.model.report import MachineSummary, Report, RootCause, TargetSummary

_INTERRUPTED = 130
_NOT_TOLD = 3


class BenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The document. `causes` are the doctor's root causes, ranked: why GPU comparisons did not run, or why one is slow."""

    schema: int = 2
    doctor: str
    recorded: str
    suite_version: str
    budget_s: float | None
    interrupted: bool
    target: TargetSummary
    machine: MachineSummary
    causes: tuple[RootCause, ...]
    comparisons: tuple[Comparison, ...]
    metrics: tuple[Metric, ...]
    skipped: dict[str, str]
    failed: dict[str, str]
    busy: dict[str, str]  # GPUs that were not measured, as others use them
    problems: tuple[str, ...]
    strict: bool
    reference: str  # the run to compare with; empty if none was selected
    reference_runs: int  # its number of saved runs
    changed: tuple[Changed, ...]  # what else differs from the reference
    regressions: tuple[Regression, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0: results are as expected; 1: a finding, or slower than the reference; 3: inconclusive; 130: interrupted.

        With `strict`, a comparison on the CPU whose candidate is not shown to be faster gives 1 as well.

        A GPU comparison whose candidate is not shown to be faster gives 1. Comparisons that could not be judged against
        the reference are neither a pass nor a failure: they give 3, as does a run that measured nothing, or left out
        GPUs that others use.
        """
        if self.interrupted:
            return _INTERRUPTED
        bad = any(cause.severity == "error" for cause in self.causes) or bool(self.problems or self.failed)
        judged = [comparison for comparison in self.comparisons if comparison.on_gpu or self.strict]
        lost = any(comparison.verdict != "faster" for comparison in judged)
        worse = any(each.status == "slower" for each in self.regressions)
        if bad or lost or worse:
            return 1
        if self.untold or self.busy or not any(comparison.interval for comparison in self.comparisons):
            return _NOT_TOLD
        return 0

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
    return BenchReport(
        doctor=report.doctor,
        recorded=report.recorded,
        suite_version=bench.suite_version,
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
        problems=bench.problems,
        strict=strict,
        reference=reference,
        reference_runs=runs,
        changed=changed,
        regressions=regressions,
        seconds=round(seconds, 2),
    )
