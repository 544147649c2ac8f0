"""Compare eager execution with tf.function and XLA; measure tracing and compilation separately from execution."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.perf_tests.networks import CARRIERS, Training
from tfgpu_doctor.perf_tests.placement import prove
from tfgpu_doctor.perf_tests.runner import Variant
from tfgpu_doctor.perf_tests.sizes import Each, samples, speed_of
from tfgpu_doctor.perf_tests.timing import Stopwatch

Hold = Callable[..., None]
SMALL_STEPS = 150  # operations on a few numbers: the calls cost more than the computation
# Operations on many numbers, on a GPU at least so many: reading and writing them costs the most.
WIDE, WIDE_STEPS = 1 << 20, 12
STEPS, BATCH, INPUTS = 48, 16, 8
RATE = 0.05
LOOP_BATCH, LOOP_STEPS = 16, 3  # of the training loop; its steps before the measurement
AGREE = 0.02  # the relative difference allowed between losses


def steps(values: Any, count: int) -> Any:
    """Apply `count` operations, each to the result of the previous one."""
    for number in range(count // 2):
        values = values * (1.0 - 0.001 * number) + 0.01
    return values


def expected(start: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    answer: np.ndarray[Any, Any] = steps(start.astype(np.float64), count)
    return answer


class Chain:
    """A chain of operations on one tensor, with one way of execution."""

    def __init__(self, tf: Any, device: str, size: int, count: int, wrap: Callable[[Any], Any]) -> None:
        self.start = np.linspace(-1.0, 1.0, min(size, WIDE), dtype=np.float32)
        with tf.device(device):
            self.values = tf.tile(tf.constant(self.start), [size // len(self.start)])
        self._tf, self.device, self.count = tf, device, count
        self.function = wrap(lambda values: steps(values, count))

    def __call__(self) -> Any:
        with self._tf.device(self.device):
            return self.function(self.values)

    def verify(self, result: Any) -> None:
        assert result.shape == self.values.shape
        for part in (result[: len(self.start)], result[-len(self.start) :]):
            assert np.allclose(part.numpy(), expected(self.start, self.count), rtol=1e-4, atol=1e-5)

    def variant(self, name: str, *, compiled: bool = False) -> Variant:
        return Variant(name, self, self.verify, self.device, ("Mul",), compiled)


def wide(tf: Any, device: str) -> int:
    """Return how many numbers: on a GPU, one pass over them takes much longer than a launch."""
    if device.startswith("CPU"):
        return WIDE
    return samples(speed_of(tf, device), Each(operations=2, moved=8, held=16), least=WIDE)


@pytest.mark.priority(2)
def test_function(compare: Hold, tensorflow: Any, gpu_or_cpu: str) -> None:
    """Compare a graph of many small operations with calling each from Python."""
    graph = Chain(tensorflow, gpu_or_cpu, 64, SMALL_STEPS, tensorflow.function)
    eager = Chain(tensorflow, gpu_or_cpu, 64, SMALL_STEPS, lambda function: function)
    compare(graph.variant("tf.function"), eager.variant("eager"), at_least=1.2)


@pytest.mark.priority(3, needs_s=6)
def test_training_loop(compare: Hold, tensorflow: Any, gpu_or_cpu: str) -> None:
    """Compare a training step with GradientTape in a tf.function with the same step called from Python."""
    kind = "transformer"  # a few hundred small operations
    due = Training(tensorflow, kind, "CPU:0", LOOP_BATCH).losses(LOOP_STEPS + 1)

    def side(name: str, *, eager: bool) -> Variant:
        training = Training(tensorflow, kind, gpu_or_cpu, LOOP_BATCH, eager=eager)
        losses = training.losses(LOOP_STEPS)
        assert np.allclose(losses, due[:-1], rtol=AGREE), f"{name}: the losses are {losses}, but {due[:-1]} on the CPU"

        def verify(loss: Any) -> None:
            assert np.isclose(float(loss), due[-1], rtol=AGREE), f"the next loss is {float(loss)}, but {due[-1]}"

        return Variant(name, training, verify, gpu_or_cpu, CARRIERS[kind])

    compare(side("tf.function", eager=False), side("eager", eager=True), at_least=1.2)


@pytest.mark.priority(3)
def test_xla(compare: Hold, tensorflow: Any, gpu_or_cpu: str) -> None:
    """Compare XLA, which fuses the operations into one pass over the numbers, with one pass per operation."""
    size = wide(tensorflow, gpu_or_cpu)
    compiled = Chain(tensorflow, gpu_or_cpu, size, WIDE_STEPS, lambda f: tensorflow.function(f, jit_compile=True))
    graph = Chain(tensorflow, gpu_or_cpu, size, WIDE_STEPS, tensorflow.function)
    compare(compiled.variant("jit_compile=True", compiled=True), graph.variant("tf.function"), at_least=1.1)


@pytest.mark.priority(5)
@pytest.mark.parametrize("jit_compile", [False, True], ids=["function", "xla"])
def test_first_call(
    share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Callable[..., None], jit_compile: bool
) -> None:
    """Measure tracing, the rest of the first call (optimizing or compiling the graph), and a later call."""
    tf = tensorflow
    chain = Chain(
        tf, gpu_or_cpu, size := wide(tf, gpu_or_cpu), WIDE_STEPS, lambda f: tf.function(f, jit_compile=jit_compile)
    )
    wait = tf.test.experimental.sync_devices if "GPU" in gpu_or_cpu else lambda: None
    started = time.perf_counter()
    with tf.device(gpu_or_cpu):
        chain.function.get_concrete_function(chain.values)
    traced = time.perf_counter()
    chain()
    wait()
    called = time.perf_counter()
    result = prove(chain, gpu_or_cpu, ("Mul",), compiled=jit_compile)
    chain.verify(result)
    times = {"tracing": traced - started, "first call": called - traced, "later call": Stopwatch(wait).per_call(chain)}
    about = f"{WIDE_STEPS} operations on {size:,} numbers"
    for name, took_s in times.items():
        way = "XLA" if jit_compile else "tf.function"
        metric(f"{name}, {way}", 1e3 * took_s, "ms", device=gpu_or_cpu, about=about)


@pytest.mark.priority(2)
def test_retracing(compare: Hold, tensorflow: Any, gpu_or_cpu: str, metric: Callable[..., None]) -> None:
    """Compare a tensor argument with a Python number, which is traced again for each value."""
    traces = {"tensor": 0, "Python number": 0}
    calls = {"tensor": 0, "Python number": 0}
    numbers = itertools.count(1)
    with tensorflow.device(gpu_or_cpu):
        ones = tensorflow.ones(64)  # not a constant of the graph, which TensorFlow would compute only once

    def side(name: str, give: Callable[[float], Any]) -> Variant:
        def traced(factor: Any) -> Any:
            traces[name] += 1
            return factor, steps(ones * factor, 8)

        # One function for all values, as in a training loop with the learning rate as an argument.
        function = tensorflow.function(traced, reduce_retracing=False)

        def call() -> Any:
            calls[name] += 1
            with tensorflow.device(gpu_or_cpu):
                return function(give(float(next(numbers))))

        def verify(result: Any) -> None:
            factor, values = result
            assert np.allclose(values.numpy(), expected(np.full(64, float(factor)), 8), rtol=1e-4)

        return Variant(name, call, verify, gpu_or_cpu, ("Mul",))

    compare(side("tensor", tensorflow.constant), side("Python number", float), at_least=2.0)
    assert traces["tensor"] == 1, "a tensor argument should be traced once"
    assert traces["Python number"] == calls["Python number"], "each value of a Python number should be traced"


@pytest.mark.priority(4, needs_s=6)
def test_steps_per_execution(compare: Hold, tensorflow: Any, gpu_or_cpu: str) -> None:
    """Compare many steps of model.fit in one call of the graph with one step per call."""
    numbers = np.random.default_rng(seed=3)
    inputs = numbers.standard_normal((STEPS * BATCH, INPUTS)).astype(np.float32)
    targets = inputs @ numbers.standard_normal((INPUTS, 1)).astype(np.float32)
    batches = tensorflow.data.Dataset.from_tensor_slices((inputs, targets)).batch(BATCH).cache()
    exact = mean_loss(inputs.astype(np.float64), targets.astype(np.float64))

    def verify(loss: float) -> None:
        assert np.isclose(loss, exact, rtol=1e-3), f"the loss is {loss}, but the exact value is {exact}"

    def side(name: str, at_once: int) -> Variant:
        layers = tensorflow.keras.layers
        with tensorflow.device(gpu_or_cpu):
            model = tensorflow.keras.Sequential([layers.Input((INPUTS,)), layers.Dense(1, use_bias=False)])
            model.compile(tensorflow.keras.optimizers.SGD(RATE), "mse", steps_per_execution=at_once)

        def call() -> float:
            with tensorflow.device(gpu_or_cpu):
                model.set_weights([np.zeros((INPUTS, 1), np.float32)])
                return float(model.fit(batches, shuffle=False, verbose=0).history["loss"][-1])

        return Variant(name, call, verify, gpu_or_cpu, ("MatMul",))

    compare(side(f"steps_per_execution={STEPS}", STEPS), side("steps_per_execution=1", 1), at_least=1.1)


def mean_loss(inputs: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> float:
    """Return the mean squared error of one epoch of gradient descent on a linear model, computed in float64."""
    weights = np.zeros((INPUTS, 1))
    losses = []
    for start in range(0, len(inputs), BATCH):
        batch = inputs[start : start + BATCH]
        error = batch @ weights - targets[start : start + BATCH]
        losses.append(float(np.mean(error**2)))
        weights = weights - RATE * 2 / BATCH * batch.T @ error
    return float(np.mean(losses))
