"""Elements of a model: separable convolutions, batch sizes, the order of the axes, normalization."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.bench import Measured, Plan, measure
from tfgpu_doctor.perf_tests.networks import CARRIERS, Training
from tfgpu_doctor.perf_tests.placement import prove
from tfgpu_doctor.perf_tests.runner import Variant

Keep = Callable[..., None]
SHAPES = {"CPU": (2, 28, 96), "GPU": (32, 28, 512)}  # batch, side, channels: enough work for either
BATCHES = {"CPU": (1, 2, 4, 8, 16, 32, 64), "GPU": (1, 4, 16, 64, 256, 1024, 4096)}
KNEE = 0.8  # of the best throughput
NORMALISED = {"CPU": (64, 16, 16, 32), "GPU": (64, 56, 56, 256)}


class Separable:
    """A 3x3 convolution that equals a depthwise and a pointwise convolution, computed as full or separable convolution."""

    def __init__(self, tf: Any, device: str) -> None:
        batch, side, channels = SHAPES[device[:3]]
        numbers = np.random.default_rng(seed=41)
        pictures, each, across = (
            numbers.standard_normal(shape, dtype=np.float32)
            for shape in ((batch, side, side, channels), (3, 3, channels, 1), (1, 1, channels, channels))
        )
        with tf.device(device):
            given = [tf.identity(tf.constant(part)) for part in (pictures, each, across, each * across[0])]
        self._tf, self.device = tf, device
        self._separable = tf.function(lambda: tf.nn.separable_conv2d(given[0], given[1], given[2], [1] * 4, "SAME"))
        self._full = tf.function(lambda: tf.nn.conv2d(given[0], given[3], 1, "SAME"))
        self.saved = 9 * channels / (9 + channels)  # ratio of the numbers of operations

    def _call(self, function: Callable[[], Any]) -> Any:
        """Call it in full float32, because tensor cores would accelerate only one of the two."""
        switch = self._tf.config.experimental.enable_tensor_float_32_execution
        switch(False)
        try:
            with self._tf.device(self.device):
                return function()
        finally:
            switch(True)

    def variants(self) -> list[Variant]:
        due = self._call(self._full).numpy()

        def verify(result: Any) -> None:
            assert np.allclose(result.numpy(), due, rtol=1e-3, atol=1e-2 * np.abs(due).mean())

        ways = {"separable": self._separable, "full": self._full}
        return [
            Variant(name, lambda way=way: self._call(way), verify, self.device, ("Conv2D", "Conv2d"))  # type: ignore[misc]
            for name, way in ways.items()
        ]


@pytest.mark.priority(3)
def test_separable(compare: Callable[..., None], tensorflow: Any, device: str, metric: Keep) -> None:
    """Compare a depthwise-separable convolution with the full convolution that has the same result."""
    convolution = Separable(tensorflow, device)
    metric("operations saved by separating", convolution.saved, "times fewer", device=device)
    compare(*convolution.variants())


@pytest.mark.priority(5, needs_s=10)
def test_batch_size(share_s: float, tensorflow: Any, device: str, metric: Keep) -> None:
    """Measure samples per second by batch size, and the knee: the smallest batch with nearly the best throughput."""
    throughput = {}
    for batch in BATCHES[device[:3]]:
        training = Training(tensorflow, "cnn", device, batch)
        assert np.isfinite(float(prove(training, device, CARRIERS["cnn"])))
        times = []
        for _ in range(7):
            started = time.perf_counter()
            float(training())  # a number on the host: the device has finished
            times.append(time.perf_counter() - started)
        throughput[batch] = batch / statistics.median(times)
        metric(
            f"batch of {batch}", throughput[batch], "samples/s", device=device, about="training steps of a small CNN"
        )
    best = max(throughput.values())
    knee = min(batch for batch, speed in throughput.items() if speed >= KNEE * best)
    metric(
        "knee of the batch size", knee, "samples", device=device, about=f"reaches {KNEE:.0%} of {best:.0f} samples/s"
    )


@pytest.mark.priority(5)
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_axes(share_s: float, tensorflow: Any, gpu: str, metric: Keep, precision: str) -> None:
    """Compare channels last with channels first."""
    tf = tensorflow
    batch, side, channels = SHAPES["GPU"]
    with tf.device(gpu):
        pictures = tf.cast(tf.random.stateless_normal((batch, side, side, channels), seed=(1, 2)), precision)
        kernel = tf.cast(tf.random.stateless_normal((3, 3, channels, channels), seed=(3, 4)) / 50, precision)
        turned = tf.transpose(pictures, (0, 3, 1, 2))
        last = tf.function(lambda: tf.nn.conv2d(pictures, kernel, 1, "SAME"), jit_compile=False)
        first = tf.function(lambda: tf.nn.conv2d(turned, kernel, 1, "SAME", data_format="NCHW"), jit_compile=False)
        ours, theirs = (prove(each, gpu, ("Conv2D",)) for each in (last, first))
        seen, due = (tf.cast(each, tf.float32).numpy() for each in (ours, tf.transpose(theirs, (0, 2, 3, 1))))
        assert np.allclose(seen, due, atol=2e-2 * np.abs(due).max())
        measured = measure(last, first, plan=Plan(budget_s=share_s), synchronise=tf.test.experimental.sync_devices)
    keep(metric, f"channels last, {precision}", measured, gpu, "compared with channels first, a 3x3 convolution")


@pytest.mark.priority(6)
def test_normalisation(share_s: float, tensorflow: Any, gpus: tuple[str, ...], device: str, metric: Keep) -> None:
    """Check layer and batch normalization, and compare their speed."""
    tf = tensorflow
    with tf.device(device):
        given = tf.random.stateless_normal(NORMALISED[device[:3]], seed=(5, 6)) * 3 + 2
        layers = {"layer": tf.keras.layers.LayerNormalization(), "batch": tf.keras.layers.BatchNormalization()}
        calls = {name: tf.function(lambda layer=layer: layer(given, training=True)) for name, layer in layers.items()}
        for name, axes in (("layer", (3,)), ("batch", (0, 1, 2))):
            answer = prove(calls[name], device).numpy()
            assert np.allclose(answer.mean(axis=axes), 0, atol=1e-3), f"the mean after {name} normalization is not 0"
            assert np.allclose(answer.std(axis=axes), 1, atol=1e-2), (
                f"the standard deviation after {name} normalization is not 1"
            )
        wait = tf.test.experimental.sync_devices if gpus else lambda: None
        measured = measure(calls["batch"], calls["layer"], plan=Plan(budget_s=share_s), synchronise=wait)
    keep(metric, "batch normalisation", measured, device, "compared with layer normalization")


def keep(metric: Keep, name: str, measured: Measured, device: str, what: str) -> None:
    """Record a ratio that does not have to be above 1."""
    ratio = measured.ratio
    about = f"{what}; 95 % interval {ratio.low:.2f} to {ratio.high:.2f}"
    metric(name, ratio.value, "times as fast", device=device, about=about)
