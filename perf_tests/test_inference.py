"""Inference: the overhead of a call, batching, SavedModel, XLA, float16, TensorRT, and where the CPU wins."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.bench import measure
from tfgpu_doctor.perf_tests.figures import plan_of
from tfgpu_doctor.perf_tests.networks import (
    CARRIERS,
    CLASSES,
    Array,
    convolutional,
    pictures,
    sentences,
    transformer,
    why_no_tensor_cores,
)
from tfgpu_doctor.perf_tests.placement import prove
from tfgpu_doctor.perf_tests.runner import Variant
from tfgpu_doctor.perf_tests.sizes import Each, samples, speed_of
from tfgpu_doctor.perf_tests.tf_trt import compiled_by_tensorrt, why_no_tensorrt
from tfgpu_doctor.perf_tests.timing import Stopwatch

Hold = Callable[..., None]
Keep = Callable[..., None]
Build = Callable[[Any], Any]
FEW, ONE_BY_ONE = 8, 32  # samples of a small batch; samples that are also computed one by one
BLOCKS, UNITS = 8, 64  # of the network of many small operations
XLA_BATCHES = (1, 256)
SIZES = (1, 8, 64, 512)  # batches whose latency and throughput are measured
WIDTH, LARGE_BATCH = 64, 128  # of the network that is enough work for a GPU; two CPU cores finish within a second
HALF_BATCH = 256  # for tensor cores, at least so many samples
WIDE_OPERATIONS, WIDE_BYTES = (
    66e6,
    450e3,
)  # of a sample of that network: to compute; read and written, and held, in float32
VERIFIED = 128  # samples of a batch whose results the CPU computes as well
CROSSOVER_BATCHES = (1, 4, 16, 64, 256)
RATIO_S = 0.5  # for a ratio that is a figure
TINY_UNITS = 16
KNEE = 0.8  # of the best throughput
TOLERANCE = {"float32": 1e-2, "float16": 2e-2}  # of the largest logit; float32 may be computed in TF32


class Served:
    """A network with the same weights on every device; `due` is what the CPU computes from them in float32."""

    def __init__(self, tf: Any, build: Build, device: str, inputs: Array, precision: str = "float32") -> None:
        tf.keras.utils.set_random_seed(29)
        with tf.device("CPU:0"):
            reference = build(tf)
            self.due = tf.function(reference)(tf.constant(inputs[:VERIFIED]), training=False).numpy()
        before = tf.keras.mixed_precision.global_policy()
        try:
            tf.keras.mixed_precision.set_global_policy(precision)
            with tf.device(device):
                self.model = build(tf)
                pairs = zip(reference.get_weights(), self.model.get_weights(), strict=True)
                self.model.set_weights([each.astype(own.dtype) for each, own in pairs])
        finally:
            tf.keras.mixed_precision.set_global_policy(before)
        self._tf, self.device, self.precision = tf, device, precision
        self.host = inputs.astype(precision) if inputs.dtype == np.float32 else inputs
        with tf.device(device):
            self.inputs = tf.identity(tf.constant(self.host))
        self.graph = tf.function(self.answer)

    def answer(self, given: Any) -> Any:
        """Call the network, eagerly or while a function is traced."""
        return self.model(given, training=False)

    def from_host(self, function: Callable[[Any], Any]) -> Any:
        """Call it with the inputs in the host's memory, and wait until the answer is there."""
        answer = function(self._tf.constant(self.host))
        answer.numpy()
        return answer

    def error(self, answer: Array) -> float:
        """Return the largest error of the verified samples, relative to the largest result of the CPU."""
        return float(np.abs(answer[:VERIFIED] - self.due).max() / np.abs(self.due).max())

    def verify(self, result: Any) -> None:
        seen = np.asarray(result).astype(np.float64)
        assert seen.shape == (len(self.host), CLASSES)
        assert np.all(np.isfinite(seen)), "the result has values that are not finite"
        error = self.error(seen)
        assert error <= TOLERANCE[self.precision], f"the error is {error:.2g} of the largest result of the CPU"

    def variant(
        self, name: str, call: Callable[[], Any], carriers: tuple[str, ...] = ("MatMul",), *, compiled: bool = False
    ) -> Variant:
        def run() -> Any:
            with self._tf.device(self.device):
                return call()

        return Variant(name, run, self.verify, self.device, carriers, compiled)


@pytest.mark.priority(3, needs_s=6)
@pytest.mark.parametrize("way", ["function", "call"])
def test_predict(compare: Hold, tensorflow: Any, gpu_or_cpu: str, way: str) -> None:
    """Compare a call of the network, or of a graph of it, with `model.predict` for one small batch."""
    served = Served(tensorflow, transformer, gpu_or_cpu, sentences(FEW)[0])
    served.model.compile(jit_compile=False)  # as in the function: only the way of the call differs
    carriers = CARRIERS["transformer"]
    call = served.graph if way == "function" else served.answer
    name = "tf.function" if way == "function" else "model(x)"
    compare(
        served.variant(name, lambda: served.from_host(call), carriers),
        served.variant("model.predict", lambda: served.model.predict(served.host, verbose=0), carriers),
        at_least=1.5,
    )


@pytest.mark.priority(3, needs_s=5)
def test_batching(compare: Hold, tensorflow: Any, gpu_or_cpu: str) -> None:
    """Compare one batch of many samples with one call per sample."""
    served = Served(tensorflow, convolutional, gpu_or_cpu, pictures(ONE_BY_ONE)[0])
    with tensorflow.device(gpu_or_cpu):
        each = [tensorflow.identity(one) for one in tensorflow.split(served.inputs, ONE_BY_ONE)]
    carriers = CARRIERS["cnn"]
    compare(
        served.variant(f"a batch of {ONE_BY_ONE}", lambda: served.graph(served.inputs), carriers),
        served.variant(
            f"{ONE_BY_ONE} calls", lambda: tensorflow.concat([served.graph(one) for one in each], 0), carriers
        ),
        at_least=2.0,
    )


@pytest.mark.priority(4, needs_s=8)
def test_saved_model(compare: Hold, tensorflow: Any, gpu_or_cpu: str, tmp_path: pathlib.Path) -> None:
    """Compare the signature of a SavedModel with an eager call of the Keras model that was saved."""
    tf = tensorflow
    served = Served(tf, transformer, gpu_or_cpu, sentences(FEW)[0])
    module = tf.Module()
    module.network = served.model
    shape = tf.TensorSpec((None, *served.host.shape[1:]), served.host.dtype, name="words")
    concrete = tf.function(lambda words: {"logits": served.answer(words)}).get_concrete_function(shape)
    tf.saved_model.save(module, str(tmp_path), signatures=concrete)
    with tf.device(gpu_or_cpu):
        loaded = tf.saved_model.load(str(tmp_path))
    signature = loaded.signatures["serving_default"]
    carriers = CARRIERS["transformer"]
    compare(
        served.variant(
            "SavedModel", lambda: served.from_host(lambda words: signature(words=words)["logits"]), carriers
        ),
        served.variant("model(x)", lambda: served.from_host(served.answer), carriers),
        at_least=1.5,
    )
    assert loaded  # a signature keeps no reference to the variables of its module


def small_operations(tf: Any) -> Any:
    """Build a network whose operations are so small that calling them costs more than computing them."""
    layers = tf.keras.layers
    given = layers.Input((UNITS,))
    values = given
    for _ in range(BLOCKS):
        values = values + layers.Dense(UNITS, activation="swish")(layers.LayerNormalization()(values))
    return tf.keras.Model(given, layers.Dense(CLASSES)(values))


def numbers(count: int, units: int = UNITS) -> Array:
    return np.random.default_rng(seed=37).standard_normal((count, units)).astype(np.float32)


@pytest.mark.priority(4, needs_s=10)
@pytest.mark.parametrize("batch", XLA_BATCHES)
def test_xla(compare: Hold, tensorflow: Any, gpu_or_cpu: str, batch: int) -> None:
    """Compare XLA, which fuses small operations into few programs, with the plain graph, for one sample and for many."""
    served = Served(tensorflow, small_operations, gpu_or_cpu, numbers(batch))
    compiled = tensorflow.function(served.answer, jit_compile=True)
    compare(
        served.variant("jit_compile=True", lambda: compiled(served.inputs), compiled=True),
        served.variant("tf.function", lambda: served.graph(served.inputs)),
        at_least=1.1,
    )


@pytest.mark.priority(6, needs_s=12)
@pytest.mark.parametrize("jit_compile", [False, True], ids=["function", "xla"])
def test_batch_size(
    share_s: float, tensorflow: Any, gpus: tuple[str, ...], gpu_or_cpu: str, metric: Keep, jit_compile: bool
) -> None:
    """Measure latency and throughput by batch size, and the knee: the smallest batch with nearly the best throughput."""
    watch = Stopwatch(tensorflow.test.experimental.sync_devices if gpus else lambda: None)
    way = "XLA" if jit_compile else "tf.function"
    throughput = {}
    for batch in SIZES:
        served = Served(tensorflow, small_operations, gpu_or_cpu, numbers(batch))
        function = tensorflow.function(served.answer, jit_compile=jit_compile)

        def call(function: Any = function, served: Served = served) -> Any:
            with tensorflow.device(gpu_or_cpu):
                return function(served.inputs)

        served.verify(prove(call, gpu_or_cpu, ("MatMul",), compiled=jit_compile))
        took_s = watch.per_call(call)
        throughput[batch] = batch / took_s
        about = "inference of a network of many small operations"
        metric(f"latency with {way}, batch {batch}", 1e3 * took_s, "ms", device=gpu_or_cpu, about=about)
        metric(f"inference with {way}, batch {batch}", throughput[batch], "samples/s", device=gpu_or_cpu, about=about)
    best = max(throughput.values())
    knee = min(batch for batch, speed in throughput.items() if speed >= KNEE * best)
    about = f"reaches {KNEE:.0%} of {best:.0f} samples/s"
    metric(f"knee of the inference with {way}, batch size", knee, "samples", device=gpu_or_cpu, about=about)


def wide(tf: Any) -> Any:
    """Build a CNN that is enough work for a GPU."""
    layers = tf.keras.layers
    options = {"padding": "same", "activation": "relu"}
    return tf.keras.Sequential(
        [
            layers.Input(pictures(1)[0].shape[1:]),
            layers.Conv2D(WIDTH, 3, **options),
            layers.MaxPooling2D(),
            layers.Conv2D(2 * WIDTH, 3, **options),
            layers.Conv2D(2 * WIDTH, 3, **options),
            layers.GlobalAveragePooling2D(),
            layers.Dense(CLASSES, dtype="float32"),
        ]
    )


@pytest.mark.priority(2, needs_s=6)
def test_gpu(compare: Hold, tensorflow: Any, gpu: str) -> None:
    """Compare inference of a large batch on the GPU with the CPU; the pictures and the answers are in the host's memory."""

    def side(device: str) -> Variant:
        served = Served(tensorflow, wide, device, pictures(LARGE_BATCH)[0])
        return served.variant(device, lambda: served.from_host(served.graph), CARRIERS["cnn"])

    compare(side(gpu), side("CPU:0"))


@pytest.mark.priority(5, needs_s=10)
def test_crossover(share_s: float, tensorflow: Any, gpu: str, metric: Keep) -> None:
    """Find the batch size from which on inference of a small CNN is faster on the GPU. The CPU may win at any size."""
    wins = {}
    for batch in CROSSOVER_BATCHES:
        wins[batch], about = gpu_over_cpu(tensorflow, gpu, convolutional, pictures(batch)[0], CARRIERS["cnn"])
        about = f"a small CNN, its pictures and answers in the host's memory; {about}"
        metric(f"inference by batch {batch}", wins[batch], "times as fast as the CPU", device=gpu, about=about)
    lost = [batch for batch, times in wins.items() if times <= 1]
    if won := [batch for batch in wins if batch > max(lost, default=0)]:
        about = "the GPU is faster from this batch on"
        metric("crossover of inference by batch", won[0], "samples", device=gpu, about=about)


def tiny(tf: Any) -> Any:
    """Build a network that a CPU computes faster than a GPU can start it."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [layers.Input((TINY_UNITS,)), layers.Dense(TINY_UNITS, activation="relu"), layers.Dense(CLASSES)]
    )


@pytest.mark.priority(5, needs_s=4)
def test_small_model(share_s: float, tensorflow: Any, gpu: str, metric: Keep) -> None:
    """Measure a model that is too small for a GPU: that the CPU wins is expected, and no fault."""
    wins, about = gpu_over_cpu(tensorflow, gpu, tiny, numbers(1, TINY_UNITS), ("MatMul",))
    about = f"one sample; below 1 is expected; {about}"
    metric("inference of a small model", wins, "times as fast as the CPU", device=gpu, about=about)


def gpu_over_cpu(tf: Any, gpu: str, build: Build, inputs: Array, carriers: tuple[str, ...]) -> tuple[float, str]:
    """Return how many times as fast as the CPU the GPU is, and what that means."""
    calls = []
    for device in (gpu, "CPU:0"):
        served = Served(tf, build, device, inputs)
        variant = served.variant(device, partial(served.from_host, served.graph), carriers)
        variant.verify(prove(variant.call, device, carriers))
        calls.append(variant.call)
    plan = plan_of(RATIO_S, gpu)
    ratio = measure(*calls, plan=plan, synchronise=tf.test.experimental.sync_devices).ratio
    interval = f"95 % interval {ratio.low:.2f} to {ratio.high:.2f}"
    if ratio.value > 1:
        return ratio.value, interval
    return ratio.value, f"the CPU wins: copies and launches cost more than the computation; {interval}"


@pytest.mark.priority(3, needs_s=6)
def test_float16(compare: Hold, tensorflow: Any, gpu: str, metric: Keep) -> None:
    """Compare inference in float16 with float32 (TF32 where the GPU has it); the answers must agree."""
    if why := why_no_tensor_cores(tensorflow, gpu, "float16"):
        pytest.skip(why)
    given = pictures(enough(tensorflow, gpu))[0]
    half, full = (Served(tensorflow, wide, gpu, given, each) for each in ("float16", "float32"))
    assert {tensorflow.as_dtype(each.dtype) for each in half.model.layers[0].weights} == {tensorflow.float16}
    seen = half.graph(half.inputs).numpy()
    about = f"{VERIFIED} of {len(given)} pictures, against float32 on the CPU"
    metric("error of float16 inference", 100 * full.error(seen), "% of the largest logit", device=gpu, about=about)
    sides = (each.variant(each.precision, partial(each.graph, each.inputs), CARRIERS["cnn"]) for each in (half, full))
    compare(*sides)


def enough(tf: Any, gpu: str) -> int:
    """Return how many pictures keep tensor cores busy in the wide network."""
    each = Each(WIDE_OPERATIONS, WIDE_BYTES / 2, 2 * WIDE_BYTES)
    return samples(speed_of(tf, gpu, "float16"), each, least=HALF_BATCH, most=1 << 14)


@pytest.mark.priority(6, needs_s=60)
def test_tensorrt(compare: Hold, tensorflow: Any, gpu: str, tmp_path: pathlib.Path) -> None:
    """Compare a SavedModel that TensorRT has compiled in float16 with the same network in float16 in a tf.function."""
    tf = tensorflow
    if why := why_no_tensor_cores(tf, gpu, "float16") or why_no_tensorrt(tf):
        pytest.skip(why)
    given = pictures(enough(tf, gpu))[0]
    half, full = (Served(tf, wide, gpu, given, each) for each in ("float16", "float32"))
    compiled = compiled_by_tensorrt(tf, full.model, full.inputs, gpu, tmp_path)
    compare(
        half.variant("TensorRT", lambda: compiled(full.inputs), ("TRTEngineOp",)),
        half.variant("tf.function", lambda: half.graph(half.inputs), CARRIERS["cnn"]),
    )
