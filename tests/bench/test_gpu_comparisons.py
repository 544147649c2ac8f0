"""Comparisons where TensorFlow has GPUs: those on the CPU are measured, those on a GPU are proved to run there."""

from __future__ import annotations

import pathlib

import pytest
from installed import skip_without_scipy, skip_without_tensorflow
from stand_in_run import run_on_stand_in

from tfgpu_doctor.model.facts.bench import Bench, Comparison

skip_without_tensorflow()
skip_without_scipy()
pytestmark = pytest.mark.tensorflow

SUITE = """
import pytest
from tfgpu_doctor.perf_tests.runner import Variant

def passes(result):
    pass

def product(tf, name, device, hand_on=None):
    with tf.device(device):
        numbers = tf.random.stateless_normal((200, 200), (1, 2))
    graph = tf.function(lambda: tf.linalg.matmul(numbers, numbers))
    def call():
        with tf.device(device):
            found = graph()
        if hand_on is None:
            return found
        with tf.device(hand_on):
            return tf.identity(found)
    return Variant(name, call, passes, hand_on or device)

@pytest.mark.priority(1)
def test_first_on_the_cpu(compare, tensorflow):
    compare(product(tensorflow, "one", "CPU:0"), product(tensorflow, "other", "CPU:0"))

@pytest.mark.priority(2)
def test_after_a_seed(compare, tensorflow):
    tensorflow.random.set_seed(4)
    compare(product(tensorflow, "one", "CPU:0"), product(tensorflow, "other", "CPU:0"))

@pytest.mark.priority(3)
def test_on_the_gpu(compare, tensorflow, gpu):
    compare(product(tensorflow, "GPU", gpu), product(tensorflow, "CPU", "CPU:0"))

@pytest.mark.priority(4)
def test_on_the_gpu_again(compare, tensorflow, gpu):
    with tensorflow.device(gpu):
        numbers = tensorflow.ones((20, 20))
        tensorflow.linalg.matmul(numbers, numbers)  # TensorFlow reports an operation when it first runs
        call = lambda: tensorflow.linalg.matmul(numbers, numbers)
    def on_gpu():
        with tensorflow.device(gpu):
            return call()
    compare(Variant("GPU", on_gpu, passes, gpu), product(tensorflow, "CPU", "CPU:0"))

@pytest.mark.priority(5)
def test_result_handed_to_the_gpu(compare, tensorflow, gpu):
    compare(product(tensorflow, "elsewhere", "CPU:0", gpu), product(tensorflow, "CPU", "CPU:0"))

@pytest.mark.priority(6)
def test_mixed_graph(compare, tensorflow, gpu):
    tf = tensorflow
    numbers = tf.random.stateless_normal((200, 200), (1, 2))
    def work():
        with tf.device("CPU:0"):
            found = tf.linalg.matmul(numbers, numbers)
        with tf.device(gpu):
            return tf.nn.relu(found)
    graph = tf.function(work)
    compare(Variant("elsewhere", graph, passes, gpu), product(tensorflow, "CPU", "CPU:0"))
"""


def comparisons(bench: Bench) -> dict[str, Comparison]:
    assert not bench.problems
    return {comparison.name: comparison for comparison in bench.comparisons}


def test_placement_is_judged_by_the_operations_that_ran(tmp_path: pathlib.Path) -> None:
    found = comparisons(run_on_stand_in(tmp_path, 1, own=SUITE))
    assert len(found) == SUITE.count("def test_")
    for name in ("first_on_the_cpu", "after_a_seed", "on_the_gpu", "on_the_gpu_again"):
        assert found[name].verdict != "not run", f"{name}: {found[name].reason}"
    for name in ("result_handed_to_the_gpu", "mixed_graph"):
        assert found[name].verdict == "not run", f"{name} passed"
        assert found[name].reason.startswith("elsewhere: it was expected to run on GPU:0, but MatMul ran on CPU:0")


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "name"), [("pipeline", "fit"), ("graph_execution", "steps_per_execution")])
def test_a_training_is_measured_on_the_gpu(tmp_path: pathlib.Path, suite: str, name: str) -> None:
    found = comparisons(run_on_stand_in(tmp_path, 1, [suite], only=f"test_{name}"))
    assert found[name].verdict != "not run", found[name].reason
    for side in (found[name].candidate, found[name].baseline):
        assert side
        assert side.device == "GPU:0"
    assert found[name].on_gpu


@pytest.mark.slow
def test_all_gpus_train_together(tmp_path: pathlib.Path) -> None:
    bench = run_on_stand_in(tmp_path, 2, ["mirrored_strategy"], only="test_scaling")
    assert {metric.name for metric in bench.metrics} == {"weak scaling", "strong scaling"}, bench.failed
    assert not bench.failed  # a processor is not two, but no speed is required
