"""Elements of a model: convolutions, batch sizes and their memory, the order of the axes, normalization."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.bench import Measured, measure
from tfgpu_doctor.perf_tests.figures import plan_of
from tfgpu_doctor.perf_tests.fixtures import sharing
from tfgpu_doctor.perf_tests.largest_batch import MIB, free_mib, largest_batch, most_for_search, trained_again
from tfgpu_doctor.perf_tests.networks import CARRIERS, DEEP, DEEP_NUMBERS, DEPTH, Training, why_no_tensor_cores
from tfgpu_doctor.perf_tests.notes import alive
from tfgpu_doctor.perf_tests.placement import prove
from tfgpu_doctor.perf_tests.runner import Variant
from tfgpu_doctor.perf_tests.sizes import SHARE, Each, samples, speed_of
from tfgpu_doctor.perf_tests.tf32 import sides, tf32, turned, turned_kernel
from tfgpu_doctor.perf_tests.timing import Stopwatch

Keep = Callable[..., None]
SHAPES = {"CPU": (2, 28, 96), "GPU": (4, 28, 512)}  # batch, on a GPU at least, then side, channels
BATCHES = {"CPU": (1, 2, 4, 8, 16, 32, 64), "GPU": (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)}
SAMPLE_BYTES = 400 << 10  # of the training of the small CNN: for the batches that are tried, not for the largest one
KNEE = 0.8  # of the best throughput
NORMALISED = {"CPU": (64, 16, 16, 32), "GPU": (16, 56, 56, 256)}  # on a GPU, as many samples at least
VERIFIED = 4  # samples of a batch that are compared
FLOAT = 4  # bytes of a float32
ROUNDED = {"float32": 1e-2, "tf32": 5e-2, "float16": 5e-2}  # errors allowed, relative to the mean magnitude
# Of the search; a kernel counts the numbers of a tensor with 32 bits, so the batch has an end.
FIRST_BATCH, MOST_BATCH = 64, (1 << 31) // DEEP_NUMBERS - 1


def pictures_for(tf: Any, device: str, precision: str = "float32", *, places: int) -> tuple[int, int, int]:
    """Return batch, side and channels of pictures, on a GPU enough of them.

    `places`: of all full kernels of the faster side; 1 for a separable convolution, which multiplies most at one place.
    """
    least, side, channels = SHAPES[device[:3]]
    if device.startswith("CPU"):
        return least, side, channels
    maps = side * (side + 2) * channels * FLOAT
    each = Each(2 * places * side * (side + 2) * channels**2, 3 * maps, 8 * maps)
    return samples(speed_of(tf, device, precision), each, least=least), side, channels


def many(tf: Any, part: Any, batch: int) -> Any:
    """Return a batch of so many samples, which repeats those of a part."""
    return tf.gather(part, tf.range(batch) % len(part))


def spread(batch: int) -> int:
    """Return the distance of the samples that are compared: odd, so that they are different ones of those that repeat."""
    return max(1, batch // VERIFIED - 1) | 1


def some(result: Any, *, tall: bool = False) -> Any:
    """Return some samples of a result, from its whole length, as float32. `tall`: they are transposed (tf32.py)."""
    found = result[:: spread(len(result))].numpy().astype(np.float32)
    return found.transpose(0, 2, 1, 3) if tall else found


class Separable:
    """A 3x3 convolution that equals a depthwise and a pointwise convolution, computed as full or separable convolution."""

    def __init__(self, tf: Any, device: str, precision: str = "float32") -> None:
        batch, side, channels = pictures_for(tf, device, precision, places=1)
        numbers = np.random.default_rng(seed=41)
        pictures, each, across = (
            numbers.standard_normal(shape, dtype=np.float32)
            for shape in (
                (min(batch, VERIFIED), *sides(side, on=True), channels), (3, 3, channels, 1), (1, 1, channels, channels)
            )
        )  # fmt: skip
        with tf.device(device):
            wide = [tf.identity(tf.constant(part)) for part in (pictures, each, across, each * across[0])]
            wide[0] = many(tf, wide[0], batch)
            # In full float32 they are transposed (tf32.py).
            tall = [turned(tf, wide[0]), turned_kernel(tf, wide[1]), wide[2], turned_kernel(tf, wide[3])]
            half = [tf.cast(part, "float16") for part in wide] if precision == "float16" else []
        given = {"float32": tall, "tf32": wide, "float16": half}[precision]
        self._tf, self.device, self.precision, self._tall = tf, device, precision, precision == "float32"
        self._separable = tf.function(lambda: tf.nn.separable_conv2d(given[0], given[1], given[2], [1] * 4, "SAME"))
        self._full = tf.function(lambda: tf.nn.conv2d(given[0], given[3], 1, "SAME"))
        few = tall[0][:: spread(batch)]
        self._exact = tf.function(lambda: tf.nn.conv2d(few, tall[3], 1, "SAME"))
        self.saved = 9 * channels / (9 + channels)  # ratio of the numbers of operations

    def _call(self, function: Callable[[], Any]) -> Any:
        """Call it; with "float32" in full float32, because tensor cores would accelerate only one of the two."""
        return called(self._tf, self.device, function, on=self.precision == "tf32")

    def variants(self) -> list[Variant]:
        due = called(self._tf, self.device, self._exact, on=False).numpy().transpose(0, 2, 1, 3)

        def verify(result: Any) -> None:
            atol = ROUNDED[self.precision] * np.abs(due).mean()
            assert np.allclose(some(result, tall=self._tall), due, rtol=1e-3, atol=atol)

        def variant(name: str, way: Callable[[], Any]) -> Variant:
            return Variant(name, lambda: self._call(way), verify, self.device, ("Conv2D", "Conv2d"))

        return [variant("separable", self._separable), variant("full", self._full)]


def called(tf: Any, device: str, function: Callable[[], Any], *, on: bool) -> Any:
    """Call a function on a device, with TF32 or in full float32."""
    with tf32(tf, on=on), tf.device(device):
        return function()


@pytest.mark.priority(3)
def test_separable(compare: Callable[..., None], tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Compare a depthwise-separable convolution with the full convolution that has the same result."""
    convolution = Separable(tensorflow, gpu_or_cpu)
    metric("operations saved by separating", convolution.saved, "times fewer", device=gpu_or_cpu)
    compare(*convolution.variants())


@pytest.mark.priority(6)
@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_separable_on_tensor_cores(share_s: float, tensorflow: Any, gpu: str, metric: Keep, precision: str) -> None:
    """Measure the same where tensor cores accelerate the full convolution: there, separating it often does not pay."""
    if why := why_no_tensor_cores(tensorflow, gpu, precision):
        pytest.skip(why)
    convolution = Separable(tensorflow, gpu, precision)
    separable, full = convolution.variants()
    about = f"compared with the full convolution, which has {convolution.saved:.1f} times the operations"
    weigh(tensorflow, metric, f"separable convolution in {precision}", separable, full, about, share_s)


@pytest.mark.priority(4)
def test_stride(compare: Callable[..., None], tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Compare a convolution of stride 2 with one of stride 1 and pooling: maps of the same size, but other values."""
    tf = tensorflow
    batch, side, channels = pictures_for(tf, gpu_or_cpu, places=2)
    high, wide = sides(side, on=tf.config.experimental.tensor_float_32_execution_enabled())
    pictures, kernel = normal(tf, gpu_or_cpu, (batch, high, wide, channels), (3, 3, channels, channels))
    full = tf.function(lambda: tf.nn.conv2d(pictures, kernel, 1, "SAME"))
    strided = tf.function(lambda: tf.nn.conv2d(pictures, kernel, 2, "SAME"))
    pooled = tf.function(lambda: tf.nn.max_pool2d(tf.nn.conv2d(pictures, kernel, 1, "SAME"), 2, 2, "SAME"))
    with tf.device(gpu_or_cpu):
        maps = some(full())
    blocks = maps.reshape(len(maps), high // 2, 2, wide // 2, 2, channels)
    # At an even side, a stride of 2 begins one place later than a stride of 1, because it pads only at the end.
    ways = {"stride 2": (strided, maps[:, 1::2, 1::2]), "stride 1, pooling": (pooled, blocks.max(axis=(2, 4)))}

    def variant(name: str) -> Variant:
        call, due = ways[name]

        def placed() -> Any:
            with tf.device(gpu_or_cpu):
                return call()

        def verify(result: Any) -> None:
            assert np.allclose(some(result), due, rtol=1e-3, atol=ROUNDED["float32"] * np.abs(maps).mean())

        return Variant(name, placed, verify, gpu_or_cpu, ("Conv2D",))

    metric("operations saved by the stride", high * wide / (high // 2 * (wide // 2)), "times fewer", device=gpu_or_cpu)
    compare(*map(variant, ways))


@pytest.mark.priority(6)
def test_kernel_size(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Measure three 3x3 convolutions against the 7x7 convolution with the same receptive field, and here the same result."""
    tf = tensorflow
    batch, side, channels = pictures_for(tf, gpu_or_cpu, places=27)
    shape = (3, 3, channels, channels)
    high, wide = sides(side, on=False)
    pictures, *small = normal(tf, gpu_or_cpu, (batch, high + 6, wide + 6, channels), shape, shape, shape)

    def three() -> Any:
        maps = pictures
        for kernel in small:
            maps = tf.nn.conv2d(maps, kernel, 1, "VALID")
        return maps

    large = called(tf, gpu_or_cpu, lambda: one_kernel(tf, one_kernel(tf, small[0], small[1]), small[2]), on=False)
    ways = {"three 3x3": tf.function(three), "7x7": tf.function(lambda: tf.nn.conv2d(pictures, large, 1, "VALID"))}
    due = some(called(tf, gpu_or_cpu, ways["7x7"], on=False))

    def variant(name: str) -> Variant:
        def verify(result: Any) -> None:
            assert np.allclose(some(result), due, rtol=1e-3, atol=ROUNDED["float32"] * np.abs(due).mean())

        call = functools.partial(called, tf, gpu_or_cpu, ways[name], on=False)
        return Variant(name, call, verify, gpu_or_cpu, ("Conv2D",))

    saved = 49 * high * wide / (9 * sum((high + more) * (wide + more) for more in (4, 2, 0)))
    metric(
        "operations saved by small kernels", saved, "times fewer", device=gpu_or_cpu, about="three 3x3 instead of a 7x7"
    )
    about = f"in full float32, compared with a 7x7 convolution, which has {saved:.1f} times the operations"
    weigh(tf, metric, "three 3x3 convolutions", variant("three 3x3"), variant("7x7"), about, share_s)


def normal(tf: Any, device: str, shape: tuple[int, ...], *kernels: tuple[int, ...]) -> list[Any]:
    """Return random pictures, of which the first ones repeat, and kernels that keep their variance."""
    numbers = np.random.default_rng(seed=43)
    batch, *rest = shape
    made = [numbers.standard_normal(each, dtype=np.float32) for each in ((min(batch, VERIFIED), *rest), *kernels)]
    made[1:] = [kernel / np.float32(np.prod(kernel.shape[:3]) ** 0.5) for kernel in made[1:]]
    with tf.device(device):
        few, *small = (tf.identity(tf.constant(each)) for each in made)
        return [many(tf, few, batch), *small]


def one_kernel(tf: Any, first: Any, second: Any) -> Any:
    """Return the kernel whose convolution equals that of the first kernel, and then that of the second."""
    edge = second.shape[0] - 1
    turned = tf.transpose(first, (2, 0, 1, 3))  # a picture for each channel of the input
    padded = tf.pad(turned, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    return tf.transpose(tf.nn.conv2d(padded, tf.reverse(second, (0, 1)), 1, "VALID"), (1, 2, 0, 3))


def weigh(tf: Any, metric: Keep, name: str, candidate: Variant, baseline: Variant, about: str, seconds: float) -> None:
    """Verify both sides, and record a ratio that does not have to be above 1."""
    for side in (candidate, baseline):
        side.verify(prove(side.call, side.device, side.carriers))
    wait = tf.test.experimental.sync_devices if "GPU" in candidate.device else lambda: None
    plan = plan_of(seconds, candidate.device)
    keep(metric, name, measure(candidate.call, baseline.call, plan=plan, synchronise=wait), candidate.device, about)


@pytest.mark.priority(5, needs_s=10)
def test_batch_size(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Measure samples per second by batch size, and the knee: the smallest batch with nearly the best throughput.

    On a GPU with little memory it ends with the largest batch that fits.
    """
    throughput: dict[int, float] = {}
    for batch in batches_for(tensorflow, gpu_or_cpu):
        try:
            throughput[batch] = batch / seconds_of(Training(tensorflow, "cnn", gpu_or_cpu, batch))
        except tensorflow.errors.ResourceExhaustedError:
            assert throughput, f"not even a batch of {batch} fits into the memory"
            break
        metric(
            f"batch of {batch}",
            throughput[batch],
            "samples/s",
            device=gpu_or_cpu,
            about="training steps of a small CNN",
        )
    best = max(throughput.values())
    knee = min(batch for batch, speed in throughput.items() if speed >= KNEE * best)
    metric(
        "knee of the batch size",
        knee,
        "samples",
        device=gpu_or_cpu,
        about=f"reaches {KNEE:.0%} of {best:.0f} samples/s",
    )


def batches_for(tf: Any, device: str) -> tuple[int, ...]:
    """Return the batches to try: on a GPU, those that need a small share of its memory."""
    if device.startswith("CPU"):
        return BATCHES["CPU"]
    fits = SHARE * speed_of(tf, device).memory_bytes / SAMPLE_BYTES
    return tuple(batch for batch in BATCHES["GPU"] if batch <= fits)


def seconds_of(training: Training) -> float:
    """Return the median seconds of a step. Its loss is a number on the host, so the device has finished."""
    assert np.isfinite(float(prove(training, training.device, CARRIERS["cnn"])))
    return Stopwatch(lambda: None).per_call(lambda: float(training()))


@pytest.mark.priority(6, needs_s=40)
def test_largest_batch(share_s: float, tensorflow: Any, gpu: str, metric: Keep) -> None:
    """Find the largest batch of a deep CNN for the memory that is free, and its samples per second.

    It tries only batches that should fit into its share: nearly all of the free memory, or less where others use the GPU.
    """
    tf, free = tensorflow, free_mib()
    most_mib = most_for_search(free, alone=sharing() == "free")
    training = Training(tf, DEEP, gpu, FIRST_BATCH)
    assert np.isfinite(float(prove(training, gpu, CARRIERS[DEEP])))
    memory = tf.config.experimental
    before = memory.get_memory_info(gpu)["current"]

    def needed(batch: int) -> float:
        alive()
        training.resize(batch)
        memory.reset_memory_stats(gpu)
        assert np.isfinite(float(training()))
        return float(memory.get_memory_info(gpu)["peak"] - before) / MIB

    batch, mib, ran_out = largest_batch(
        needed, most_mib, tf.errors.ResourceExhaustedError, first=FIRST_BATCH, most=MOST_BATCH
    )
    batch = trained_again(training, batch, tf.errors.ResourceExhaustedError)
    took_s = Stopwatch(tf.test.experimental.sync_devices).per_call(training)
    training.resize(FIRST_BATCH)  # releases the memory
    end = "memory ran out" if ran_out else "none larger was tried" if batch == MOST_BATCH else "no larger one fits"
    limit = f"{most_mib:.0f} MiB" + (f", {most_mib / free:.0%} of the free memory" if free else "")
    about = f"training of a CNN with {DEPTH} layers, {mib:.0f} of {limit}: {end}"
    metric("largest batch", batch, "samples", device=gpu, about=about)
    metric("memory of a sample", 1024 * mib / batch, "KiB", device=gpu, about="training, with the largest batch")
    metric("training with the largest batch", batch / took_s, "samples/s", device=gpu, about=f"a batch of {batch}")


@pytest.mark.priority(5)
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_axes(share_s: float, tensorflow: Any, gpu: str, metric: Keep, precision: str) -> None:
    """Compare channels last with channels first."""
    tf = tensorflow
    batch, side, channels = pictures_for(tf, gpu, precision, places=9)
    shape = (batch, *sides(side, on=tf.config.experimental.tensor_float_32_execution_enabled()), channels)
    with tf.device(gpu):
        pictures = tf.cast(tf.random.stateless_normal(shape, seed=(1, 2)), precision)
        kernel = tf.cast(tf.random.stateless_normal((3, 3, channels, channels), seed=(3, 4)) / 50, precision)
        turned = tf.transpose(pictures, (0, 3, 1, 2))
        last = tf.function(lambda: tf.nn.conv2d(pictures, kernel, 1, "SAME"), jit_compile=False)
        first = tf.function(lambda: tf.nn.conv2d(turned, kernel, 1, "SAME", data_format="NCHW"), jit_compile=False)
        ours, theirs = (prove(each, gpu, ("Conv2D",)) for each in (last, first))
        seen, due = some(ours), some(theirs).transpose(0, 2, 3, 1)
        assert np.allclose(seen, due, atol=2e-2 * np.abs(due).max())
        measured = measure(last, first, plan=plan_of(share_s, gpu), synchronise=tf.test.experimental.sync_devices)
    keep(metric, f"channels last, {precision}", measured, gpu, "compared with channels first, a 3x3 convolution")


def normalised(tf: Any, device: str) -> tuple[int, ...]:
    """Return the shape of what is normalized: on a GPU, enough to read and write."""
    least, *rest = NORMALISED[device[:3]]
    if device.startswith("CPU"):
        return (least, *rest)
    held = FLOAT * int(np.prod(rest))
    return (samples(speed_of(tf, device), Each(moved=3 * held, held=6 * held), least=least), *rest)


@pytest.mark.priority(6)
def test_normalisation(share_s: float, tensorflow: Any, gpus: tuple[str, ...], gpu_or_cpu: str, metric: Keep) -> None:
    """Check layer and batch normalization, and compare their speed."""
    tf = tensorflow
    with tf.device(gpu_or_cpu):
        given = tf.random.stateless_normal(normalised(tf, gpu_or_cpu), seed=(5, 6)) * 3 + 2
        layers = {"layer": tf.keras.layers.LayerNormalization(), "batch": tf.keras.layers.BatchNormalization()}
        calls = {name: tf.function(lambda layer=layer: layer(given, training=True)) for name, layer in layers.items()}
        for name, axes in (("layer", (3,)), ("batch", (0, 1, 2))):
            mean, variance = (each.numpy() for each in tf.nn.moments(prove(calls[name], gpu_or_cpu), axes))
            assert np.allclose(mean, 0, atol=1e-3), f"the mean after {name} normalization is not 0"
            assert np.allclose(variance, 1, atol=2e-2), f"the variance after {name} normalization is not 1"
        wait = tf.test.experimental.sync_devices if gpus else lambda: None
        measured = measure(calls["batch"], calls["layer"], plan=plan_of(share_s, gpu_or_cpu), synchronise=wait)
    keep(metric, "batch normalisation", measured, gpu_or_cpu, "compared with layer normalization")


def keep(metric: Keep, name: str, measured: Measured, device: str, what: str) -> None:
    """Record a ratio that does not have to be above 1."""
    ratio = measured.ratio
    about = f"{what}; 95 % interval {ratio.low:.2f} to {ratio.high:.2f}"
    metric(name, ratio.value, "times as fast", device=device, about=about)
