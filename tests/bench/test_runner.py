"""The runner with a real TensorFlow: where work ran, whether its answer is right, and what failed."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from installed import skip_without_scipy

from tfgpu_doctor.bench import Plan
from tfgpu_doctor.model.facts.bench import Comparison
from tfgpu_doctor.perf_tests.runner import NotRun, Runner, Variant

pytestmark = pytest.mark.tensorflow
tf: Any = None


@pytest.fixture(scope="module", autouse=True)
def _tensorflow() -> None:
    global tf
    skip_without_scipy()
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed in this Python")


def right(result: Any) -> None:
    assert float(result[0, 0]) == 64.0


def product(name: str = "matmul", device: str = "CPU:0", side: int = 64) -> Variant:
    ones = tf.ones((side, side))
    call = tf.function(lambda: tf.linalg.matmul(ones, ones) * (64 / side))
    return Variant(name, call, right, device)


def hold(candidate: Variant, baseline: Variant, *, alone: bool = True) -> tuple[Comparison, NotRun | None]:
    runner = Runner(lambda: None)
    return runner.hold(("made_up", "test"), candidate, baseline, at_least=1.0, plan=Plan(1.0), alone=alone)


def test_a_smaller_product_is_faster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = tmp_path / "journal"
    monkeypatch.setenv("TFGPU_DOCTOR_JOURNAL", str(journal))
    comparison, trouble = hold(product(), product(side=1024))
    assert trouble is None
    assert comparison.verdict in ("faster", "not shown", "too noisy")  # as busy as the machine is
    assert comparison.candidate and comparison.baseline and comparison.ratio
    assert comparison.interval and comparison.interval[0] <= comparison.ratio <= comparison.interval[1]
    assert comparison.ratio > 1 or comparison.verdict == "too noisy"
    assert len(comparison.candidate.seconds) == len(comparison.baseline.seconds) == comparison.rounds >= 5
    assert comparison.candidate.device == "CPU:0"
    assert comparison.candidate.first_call_s > comparison.candidate.median_s  # it was traced then
    kinds = [json.loads(line)["kind"] for line in journal.read_text().splitlines()]
    assert (kinds[0], kinds[-1]) == ("start", "comparison")


def test_one_of_several_processes_has_a_ratio_and_no_verdict() -> None:
    comparison, trouble = hold(product(), product(side=1024), alone=False)
    assert trouble is None
    assert (comparison.verdict, comparison.interval) == ("not run", None)
    assert comparison.process_ratios == (comparison.ratio,)
    ((began, took_s),) = comparison.spans
    assert comparison.started <= began <= began + took_s <= comparison.started + comparison.took_s + 0.01


def test_an_answer_that_is_wrong_has_no_speed() -> None:
    wrong = Variant("wrong", lambda: tf.zeros((4, 4)), right)
    comparison, trouble = hold(wrong, product())
    assert comparison.verdict == "not run"
    assert comparison.ratio is None
    assert trouble and trouble.fault
    assert "the result of wrong is wrong" in comparison.reason
    assert not comparison.harmless


def test_work_that_did_not_run_on_the_gpu_is_no_gpu_result() -> None:
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has a GPU")
    comparison, trouble = hold(product(device="GPU:0"), product())
    assert comparison.verdict == "not run"
    assert trouble and trouble.fault
    assert "was expected to run on GPU:0" in comparison.reason


def test_memory_that_does_not_suffice_ends_the_comparison_alone() -> None:
    def too_much() -> Any:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[1000000,1000000]")

    comparison, trouble = hold(Variant("too much", too_much, right), product())
    assert comparison.reason.startswith("out of memory: OOM when allocating")
    assert comparison.harmless
    assert trouble and trouble.fault
