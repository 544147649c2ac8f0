"""Small networks with generated training data; equal initial weights give the same steps on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tfgpu_doctor.perf_tests.ceilings import model_of
from tfgpu_doctor.perf_tests.loss_scale import loss_scaled

Array: TypeAlias = np.ndarray[Any, Any]
SIDE, CHANNELS = 24, 3
WORDS, LENGTH, WIDTH = 64, 24, 48
CLASSES = 4
WIDE, DEPTH = 16, 24  # of the deep CNN
DEEP_NUMBERS = SIDE * SIDE * WIDE  # of its largest tensor, for each sample
TENSOR_CORES = {"float16": (7, 0), "bfloat16": (8, 0), "tf32": (8, 0)}  # minimum compute capability
_WITHOUT_TENSOR_CORES = "GTX 16"  # in the names of GPUs; others of their compute capability, 7.5, have them


def pictures(count: int, seed: int = 31) -> tuple[Array, Array]:
    """Return noisy images of stripes in one of four directions, and the direction of each."""
    numbers = np.random.default_rng(seed=seed)
    classes = numbers.integers(0, CLASSES, count)
    angles = classes * np.pi / CLASSES
    down, across = np.mgrid[0:SIDE, 0:SIDE]
    along = np.cos(angles)[:, None, None] * across + np.sin(angles)[:, None, None] * down
    stripes = np.sin(along + numbers.uniform(0, 6, (count, 1, 1)))[..., None]
    noise = numbers.normal(0, 0.3, (count, SIDE, SIDE, CHANNELS))
    return (stripes + noise).astype(np.float32), classes.astype(np.int32)


def sentences(count: int, seed: int = 32) -> tuple[Array, Array]:
    """Return sequences of words, and which of four groups of words is the most frequent in each."""
    numbers = np.random.default_rng(seed=seed)
    classes = numbers.integers(0, CLASSES, count)
    group = WORDS // CLASSES
    told = classes[:, None] * group + numbers.integers(0, group, (count, LENGTH))
    words = np.where(numbers.random((count, LENGTH)) < 0.6, told, numbers.integers(0, WORDS, (count, LENGTH)))
    return words.astype(np.int32), classes.astype(np.int32)


def convolutional(tf: Any) -> Any:
    """Build a small CNN."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((SIDE, SIDE, CHANNELS)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(CLASSES, dtype="float32"),
        ]
    )


def deep(tf: Any) -> Any:
    """Build a CNN of many equal layers: a sample needs much more memory than its largest tensor."""
    layers = tf.keras.layers
    maps = [layers.Conv2D(WIDE, 3, padding="same", activation="relu") for _ in range(DEPTH)]
    ends = [layers.GlobalAveragePooling2D(), layers.Dense(CLASSES, dtype="float32")]
    return tf.keras.Sequential([layers.Input((SIDE, SIDE, CHANNELS)), *maps, *ends])


def transformer(tf: Any) -> Any:
    """Build a small transformer with one block."""
    layers = tf.keras.layers
    words = layers.Input((LENGTH,), dtype="int32")
    seen = layers.Embedding(WORDS, WIDTH)(words)
    seen = layers.LayerNormalization()(seen + layers.MultiHeadAttention(4, WIDTH // 4)(seen, seen))
    seen = layers.LayerNormalization()(seen + layers.Dense(WIDTH)(layers.Dense(2 * WIDTH, activation="relu")(seen)))
    answer = layers.Dense(CLASSES, dtype="float32")(layers.GlobalAveragePooling1D()(seen))
    return tf.keras.Model(words, answer)


def reconstructor(tf: Any) -> Any:
    """Build a small network that reconstructs its input."""
    layers = [
        tf.keras.layers.Conv2D(8, 3, 2, "same", activation="relu"),
        tf.keras.layers.Conv2DTranspose(3, 3, 2, "same"),
    ]
    model = tf.keras.Sequential(layers)
    model.compile("sgd", "mse")
    return model


NETWORKS: dict[str, tuple[Callable[[Any], Any], Callable[[int], tuple[Array, Array]]]] = {
    "cnn": (convolutional, pictures),
    "transformer": (transformer, sentences),
}

DEEP = "deep cnn"
_BUILT = {**NETWORKS, DEEP: (deep, pictures)}
# Parts of the names of the operations that carry the work of each.
CARRIERS = {"cnn": ("Conv2D",), DEEP: ("Conv2D",), "transformer": ("MatMul", "Einsum")}


class Training:
    """Training of a network on one device with one batch; a call runs one step and returns its loss as a tensor.

    `eager`: Python calls each operation of a step; otherwise a step is one tf.function.
    """

    def __init__(
        self, tf: Any, kind: str, device: str, batch: int, *, policy: str = "float32", eager: bool = False
    ) -> None:
        build, make = _BUILT[kind]
        before = tf.keras.mixed_precision.global_policy()
        tf.keras.utils.set_random_seed(17)
        try:
            tf.keras.mixed_precision.set_global_policy(policy)
            with tf.device("CPU:0"):  # so that the initial weights are the same on every device
                start = build(tf).get_weights()
            with tf.device(device):
                self.model = build(tf)
                self.model.set_weights(start)
                self.optimizer = tf.keras.optimizers.Adam(0.002)
                if policy == "mixed_float16":
                    self.optimizer = loss_scaled(tf, self.optimizer)
                self.optimizer.build(self.model.trainable_variables)
        finally:
            tf.keras.mixed_precision.set_global_policy(before)
        self._tf, self.kind, self.device = tf, kind, device
        with tf.device(device):
            self._made = [tf.identity(tf.constant(each)) for each in make(batch)]
        self.resize(batch)
        self._loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._step = self._one_step if eager else tf.function(self._one_step, reduce_retracing=True)

    def resize(self, batch: int) -> None:
        """Take a batch of another size: a larger one repeats the samples, in the memory of the device."""
        tf = self._tf
        with tf.device(self.device):
            places = tf.range(batch) % len(self._made[0])
            self.inputs, self.classes = (tf.gather(each, places) for each in self._made)
        self.batch = batch

    def __call__(self) -> Any:
        with self._tf.device(self.device):
            return self._step(self.inputs, self.classes)

    def _one_step(self, inputs: Any, classes: Any) -> Any:
        scaled = hasattr(self.optimizer, "scale_loss")
        with self._tf.GradientTape() as tape:
            loss = self._loss(classes, self.model(inputs, training=True))
            goal = self.optimizer.scale_loss(loss) if scaled else loss
        variables = self.model.trainable_variables
        gradients = tape.gradient(goal, variables)
        if scaled:
            self.optimizer.apply(gradients, variables)
        else:
            self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    def losses(self, steps: int) -> list[float]:
        """Return the losses of a number of steps."""
        return [float(self()) for _ in range(steps)]


def why_no_tensor_cores(tf: Any, device: str, precision: str) -> str:
    """Return why the GPU ("GPU:0") has no tensor cores for a precision; empty if it has them."""
    details = tf.config.experimental.get_device_details
    told = details(tf.config.list_physical_devices("GPU")[int(device.partition(":")[2])])
    has, name = told.get("compute_capability", (0, 0)), told.get("device_name", "")
    if has < TENSOR_CORES[precision]:
        return f"compute capability {has[0]}.{has[1]} has no tensor cores for {precision}"
    model = model_of(tf, device)
    if _WITHOUT_TENSOR_CORES in name or (model is not None and not model.tensor_cores):
        return f"{name} has no tensor cores, although its compute capability is {has[0]}.{has[1]}"
    return ""
