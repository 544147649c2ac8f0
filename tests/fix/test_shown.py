"""What a fix says: the plan before anything is done, the result, and how long undo data is known to be fresh."""

from __future__ import annotations

import os
import pathlib
import sys
import time

import msgspec
import pytest
from doctor_command import HAS_WHEEL, make_target, run_doctor
from made_up_repairs import bounds_of, make_cause, make_plan, make_report, pip_step
from replayed import report_on
from simulated import Simulate

from tfgpu_doctor import rehearse
from tfgpu_doctor.cli.configuration import Configuration
from tfgpu_doctor.diagnose.root_cause import rank_causes
from tfgpu_doctor.fix import command
from tfgpu_doctor.fix.apply import Applied, apply_plan, find_new
from tfgpu_doctor.fix.archive import open_archive
from tfgpu_doctor.fix.bounds import NotPossible
from tfgpu_doctor.fix.page import addressed, describe_applied, describe_nothing, describe_plan
from tfgpu_doctor.fix.plan import Plan
from tfgpu_doctor.fix.record import Manifest
from tfgpu_doctor.model import Finding
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import Report, Result, RootCause
from tfgpu_doctor.rehearse import Look


@pytest.mark.skipif(not HAS_WHEEL, reason="TensorFlow has no wheel for this Python: pip is no fix")
def test_the_plan_is_printed_and_nothing_is_done(simulate: Simulate, tmp_path: pathlib.Path) -> None:
    venv = make_target(tmp_path / "venv", None)
    done = run_doctor("fix", "--python", str(venv), environment=simulate())
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "PKG002  TensorFlow is not installed in this Python\n"
        "Fix  Use the Python that has TensorFlow (`tfgpu-doctor --python PATH` examines it), or install TensorFlow into this one.\n"
        "\n"
        "To do by hand:\n"
        f"     uv pip install --python {venv}/bin/python 'tensorflow[and-cuda]'\n"
    )
    assert not (venv / ".tfgpu-doctor").exists()


def test_a_plan_without_steps_says_that_the_user_does_it() -> None:
    made = make_plan(pip_step(pathlib.Path("/venv"), "install", "acme"))
    said = describe_plan(Plan(made.cause, made.advice, "/venv", ()), applied=False)
    assert said.endswith("\nCarry this out yourself: none of it is inside the environment.\n")
    said = describe_plan(made, applied=False)
    assert "Carry this out yourself" not in said
    assert "carried out by `tfgpu-doctor fix --apply`:\n  1. run /venv/bin/python -m pip install acme" in said


@pytest.mark.parametrize(
    ("machine", "name", "said"),
    [
        ("workstation-healthy", "drv001", "Nothing to fix: DRV001 passes ("),
        ("workstation-healthy", None, "Nothing to fix: no check found a fault."),
        ("workstation-healthy", "LNK003", "Nothing to fix: LNK003 has no finding ("),
    ],
)
def test_why_there_is_nothing_to_fix_is_said(machine: str, name: str | None, said: str) -> None:
    assert describe_nothing(report_on(machine), name).startswith(said)


def test_without_evidence_nothing_to_fix_is_no_good_news() -> None:
    unknown = msgspec.structs.replace(make_report("skip"), judged=False)
    assert describe_nothing(unknown, None).startswith("Found nothing to fix, but also no evidence")


@pytest.mark.parametrize(
    ("kept_bytes", "told"), [(0, False), ((100 << 20) - 1, False), (100 << 20, True), (2500 << 20, True)]
)
def test_undo_data_of_100_mib_or_more_is_mentioned(kept_bytes: int, told: bool) -> None:
    made = make_plan(pip_step(pathlib.Path("/venv"), "install", "acme"))
    plan = Plan(made.cause, made.advice, "/venv", made.steps)
    lines = describe_applied(plan, Applied(True, make_report(), kept_bytes=kept_bytes)).splitlines()
    assert lines[0] == "Fixed: ACME001 now passes. To undo the fix, run `tfgpu-doctor fix --undo`."
    size = f"The undo data takes {kept_bytes >> 20} MiB in /venv/.tfgpu-doctor; without that folder, no undo."
    assert lines[1:] == ([size] if told else [])


def test_a_beat_shows_that_the_fix_still_runs(tmp_path: pathlib.Path) -> None:
    """What is written later than ten seconds after the last beat is somebody else's."""
    long_ago = time.time() - 3600
    with open_archive(bounds_of(tmp_path)) as archive:
        record = archive.begin()
        record.write_manifest(Manifest({}, {}))
        os.utime(os.path.join(record.folder, "pulse"), (long_ago, long_ago))
        assert record.last_beat_ns() == pytest.approx(long_ago * 1e9, abs=1e6)
        record.beat()
        assert record.last_beat_ns() == pytest.approx(time.time() * 1e9, abs=60e9)
        record.dispose()


@pytest.mark.parametrize(
    ("python", "option"), [(None, ""), ("../gpu", " --python ../gpu"), ("my env", " --python 'my env'")]
)
def test_the_commands_name_the_python_that_was_named(python: str | None, option: str) -> None:
    made = make_plan(pip_step(pathlib.Path("/venv"), "install", "acme"))
    assert f"carried out by `tfgpu-doctor fix --apply{option}`:" in addressed(
        describe_plan(made, applied=False), python
    )
    fixed = describe_applied(Plan(made.cause, made.advice, "/venv", made.steps), Applied(True, make_report()))
    assert f"run `tfgpu-doctor fix --undo{option}`." in addressed(fixed, python)


def test_to_undo_the_fix_of_a_python_that_is_not_there_is_wrong_usage(tmp_path: pathlib.Path) -> None:
    done = run_doctor("fix", "--undo", "--python", str(tmp_path / "nope"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "nope could not be started: No such file or directory: use --python PATH" in done.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NotPossible("the rehearsal failed: no compiler"), "the rehearsal failed: no compiler"),
        (OSError(28, "No space left on device", "/cache"), "/cache: No space left on device"),
    ],
)
def test_an_examination_that_fails_is_no_fix_that_failed(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fails() -> Report:
        raise error

    monkeypatch.setattr(rehearse, "choose_look", lambda _: Look(Facts(), rehearses=True, again=fails))
    done = run_doctor("fix")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith(f"tfgpu-doctor: error: {said}\n")


def report_of(*results: Result) -> Report:
    return msgspec.structs.replace(make_report(), results=results, causes=rank_causes(results))


def result_of(id_: str, outcome: str, *causes: str, severity: str = "error") -> Result:
    findings = tuple(Finding(f"{cause} it is", cause=cause, severity=severity) for cause in causes)  # type: ignore[arg-type]
    return Result(id=id_, title=id_, outcome=outcome, findings=findings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "is_new"),
    [
        (("pass",), ("fail", "numpy_is_broken"), True),
        (("fail", "numpy_is_old"), ("fail", "numpy_is_broken"), True),
        (("fail", "numpy_is_old"), ("fail", "numpy_is_old"), False),
        (("blocked",), ("fail", "numpy_is_broken"), False),  # behind the finding that is fixed now
        (("skip",), ("fail", "numpy_is_broken"), False),
        (("pass",), ("fail", "undetermined"), True),
        (("fail", "undetermined"), ("fail", "undetermined"), False),
        (("pass",), ("pass",), False),
    ],
)
def test_an_error_that_is_new_since_the_fix_is_told(
    before: tuple[str, ...], after: tuple[str, ...], is_new: bool, tmp_path: pathlib.Path
) -> None:
    mended, other = result_of("ACME001", "pass"), result_of("ACME003", "fail", "undetermined")
    first = report_of(result_of("ACME001", "fail", "acme_is_old"), result_of("ACME002", *before), other)
    second = report_of(mended, result_of("ACME002", *after), other)
    applied = apply_plan(
        make_plan(),
        bounds_of(tmp_path),
        run_pip=lambda *_: None,
        look_again=lambda: second,
        say=lambda _: None,
        first=first,
    )
    said = describe_applied(make_plan(), applied)
    assert [cause.id for cause in applied.new] == ["ACME002"] * is_new
    assert (f"New since the fix: ACME002  {after[-1]} it is" in said) == is_new
    assert "Still to fix: ACME003" in said


def test_a_warning_that_is_new_since_the_fix_is_no_error() -> None:
    first = report_of(result_of("ACME002", "pass"))
    assert find_new(first, report_of(result_of("ACME002", "warn", "numpy_is_slow", severity="warning"))) == ()
    assert find_new(report_of(), first) == ()


@pytest.mark.parametrize(("new", "code"), [((), 0), ((make_cause(),), 1)])
def test_a_fix_with_an_error_that_is_new_is_no_success(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, new: tuple[RootCause, ...], code: int
) -> None:
    look = Look(Facts(), rehearses=True, again=make_report)
    plan = make_plan(pip_step(tmp_path, "install", "x"))
    monkeypatch.setattr("tfgpu_doctor.fix.apply.apply_plan", lambda *_, **__: Applied(True, make_report(), new=new))
    monkeypatch.setattr("tfgpu_doctor.fix.bounds.find_bounds", lambda *_: bounds_of(tmp_path))
    monkeypatch.setattr("tfgpu_doctor.fix.bounds.check_bounds", lambda *_: None)
    monkeypatch.setattr("tfgpu_doctor.fix.installer.refuse_redirection", lambda *_: None)
    assert command._apply(plan, look, make_report("fail"), Configuration(), yes=True, python=sys.executable) == code
