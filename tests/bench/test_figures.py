"""Figures of GPUs: proved by the operation that carries the work, judged against the right peak, and timed without a copy."""

from __future__ import annotations

import importlib
import itertools
import pathlib
import types
from typing import Any

import pytest
import stand_in_tensorflow
from installed import skip_without_scipy, skip_without_tensorflow
from stand_in_run import run_on_stand_in

skip_without_tensorflow()
skip_without_scipy()
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

from tfgpu_doctor.perf_tests import test_device_placement, test_graph_execution, test_pipeline, test_profiler  # noqa: E402
from tfgpu_doctor.perf_tests.ceilings import why_no_gain  # noqa: E402
from tfgpu_doctor.perf_tests.work import Product  # noqa: E402

ELSEWHERE = """
import dataclasses
import pytest
from tfgpu_doctor.perf_tests import test_numerics
from tfgpu_doctor.perf_tests.programs.work_on_request import waits
from tfgpu_doctor.perf_tests.published import CNN, PublishedTraining, Sizes

TINY = Sizes(32, 10, blocks=4, layers=2, width=32, heads=2, length=16, words=100)

def test_numbers_from_another_device(tensorflow, gpu):
    tf = tensorflow
    def call(tf, given):
        with tf.device("CPU:0"):
            found = tf.linalg.matmul(*given)
        with tf.device(gpu):
            return tf.identity(found)
    operation = dataclasses.replace(test_numerics.OPERATIONS[0], call=call)
    with pytest.raises(AssertionError, match="MatMul ran on CPU:0"):
        test_numerics.answer_of(tf, operation, gpu)

@pytest.mark.parametrize("xla", [False, True])
def test_training_on_another_device(tensorflow, gpu, xla):
    tf = tensorflow
    training = PublishedTraining(tf, CNN, gpu, 2, TINY, policy="float32", xla=xla)
    training.prove()
    inner = training._gradients
    def elsewhere(*given):
        with tf.device(gpu if xla else "CPU:0"):  # XLA itself refuses weights of another device
            loss, gradients = inner(*given)
        with tf.device("CPU:0"):
            loss = tf.identity(loss)
        with tf.device(gpu):
            return tf.identity(loss), [tf.identity(each) for each in gradients]
    training._gradients = elsewhere
    with pytest.raises(AssertionError, match="ran on CPU:0|ran beside the compiled program"):
        training.prove()

def test_what_waits_on_the_cpu_lies_there(tensorflow, gpu):
    cells = [cell.cell_contents for cell in waits(tensorflow, "CPU:0").__closure__]
    (numbers,) = [each for each in cells if hasattr(each, "backing_device")]
    assert numbers.backing_device.endswith("CPU:0")
"""


@pytest.fixture(scope="module")
def tf() -> Any:
    return importlib.import_module("tensorflow")


def nothing(*_: Any, **__: Any) -> None:
    pass


def test_where_the_result_lies_proves_nothing(tmp_path: pathlib.Path) -> None:
    bench = run_on_stand_in(tmp_path, 1, own=ELSEWHERE)
    assert not bench.problems
    assert bench.failed == {}
    assert bench.skipped == {}


def test_gpus_agree_in_a_process_with_op_determinism(tmp_path: pathlib.Path) -> None:
    bench = run_on_stand_in(tmp_path, 2, ["numerics"], only="test_gpus_agree")
    assert bench.failed == {}
    (metric,) = bench.metrics
    assert (metric.name, metric.value, metric.about) == ("answers that differ", 0, "of 2 GPUs, with op determinism")


@pytest.mark.parametrize(
    ("name", "capability", "precision", "why"),
    [
        ("Tesla T4", (7, 5), "tf32", "compute capability 7.5 has no tensor cores for tf32"),
        ("Tesla V100-SXM2-16GB", (7, 0), "bfloat16", "compute capability 7.0 has no tensor cores for bfloat16"),
        ("NVIDIA GeForce GTX 1650", (7, 5), "float16", "NVIDIA GeForce GTX 1650 has no tensor cores"),
    ],
)
def test_a_peak_is_measured_only_where_the_gpu_has_it(
    name: str, capability: tuple[int, int], precision: str, why: str
) -> None:
    with pytest.raises(pytest.skip.Exception, match=why):
        test_device_placement.test_peak(0.1, of_gpu(name, capability), "GPU:0", nothing, precision)


def of_gpu(name: str, capability: tuple[int, int]) -> types.SimpleNamespace:
    """A TensorFlow that has this GPU."""
    options = types.SimpleNamespace(
        get_device_details=lambda _: {"device_name": name, "compute_capability": capability},
        enable_tensor_float_32_execution=nothing,
    )
    return types.SimpleNamespace(
        config=types.SimpleNamespace(experimental=options, list_physical_devices=lambda _: ["the GPU"])
    )


@pytest.mark.parametrize(
    ("name", "precision", "why"),
    [
        ("NVIDIA GeForce RTX 4090", "tf32", "82.6 TFLOP/s in tf32 and 82.6 in float32"),
        ("NVIDIA GeForce RTX 4090", "float16", ""),
        ("NVIDIA H200", "tf32", ""),
        (stand_in_tensorflow.NAME, "tf32", ""),  # else the tests of the suites would leave the comparison out
        ("a GPU that nobody knows", "tf32", ""),
    ],
)
def test_a_precision_is_to_be_faster_only_where_the_data_sheet_says_so(name: str, precision: str, why: str) -> None:
    found = why_no_gain(of_gpu(name, (8, 9)), "GPU:0", precision)
    assert why in found
    assert bool(why) is bool(found)


@pytest.mark.parametrize(("on_gpu_s", "crossover"), [(2.0, []), (0.5, [16.0])])
def test_a_gpu_that_is_slower_at_every_size_is_a_figure_and_no_wrong_result(
    tf: Any, monkeypatch: pytest.MonkeyPatch, on_gpu_s: float, crossover: list[float]
) -> None:
    class Watch:
        def __init__(self, *_: Any) -> None:
            self._seconds = itertools.cycle((on_gpu_s, 1.0))

        def per_call(self, call: Any) -> float:
            return next(self._seconds)

    found: list[tuple[str, float]] = []
    monkeypatch.setattr(test_device_placement, "Stopwatch", Watch)
    test_device_placement.test_crossover(
        0.1, tf, "CPU:0", lambda name, value, *_, **__: found.append((name, value)), Product
    )
    sizes = test_device_placement.SIZES[Product]
    assert found[: len(sizes)] == [(f"matmul {size}", 1 / on_gpu_s) for size in sizes]
    assert found[len(sizes) :] == [("crossover of matmul", size) for size in crossover]


def test_a_later_call_copies_nothing(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[Any] = []

    class Watch:
        def __init__(self, *_: Any) -> None:
            pass

        def per_call(self, call: Any) -> float:
            timed.append(call())
            return 1.0

    monkeypatch.setattr(test_graph_execution, "Stopwatch", Watch)
    test_graph_execution.test_first_call(0.1, tf, "CPU:0", nothing, jit_compile=False)
    assert all(isinstance(each, tf.Tensor) for each in timed)


def test_the_cost_of_tracing_contains_no_copies(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    class Result:
        def numpy(self) -> None:
            raise AssertionError("the result was copied to the host")

    class Work:
        carriers = ("MatMul",)

        def __init__(self, *_: Any) -> None:
            pass

        def __call__(self) -> Result:
            return Result()

        def verify(self, result: Result) -> None:
            pass

    tracing = types.SimpleNamespace(experimental=types.SimpleNamespace(start=nothing, stop=nothing))
    fake = types.SimpleNamespace(profiler=tracing)
    monkeypatch.setattr(test_profiler, "Product", Work)
    monkeypatch.setattr(test_profiler, "prove", lambda call, *_: call(), raising=False)
    test_profiler.test_cost(0.1, fake, (), "CPU:0", nothing, tmp_path)


def test_an_input_that_loses_pictures_is_found(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfgpu_doctor.perf_tests.images import make_jpegs, tuned_and_naive

    monkeypatch.setattr(test_pipeline, "PICTURES", 10)
    pictures = tf.data.Dataset.from_tensor_slices(make_jpegs(tf, 10)).enumerate()
    test_pipeline.test_wait_for_input(0.1, tf, "CPU:0", pictures, nothing)
    monkeypatch.setattr(
        test_pipeline, "tuned_and_naive", lambda *given: [each.take(1) for each in tuned_and_naive(*given)]
    )
    with pytest.raises(AssertionError, match="does not give each picture once"):
        test_pipeline.test_wait_for_input(0.1, tf, "CPU:0", pictures, nothing)
