"""Earlier runs of the suites: select the run to compare with, and save new runs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import msgspec

from tfgpu_doctor.bench.history import History, PastRun, history_of
from tfgpu_doctor.bench.pytest_document import DocumentError, read_document
from tfgpu_doctor.bench.regression import Regression, compare
from tfgpu_doctor.cli.output import note, refuse
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.results import KeptRun, Results, ResultsError
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, decode_bench
from tfgpu_doctor.model.report import MachineSummary

_LAST = "last"
_LARGEST_DOCUMENT_BYTES = 256 << 20


def place_of(facts: Facts, bench: Bench) -> str:
    """Return what results must have in common to be compared: GPU, driver, TensorFlow, CPU, version of the suites."""
    system, runtime = facts.system, facts.runtime
    gpus = [gpu.name for gpu in facts.nvml.gpus] if facts.nvml else []
    driver = facts.nvml.driver_version if facts.nvml else ""
    cpu = f"{system.cpu_model} x{system.cpu_count}" if system else ""
    words = ("+".join(gpus) or "no GPU", driver, runtime.version if runtime else "", cpu, bench.suite_version)
    return " | ".join(words)


def compare_with(
    reference: str, results: Results, place: str, suites: Sequence[str], now: Bench, machine: MachineSummary
) -> list[Regression]:
    """Compare with a saved run, the last run, or a pytest-benchmark document; exit if it cannot be read."""
    try:
        here = results.of_place(place)
        then = _of_file(reference, machine) if _is_file(reference) else _kept(reference, results, place, here)
    except ResultsError as error:
        refuse(str(error))
    if suites:  # comparisons of suites that were not selected are not missing
        then = msgspec.structs.replace(
            then, comparisons=tuple(comparison for comparison in then.comparisons if comparison.suite in suites)
        )
    return compare(now, then, [past.bench for past in _past(here)])


def _is_file(reference: str) -> bool:
    return reference.endswith(".json") or os.sep in reference


def _of_file(path: str, machine: MachineSummary) -> Bench:
    try:
        document = read_document(Files().read_bytes(path, _LARGEST_DOCUMENT_BYTES))
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror or error}")
    except DocumentError as error:
        refuse(f"{path}: {error}; `tfgpu-doctor bench --benchmark-json FILE` writes one")
    then = document.machine
    if then and (then.gpus, then.driver) != (machine.gpus, machine.driver):
        note(f"{path} was measured on {_in_words(then)}, but this machine is {_in_words(machine)}")
    return document.bench


def _in_words(machine: MachineSummary) -> str:
    return f"{', '.join(machine.gpus) or 'a machine without a GPU'}, driver {machine.driver or 'none'}"


def _kept(reference: str, results: Results, place: str, here: Sequence[KeptRun]) -> Bench:
    """Return the newest run with that name on this machine; print a note and return an empty run if there is none."""
    if reference == _LAST:
        chosen, elsewhere = here[-1:], []
    else:
        named = results.named(reference)
        chosen = [run for run in named if run.place == place][-1:]
        elsewhere = [] if chosen else named
    if chosen:
        return decode_bench(chosen[0].document)
    where = f"; {reference!r} was saved on {elsewhere[-1].place}, but this machine is {place}" if elsewhere else ""
    note(f"there is no earlier run to compare with{where}")
    return Bench()


def _past(runs: Sequence[KeptRun]) -> list[PastRun]:
    return [PastRun(kept=run.kept, name=run.name, bench=decode_bench(run.document)) for run in runs]


def history_here(results: Results, place: str) -> History:
    """Return all saved runs of one machine; exit if they cannot be read."""
    try:
        return history_of(place, _past(results.of_place(place)))
    except ResultsError as error:
        refuse(str(error))


def keep_run(results: Results, name: str | None, measured: Bench, place: str) -> None:
    """Save a run, also without a name: the last run can be a reference, and all runs show how much results vary."""
    if not any(comparison.ratio for comparison in measured.comparisons):
        return
    run = KeptRun(time.time(), name or "", place, msgspec.json.encode(measured))
    try:
        results.keep(run)
    except ResultsError as error:
        note(f"the results are not saved: {error}")
