"""Levels by time: how they are asked for, how long each may take, and how a report tells which it was."""

from __future__ import annotations

import json
import pathlib
import threading

import msgspec
import pytest
from doctor_command import make_target, run_doctor
from healthy import ANSWERED, healthy
from stressed import left_alone, stress, stressed_gpu, under_stress

from tfgpu_doctor.collect.examination import _Examination, examine
from tfgpu_doctor.collect.probe import Request, probe
from tfgpu_doctor.collect.probes import ALL_PROBES
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import Facts, decode_facts, encode_facts
from tfgpu_doctor.model.facts.machine import Pci
from tfgpu_doctor.model.facts.stress import LEVELS, Level, StressTest
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.render import render
from tfgpu_doctor.render.words import unjudged


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--quick", "--level", "deep"], "--quick means --level quick"),
        (["--minutes", "5"], "--level soak"),
        (["--level", "deep", "--minutes", "5"], "--level soak"),
        (["--even-if-busy"], "--level deep"),
        (["--level", "standard", "--even-if-busy"], "--level deep"),
        (["--level", "thorough"], "is not one of"),
        (["--level", "soak", "--minutes", "0"], "x>=1"),
        (["--facts", "x.json", "--level", "deep"], "--facts diagnoses a recorded machine"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: list[str], why: str) -> None:
    done = run_doctor(*arguments)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("arguments", [["--quick"], ["--level", "quick"], ["--quick", "--level", "quick"]])
def test_quick_is_a_level(tmp_path: pathlib.Path, arguments: list[str]) -> None:
    target = make_target(tmp_path / "venv", "raise SystemExit('module executed')")
    done = run_doctor(*arguments, "--root", str(tmp_path), "--python", str(target), "--format", "json")
    document = json.loads(done.stdout)
    assert (document["quick"], document["level"]) == (True, "quick")
    assert "module executed" not in done.stdout + done.stderr


def test_the_level_is_recorded_and_replayed(tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / "venv", "raise ImportError('no')")
    record = tmp_path / "machine.json"
    done = run_doctor(
        "--level", "deep", "--root", str(tmp_path), "--python", str(target), "--record", str(record), "--format", "json"
    )
    assert json.loads(done.stdout)["level"] == "deep"
    assert json.loads(record.read_bytes())["level"] == "deep"
    replayed = json.loads(run_doctor("--facts", str(record), "--format", "json").stdout)
    assert (replayed["level"], replayed["causes"]) == ("deep", json.loads(done.stdout)["causes"])


@pytest.mark.parametrize(
    ("facts", "level"),
    [(healthy(), "standard"), (healthy(quick=True), "quick"), (under_stress(), "deep"), (Facts(level="soak"), "soak")],
    ids=["an old record", "an old quick one", "deep", "soak"],
)
def test_the_report_tells_its_level(facts: Facts, level: Level) -> None:
    assert diagnose(facts).level == level


def test_without_a_load_every_other_verdict_is_the_same() -> None:
    """A record of a doctor that knew no levels is judged as it was."""
    old = diagnose(healthy())
    assert old.healthy
    assert {result.outcome for result in old.results if result.id.startswith("LOD")} == {"skip"}


@pytest.mark.parametrize("level", LEVELS)
def test_only_the_levels_with_a_load_may_take_its_time(level: Level) -> None:
    request = Request(python="python", level=level, deadline_s=120.0, soak_s=600.0)
    limits = {each.name: each.limit_s(request) for each in ALL_PROBES}
    assert limits["runtime"] == 120.0
    assert limits["stress"] == (840.0 if level == "soak" else 120.0)
    assert limits["system"] == 20.0
    assert (request.quick, request.stresses) == (level == "quick", level in ("deep", "soak"))


def text(report: Report) -> str:
    return render(report, "text")


def test_a_level_with_a_load_shows_its_figures() -> None:
    shown = text(diagnose(under_stress()))
    assert "Healthy" in shown
    assert "matmul in float32 900 times" in shown
    assert "float16 64 of 71 (90%)" in shown
    assert "only --level soak runs long enough" in shown
    assert "LOD" not in text(diagnose(healthy()))


def test_a_gpu_that_was_left_alone_is_told() -> None:
    assert "was not tested: python (4711) computes on it" in text(
        diagnose(under_stress(stress(stressed_gpu(0), left_alone(1))))
    )
    alone = text(diagnose(under_stress(stress(left_alone(0)))))
    assert alone.count("was not tested") == 1  # not once for each check


def test_a_root_cause_is_the_only_line_about_a_gpu_that_is_not_there() -> None:
    facts = msgspec.structs.replace(
        healthy(), level="deep", runtime=None, pci=Pci(), nvml=None, cuda_driver=None, driver=None, device_nodes=None,
        unknown={"stress": "TensorFlow lists no GPU to stress-test"},
    )  # fmt: skip
    report = diagnose(facts)
    assert [cause.label for cause in report.causes] == ["no_gpu_in_machine"]
    assert {result.outcome for result in report.results if result.id.startswith("LOD")} == {"blocked"}


def test_reasons_that_several_checks_share_stand_once() -> None:
    lines = unjudged(diagnose(Facts(unknown=dict.fromkeys(Facts.__struct_fields__, "nothing could be read"))))
    assert sum("nothing could be read" in line for line in lines) == 1


def test_a_load_survives_json() -> None:
    facts = under_stress(stress(stressed_gpu(0), left_alone(1)))
    assert decode_facts(encode_facts(facts)) == facts


def test_an_interrupted_load_keeps_what_it_knew() -> None:
    """Its processes are killed, and it gives what they had said by then; of others nothing is kept."""
    killed = threading.Event()

    class Stopping(Host):
        def stop(self) -> None:
            super().stop()
            killed.set()

    @probe(waits_for="the load", deadline_s=None, keeps_part=True)
    def stress(host: Host) -> StressTest:
        killed.wait(60)
        return StressTest(level="deep", interrupted=host.stopped)

    @probe(waits_for="the bus")
    def pci() -> Pci:
        killed.wait(60)
        return Pci()

    host = Stopping(environment={})
    under_way = _Examination(host, Request(python="python", level="deep"), [stress, pci])

    def interrupt(waiting: object, seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        under_way.run(interrupt)
    host.stop()
    under_way.keep_parts(60)
    under_way.give_up("interrupted")
    found = under_way.facts()
    assert found.stress == StressTest(level="deep", interrupted=True)
    assert found.unknown == {"pci": "interrupted"}


def test_what_was_measured_before_an_interruption_is_judged() -> None:
    facts = under_stress(stress(stressed_gpu(attempt=ANSWERED), interrupted=True))
    report = diagnose(facts, interrupted=True)
    assert report.find("LOD001").outcome == "pass"  # type: ignore[union-attr]
    assert "interrupted" in report.find("LOD005").reason  # type: ignore[union-attr]


def test_examine_takes_the_level(tmp_path: pathlib.Path) -> None:
    found = examine(level="quick", root=str(tmp_path), only=("system",))
    assert (found.level, found.quick) == ("quick", True)
