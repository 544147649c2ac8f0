"""What the comparisons with sizes of their own need at the same time: at most a quarter of what a card with 4 GB has free."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from graph_memory import bytes_of, peak_bytes
from installed import skip_without_scipy, skip_without_tensorflow

skip_without_tensorflow()
skip_without_scipy()
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

from tfgpu_doctor.perf_tests import (  # noqa: E402
    sizes,
    test_graph_execution,
    test_inference,
    test_mixed_precision,
    test_model_architecture,
)
from tfgpu_doctor.perf_tests.sizes import Speed, usable_bytes  # noqa: E402

FAST_WITH_4_GB = Speed(4 << 30, 1000.0, 8000.0)  # so fast that its memory decides
A_QUARTER = int(0.25 * 3.7 * (1 << 30))  # of what is free on an idle card


@pytest.fixture(scope="module")
def tf() -> Any:
    return importlib.import_module("tensorflow")


@pytest.fixture(autouse=True)
def speed(monkeypatch: pytest.MonkeyPatch) -> None:
    for suite in (test_graph_execution, test_inference, test_mixed_precision, test_model_architecture):
        monkeypatch.setattr(suite, "speed_of", lambda *_: FAST_WITH_4_GB)


def test_the_peak_of_a_graph_is_that_of_the_tensors_that_are_alive(tf: Any) -> None:
    given = tf.ones((1 << 20,))  # 4 MiB
    chain = tf.function(lambda: ((given * 2.0) + 1.0) * 3.0).get_concrete_function()
    assert peak_bytes(chain) == pytest.approx(3 * bytes_of(given), rel=0.01)  # what is given, one operand, one result
    twice = tf.function(lambda: (given * 2.0) * (given + 1.0)).get_concrete_function()
    assert peak_bytes(twice) == pytest.approx(4 * bytes_of(given), rel=0.01)


@pytest.mark.parametrize("kind", list(test_mixed_precision.SHAPES))
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_step_in_each_precision(tf: Any, kind: str, precision: str) -> None:
    shape = test_mixed_precision.shape_of(tf, "GPU:0", kind)
    step = test_mixed_precision.Step(tf, "CPU:0", kind, precision, shape)
    beside = bytes_of(step._given)  # of the other side
    assert peak_bytes(step._step.get_concrete_function()) + beside <= A_QUARTER


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_separable_convolution(tf: Any, monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    batch, side, channels = test_model_architecture.pictures_for(tf, "GPU:0", precision, places=1)
    monkeypatch.setitem(test_model_architecture.SHAPES, "CPU", (batch, side, channels))
    convolution = test_model_architecture.Separable(tf, "CPU:0", precision)
    for way in (convolution._separable, convolution._full):
        assert peak_bytes(way.get_concrete_function()) <= A_QUARTER


def test_a_chain_of_operations(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    size = test_graph_execution.wide(tf, "GPU:0")
    chain = test_graph_execution.Chain(tf, "CPU:0", size, test_graph_execution.WIDE_STEPS, tf.function)
    beside = bytes_of(chain.values)  # of the other side
    assert peak_bytes(chain.function.get_concrete_function(chain.values)) + beside <= A_QUARTER


@pytest.mark.parametrize("name", ["layer", "batch"])
def test_a_normalisation(tf: Any, name: str) -> None:
    given = tf.zeros(test_model_architecture.normalised(tf, "GPU:0"))
    layer = tf.keras.layers.LayerNormalization() if name == "layer" else tf.keras.layers.BatchNormalization()
    layer(given[:1])
    assert peak_bytes(tf.function(lambda: layer(given, training=True)).get_concrete_function()) <= A_QUARTER


def test_inference_of_the_wide_network(tf: Any) -> None:
    count = test_inference.enough(tf, "GPU:0")
    model = test_inference.wide(tf)
    shape = tf.TensorSpec((count, *model.inputs[0].shape[1:]), tf.float32)
    graph = tf.function(lambda given: model(given, training=False)).get_concrete_function(shape)
    beside = bytes_of(shape)  # of the other side
    assert peak_bytes(graph) + 2 * beside <= A_QUARTER


def test_tensorflow_tells_how_much_memory_it_may_use(tf: Any) -> None:
    assert usable_bytes(tf, "CPU:0") == 256 << 20  # what it tells of a processor
    assert usable_bytes(tf, "GPU:7") is None


def test_what_no_table_knows_is_measured(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "model_of", lambda *_: None)
    monkeypatch.setattr(sizes, "_SIDE", 256)
    monkeypatch.setattr(sizes, "_COPIED", 1 << 16)
    found = sizes.speed_of.__wrapped__(tf, "CPU:0")
    assert found.memory_bytes == 256 << 20
    assert 0 < found.teraflops < 100
    assert 0 < found.gb_per_s < 10_000
