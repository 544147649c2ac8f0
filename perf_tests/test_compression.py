"""Compression: pruning, 8-bit weights and distillation, each with the size, the accuracy and the time.

The pictures have so much noise that a smaller network is less accurate.
"""

from __future__ import annotations

import functools
import gzip
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.bench import measure
from tfgpu_doctor.perf_tests.figures import plan_of
from tfgpu_doctor.perf_tests.networks import CARRIERS, CHANNELS, CLASSES, Array, pictures
from tfgpu_doctor.perf_tests.placement import prove
from tfgpu_doctor.perf_tests.runner import Variant
from tfgpu_doctor.perf_tests.timing import Stopwatch

Hold = Callable[..., None]
Keep = Callable[..., None]
Weights = list[Array]
SIDE, NOISE = 12, 3.0  # of the pictures
SAMPLES, TESTED, BATCH = 512, 1024, 64
WIDTHS, STUDENT_WIDTHS = (16, 32, 32), (4, 8, 8)
STEPS, PRUNED_STEPS = 192, 64  # of the first training; after each pruning
RATE = 0.003
SPARSITIES = (0.5, 0.7, 0.8)  # of the kernels, one after the other, with training in between
KEPT_CHANNELS = 0.5
TEMPERATURE = 2.0
STUDENTS = 2  # trained from different initial weights; their accuracies are averaged
LITE_KINDS = ("dynamic range", "int8")
# Of the accuracy. With 12 seeds of pictures and weights, the largest losses were 0.02 with pruned weights, 0.016 with
# pruned channels, 0.001 with 8-bit weights and 0.14 from teacher to students, who gained 0.01 to 0.14 from the teacher.
MARGIN, SMALL_MARGIN, STUDENT_MARGIN = 0.06, 0.02, 0.25
LITE_SMALLER = 2.5  # the structure of the file stays
# Where only speed is compared, the weights may be any: batch and widths.
SPEED = {"CPU": (64, (32, 64, 64)), "GPU": (1024, (128, 256, 256))}
STUDENT_SHARE = 4  # of the teacher's channels, one in so many
VERIFIED = 32  # samples of a batch whose results the CPU computes as well
TOLERANCE = 1e-2  # of the largest result: a GPU may compute in TF32
TIMED, RATIO_S = 256, 1.5  # pictures and seconds of a ratio that is a figure


def network(tf: Any, widths: Sequence[int], side: int = SIDE) -> Any:
    """Build a CNN with so many channels in each convolution."""
    layers = tf.keras.layers
    parts = [layers.Input((side, side, CHANNELS))]
    for place, width in enumerate(widths):
        parts += [layers.MaxPooling2D()] if place else []
        parts.append(layers.Conv2D(width, 3, padding="same", activation="relu"))
    return tf.keras.Sequential([*parts, layers.GlobalAveragePooling2D(), layers.Dense(CLASSES)])


def with_weights(tf: Any, weights: Weights, side: int = SIDE) -> Any:
    """Build the CNN that has these weights."""
    model = network(tf, [kernel.shape[-1] for kernel in weights[:-2:2]], side)
    model.set_weights(weights)
    return model


def noisy(count: int, seed: int) -> tuple[Array, Array]:
    """Return small pictures with much noise, and the class of each."""
    clear, classes = pictures(count, seed)
    noise = np.random.default_rng(seed=seed).normal(0, NOISE, (count, SIDE, SIDE, CHANNELS))
    return (clear[:, :SIDE, :SIDE] + noise).astype(np.float32), classes


def one_hot(classes: Array) -> Array:
    return np.eye(CLASSES, dtype=np.float32)[classes]


class Learner:
    """Training of a CNN on one device; after each step, its weights are multiplied by the masks."""

    def __init__(self, tf: Any, device: str, weights: Weights, temperature: float = 1.0) -> None:
        self._tf, self.device, self._temperature = tf, device, temperature
        with tf.device(device):
            self.model = with_weights(tf, weights)
            self.masks = [tf.Variable(np.ones_like(each)) for each in weights]
            self._optimizer = tf.keras.optimizers.Adam(RATE)
            self._optimizer.build(self.model.trainable_variables)
        self._step = tf.function(self._one_step)

    @property
    def weights(self) -> Weights:
        return list(self.model.get_weights())

    def set_masks(self, masks: Weights) -> None:
        for mask, values in zip(self.masks, masks, strict=True):
            mask.assign(values)

    def _one_step(self, images: Any, targets: Any) -> None:
        tf, variables = self._tf, self.model.trainable_variables
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True) / self._temperature
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(targets, logits))
        self._optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        for variable, mask in zip(variables, self.masks, strict=True):
            variable.assign(variable * mask)

    def train(self, images: Array, targets: Array, steps: int) -> None:
        with self._tf.device(self.device):
            given = [self._tf.constant(each) for each in (images, targets)]
            for step in range(steps):
                start = step * BATCH % len(images)
                self._step(*(each[start : start + BATCH] for each in given))

    def logits(self, images: Array) -> Array:
        with self._tf.device(self.device):
            given = self._tf.constant(images)
            answer: Array = prove(lambda: self.model(given, training=False), self.device, CARRIERS["cnn"]).numpy()
        return answer

    def accuracy(self, images: Array, classes: Array) -> float:
        return accuracy(self.logits(images), classes)


def accuracy(logits: Array, classes: Array) -> float:
    return float(np.mean(logits.argmax(1) == classes))


def initial(tf: Any, widths: Sequence[int], seed: int) -> Weights:
    """Return initial weights, the same on every device."""
    tf.keras.utils.set_random_seed(seed)
    with tf.device("CPU:0"):
        return list(network(tf, widths).get_weights())


@functools.cache
def trained(tf: Any, device: str, seed: int = 1) -> tuple[Array, ...]:
    """Return the weights of the trained network that is to be compressed."""
    images, classes = noisy(SAMPLES, seed)
    learner = Learner(tf, device, initial(tf, WIDTHS, seed))
    learner.train(images, one_hot(classes), STEPS)
    return tuple(learner.weights)


def bytes_of(weights: Sequence[Array]) -> int:
    return sum(each.nbytes for each in weights)


def zipped(weights: Sequence[Array]) -> int:
    return len(gzip.compress(b"".join(each.tobytes() for each in weights), mtime=0))


def magnitude_masks(weights: Weights, share: float) -> Weights:
    """Return masks that remove this share of each kernel: its smallest weights. Biases stay."""
    return [
        (np.abs(each) > np.quantile(np.abs(each), share)).astype(each.dtype) if each.ndim > 1 else np.ones_like(each)
        for each in weights
    ]


def kept_channels(weights: Weights, share: float) -> list[Array]:
    """Return which channels of each convolution stay: those whose weights have the largest magnitudes."""
    norms = [np.abs(kernel).sum(axis=(0, 1, 2)) for kernel in weights[:-2:2]]
    return [np.sort(np.argsort(-each)[: round(share * len(each))]) for each in norms]


def channel_masks(weights: Weights, kept: list[Array]) -> Weights:
    """Return masks that set the other channels to zero."""
    masks = [np.zeros_like(each) for each in weights[:-2]] + [np.ones_like(each) for each in weights[-2:]]
    for place, channels in enumerate(kept):
        masks[2 * place][..., channels] = masks[2 * place + 1][channels] = 1
    return masks


def without_channels(weights: Weights, kept: list[Array]) -> Weights:
    """Return the weights of the smaller network that has only these channels."""
    found, inputs = [], np.arange(CHANNELS)
    for place, channels in enumerate(kept):
        found += [weights[2 * place][:, :, inputs][..., channels], weights[2 * place + 1][channels]]
        inputs = channels
    return [*found, weights[-2][inputs], weights[-1]]


def rounded(weights: Weights) -> tuple[Weights, int]:
    """Round each kernel to 8 bits, with one scale for each output channel; return the weights, and their size in bytes."""
    found, size = [], 0
    for each in weights:
        if each.ndim == 1:
            found.append(each)
            size += each.nbytes
            continue
        scale = np.abs(each).max(axis=tuple(range(each.ndim - 1))) / 127
        whole = np.round(each / scale).astype(np.int8)
        found.append((whole * scale).astype(np.float32))
        size += whole.nbytes + scale.astype(np.float32).nbytes
    return found, size


def batch_call(tf: Any, device: str, weights: Sequence[Array], images: Array) -> Callable[[], Any]:
    """Return a call that computes the answers of the network to a batch."""
    with tf.device(device):
        model = with_weights(tf, list(weights), images.shape[1])
        given = tf.identity(tf.constant(images))
    graph = tf.function(lambda batch: model(batch, training=False))

    def call() -> Any:
        with tf.device(device):
            return graph(given)

    return call


def judge(
    metric: Keep, device: str, name: str, about: str, *, size: tuple[float, float], scores: tuple[float, float],
    margin: float = MARGIN,
) -> None:  # fmt: skip
    """Record the accuracy and how many times smaller the network is, and check both.

    `size`: how many times smaller it is, and must be; `scores`: the accuracy before and after.
    """
    (smaller, least), (before, after) = size, scores
    metric(f"accuracy {name}", 100 * after, "%", device=device, about=f"{about}; the original: {100 * before:.1f} %")
    metric(f"size {name}", smaller, "times smaller", device=device, about=about)
    assert smaller > least, f"the size {name} is only {smaller:.2f} times smaller"
    assert after > before - margin, f"the accuracy {name} fell from {before:.3f} to {after:.3f}"


@pytest.mark.priority(6, needs_s=15)
def test_pruning(share_s: float, tensorflow: Any, gpus: tuple[str, ...], gpu_or_cpu: str, metric: Keep) -> None:
    """Prune the smallest weights, wherever they are, and train the rest.

    The file becomes smaller only where it is compressed, and the network does not become faster: dense hardware
    multiplies by zeros as well.
    """
    weights, (images, classes), tested = list(trained(tensorflow, gpu_or_cpu)), noisy(SAMPLES, 1), noisy(TESTED, 1000)
    learner = Learner(tensorflow, gpu_or_cpu, weights)
    before = learner.accuracy(*tested)
    for share in SPARSITIES:
        learner.set_masks(magnitude_masks(learner.weights, share))
        learner.train(images, one_hot(classes), PRUNED_STEPS)
    pruned, after = learner.weights, learner.accuracy(*tested)
    zeros = float(np.mean(np.concatenate([each.ravel() for each in pruned if each.ndim > 1]) == 0))
    calls = [batch_call(tensorflow, gpu_or_cpu, each, tested[0][:TIMED]) for each in (pruned, weights)]
    for call in calls:
        prove(call, gpu_or_cpu, CARRIERS["cnn"])
    wait = tensorflow.test.experimental.sync_devices if gpus else lambda: None
    ratio = measure(*calls, plan=plan_of(RATIO_S, gpu_or_cpu), synchronise=wait).ratio
    about = f"about 1 is expected: zeros are multiplied as well; 95 % interval {ratio.low:.2f} to {ratio.high:.2f}"
    metric("inference with pruned weights", ratio.value, "times as fast", device=gpu_or_cpu, about=about)
    assert zeros > SPARSITIES[-1] - 0.01, "the training changed pruned weights"
    assert bytes_of(pruned) == bytes_of(weights)
    about = f"{zeros:.0%} of the weights are zero; the sizes are those of the compressed files"
    size = (zipped(weights) / zipped(pruned), 2.5)
    judge(metric, gpu_or_cpu, "with pruned weights", about, size=size, scores=(before, after))


@pytest.mark.priority(6, needs_s=15)
def test_channel_pruning(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Prune whole channels, train the rest, and remove them: the smaller network gives the same answers."""
    weights, (images, classes), tested = list(trained(tensorflow, gpu_or_cpu)), noisy(SAMPLES, 1), noisy(TESTED, 1000)
    learner = Learner(tensorflow, gpu_or_cpu, weights)
    before = learner.accuracy(*tested)
    kept = kept_channels(weights, KEPT_CHANNELS)
    learner.set_masks(channel_masks(weights, kept))
    learner.train(images, one_hot(classes), PRUNED_STEPS)
    small = without_channels(learner.weights, kept)
    answers, due = Learner(tensorflow, gpu_or_cpu, small).logits(tested[0]), learner.logits(tested[0])
    error = float(np.abs(answers - due).max() / np.abs(due).max())
    assert error < TOLERANCE, f"the smaller network differs by {error:.2g} of the largest answer"
    about = f"{KEPT_CHANNELS:.0%} of the channels are kept"
    size, scores = (bytes_of(weights) / bytes_of(small), 3.0), (before, accuracy(answers, tested[1]))
    judge(metric, gpu_or_cpu, "with pruned channels", about, size=size, scores=scores)


@pytest.mark.priority(5, needs_s=6)
def test_fewer_channels(compare: Hold, tensorflow: Any, gpu_or_cpu: str) -> None:
    """Compare a network without its pruned channels with the same network whose pruned channels are zero."""
    batch, widths = SPEED[gpu_or_cpu[:3]]
    images, weights = pictures(batch)[0], initial(tensorflow, widths, 5)
    kept = kept_channels(weights, KEPT_CHANNELS)
    masked = [each * mask for each, mask in zip(weights, channel_masks(weights, kept), strict=True)]
    due = batch_call(tensorflow, "CPU:0", masked, images[:VERIFIED])().numpy()
    compare(
        speed_variant(tensorflow, "channels removed", gpu_or_cpu, without_channels(masked, kept), images, due),
        speed_variant(tensorflow, "channels set to zero", gpu_or_cpu, masked, images, due),
        at_least=1.2,
    )


def speed_variant(tf: Any, name: str, device: str, weights: Weights, images: Array, due: Array) -> Variant:
    """Return the network with these weights; `due` is the answer to the first pictures."""

    def verify(result: Any) -> None:
        seen = result.numpy()
        assert seen.shape == (len(images), CLASSES)
        error = float(np.abs(seen[: len(due)] - due).max() / np.abs(due).max())
        assert error < TOLERANCE, f"the error is {error:.2g} of the largest result of the CPU"

    return Variant(name, batch_call(tf, device, weights, images), verify, device, CARRIERS["cnn"])


@pytest.mark.priority(6, needs_s=8)
def test_rounded_weights(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Round the kernels to 8 bits: the file is nearly four times smaller. TensorFlow computes in float32 all the same."""
    weights, tested = list(trained(tensorflow, gpu_or_cpu)), noisy(TESTED, 1000)
    small, held = rounded(weights)
    before, after = (Learner(tensorflow, gpu_or_cpu, each).accuracy(*tested) for each in (weights, small))
    about, size, scores = "a scale for each channel", (bytes_of(weights) / held, 3.5), (before, after)
    judge(metric, gpu_or_cpu, "with 8-bit weights", about, size=size, scores=scores, margin=SMALL_MARGIN)


def lite_model(tf: Any, weights: Weights, kind: str) -> bytes:
    """Convert the network to TensorFlow Lite: "float32", "dynamic range" (8-bit weights), or "int8" (activations as well)."""
    with tf.device("CPU:0"):
        model = with_weights(tf, weights)
        shape = tf.TensorSpec((BATCH, SIDE, SIDE, CHANNELS), tf.float32)
        concrete = tf.function(lambda images: model(images, training=False)).get_concrete_function(shape)
    # Without the model as the second argument: with one of Keras 3, 2.16 aborts, and 2.21 leaves the weights out.
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    if kind != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "int8":
        batches = np.split(noisy(SAMPLES, 1)[0], SAMPLES // BATCH)
        converter.representative_dataset = lambda: ([each] for each in batches)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    content: bytes = converter.convert()
    return content


def lite_call(tf: Any, content: bytes) -> Callable[[Array], Array]:
    """Return a function that computes one batch on one thread."""
    interpreter = tf.lite.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    given, answer = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]

    def call(images: Array) -> Array:
        interpreter.set_tensor(given, images)
        interpreter.invoke()
        found: Array = interpreter.get_tensor(answer)
        return found

    return call


@pytest.mark.priority(7, needs_s=12)
@pytest.mark.parametrize("kind", LITE_KINDS)
def test_lite(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep, kind: str) -> None:
    """Quantize with TensorFlow Lite after the training, for a CPU: size, accuracy, and time on one thread."""
    if not hasattr(tensorflow, "lite") or not hasattr(tensorflow.lite, "Interpreter"):
        pytest.skip("this TensorFlow has no TensorFlow Lite, which is now the package ai-edge-litert")
    weights, (images, classes) = list(trained(tensorflow, gpu_or_cpu)), noisy(TESTED, 1000)
    before = Learner(tensorflow, gpu_or_cpu, weights).accuracy(images, classes)
    batches = np.split(images, TESTED // BATCH)
    sizes, scores, seconds = {}, {}, {}
    for name in ("float32", kind):
        content = lite_model(tensorflow, weights, name)
        call = lite_call(tensorflow, content)
        scores[name] = accuracy(np.concatenate([call(batch) for batch in batches]), classes)
        seconds[name] = Stopwatch(lambda: None).per_call(functools.partial(call, batches[0]))
        sizes[name] = len(content)
    assert abs(scores["float32"] - before) < SMALL_MARGIN, "the network changed before the quantization"
    speed, took_ms = seconds["float32"] / seconds[kind], 1e3 * seconds[kind]
    about = f"a batch of {BATCH} takes {took_ms:.2g} ms on one thread; compared with float32 there"
    metric(f"inference in TensorFlow Lite, {kind}", speed, "times as fast", device="CPU:0", about=about)
    about = f"{sizes[kind] / 1024:.0f} KiB, in float32 {sizes['float32'] / 1024:.0f} KiB"
    size, both = (sizes["float32"] / sizes[kind], LITE_SMALLER), (before, scores[kind])
    judge(metric, "CPU:0", f"in TensorFlow Lite, {kind}", about, size=size, scores=both, margin=SMALL_MARGIN)


@pytest.mark.priority(6, needs_s=20)
def test_distillation(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Train a small network on the softened answers of a large one, and the same network on the classes alone."""
    teacher, (images, classes), tested = list(trained(tensorflow, gpu_or_cpu)), noisy(SAMPLES, 1), noisy(TESTED, 1000)
    large = Learner(tensorflow, gpu_or_cpu, teacher)
    soft = tensorflow.nn.softmax(large.logits(images) / TEMPERATURE).numpy()
    scores: dict[str, list[float]] = {"classes": [], "teacher": []}
    for number in range(STUDENTS):
        start = initial(tensorflow, STUDENT_WIDTHS, 100 + number)
        for source, targets, temperature in (("classes", one_hot(classes), 1.0), ("teacher", soft, TEMPERATURE)):
            student = Learner(tensorflow, gpu_or_cpu, start, temperature)
            student.train(images, targets, STEPS)
            scores[source].append(student.accuracy(*tested))
    alone, taught = (float(np.mean(scores[source])) for source in ("classes", "teacher"))
    about = f"mean of {STUDENTS} networks after {STEPS} steps"
    metric("accuracy without a teacher", 100 * alone, "%", device=gpu_or_cpu, about=about)
    size, both = (bytes_of(teacher) / bytes_of(start), 10.0), (large.accuracy(*tested), taught)
    judge(metric, gpu_or_cpu, "after distillation", about, size=size, scores=both, margin=STUDENT_MARGIN)
    assert taught > alone - SMALL_MARGIN, f"distillation lowers the accuracy from {alone:.3f} to {taught:.3f}"


@pytest.mark.priority(5, needs_s=6)
def test_student(compare: Hold, tensorflow: Any, gpu_or_cpu: str) -> None:
    """Compare a student with its teacher, which has four times as many channels."""
    batch, widths = SPEED[gpu_or_cpu[:3]]
    images = pictures(batch)[0]

    def side_with(name: str, sizes: Sequence[int]) -> Variant:
        weights = initial(tensorflow, sizes, 6)
        due = batch_call(tensorflow, "CPU:0", weights, images[:VERIFIED])().numpy()
        return speed_variant(tensorflow, name, gpu_or_cpu, weights, images, due)

    student = side_with("student", [width // STUDENT_SHARE for width in widths])
    compare(student, side_with("teacher", widths), at_least=1.5)
