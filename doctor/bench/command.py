"""`tfgpu-doctor bench`: run the perf suites and report the results."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click
import msgspec

from tfgpu_doctor._project import install
from tfgpu_doctor.bench.history_page import render_history
from tfgpu_doctor.bench.names import is_own, suite_names, suite_of, why_unusable
from tfgpu_doctor.bench.page import render_bench
from tfgpu_doctor.bench.pytest_document import write_document
from tfgpu_doctor.bench.references import (
    Reference,
    Sought,
    find_reference,
    history_here,
    keep_run,
    place_of,
    refuse_unsaved,
    refuse_unusable,
    sought_reference,
)
from tfgpu_doctor.bench.regression import compare, suspects
from tfgpu_doctor.bench.result import make_result
from tfgpu_doctor.bench.run import SUITE_VERSION
from tfgpu_doctor.bench.suites import NEEDED, lacking_packages, measure_suites
from tfgpu_doctor.cli.configuration import ConfigurationError, read_configuration
from tfgpu_doctor.cli.output import WRONG_USAGE, deliver, refuse, refuse_unwritable, saved
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.collect.examination import Interrupted, examine
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.results import Results
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.perf_tests.budget import parse_budget

_FORMATS = ("text", "json", "markdown", "html")
_LEAST_AGAIN_S = 60.0  # for a second measurement: it starts as many processes as the first
_NOTHING_KEPT, _INTERRUPTED = 3, 130


@click.command()
@click.argument("suites", metavar="[SUITE]...", nargs=-1)
@click.option("--budget", metavar="TIME", default="2m", show_default=True, help="60s, 5m; full: no time limit.")
@click.option("--save", metavar="NAME", help="Save this run under a name, for later comparison.")
@click.option(
    "--compare", "reference", metavar="NAME|last|FILE",
    help="Compare with a saved run, the last run on this machine, or a pytest-benchmark document (*.json).",
)  # fmt: skip
@click.option(
    "--history", is_flag=True, help="Show how the comparisons on this machine changed from run to run; measure nothing."
)
@click.option("--even-if-busy", is_flag=True, help="Also measure GPUs that other processes use.")
@click.option("--strict", is_flag=True, help="Exit with 1 also if a comparison on the CPU is not shown to be faster.")
@click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE.")
@click.option("--benchmark-json", metavar="FILE", help="Also write a pytest-benchmark JSON document.")
@click.option("--list", "list_", is_flag=True, help="List the suites; measure nothing.")
def bench(
    *, suites: tuple[str, ...], budget: str, save: str | None, reference: str | None, history: bool, even_if_busy: bool,
    strict: bool, format_: str, output: str | None, benchmark_json: str | None, list_: bool,
) -> int:  # fmt: skip
    """Measure whether the GPU is faster than the CPU, and each optimization faster than its baseline.

    Runs all suites, or those named; SUITE may be the path of your own, such as perf/test_ingest.py.
    Exit code: 0 all measured results are as expected, 1 a comparison on the GPU is not shown to be faster, or is slower
    than the reference, or the doctor found an error, 2 wrong usage, 3 nothing was measured, or not precisely enough, or
    others use a GPU, 130 interrupted.
    """
    started = time.time()
    if list_:
        deliver("\n".join(suite_names()) + "\n", None)
        return 0
    deadline_s = _deadline_s()
    if history:
        return _show_history(format_, output, deadline_s)
    budget_s = _checked(suites, budget)
    results = Results.of_user(Host().environment)
    sought = _sought(reference, output, benchmark_json)
    if save or (sought and not sought.document):
        refuse_unusable(results)
    if sought:
        refuse_unsaved(sought, results, save)
    facts, measured = _measure(suites, budget_s, started, deadline_s, even_if_busy=even_if_busy)
    place = place_of(facts, measured)
    report = _diagnosed(facts, measured, time.time() - started)
    then, again = Reference(), Bench()
    if sought:
        then = find_reference(sought, results, place, [*map(suite_of, suites)], measured, report.machine)
        again = _measure_again(facts, suites, measured, then, budget_s, even_if_busy=even_if_busy)
    measured = msgspec.structs.replace(measured, interrupted=measured.interrupted or again.interrupted)
    is_kept = keep_run(results, save, measured, place) or not save
    if benchmark_json:
        is_kept &= saved(benchmark_json, write_document(measured, report).encode())
    regressions = compare(measured, then.runs, then.earlier, again) if reference else ()
    result = make_result(
        report, measured, reference=reference or "", runs=len(then.runs), changed=then.changed,
        regressions=tuple(regressions), seconds=time.time() - started, strict=strict,
    )  # fmt: skip
    deliver(render_bench(result, format_), output, costly=True)
    return result.exit_code if is_kept else WRONG_USAGE


def _measure(
    suites: Sequence[str], budget_s: float | None, started: float, deadline_s: float, *, even_if_busy: bool
) -> tuple[Facts, Bench]:
    """Examine the machine, then run the suites; what is known so far where the user stops either."""
    with Waiting() as waiting:
        try:
            facts = examine(deadline_s=deadline_s, on_wait=waiting.show)
        except Interrupted as stop:
            return stop.facts, Bench(suite_version=SUITE_VERSION, budget_s=budget_s, interrupted=True)
        measured = measure_suites(facts, suites, budget_s, waiting, started=started, even_if_busy=even_if_busy)
        return facts, measured


def _deadline_s() -> float:
    """Return the time limit for TensorFlow of the project's settings."""
    try:
        return read_configuration().deadline
    except ConfigurationError as error:
        refuse(str(error))


def _checked(suites: Sequence[str], budget: str) -> float | None:
    """Return the seconds of the budget; exit if a suite or the budget is unknown, or a package is missing."""
    _refuse_unknown(suites, suite_names())
    try:
        seconds = parse_budget(budget)
    except ValueError as error:
        refuse(str(error))
    _refuse_without_packages()
    return seconds


def _sought(reference: str | None, *outputs: str | None) -> Sought | None:
    """Read the reference, and look whether the outputs can be written: before minutes are spent on measuring."""
    refuse_unwritable(*outputs)
    return sought_reference(reference) if reference else None


def _refuse_unknown(suites: Sequence[str], names: Sequence[str]) -> None:
    for word in suites:
        if is_own(word):
            if why := why_unusable(word, suites):
                refuse(why)
        elif word not in names:
            refuse(f"there is no suite {word!r}; available suites: {', '.join(names)}")


def _measure_again(
    facts: Facts, suites: Sequence[str], measured: Bench, then: Reference, budget_s: float | None, *, even_if_busy: bool
) -> Bench:
    """Measure once more what looks changed: of dozens of comparisons, a few do by chance."""
    keys = set() if measured.interrupted else {*suspects(measured, then.runs, then.earlier)}
    if not keys:
        return Bench()
    chosen = [each for each in measured.comparisons if each.key in keys]
    with Waiting() as waiting:
        left_s = budget_s and max(_LEAST_AGAIN_S, budget_s / 2)
        return measure_suites(facts, suites, left_s, waiting, comparisons=chosen, even_if_busy=even_if_busy)


def _diagnosed(facts: Facts, measured: Bench, seconds: float) -> Report:
    """Diagnose the machine, with the measurements included in its facts."""
    from tfgpu_doctor.diagnose.engine import diagnose

    known = msgspec.structs.replace(facts, bench=measured)
    return diagnose(known, interrupted=measured.interrupted, seconds=seconds)


def _show_history(format_: str, output: str | None, deadline_s: float) -> int:
    """Show the saved runs of this machine; return 3 if there are no runs to show."""

    def place() -> str:
        with Waiting() as waiting:
            return place_of(examine(deadline_s=deadline_s, on_wait=waiting.show), Bench(suite_version=SUITE_VERSION))

    try:
        history = history_here(Results.of_user(Host().environment), place)
    except Interrupted:
        return _INTERRUPTED
    deliver(render_history(history, format_), output)
    return 0 if history.runs else _NOTHING_KEPT


def _refuse_without_packages() -> None:
    lacking = lacking_packages((*NEEDED, "tensorflow"))
    if lacking:
        refuse(
            f"{', '.join(lacking)} cannot be imported: install the doctor with its benchmarks next to TensorFlow, "
            f"{install('bench,gpu')}"
        )
