"""Why a run of the suites ends with its exit code: the reasons, in the words of all formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tfgpu_doctor.model.amounts import amount

if TYPE_CHECKING:
    from tfgpu_doctor.bench.result import BenchReport
    from tfgpu_doctor.checks.speed.judging import Judged
    from tfgpu_doctor.model.facts.bench import Comparison

# With these begins why a test was skipped: it had no time, or the GPU that it needs is in use (perf_tests/fixtures.py).
TIME_ENDED, IN_USE = "the time budget", "others use a GPU"
FAULT, NOT_TOLD, INTERRUPTED = 1, 3, 130
_FEW = 4
_AGAIN = "run it again with --budget full, or when the machine is idle"


class Reason(NamedTuple):
    """A reason for an exit code other than 0, and the section of the page that has the details."""

    code: int
    section: str
    text: str


def reasons(result: BenchReport) -> tuple[Reason, ...]:
    """Return the reasons, those of the exit code first."""
    stopped = "the run was interrupted; what it measured until then is here"
    found = [Reason(INTERRUPTED, "", stopped)] if result.interrupted else []
    found += [Reason(FAULT, section, text) for section, text in _faults(result)]
    found += [Reason(NOT_TOLD, section, text) for section, text in _not_told(result)]
    return tuple(found)


def _faults(result: BenchReport) -> Iterator[tuple[str, str]]:
    """Yield what is wrong: what the doctor found, problems, failed tests, comparisons that are lost, and what became slower."""
    errors = [cause for cause in result.causes if cause.severity == "error"]
    yield from (("causes", cause.title) for cause in errors)
    if result.problems:
        more = f" (and {len(result.problems) - 1} more)" if len(result.problems) > 1 else ""
        yield "wrong", f"a suite did not finish: {result.problems[0]}{more}"
    told = {line for cause in errors for line in cause.evidence}
    if failed := [test for test, why in result.failed.items() if f"{test}: {why}" not in told]:
        yield "wrong", f"{amount(len(failed), 'test')} failed: {_some([short_name(test) for test in failed])}"
    lost = _judged(result, on_gpu=True).lost
    if lost and all(cause.id != "BEN001" for cause in errors):
        yield "comparisons", f"{_so_many(lost, 'GPU')} not show a faster candidate: {_named(lost)}"
    if result.strict and (lost := _judged(result, on_gpu=False).lost):
        yield "comparisons", f"{_so_many(lost, 'CPU')} not show a faster candidate, as --strict asks: {_named(lost)}"
    if slower := sum(each.status == "slower" for each in result.regressions):
        yield "history", f"compared with {reference(result)}: {slower} slower"


def _not_told(result: BenchReport) -> Iterator[tuple[str, str]]:
    """Yield what was asked for and could not be measured, or not precisely enough: neither a pass nor a fault."""
    unmeasured = [*_judged(result, on_gpu=True).unmeasured]
    unmeasured += _judged(result, on_gpu=False).unmeasured if result.strict else ()
    if unmeasured:
        names = _some([f"{_named([each])} ({_why_unmeasured(each)})" for each in unmeasured])
        again = f"; {_AGAIN}" if any(each.verdict == "too noisy" for each in unmeasured) else ""
        yield "comparisons", f"{amount(len(unmeasured), 'comparison')} could not be judged: {names}{again}"
    if result.busy:
        told = "; ".join(f"{name}: {signs}" for name, signs in result.busy.items())
        what = "end them, choose idle GPUs with CUDA_VISIBLE_DEVICES, or add --even-if-busy"
        yield "left-out", f"{IN_USE} ({told}): {what}"
    silent = [*_silent(result)]
    yield from (("left-out", text) for text in silent)
    if untold := not_compared(result):
        yield "history", untold
    elif result.reference and not (result.regressions or silent):
        neither = f"neither this run nor {reference(result)} has a comparison of these suites"
        yield "history", f"nothing was compared: {neither}; name suites that have one, or leave out --compare"


def _silent(result: BenchReport) -> Iterator[str]:
    """Yield that nothing was measured, or no comparison where time was short, or nothing of a suite that was named."""
    compared = any(each.interval for each in result.comparisons)
    cut = {test: why for test, why in result.skipped.items() if why.startswith(TIME_ENDED)}
    if not compared and not result.metrics:
        most = Counter(result.skipped.values()).most_common(1)
        yield f"nothing was measured: {most[0][0]}" if most else "nothing was measured"
        return
    if not compared and cut:
        had = f"{amount(len(cut), 'test')} had no time"
        yield f"no comparison was measured, and {had}; run it again with a larger --budget"
    measured = {each.suite for each in result.comparisons if each.interval} | {each.suite for each in result.metrics}
    for suite in result.suites:
        whys = [why for test, why in cut.items() if f"test_{suite}.py::" in test]
        if whys and suite not in measured:
            yield f"the suite {suite} measured nothing: {whys[0]}"


def _judged(result: BenchReport, *, on_gpu: bool) -> Judged:
    """Judge the comparisons with or without a GPU."""
    from tfgpu_doctor.checks.speed.judging import judged
    from tfgpu_doctor.knowledge import read_knowledge

    chosen = [each for each in result.comparisons if each.on_gpu == on_gpu]
    return judged(chosen, result.metrics, read_knowledge())


def no_faults(result: BenchReport) -> dict[str, str]:
    """Say of each comparison that a fast GPU did not win against the CPUs, by its key, why that is no fault."""
    from tfgpu_doctor.checks.speed.judging import but_fast

    return {each.key: but_fast(each, speeds) for each, speeds in _judged(result, on_gpu=True).to_cpus}


def _so_many(lost: Sequence[Comparison], where: str) -> str:
    return f"{amount(len(lost), 'comparison')} on the {where} {'does' if len(lost) == 1 else 'do'}"


def _named(comparisons: Sequence[Comparison]) -> str:
    return _some([f"{each.suite} {each.name}" for each in comparisons])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_FEW]) + (", ..." if len(names) > _FEW else "")


def _why_unmeasured(comparison: Comparison) -> str:
    return f"not run: {comparison.reason}" if comparison.verdict == "not run" else comparison.verdict


def short_name(test: str) -> str:
    """Return the name of a test: of "test_numerics.py::test_sums[GPU]" it is "sums[GPU]"."""
    return test.rpartition("::")[2].removeprefix("test_")


def not_compared(result: BenchReport) -> str:
    """Say what to do if a run could not be compared with its reference; empty if it could."""
    if not result.untold:
        return ""
    if all(each.status == "no reference" for each in result.regressions):
        return f"nothing was compared: {reference(result)} has none of these comparisons; `--save NAME` saves a run"
    why = f"for {amount(result.untold, 'comparison')} a slowdown by 10% could not be confirmed or ruled out"
    return f"{why}: {_AGAIN}"


def reference(result: BenchReport) -> str:
    """Name the run that this run was compared with."""
    if result.reference == "last":
        return "the last run"
    several = f" ({result.reference_runs} runs)" if result.reference_runs > 1 else ""
    return f"the reference {result.reference}{several}"
