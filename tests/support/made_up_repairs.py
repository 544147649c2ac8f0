"""Repairs of made-up findings: the plan, the second look, and a program that applies or undoes one, to be killed."""

from __future__ import annotations

import os
import pathlib
import sys
import time
from collections.abc import Callable

from tfgpu_doctor.diagnose.root_cause import rank_causes
from tfgpu_doctor.fix.apply import Applied, apply_plan
from tfgpu_doctor.fix.archive import open_archive
from tfgpu_doctor.fix.bounds import Bounds, NotPossible
from tfgpu_doctor.fix.installer import run_pip
from tfgpu_doctor.fix.plan import PipStep, Plan, Step
from tfgpu_doctor.fix.undo import Undone, undo_newest
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.changes import Changes
from tfgpu_doctor.model import Finding, Fix
from tfgpu_doctor.model.report import MachineSummary, Report, Result, RootCause, TargetSummary

_PATIENCE_S = 60.0
_KEEPS_S = 0.001  # for each file that is kept: the moment is not missed


def bounds_of(venv: pathlib.Path) -> Bounds:
    prefix = os.path.realpath(venv)
    return Bounds(prefix, "virtual", (prefix,))


def pip_step(venv: pathlib.Path, *words: str) -> PipStep:
    return PipStep((str(venv / "bin/python"), "-m", "pip", *words))


def make_cause(*commands: str, label: str = "acme_is_old") -> RootCause:
    """What the check ACME001 found."""
    return RootCause(
        label=label, id="ACME001", title="acme is old", severity="error", confidence="high", fix=Fix("Do it.", commands)
    )


def make_plan(*steps: Step) -> Plan:
    return Plan(make_cause(), "Do it.", steps=steps)


def make_report(outcome: str = "pass") -> Report:
    """A report in which ACME001 came out so."""
    findings = (Finding("acme is old", cause="acme_is_old"),) if outcome == "fail" else ()
    result = Result(id="ACME001", title="acme is new", outcome=outcome, findings=findings)  # type: ignore[arg-type]
    return Report(
        healthy=outcome == "pass", judged=True, doctor="", recorded="", quick=False, target=TargetSummary(),
        machine=MachineSummary(), causes=rank_causes([result]), results=(result,), counts={},
    )  # fmt: skip


def apply(
    plan: Plan, venv: pathlib.Path, *, look_again: Callable[[], Report] = make_report,
    pip: Callable[[PipStep, int, Callable[[], None]], None] | None = None, bounds: Bounds | None = None,
) -> Applied:  # fmt: skip
    """Apply a plan with the real pip; the finding is gone afterwards unless `look_again` says otherwise."""
    host = Host()
    return apply_plan(
        plan, bounds or bounds_of(venv), look_again=look_again, say=lambda line: None,
        run_pip=pip or (lambda step, lock, beat: run_pip(step, host, folder=str(venv), lock=lock, on_tick=beat)),
    )  # fmt: skip


def undo(venv: pathlib.Path, *, force: bool = False, bounds: Bounds | None = None) -> Undone | None:
    """Undo the newest fix. The pip of one that was killed may take a while to end on a busy machine, and has the lock."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with open_archive(bounds or bounds_of(venv)) as archive:
                return undo_newest(archive, force=force)
        except NotPossible as error:
            if "is in progress" not in str(error) or time.monotonic() > until:
                raise


def main() -> None:
    """Apply the upgrade of colours to an environment, or undo what was applied, slowly: each change waits that long."""
    folder, wait_s = pathlib.Path(sys.argv[2]), float(sys.argv[3])
    if sys.argv[1] == "undo":
        check = Changes._check

        def slowly(changes: Changes, path: str) -> None:
            time.sleep(wait_s)
            check(changes, path)

        Changes._check = slowly  # type: ignore[method-assign, assignment]
        undo(folder)
        return

    keep = Changes.keep

    def keep_slowly(changes: Changes, path: str, place: str) -> bool:
        time.sleep(_KEEPS_S)
        return keep(changes, path, place)

    Changes.keep = keep_slowly  # type: ignore[method-assign, assignment]

    def look_again() -> Report:
        time.sleep(wait_s)  # as TensorFlow's import takes its time
        return make_report()

    apply(make_plan(pip_step(folder, "install", "colours==2.0")), folder, look_again=look_again)


if __name__ == "__main__":
    main()
