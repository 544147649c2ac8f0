"""What a run of the suites on an examined machine records beside their results."""

from __future__ import annotations

from typing import Any

import pytest
from healthy import broken, healthy
from locations import ROOT

from tfgpu_doctor.bench import suites
from tfgpu_doctor.bench.reasons import IN_USE, TIME_ENDED
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.model.facts.python import TensorFlowGpu

LISTED = tuple(TensorFlowGpu(f"/physical_device:GPU:{number}") for number in range(8))


class NoTelemetry:
    """Samples nothing."""

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> NoTelemetry:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None: ...

    def added_to(self, bench: Bench) -> Bench:
        return bench

    def conditions_of(self, _: Bench) -> dict[str, str]:
        return {}


@pytest.mark.parametrize(
    ("facts", "count"), [(healthy(), 1), (broken(runtime={"gpus": LISTED}), 8), (healthy(quick=True), 0)]
)
def test_a_run_says_how_many_gpus_tensorflow_lists(facts: Facts, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "run_suites", lambda *_: Bench())
    monkeypatch.setattr(suites, "used_by_others", lambda *_: {"GPU:0": "python (pid 7)"})
    monkeypatch.setattr(suites, "Telemetry", NoTelemetry)
    measured = suites.measure_suites(facts, ("numerics",), 60.0, Waiting())
    assert measured.gpus_listed == count
    assert measured.busy == {"GPU:0": "python (pid 7)"}
    assert suites.measure_suites(facts, ("numerics",), 60.0, Waiting(), even_if_busy=True).busy == {}


def test_a_test_that_is_left_out_says_so_in_the_words_that_the_results_look_for() -> None:
    source = (ROOT / "perf_tests/fixtures.py").read_text("utf-8")
    assert f'pytest.skip("{TIME_ENDED} ended before this test; ' in source
    assert f'pytest.skip(f"{IN_USE} (' in source
