"""`tfgpu-doctor bench`: the perf suites, and what they prove."""

from __future__ import annotations

import importlib.util
import os
import time

import click
import msgspec

from tfgpu_doctor.bench.compare import Comparison, compare
from tfgpu_doctor.bench.journal import Account
from tfgpu_doctor.bench.result import BenchReport, make_result
from tfgpu_doctor.bench.run import Order, run_suites, suite_names
from tfgpu_doctor.bench.telemetry import Telemetry
from tfgpu_doctor.commands.output import deliver, note, refuse
from tfgpu_doctor.commands.waiting import Waiting
from tfgpu_doctor.examination import Interrupted, examine
from tfgpu_doctor.facts import Facts, encode_facts
from tfgpu_doctor.facts.bench import Bench
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.files import write_whole
from tfgpu_doctor.host.results import KeptRun, Results, ResultsError
from tfgpu_doctor.host.scratch import scratch_folder
from tfgpu_doctor.perf_tests.budget import parse_budget
from tfgpu_doctor.perf_tests.variables import FACTS_VARIABLE
from tfgpu_doctor.reports.bench_page import render_bench

_NEEDED = ("pytest", "pytest_benchmark", "numpy", "scipy", "tensorflow")
_FORMATS = ("text", "json", "markdown", "html")
_LAST = "last"
_INTERRUPTED = 130


@click.command()
@click.argument("suites", metavar="[SUITE]...", nargs=-1)
@click.option("--budget", metavar="TIME", default="60s", show_default=True, help="60s, 5m; full: as long as it takes.")
@click.option("--save", metavar="NAME", help="Keep this run under a name, to be compared with.")
@click.option(
    "--compare", "reference", metavar="NAME|last", help="Compare with a saved run, or with the last one here."
)
@click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report there.")
@click.option("--benchmark-json", metavar="FILE", help="Write pytest-benchmark's own document as well.")
@click.option("--list", "list_", is_flag=True, help="List the suites, and measure nothing.")
def bench(
    *,
    suites: tuple[str, ...],
    budget: str,
    save: str | None,
    reference: str | None,
    format_: str,
    output: str | None,
    benchmark_json: str | None,
    list_: bool,
) -> int:
    """Measure that the GPU path beats the CPU, and that each technique pays: both sides interleaved, with proof.

    Runs all suites, or those named. Exit code: 0 all that was measured is as it should be, 1 a duel on the GPU is not
    shown to be faster, or slower than the reference, or the doctor found an error, 2 wrong usage, 3 nothing was
    measured, 130 interrupted.
    """
    started = time.time()
    names = suite_names()
    if list_:
        deliver("\n".join(names) + "\n", None)
        return 0
    if unknown := sorted(set(suites) - set(names)):
        refuse(f"there is no suite {unknown[0]!r}; there are {', '.join(names)}")
    try:
        budget_s = parse_budget(budget)
    except ValueError as error:
        refuse(str(error))
    _refuse_without_packages()
    try:
        facts, measured = _measure(suites, budget_s, started, benchmark_json)
    except (Interrupted, KeyboardInterrupt):
        note("interrupted before anything was measured")
        return _INTERRUPTED
    if benchmark_json and not Host().files.exists(os.path.abspath(benchmark_json)):
        note(f"{benchmark_json} was not written: pytest-benchmark does so at its end, and was stopped before")
    results = Results.of_user(Host().environment)
    comparisons = _compare(results, reference, suites, measured, facts)
    if not measured.interrupted:
        _keep(results, save, measured, facts)
    result = _report(facts, measured, reference or "", comparisons, time.time() - started)
    deliver(render_bench(result, format_), output)
    return result.exit_code


def _measure(
    suites: tuple[str, ...], budget_s: float | None, started: float, benchmark_json: str | None
) -> tuple[Facts, Bench]:
    """Examine the machine, then run the suites. Raises Interrupted before they begin."""
    with Waiting() as waiting, scratch_folder() as scratch:
        facts = examine(on_wait=waiting.show)
        order = _order(scratch, suites, budget_s, started, facts, benchmark_json)
        with Telemetry(Host(), gpus=bool(facts.nvml and facts.nvml.gpus)) as telemetry:
            measured = run_suites(order, lambda account, seconds: _show(waiting, account, seconds, budget_s))
        return facts, telemetry.added_to(measured)


def _report(
    facts: Facts, measured: Bench, reference: str, comparisons: list[Comparison], seconds: float
) -> BenchReport:
    """What the doctor says of the machine, with what was measured among its facts."""
    from tfgpu_doctor.diagnosis import diagnose

    known = msgspec.structs.replace(facts, bench=measured)
    report = diagnose(known, interrupted=measured.interrupted, seconds=seconds)
    return make_result(report, measured, reference=reference, comparisons=tuple(comparisons), seconds=seconds)


def _refuse_without_packages() -> None:
    lacking = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if lacking:
        refuse(
            f"{', '.join(lacking)} cannot be imported here: install the doctor with its benchmarks beside TensorFlow, "
            "pip install 'tfgpu-doctor[bench,gpu]'"
        )


def _order(
    scratch: str, suites: tuple[str, ...], budget_s: float | None, started: float, facts: Facts, kept: str | None
) -> Order:
    record = os.path.join(scratch, "facts.json")
    write_whole(record, encode_facts(facts))
    options = (f"--benchmark-json={os.path.abspath(kept)}",) if kept else ()
    return Order(
        journal=os.path.join(scratch, "journal"),
        suites=suites,
        budget_s=budget_s,
        started=started,
        pytest_options=options,
        variables={FACTS_VARIABLE: record},
    )


def _show(waiting: Waiting, account: Account, seconds: float, budget_s: float | None) -> None:
    what = account.test.rpartition("::")[2] or "TensorFlow to start"
    done = f"{len(account.ended)} of {account.waiting} done"
    left = f", {max(0.0, budget_s - seconds):.0f} s left" if budget_s is not None else ""
    waiting.show([f"{what} ({done}{left})"], seconds)


def place_of(facts: Facts, bench: Bench) -> str:
    """What results must share to be compared: GPU, driver, TensorFlow, processor, version of the suites."""
    system, runtime = facts.system, facts.runtime
    gpus = [gpu.name for gpu in facts.nvml.gpus] if facts.nvml else []
    driver = facts.nvml.driver_version if facts.nvml else ""
    cpu = f"{system.cpu_model} x{system.cpu_count}" if system else ""
    words = ("+".join(gpus) or "no GPU", driver, runtime.version if runtime else "", cpu, bench.suite_version)
    return " | ".join(words)


def _compare(
    results: Results, reference: str | None, suites: tuple[str, ...], now: Bench, facts: Facts
) -> list[Comparison]:
    if reference is None:
        return []
    place = place_of(facts, now)
    try:
        here = results.of_place(place)
        chosen = (
            here[-1:] if reference == _LAST else [run for run in results.named(reference) if run.place == place][-1:]
        )
        elsewhere = [] if chosen or reference == _LAST else results.named(reference)
    except ResultsError as error:
        refuse(str(error))
    if not chosen:
        where = f"; {reference!r} was saved on {elsewhere[-1].place}, this is {place}" if elsewhere else ""
        note(f"there is no earlier run to compare with{where}")
    earlier = [msgspec.json.decode(run.document, type=Bench) for run in here]
    then = msgspec.json.decode(chosen[0].document, type=Bench) if chosen else Bench()
    if suites:  # what nobody asked for is not missing
        then = msgspec.structs.replace(then, duels=tuple(duel for duel in then.duels if duel.suite in suites))
    return compare(now, then, earlier)


def _keep(results: Results, name: str | None, measured: Bench, facts: Facts) -> None:
    """Every run is kept: the last one is a reference, and all of them tell how much results vary here."""
    if not any(duel.ratio for duel in measured.duels):
        return
    run = KeptRun(time.time(), name or "", place_of(facts, measured), msgspec.json.encode(measured))
    try:
        results.keep(run)
    except ResultsError as error:
        note(f"the results are not kept: {error}")
