"""What a fix says: the plan before anything is done, the result, and how long undo data is known to be fresh."""

from __future__ import annotations

import os
import pathlib
import time

import msgspec
import pytest
from doctor_command import HAS_WHEEL, make_target, run_doctor
from made_up_repairs import bounds_of, make_plan, make_report, pip_step
from replayed import report_on
from simulated import Simulate

from tfgpu_doctor import rehearse
from tfgpu_doctor.fix.apply import Applied
from tfgpu_doctor.fix.archive import open_archive
from tfgpu_doctor.fix.bounds import NotPossible
from tfgpu_doctor.fix.page import addressed, describe_applied, describe_nothing, describe_plan
from tfgpu_doctor.fix.plan import Plan
from tfgpu_doctor.fix.record import Manifest
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import Report
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
