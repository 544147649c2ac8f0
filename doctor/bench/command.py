"""`tfgpu-doctor bench`: run the perf suites and report the results."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click
import msgspec

from tfgpu_doctor._project import install
from tfgpu_doctor.bench.history_page import render_history
from tfgpu_doctor.bench.page import render_bench
from tfgpu_doctor.bench.pytest_document import write_document
from tfgpu_doctor.bench.references import compare_with, history_here, keep_run, place_of
from tfgpu_doctor.bench.result import make_result
from tfgpu_doctor.bench.run import SUITE_VERSION, suite_names
from tfgpu_doctor.bench.suites import NEEDED, lacking_packages, measure_suites
from tfgpu_doctor.cli.output import deliver, note, refuse
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.collect.examination import Interrupted, examine
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.files import write_whole
from tfgpu_doctor.host.results import Results
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.perf_tests.budget import parse_budget

_FORMATS = ("text", "json", "markdown", "html")
_NOTHING_KEPT, _INTERRUPTED = 3, 130


@click.command()
@click.argument("suites", metavar="[SUITE]...", nargs=-1)
@click.option("--budget", metavar="TIME", default="60s", show_default=True, help="60s, 5m; full: no time limit.")
@click.option("--save", metavar="NAME", help="Save this run under a name, for later comparison.")
@click.option(
    "--compare", "reference", metavar="NAME|last|FILE",
    help="Compare with a saved run, the last run on this machine, or a pytest-benchmark document (*.json).",
)  # fmt: skip
@click.option(
    "--history", is_flag=True, help="Show how the comparisons on this machine changed from run to run; measure nothing."
)
@click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE.")
@click.option("--benchmark-json", metavar="FILE", help="Also write a pytest-benchmark JSON document.")
@click.option("--list", "list_", is_flag=True, help="List the suites; measure nothing.")
def bench(
    *,
    suites: tuple[str, ...],
    budget: str,
    save: str | None,
    reference: str | None,
    history: bool,
    format_: str,
    output: str | None,
    benchmark_json: str | None,
    list_: bool,
) -> int:
    """Measure whether the GPU is faster than the CPU, and whether each optimization is faster than its baseline.

    Both sides of a comparison run interleaved, and the doctor verifies where they ran. Runs all suites, or those named.
    Exit code: 0 all measured results are as expected, 1 a comparison on the GPU is not shown to be faster, or is slower
    than the reference, or the doctor found an error, 2 wrong usage, 3 nothing was measured, 130 interrupted.
    """
    started = time.time()
    names = suite_names()
    if list_:
        deliver("\n".join(names) + "\n", None)
        return 0
    if history:
        return _show_history(format_, output)
    if unknown := sorted(set(suites) - set(names)):
        refuse(f"there is no suite {unknown[0]!r}; available suites: {', '.join(names)}")
    try:
        budget_s = parse_budget(budget)
    except ValueError as error:
        refuse(str(error))
    _refuse_without_packages()
    try:
        facts, measured = _measure(suites, budget_s, started)
    except (Interrupted, KeyboardInterrupt):
        note("interrupted before anything was measured")
        return _INTERRUPTED
    results, place = Results.of_user(Host().environment), place_of(facts, measured)
    report = _diagnosed(facts, measured, time.time() - started)
    regressions = compare_with(reference, results, place, suites, measured, report.machine) if reference else ()
    if not measured.interrupted:
        keep_run(results, save, measured, place)
    if benchmark_json:
        _write_document(benchmark_json, measured, report)
    result = make_result(
        report, measured, reference=reference or "", regressions=tuple(regressions), seconds=report.seconds
    )
    deliver(render_bench(result, format_), output)
    return result.exit_code


def _measure(suites: Sequence[str], budget_s: float | None, started: float) -> tuple[Facts, Bench]:
    """Examine the machine, then run the suites. Raises Interrupted only before the suites start."""
    with Waiting() as waiting:
        facts = examine(on_wait=waiting.show)
        return facts, measure_suites(facts, suites, budget_s, waiting, started)


def _diagnosed(facts: Facts, measured: Bench, seconds: float) -> Report:
    """Diagnose the machine, with the measurements included in its facts."""
    from tfgpu_doctor.diagnose.engine import diagnose

    known = msgspec.structs.replace(facts, bench=measured)
    return diagnose(known, interrupted=measured.interrupted, seconds=seconds)


def _write_document(path: str, measured: Bench, report: Report) -> None:
    try:
        write_whole(path, write_document(measured, report).encode())
    except OSError as error:
        refuse(f"{path} cannot be written: {error.strerror or error}")


def _show_history(format_: str, output: str | None) -> int:
    """Show the saved runs of this machine; return 3 if there are no runs to show."""
    try:
        with Waiting() as waiting:
            facts = examine(on_wait=waiting.show)
    except Interrupted:
        return _INTERRUPTED
    history = history_here(Results.of_user(Host().environment), place_of(facts, Bench(suite_version=SUITE_VERSION)))
    deliver(render_history(history, format_), output)
    return 0 if history.runs else _NOTHING_KEPT


def _refuse_without_packages() -> None:
    lacking = lacking_packages((*NEEDED, "tensorflow"))
    if lacking:
        refuse(
            f"{', '.join(lacking)} cannot be imported: install the doctor with its benchmarks next to TensorFlow, "
            f"{install('bench,gpu')}"
        )
