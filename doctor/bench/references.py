"""Earlier runs of the suites: select the run to compare with, and save new runs."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from tfgpu_doctor.bench.conditions import Changed, changed_between
from tfgpu_doctor.bench.history import History, PastRun, history_of
from tfgpu_doctor.bench.pytest_document import Document, DocumentError, read_document
from tfgpu_doctor.bench.run import SUITE_VERSION
from tfgpu_doctor.cli.output import note, refuse
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.results import KeptRun, Results, ResultsError
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, decode_bench
from tfgpu_doctor.model.report import MachineSummary

_LAST = "last"
_BETWEEN = " | "
_LARGEST_DOCUMENT_BYTES = 256 << 20
_DRIVER, _TENSORFLOW = 1, 2  # of the words of a place, what may differ from the reference


class Reference(NamedTuple):
    """The runs to compare with, all of one place, and what else is known of this machine."""

    runs: tuple[Bench, ...] = ()
    earlier: tuple[Bench, ...] = ()  # all runs of this place
    changed: tuple[Changed, ...] = ()  # what differs from the newest of the runs


def place_of(facts: Facts, bench: Bench) -> str:
    """Return where results belong: GPUs, driver, TensorFlow, CPU, version of the suites."""
    system, runtime = facts.system, facts.runtime
    driver = facts.nvml.driver_version if facts.nvml else ""
    cpu = f"{system.cpu_model} x{system.cpu_count}" if system else ""
    words = ("+".join(_gpus(facts)) or "no GPU", driver, runtime.version if runtime else "", cpu, bench.suite_version)
    return _BETWEEN.join(words)


def _gpus(facts: Facts) -> list[str]:
    """Return the names of the GPUs, or slices of them, that TensorFlow lists; of all boards where that is not known."""
    runtime = facts.runtime
    if runtime and runtime.gpus_listed and all(gpu.description for gpu in runtime.gpus):
        return [gpu.description for gpu in runtime.gpus]
    return [gpu.name for gpu in facts.nvml.gpus] if facts.nvml else []


def _hardware(place: str) -> tuple[str, ...]:
    """What results must have in common to be compared: the place without driver and TensorFlow."""
    return tuple(word for number, word in enumerate(place.split(_BETWEEN)) if number not in (_DRIVER, _TENSORFLOW))


class Sought(NamedTuple):
    """The reference that the user names: a name, or a document that was read."""

    name: str
    document: Document | None = None


def sought_reference(name: str) -> Sought:
    """Read the document that a reference names, if it names one; exit if that cannot be read. It is to come before measuring."""
    if not _is_file(name):
        return Sought(name)
    try:
        document = read_document(Files().read_bytes(name, _LARGEST_DOCUMENT_BYTES))
    except OSError as error:
        refuse(f"{name} cannot be read: {error.strerror or error}")
    except DocumentError as error:
        refuse(f"{name}: {error}; `tfgpu-doctor bench --benchmark-json FILE` writes one")
    if document.bench.suite_version not in ("", SUITE_VERSION):
        version = f"version {document.bench.suite_version} of the suites, and this is {SUITE_VERSION}"
        refuse(f"{name} was measured with {version}: they measure different things; measure again with this doctor")
    return Sought(name, document)


def find_reference(
    sought: Sought, results: Results, place: str, suites: Sequence[str], now: Bench, machine: MachineSummary
) -> Reference:
    """Find the runs saved under a name, or the last run, or take those of the document; exit if they cannot be read.

    They may have another driver or TensorFlow than this run.
    """
    try:
        here = tuple(past.bench for past in _past(results.of_place(place)))
        runs = (
            [_of_file(sought.name, sought.document, machine)] if sought.document else _kept(sought.name, results, place)
        )
    except ResultsError as error:
        refuse(str(error))
    if not runs:
        return Reference()
    chosen = tuple(_only(run, suites) for run in runs)
    return Reference(chosen, here, changed_between(now.conditions, runs[-1].conditions))


def _only(run: Bench, suites: Sequence[str]) -> Bench:
    """Without the comparisons of suites that were not selected: these are not missing."""
    if not suites:
        return run
    return msgspec.structs.replace(run, comparisons=tuple(each for each in run.comparisons if each.suite in suites))


def _is_file(reference: str) -> bool:
    return reference.endswith(".json") or os.sep in reference


def _of_file(path: str, document: Document, machine: MachineSummary) -> Bench:
    then = document.machine
    if then and (then.gpus, then.driver) != (machine.gpus, machine.driver):
        note(f"{path} was measured on {_in_words(then)}, but this machine is {_in_words(machine)}")
    return document.bench


def _in_words(machine: MachineSummary) -> str:
    return f"{', '.join(machine.gpus) or 'a machine without a GPU'}, driver {machine.driver or 'none'}"


def _kept(name: str, results: Results, place: str) -> list[Bench]:
    """Return the runs with that name on this hardware, or the last run; print a note if there is none.

    Of runs with different drivers or TensorFlows, those like the newest.
    """
    saved = results.newest_last() if name == _LAST else results.named(name)
    alike = [run for run in saved if _hardware(run.place) == _hardware(place)]
    if alike:
        chosen = [run for run in alike if run.place == alike[-1].place]
        return [past.bench for past in _past(chosen[-1:] if name == _LAST else chosen)]
    which = "the last run" if name == _LAST else repr(name)
    where = f"; {which} was saved on {saved[-1].place}, but this machine is {place}" if saved else ""
    note(f"there is no earlier run to compare with{where}")
    return []


def _past(runs: Sequence[KeptRun]) -> list[PastRun]:
    found = []
    for run in runs:
        try:
            found.append(PastRun(kept=run.kept, name=run.name, bench=decode_bench(run.document)))
        except msgspec.DecodeError as error:
            note(f"a saved run cannot be read and is left out: {error}")
    return found


def history_here(results: Results, place: Callable[[], str]) -> History:
    """Return all saved runs of one machine; exit if they cannot be read.

    `place` tells which machine this is; it is asked only if runs are saved, because it takes seconds.
    """
    try:
        if not results.newest_last():
            return history_of("", ())
        here = place()
        return history_of(here, _past(results.of_place(here)))
    except ResultsError as error:
        refuse(str(error))


def refuse_unusable(results: Results) -> None:
    """Exit if the saved runs cannot be read, or none can be saved: a measurement of minutes would be lost."""
    try:
        results.newest_last()
        results.refuse_without_place()
    except ResultsError as error:
        refuse(str(error))


def refuse_unsaved(sought: Sought, results: Results, save: str | None) -> None:
    """Exit if there is no such run on any machine: a misspelt name would show only after minutes of measuring.

    The first run of a script has nothing to be compared with: that of `last`, or of a name that it is saved under.
    """
    if sought.document or sought.name in (save, _LAST):
        return
    try:
        runs = results.newest_last()
    except ResultsError as error:
        refuse(str(error))
    if not runs:
        refuse(
            f"no run is saved to compare with: `tfgpu-doctor bench --save {shlex.quote(sought.name)}` saves one under this name, "
            "once it measures something"
        )
    names = [name for name in dict.fromkeys(run.name for run in runs) if name]
    if sought.name not in names:
        saved = f"saved: {', '.join(names)}" if names else "`tfgpu-doctor bench --save NAME` saves one"
        refuse(f"no run is saved under the name {sought.name!r}; {saved}; `--compare last` takes the last run")


def keep_run(results: Results, name: str | None, measured: Bench, place: str) -> bool:
    """Save a run, also without a name: the last run can be a reference, and all runs show how much results vary.

    Return False, after a note, if that is not possible. Without a comparison there is nothing that a later run is compared with.
    """
    stopped = measured.interrupted
    if stopped or not any(comparison.ratio for comparison in measured.comparisons):
        if name:
            why = "the run was interrupted" if stopped else "nothing was measured"
            if measured.metrics and not stopped:
                why = "only metrics were measured, and runs are compared by their comparisons"
            note(f"{why}, so nothing is saved as {name!r}")
        return True
    run = KeptRun(time.time(), name or "", place, msgspec.json.encode(measured))
    try:
        results.keep(run)
    except ResultsError as error:
        note(f"the results are not saved: {error}")
        return False
    return True
