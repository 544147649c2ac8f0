"""Compare TF32, float16 and bfloat16 with float32: speed, memory, and training results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.model.facts.bench import Comparison
from tfgpu_doctor.perf_tests.ceilings import compute_ceiling, peak_name
from tfgpu_doctor.perf_tests.loss_scale import loss_scaled
from tfgpu_doctor.perf_tests.networks import TENSOR_CORES, Training, why_no_tensor_cores
from tfgpu_doctor.perf_tests.placement import short_device
from tfgpu_doctor.perf_tests.runner import Variant

Keep = Callable[..., None]
STEPS, AGREE = 20, 0.1
_PRECISIONS = pytest.mark.parametrize("precision", list(TENSOR_CORES))
SHAPES = {"dense": (4096, 4096), "convolution": (32, 28, 28, 512), "attention": (16, 1024, 512)}  # enough for any GPU
HEADS = 8
CARRIERS = {"dense": ("MatMul",), "convolution": ("Conv2D",), "attention": ("MatMul", "Einsum")}
LOSS_SCALE = 2.0**16  # without it the gradients of this many numbers are too small for float16
TINY = 1e-8  # below the smallest number of float16, 6e-8
CLIP = 0.5
DISTANCES = (1.0, 4.0, 8.0, 12.0, 16.0, 20.0, 30.0)  # from the logit of the right class to a larger one
SOFTMAX_SCALE = 1024.0  # of the loss


@pytest.fixture
def tensor_cores(tensorflow: Any, gpu: str) -> Callable[[str], None]:
    """Skip a test on a GPU whose tensor cores do not support a precision."""

    def need(precision: str) -> None:
        if why := why_no_tensor_cores(tensorflow, gpu, precision):
            pytest.skip(why)

    return need


class Step:
    """The forward and backward pass of one large layer, in one precision."""

    def __init__(self, tf: Any, device: str, kind: str, precision: str) -> None:
        policy = "float32" if precision in ("float32", "tf32") else f"mixed_{precision}"
        layers = tf.keras.layers
        tf.keras.utils.set_random_seed(3)
        width = SHAPES[kind][-1]
        build: dict[str, Callable[[], Any]] = {
            "dense": lambda: layers.Dense(width, dtype=policy),
            "convolution": lambda: layers.Conv2D(width, 3, padding="same", dtype=policy),
            "attention": lambda: layers.MultiHeadAttention(HEADS, width // HEADS, dtype=policy),
        }
        with tf.device(device):
            self.layer = build[kind]()
            given = tf.random.stateless_normal(SHAPES[kind], seed=(1, 2))
            _ = self.layer(given, given) if kind == "attention" else self.layer(given)
        self._given, self._kind, self._tf32 = given, kind, precision == "tf32"
        self._tf, self.device, self.name = tf, device, precision
        self._step = tf.function(self._one_step)

    def _one_step(self) -> Any:
        tf, given = self._tf, self._given
        with tf.GradientTape() as tape:
            answer = self.layer(given, given) if self._kind == "attention" else self.layer(given)
            loss = LOSS_SCALE * tf.reduce_mean(tf.cast(answer, tf.float32) ** 2)
        slopes = tape.gradient(loss, self.layer.trainable_variables)
        return loss, tf.linalg.global_norm([tf.cast(slope, tf.float32) for slope in slopes])

    def __call__(self) -> Any:
        switch = self._tf.config.experimental.enable_tensor_float_32_execution
        switch(self._tf32)
        try:
            with self._tf.device(self.device):
                return self._step()
        finally:
            switch(True)

    @property
    def operations(self) -> int:
        """The floating-point operations of both passes; the gradient of the input is not computed."""
        shape, width = SHAPES[self._kind], SHAPES[self._kind][-1]
        per_weight = 4 * math.prod(shape[:-1]) * width**2  # forward, and the gradient of the weights
        if self._kind == "dense":
            return per_weight
        if self._kind == "convolution":
            return 9 * per_weight
        mixing = 4 * shape[0] * shape[1] ** 2 * width  # scores and weighted values
        return 4 * per_weight + per_weight // 2 + 3 * mixing  # 4 projections; input gradient of the last

    def variant(self, due: list[float]) -> Variant:
        def verify(result: Any) -> None:
            seen = [float(each) for each in result]
            assert np.allclose(seen, due, rtol=0.05), f"loss and gradient are {seen}, but {due} in float32"

        return Variant(self.name, self, verify, self.device, CARRIERS[self._kind])


@pytest.mark.priority(2)
@_PRECISIONS
@pytest.mark.parametrize("kind", list(SHAPES))
def test_speed(
    compare: Callable[..., None], tensorflow: Any, gpu: str, tensor_cores: Any, metric: Keep, kind: str, precision: str
) -> None:
    """Compare the forward and backward pass on tensor cores with full float32; measure the memory of both."""
    tensor_cores(precision)
    memory = tensorflow.config.experimental
    steps = [Step(tensorflow, gpu, kind, each) for each in (precision, "float32")]
    due = [float(each) for each in steps[1]()]
    for step in steps:
        memory.reset_memory_stats(gpu)
        step()
        peak = memory.get_memory_info(gpu)["peak"]
        metric(
            f"memory of {kind} in {step.name}",
            peak / 2**20,
            "MiB",
            device=gpu,
            about="peak, including the data of both sides",
        )

    def keep(result: Comparison) -> None:
        for step, side in zip(steps, (result.candidate, result.baseline), strict=True):
            assert side
            speed = step.operations / side.median_s / 1e12
            limits = {**compute_ceiling(tensorflow, gpu, step.name), "bounded_by": peak_name(step.name)}
            metric(f"{kind} step in {step.name}", speed, "TFLOP/s", device=gpu, **limits)

    compare(*(step.variant(due) for step in steps), on_measured=keep)


@pytest.mark.priority(5, needs_s=8)
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_loss(share_s: float, tensorflow: Any, gpus: tuple[str, ...], metric: Keep, policy: str) -> None:
    """Check that mixed-precision training has nearly the loss of float32; weights and last layer stay float32."""
    device = gpus[0] if gpus else "CPU:0"
    batch = 32 if gpus else 8  # float16 is slow on a CPU
    runs = {each: Training(tensorflow, "cnn", device, batch, policy=each) for each in ("float32", policy)}
    losses = {name: training.losses(STEPS) for name, training in runs.items()}
    model = runs[policy].model
    assert {tensorflow.as_dtype(each.dtype) for each in model.trainable_variables} == {tensorflow.float32}
    assert model.layers[0].compute_dtype == policy.removeprefix("mixed_")
    assert model.layers[-1].compute_dtype == "float32", "the last layer computes in half precision"
    apart = abs(np.mean(losses[policy]) / np.mean(losses["float32"]) - 1)
    metric(f"loss in {policy}", 100 * apart, "% from float32", device=device, about=f"mean over {STEPS} steps")
    assert losses[policy][-1] < losses[policy][0], "the loss does not decrease"
    assert apart < AGREE, f"the loss differs by {apart:.0%} from the loss in float32"


def half_gradient(tf: Any, scale: float) -> float:
    """Return the unscaled gradient of TINY times a float16 number, computed in float16 from a scaled loss."""
    weight = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        answer = tf.cast(tf.cast(weight, tf.float16) * tf.constant(1.0, tf.float16), tf.float32)
        loss = answer * TINY * scale
    return float(tape.gradient(loss, weight)) / scale


@pytest.mark.priority(6)
def test_loss_scaling(tensorflow: Any, metric: Keep) -> None:
    """Check that a gradient too small for float16 becomes zero without loss scaling, and is kept with it."""
    optimizer = loss_scaled(tensorflow, tensorflow.keras.optimizers.SGD(1.0))
    optimizer.build([tensorflow.Variable(1.0)])
    scale = float(optimizer.scale_loss(tensorflow.constant(1.0)))
    assert half_gradient(tensorflow, 1.0) == 0.0, "float16 represents a gradient that should be too small for it"
    kept = half_gradient(tensorflow, scale)
    metric("gradient kept by loss scaling", kept / TINY, "of its value", device="CPU:0", about=f"a scale of {scale:g}")
    assert math.isclose(kept, TINY, rel_tol=0.01)


@pytest.mark.priority(6)
def test_gradient_clipping(tensorflow: Any, metric: Keep) -> None:
    """Check that clipping applies to the unscaled gradients, not to those of the scaled loss."""
    tf = tensorflow
    weight = tf.Variable(np.zeros(4, np.float32))
    inner = tf.keras.optimizers.SGD(1.0, global_clipnorm=CLIP)
    optimizer = loss_scaled(tf, inner, initial_scale=1024.0)
    optimizer.build([weight])
    slopes = np.array([0.1, 0.1, 0.0, 0.0], np.float32)
    steps = []
    for slope in (slopes, 100 * slopes):
        before = weight.numpy()
        optimizer.apply([tf.constant(slope) * 1024.0], [weight])
        steps.append(before - weight.numpy())
    assert np.allclose(steps[0], slopes, rtol=1e-3), "a gradient within the limit changed: it was clipped while scaled"
    norm = float(np.linalg.norm(steps[1]))
    metric("norm of a clipped gradient", norm, "", limit=CLIP, about="under a loss scale of 1024")
    assert math.isclose(norm, CLIP, rel_tol=1e-3)


@pytest.mark.priority(6)
def test_softmax(tensorflow: Any, device: str, metric: Keep) -> None:
    """Check the loss and its gradient behind a softmax in float32, and what is lost behind one in float16.

    A probability below 3e-8 is 0 in float16. The gradient of the loss is the inverse of the probability times the scale of
    the loss: above 65504 it is infinite. (A loss that gets the logits in float32 needs no probability.)
    """
    gaps = np.array(DISTANCES)
    exact = np.log1p(np.exp(gaps)), 1 / (1 + np.exp(-gaps))
    right = {}
    for precision in ("float32", "float16"):
        losses, slopes = behind_softmax(tensorflow, device, precision)
        right[precision] = [np.isclose(seen, due, rtol=0.01) for seen, due in zip((losses, slopes), exact, strict=True)]
        about = f"with the right class behind by {DISTANCES[0]:g} to {DISTANCES[-1]:g}"
        for name, each in zip(("losses", "gradients"), right[precision], strict=True):
            metric(f"{name} kept by a softmax in {precision}", sum(each), f"of {len(each)}", device=device, about=about)
    assert np.all(right["float32"]), f"a softmax in float32 loses losses or gradients: {right['float32']}"
    for name, each in zip(("losses", "gradients"), right["float16"], strict=True):
        assert not np.all(each), f"a softmax in float16 keeps all {name}, although they should be out of its range"


def behind_softmax(tf: Any, device: str, precision: str) -> tuple[Any, Any]:
    """Return the losses of samples with two classes, and their gradients for the larger logit, unscaled."""
    with tf.device(device):
        softmax = tf.keras.layers.Activation("softmax", dtype=precision)
        logits = tf.constant([(0.0, gap) for gap in DISTANCES], tf.float16)
        with tf.GradientTape() as tape:
            tape.watch(logits)
            probabilities = softmax(logits)
            losses = -tf.math.log(tf.cast(probabilities[:, 0], tf.float32))
            goal = SOFTMAX_SCALE * losses
        assert probabilities.dtype == tf.as_dtype(precision)
        assert short_device(probabilities.backing_device) == device
        slopes = tf.cast(tape.gradient(goal, logits), tf.float32) / SOFTMAX_SCALE
    return losses.numpy(), slopes.numpy()[:, 1]
