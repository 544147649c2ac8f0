"""Compare TF32, float16 and bfloat16 with float32: speed, memory, and training results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.model.facts.bench import Comparison
from tfgpu_doctor.perf_tests.ceilings import compute_ceiling, peak_name, why_no_gain
from tfgpu_doctor.perf_tests.loss_scale import loss_scaled
from tfgpu_doctor.perf_tests.networks import TENSOR_CORES, Training, why_no_tensor_cores
from tfgpu_doctor.perf_tests.placement import short_device
from tfgpu_doctor.perf_tests.runner import Variant
from tfgpu_doctor.perf_tests.sizes import Each, samples, speed_of
from tfgpu_doctor.perf_tests.tf32 import sides, tf32, turned, turned_kernel

Keep = Callable[..., None]
STEPS, AGREE = 20, 0.1
_PRECISIONS = pytest.mark.parametrize("precision", list(TENSOR_CORES))
SHAPES = {
    "dense": (1024, 4096),
    "convolution": (4, 28, 28, 512),
    "attention": (1, 1024, 512),
}  # as many samples at least
HEADS = 8
FLOAT = 4  # bytes of a float32
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


def needs(kind: str) -> Each:
    """Return what a sample of a step needs; the bytes are those of float32."""
    shape, width = SHAPES[kind], SHAPES[kind][-1]
    places = math.prod(shape[1:-1])
    per_weight = 4 * places * width**2  # forward, and the gradient of the weights
    if kind == "dense":
        return Each(per_weight, 4 * width * FLOAT, 6 * width * FLOAT)
    if kind == "convolution":
        places = math.prod(sides(shape[1], on=True))
        return Each(36 * places * width**2, 4 * places * width * FLOAT, 8 * places * width * FLOAT)
    scores = HEADS * shape[1] ** 2
    mixing = 4 * shape[1] ** 2 * width  # scores and weighted values
    # 4 projections; the gradient of the input, only of the last
    return Each(4 * per_weight + per_weight // 2 + 3 * mixing, 8 * scores * FLOAT, 6 * scores * FLOAT)


def shape_of(tf: Any, device: str, kind: str) -> tuple[int, ...]:
    """Return the shape of the input of a step, with enough samples for the fastest precision of the GPU."""
    least, *rest = SHAPES[kind]
    if kind == "convolution":
        rest[:2] = sides(rest[0], on=True)
    return (samples(speed_of(tf, device, "float16"), needs(kind), least=least), *rest)


class Step:
    """The forward and backward pass of one large layer, in one precision.

    Full float32 convolves the pictures of the others transposed (tf32.py): the same work and the same loss.
    """

    def __init__(self, tf: Any, device: str, kind: str, precision: str, shape: tuple[int, ...]) -> None:
        policy = "float32" if precision in ("float32", "tf32") else f"mixed_{precision}"
        layers = tf.keras.layers
        tf.keras.utils.set_random_seed(3)
        width = shape[-1]
        build: dict[str, Callable[[], Any]] = {
            "dense": lambda: layers.Dense(width, dtype=policy),
            "convolution": lambda: layers.Conv2D(width, 3, padding="same", dtype=policy),
            "attention": lambda: layers.MultiHeadAttention(HEADS, width // HEADS, dtype=policy),
        }
        with tf.device(device):
            self.layer = build[kind]()
            given = tf.random.stateless_normal(shape, seed=(1, 2))
            turns = kind == "convolution" and precision == "float32"
            self._given = turned(tf, given) if turns else given
        self._shape, self._kind, self._tf32 = shape, kind, precision == "tf32"
        self._tf, self.device, self.name = tf, device, precision
        with tf.device(device):
            few = self._given[:1]
            with tf32(tf, on=self._tf32):
                _ = self.layer(few, few) if kind == "attention" else self.layer(few)
            if turns:
                self.layer.kernel.assign(turned_kernel(tf, self.layer.kernel))
        self._step = tf.function(self._one_step)

    def _one_step(self) -> Any:
        tf, given = self._tf, self._given
        with tf.GradientTape() as tape:
            answer = self.layer(given, given) if self._kind == "attention" else self.layer(given)
            loss = LOSS_SCALE * tf.reduce_mean(tf.cast(answer, tf.float32) ** 2)
        slopes = tape.gradient(loss, self.layer.trainable_variables)
        return loss, tf.linalg.global_norm([tf.cast(slope, tf.float32) for slope in slopes])

    def __call__(self) -> Any:
        with tf32(self._tf, on=self._tf32), self._tf.device(self.device):
            return self._step()

    @property
    def operations(self) -> float:
        """The floating-point operations of both passes; the gradient of the input is not computed."""
        return self._shape[0] * needs(self._kind).operations

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
    if why := why_no_gain(tensorflow, gpu, precision):
        pytest.skip(why)
    memory = tensorflow.config.experimental
    shape = shape_of(tensorflow, gpu, kind)
    steps = [Step(tensorflow, gpu, kind, each, shape) for each in (precision, "float32")]
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
            about=f"peak, including the data of both sides; an input of {'x'.join(map(str, shape))}",
        )

    def keep(result: Comparison) -> None:
        for step, side in zip(steps, (result.candidate, result.baseline), strict=True):
            assert side
            speed = step.operations / side.median_s / 1e12
            metric(f"{kind} step in {step.name}", speed, "TFLOP/s", device=gpu, **_limits(step))

    def _limits(step: Step) -> dict[str, Any]:
        if kind == "convolution":  # by Winograd's algorithm an H200 "reaches" 113 of 67 TFLOP/s
            return {"about": "operations of the direct algorithm: cuDNN may need fewer, so the data sheet is no limit"}
        return {**compute_ceiling(tensorflow, gpu, step.name), "bounded_by": peak_name(step.name)}

    compare(*(step.variant(due) for step in steps), on_measured=keep)


@pytest.mark.priority(5, needs_s=8)
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_loss(
    share_s: float, tensorflow: Any, gpus: tuple[str, ...], gpu_or_cpu: str, metric: Keep, policy: str
) -> None:
    """Check that mixed-precision training has nearly the loss of float32; weights and last layer stay float32."""
    batch = 32 if gpus else 8  # float16 is slow on a CPU
    runs = {each: Training(tensorflow, "cnn", gpu_or_cpu, batch, policy=each) for each in ("float32", policy)}
    losses = {name: training.losses(STEPS) for name, training in runs.items()}
    model = runs[policy].model
    assert {tensorflow.as_dtype(each.dtype) for each in model.trainable_variables} == {tensorflow.float32}
    assert model.layers[0].compute_dtype == policy.removeprefix("mixed_")
    assert model.layers[-1].compute_dtype == "float32", "the last layer computes in half precision"
    apart = abs(np.mean(losses[policy]) / np.mean(losses["float32"]) - 1)
    metric(f"loss in {policy}", 100 * apart, "% from float32", device=gpu_or_cpu, about=f"mean over {STEPS} steps")
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
def test_softmax(tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Check the loss and its gradient behind a softmax in float32, and what is lost behind one in float16.

    A probability below 3e-8 is 0 in float16. The gradient of the loss is the inverse of the probability times the scale of
    the loss: above 65504 it is infinite. (A loss that gets the logits in float32 needs no probability.)
    """
    gaps = np.array(DISTANCES)
    exact = np.log1p(np.exp(gaps)), 1 / (1 + np.exp(-gaps))
    right = {}
    for precision in ("float32", "float16"):
        losses, slopes = behind_softmax(tensorflow, gpu_or_cpu, precision)
        right[precision] = [np.isclose(seen, due, rtol=0.01) for seen, due in zip((losses, slopes), exact, strict=True)]
        about = f"with the right class behind by {DISTANCES[0]:g} to {DISTANCES[-1]:g}"
        for name, each in zip(("losses", "gradients"), right[precision], strict=True):
            metric(
                f"{name} kept by a softmax in {precision}", sum(each), f"of {len(each)}", device=gpu_or_cpu, about=about
            )
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
