"""`tfgpu-doctor check`: examine, diagnose, report."""

from __future__ import annotations

import contextlib
import importlib
import platform
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tfgpu_doctor._exhaustion import may_work_at_once
from tfgpu_doctor.cli.configuration import Configuration, ConfigurationError, find_configuration, read_configuration
from tfgpu_doctor.cli.finite import FiniteRange
from tfgpu_doctor.cli.interrupts import Listening, listen
from tfgpu_doctor.cli.job_summary import add_job_summary
from tfgpu_doctor.cli.output import WRONG_USAGE, deliver, refuse, refuse_bad_root, refuse_unwritable, saved
from tfgpu_doctor.cli.recorded import read_recorded
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.collect.examination import Interrupted, examine
from tfgpu_doctor.model.facts import Facts, encode_facts
from tfgpu_doctor.model.facts.stress import LEVELS, STRESS_LEVELS, Level
from tfgpu_doctor.render import FORMATS

if TYPE_CHECKING:
    from tfgpu_doctor.model import Severity
    from tfgpu_doctor.model.report import Report

_SOAK_MINUTES = 10.0


@click.command()
@click.option("--quick", is_flag=True, help="The same as --level quick: an answer in a fraction of a second.")
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    help="quick: files, NVML and cuInit; standard (the default): TensorFlow too; deep: a stress test of up to a minute on "
    "every GPU that no other process uses; soak: one that lasts for --minutes.",
)
@click.option("--minutes", type=FiniteRange(min=1), metavar="N", help="How long --level soak lasts.  [default: 10]")
@click.option(
    "--even-if-busy", is_flag=True, help="With --level deep or soak: also stress-test a GPU that other processes use."
)
@click.option(
    "--python", metavar="PATH", help="The Python to diagnose: an interpreter, or a virtual environment's folder."
)
@click.option(
    "--root", metavar="DIR", default="/", help="Read the machine's files (/proc, /sys, /dev, /etc) under DIR."
)
@click.option("--facts", metavar="FILE", help="Diagnose a recorded machine, or a ticket's zip, instead of this one.")
@click.option("--record", metavar="FILE", help="Save this machine's facts, to diagnose them anywhere with --facts.")
@click.option("--select", metavar="IDS", multiple=True, help="Show only these checks (DRV002, or DRV for all of them).")
@click.option("--ignore", metavar="IDS", multiple=True, help="Exclude these checks from the verdict.")
@click.option(
    "--fail-level", type=click.Choice(["info", "warning", "error"]), help="Exit with 1 from this severity on."
)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE.")
@click.option(
    "--deadline",
    type=FiniteRange(min=1),
    metavar="SECONDS",
    help="Time limit for TensorFlow, and maximum for every other part.  [default: 120]",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every check, with the evidence of those that pass.")
@click.option("--list", "list_", is_flag=True, help="List the checks without examining anything.")
def check(
    *,
    quick: bool,
    level: Level | None,
    minutes: float | None,
    even_if_busy: bool,
    python: str | None,
    root: str,
    facts: str | None,
    record: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_level: str | None,
    format_: str,
    output: str | None,
    deadline: float | None,
    verbose: bool,
    list_: bool,
) -> int:
    """Name the one reason why TensorFlow does not use the GPU, with evidence and a fix.

    Exit code: 0 nothing at or above --fail-level, 1 findings at or above it, 2 wrong usage or unreadable input,
    3 nothing could be judged or the doctor itself failed, 130 interrupted.
    """
    refuse_bad_root(root)
    if facts is not None and (record is not None or quick or level or python or root != "/"):
        refuse("--facts diagnoses a recorded machine: it cannot be combined with --record, --level, --python or --root")
    if facts is not None:
        listen()
    depth = _depth(quick, level, minutes, even_if_busy)
    try:
        configuration = read_configuration().with_options(
            select=select, ignore=ignore, fail_level=fail_level, python=python, deadline=deadline
        )
    except ConfigurationError as error:
        refuse(str(error))
    if list_:
        return _list()
    if configuration.selects:
        _validate(configuration, own=Configuration().with_options(select=select, ignore=ignore))
    refuse_unwritable(record, output)
    started = time.monotonic()
    found, interrupted = _examine(configuration, depth, root) if facts is None else (read_recorded(facts), False)
    costly = facts is None and depth.level != "quick"
    is_kept = record is None or interrupted or saved(record, encode_facts(found), costly=costly)
    report = _diagnose(found, configuration, interrupted, time.monotonic() - started)
    node = platform.node() if facts is None and root == "/" else ""
    _hand_out(report, format_, output, configuration.fail_level, node=node, verbose=verbose, costly=costly)
    return report.exit_code(configuration.fail_level) if is_kept else WRONG_USAGE


def _list() -> int:
    from tabulate import tabulate

    from tfgpu_doctor.diagnose.plugins import load_checks

    checks, _ = load_checks()
    deliver(tabulate([(each.id, each.title) for each in checks], tablefmt="plain") + "\n", None)
    return 0


def _validate(configuration: Configuration, *, own: Configuration) -> None:
    """Reject a misspelled id before the examination, not after it; name the file if it is not one of the user's own words."""
    from tfgpu_doctor.diagnose.plugins import load_checks
    from tfgpu_doctor.diagnose.selection import UnknownId

    checks, broken = load_checks()
    try:
        configuration.selection.validate([check.id for check in checks], complete=not broken)
    except UnknownId as error:
        where = "" if error.word in (*own.select, *own.ignore) else f"{find_configuration()[1]}: "
        refuse(f"{where}{error}")


@dataclass(frozen=True)
class _Depth:
    """The depth of the examination."""

    level: Level
    soak_s: float
    even_if_busy: bool


def _depth(quick: bool, level: Level | None, minutes: float | None, even_if_busy: bool) -> _Depth:
    """Return the depth that the options specify; reject options that contradict each other."""
    if quick and level not in (None, "quick"):
        refuse(f"--quick means --level quick: it cannot be combined with --level {level}")
    chosen: Level = "quick" if quick else level or "standard"
    if minutes is not None and chosen != "soak":
        refuse("--minutes can be combined with --level soak only")
    if even_if_busy and chosen not in STRESS_LEVELS:
        refuse("--even-if-busy can be combined with --level deep and soak only: other levels run no stress test")
    return _Depth(chosen, 60 * (minutes or _SOAK_MINUTES), even_if_busy)


def _examine(configuration: Configuration, depth: _Depth, root: str) -> tuple[Facts, bool]:
    """Return the facts of this machine, and whether the user stopped the examination early."""
    # The modules for the report are imported while the examination waits for its child processes.
    if may_work_at_once():
        with contextlib.suppress(RuntimeError, MemoryError):  # no thread can be started: they are imported later
            threading.Thread(target=_import_ahead, daemon=True).start()
    with Waiting() as waiting:
        try:
            found = examine(
                python=configuration.python,
                level=depth.level,
                soak_s=depth.soak_s,
                even_if_busy=depth.even_if_busy,
                root=root,
                deadline_s=configuration.deadline,
                on_wait=waiting.show,
                answering=Listening(),
            )
        except Interrupted as stop:
            return stop.facts, True
    return found, False


def _import_ahead() -> None:
    importlib.import_module("elftools.elf.dynamic")  # the last probe needs it
    for module in ("diagnose.engine", "checks", "diagnose.plugins", "render.text", "knowledge.requirements"):
        importlib.import_module(f"tfgpu_doctor.{module}")


def _diagnose(facts: Facts, configuration: Configuration, interrupted: bool, seconds: float) -> Report:
    from tfgpu_doctor.diagnose.engine import diagnose
    from tfgpu_doctor.diagnose.plugins import load_checks

    checks, broken = load_checks()
    return diagnose(
        facts, checks=checks, selection=configuration.selection, broken=broken, interrupted=interrupted, seconds=seconds
    )


def _hand_out(
    report: Report, format_: str, output: str | None, fail_level: Severity, *, node: str, verbose: bool, costly: bool
) -> None:
    """Deliver the report in its format; on GitHub, add it to the job summary too."""
    from tfgpu_doctor.diagnose.plugins import load_checks
    from tfgpu_doctor.render import render

    checks = load_checks()[0]
    document = render(
        report, format_, checks=checks, node=node, verbose=verbose, to_terminal=output is None, fail_level=fail_level
    )
    deliver(document, output, costly=costly)
    if format_ == "github":
        add_job_summary(report, fail_level)
