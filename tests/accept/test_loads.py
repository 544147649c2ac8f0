"""A stress test counts for the GPUs that were under load to its end, and a soak for as long as they were."""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec
import pytest
from healthy import ANSWERED
from judged import judged, profile_of, recorded_machine, red, rows_of
from stressed import exactness, hung, pattern, soak_rounds, speed, stress, stress_round, stressed_gpu, under_stress

from tfgpu_doctor.accept.requirement import Requirement
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.stress import StressRound
from tfgpu_doctor.model.soak import least_load_s, soak_round_s

DEEP, SOAK = "level = 'deep'\n", "level = 'soak'\nminutes = {}\n"
NO_LOD = "[checks]\nignore = ['LOD']\n"
KILLED = Attempt(outcome="killed_by_signal", signal="SIGKILL", phase="products in tf32, round 1")


def level_of(toml: str, facts: Facts, folder: pathlib.Path) -> Requirement:
    certificate = judged(facts, profile_of(toml, folder))
    row = rows_of(certificate)["level"]
    assert (certificate.verdict == "accepted") == row.holds
    return row


def ended_as(outcome: Any) -> Attempt:
    return Attempt(outcome=outcome, seconds=72.0, error="no such file", exit_code=1 if outcome == "failed" else None)


@pytest.mark.parametrize("outcome", ["not_started", "unparsable", "failed", "timed_out"])
@pytest.mark.parametrize("level", [DEEP, SOAK.format(10)])
def test_a_gpu_whose_process_measured_nothing_was_not_under_load(
    level: str, outcome: str, tmp_path: pathlib.Path
) -> None:
    facts = recorded_machine("loaded-soak-healthy")
    assert level_of(level, facts, tmp_path).outcome == "met"
    assert facts.stress
    (gpu,) = facts.stress.gpus
    empty = msgspec.structs.replace(gpu, rounds=(), attempt=ended_as(outcome))
    facts = msgspec.structs.replace(facts, stress=msgspec.structs.replace(facts.stress, gpus=(empty,)))
    row = level_of(level, facts, tmp_path)
    assert row.outcome == "not measured"
    assert row.reason == f"GPU 0 was not tested to the end: its process {ended_as(outcome).ending}"
    assert "without interrupting it" in row.remedy


@pytest.mark.parametrize("rounds", [(), (stress_round(),)])
def test_one_of_two_gpus_whose_process_was_killed_is_named(
    rounds: tuple[StressRound, ...], tmp_path: pathlib.Path
) -> None:
    facts = under_stress(stress(stressed_gpu(0), stressed_gpu(1, attempt=KILLED, rounds=rounds)))
    row = level_of(DEEP + "gpus = 2", facts, tmp_path)
    told = "GPU 1 was not tested to the end: its process was killed by SIGKILL during 'products in tf32, round 1'"
    assert (row.outcome, row.reason) == ("not measured", told)
    both = under_stress(stress(stressed_gpu(0), stressed_gpu(1)))
    assert level_of(DEEP + "gpus = 2", both, tmp_path).measured == "level deep, 43 s of load on all 2 GPUs"


@pytest.mark.parametrize(
    ("rounds", "outcome"),
    [
        ((stress_round(exactness=(exactness(iterations=0, error="x"),), speeds=(speed("tf32", iterations=0),), memory=()),), "not measured"),
        ((stress_round(exactness=(), speeds=(), memory=(pattern("0x55", tested_bytes=0, error="x"),)),), "not measured"),
        ((stress_round(exactness=(), speeds=(), memory=(pattern("0x55"),)),), "met"),
        ((stress_round(exactness=(), memory=()),), "met"),
    ],
)  # fmt: skip
def test_rounds_whose_steps_all_failed_are_no_load(
    rounds: tuple[StressRound, ...], outcome: str, tmp_path: pathlib.Path
) -> None:
    row = level_of(DEEP, under_stress(stress(stressed_gpu(rounds=rounds))), tmp_path)
    assert (row.outcome, row.reason) == (
        outcome,
        "GPU 0 was not tested: nothing was measured on it" * (outcome != "met"),
    )


@pytest.mark.parametrize("gpu", [stressed_gpu(error="errors_impl.InternalError: CUDA_ERROR_LAUNCH_FAILED"), hung()])
def test_an_error_that_ended_the_load_is_the_one_red_row(gpu: Any, tmp_path: pathlib.Path) -> None:
    facts = under_stress(stress(gpu))
    certificate = judged(facts, profile_of(DEEP + "[checks]\nrequire = ['LOD001']", tmp_path))
    assert red(certificate) == ["checks.LOD005"]
    assert rows_of(certificate)["level"].explained_by == ("checks.LOD005",)
    ignoring = judged(facts, profile_of(DEEP + NO_LOD, tmp_path))
    assert red(ignoring) == ["level"]


def test_a_load_that_ended_on_one_gpu_does_not_explain_another_that_was_in_use(tmp_path: pathlib.Path) -> None:
    dead = stressed_gpu(0, error="errors_impl.InternalError: CUDA_ERROR_LAUNCH_FAILED", attempt=ANSWERED)
    busy = stressed_gpu(1, untouched="python (4711) computes on it", attempt=None, rounds=())
    certificate = judged(under_stress(stress(dead, busy)), profile_of(DEEP + "gpus = 2", tmp_path))
    assert red(certificate) == ["checks.LOD005", "level"]
    assert "--even-if-busy" in rows_of(certificate)["level"].remedy


@pytest.mark.parametrize(
    ("minutes", "rounds", "outcome", "told"),
    [
        (10, soak_rounds(10), "met", "level soak, 600 s of load on the GPU"),
        (10, soak_rounds(10)[:-1], "not measured", "GPU 0 was under load for 9.5 of 10 min"),
        (10, (*soak_rounds(10)[:-1], stress_round(seconds=16.0)), "met", "level soak, 586 s of load on the GPU"),
        (10, (stress_round(), stress_round(began_s=540.0)), "not measured", "GPU 0 was under load for 1.4 of 10 min"),
        (15, (stress_round(seconds=817.0),), "not measured", "GPU 0 was under load for 13.6 of 15 min"),
        (1, soak_rounds(10), "met", "level soak, 600 s of load on the GPU"),
    ],
)
def test_the_minutes_of_a_soak_are_those_under_load(
    minutes: int, rounds: tuple[StressRound, ...], outcome: str, told: str, tmp_path: pathlib.Path
) -> None:
    """Not the minutes from start to end, in which TensorFlow starts and the copies are made."""
    facts = under_stress(stress(stressed_gpu(rounds=rounds), level="soak", seconds=1000.0))
    row = level_of(SOAK.format(minutes), facts, tmp_path)
    assert (row.outcome, row.measured or row.reason) == (outcome, told)
    assert ("--deadline" in row.remedy) == (outcome != "met")


def test_the_gpu_that_was_under_load_for_the_shortest_time_decides(tmp_path: pathlib.Path) -> None:
    gpus = (stressed_gpu(0, rounds=soak_rounds(10)), stressed_gpu(1, rounds=soak_rounds(6)))
    facts = under_stress(stress(*gpus, level="soak", seconds=1000.0))
    row = level_of("gpus = 2\n" + SOAK.format(10), facts, tmp_path)
    assert (row.outcome, row.reason) == ("not measured", "GPU 1 was under load for 6.0 of 10 min")
    assert (
        level_of("gpus = 2\n" + SOAK.format(6), facts, tmp_path).measured == "level soak, 360 s of load on all 2 GPUs"
    )


@pytest.mark.parametrize("minutes", [1, 10, 30, 60, 600])
def test_half_a_round_may_lack_and_no_more(minutes: int) -> None:
    soak_s = 60.0 * minutes
    assert soak_s - least_load_s(soak_s) == soak_round_s(soak_s) / 2 + 1
    assert soak_round_s(soak_s) == max(30.0, minutes)
