"""Trainings whose speed is published for many GPUs: ResNet-50 v1.5, and a stack of BERT's layers.

ResNet-50 v1.5 has its strides in the 3x3 convolutions; the one in tf.keras.applications is v1, with strides in the 1x1
(https://arxiv.org/abs/1512.03385; https://catalog.ngc.nvidia.com/orgs/nvidia/resources/resnet_50_v1_5_for_tensorflow).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfgpu_doctor.perf_tests.loss_scale import loss_scaled
from tfgpu_doctor.perf_tests.notes import alive
from tfgpu_doctor.perf_tests.placement import CARRIERS, prove

CNN, TRANSFORMER = "training cnn", "training transformer"
TRAINED = (CNN, TRANSFORMER)
INPUT, STORAGE = "input of pictures", "storage"  # what a training reads
MEASUREMENTS = {CNN: "training of ResNet-50 v1.5", TRANSFORMER: "training of a stack of BERT's layers"}
_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width and number of blocks


class Sizes(NamedTuple):
    """What is trained: pictures for the CNN, sentences for the transformer."""

    side: int = 224
    classes: int = 1000
    blocks: int = 16  # of ResNet-50; fewer train its first ones
    layers: int = 6
    width: int = 768
    heads: int = 12
    length: int = 128
    words: int = 30522


def resnet(tf: Any, sizes: Sizes) -> Any:
    """Build ResNet-50 v1.5."""
    layers = tf.keras.layers

    def convolve(given: Any, width: int, side: int, stride: int = 1, *, active: bool = True) -> Any:
        seen = layers.Conv2D(width, side, stride, padding="same", use_bias=False)(given)
        seen = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(seen)
        return layers.ReLU()(seen) if active else seen

    def block(given: Any, width: int, stride: int, *, first: bool) -> Any:
        beside = convolve(given, 4 * width, 1, stride, active=False) if first else given
        inner = convolve(convolve(given, width, 1), width, 3, stride)
        return layers.ReLU()(layers.Add()([convolve(inner, 4 * width, 1, active=False), beside]))

    pictures = layers.Input((sizes.side, sizes.side, 3))
    seen = layers.MaxPooling2D(3, 2, padding="same")(convolve(pictures, 64, 7, 2))
    plan = [
        (width, 2 if place == 0 and width > 64 else 1, place == 0) for width, count in _STAGES for place in range(count)
    ]
    for width, stride, first in plan[: sizes.blocks]:
        seen = block(seen, width, stride, first=first)
    return tf.keras.Model(pictures, layers.Dense(sizes.classes, dtype="float32")(layers.GlobalAveragePooling2D()(seen)))


def bert_stack(tf: Any, sizes: Sizes) -> Any:
    """Build an embedding and layers of BERT, with the prediction of each word."""
    layers = tf.keras.layers
    words = layers.Input((sizes.length,), dtype="int32")
    seen = layers.LayerNormalization(epsilon=1e-12)(layers.Embedding(sizes.words, sizes.width)(words))
    for _ in range(sizes.layers):
        mixed = layers.MultiHeadAttention(sizes.heads, sizes.width // sizes.heads)(seen, seen)
        seen = layers.LayerNormalization(epsilon=1e-12)(seen + mixed)
        wide = layers.Dense(4 * sizes.width, activation="gelu")(seen)
        seen = layers.LayerNormalization(epsilon=1e-12)(seen + layers.Dense(sizes.width)(wide))
    return tf.keras.Model(words, layers.Dense(sizes.classes, dtype="float32")(seen[:, 0]))


def _inputs(name: str, sizes: Sizes, batch: int) -> tuple[Any, Any]:
    numbers = np.random.default_rng(seed=50)
    answers = numbers.integers(0, sizes.classes, batch).astype(np.int32)
    if name == CNN:
        return numbers.standard_normal((batch, sizes.side, sizes.side, 3), dtype=np.float32), answers
    return numbers.integers(0, sizes.words, (batch, sizes.length)).astype(np.int32), answers


class PublishedTraining:
    """Training of one of these networks on one device with generated data; a call runs one step and returns its loss."""

    def __init__(self, tf: Any, name: str, device: str, batch: int, sizes: Sizes, *, policy: str, xla: bool) -> None:
        self._tf, self.device, self.batch = tf, device, batch
        before = tf.keras.mixed_precision.global_policy()
        tf.keras.utils.set_random_seed(17)
        try:
            tf.keras.mixed_precision.set_global_policy(policy)
            with tf.device(device):
                self._model = (resnet if name == CNN else bert_stack)(tf, sizes)
                plain = tf.keras.optimizers.SGD(0.01, 0.9) if name == CNN else tf.keras.optimizers.Adam(1e-4)
                self._optimizer = loss_scaled(tf, plain) if policy == "mixed_float16" else plain
                self._optimizer.build(self._model.trainable_variables)
                self._given = [tf.identity(tf.constant(each)) for each in _inputs(name, sizes, batch)]
        finally:
            tf.keras.mixed_precision.set_global_policy(before)
        self._scaled, self._xla = policy == "mixed_float16", xla
        self._loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._gradients = tf.function(self._forward_and_back, jit_compile=xla)
        self._update = tf.function(self._apply)

    def __call__(self) -> Any:
        with self._tf.device(self.device):
            loss, gradients = self._gradients(*self._given)
            self._update(gradients)
        alive()  # a GPU that hangs takes a few more steps: the queue of its kernels is short
        return loss

    def prove(self) -> None:
        """Raise AssertionError if the device does not run a step: both passes, and the update of the weights."""

        def passes() -> Any:
            with self._tf.device(self.device):
                return self._gradients(*self._given)

        def update() -> None:
            with self._tf.device(self.device):
                self._update(gradients)

        _, gradients = prove(passes, self.device, CARRIERS, compiled=self._xla)
        prove(update, self.device, ("Assign",))

    def _forward_and_back(self, given: Any, answers: Any) -> tuple[Any, Any]:
        with self._tf.GradientTape() as tape:
            loss = self._loss(answers, self._model(given, training=True))
            goal = self._optimizer.scale_loss(loss) if self._scaled else loss
        return loss, tape.gradient(goal, self._model.trainable_variables)

    def _apply(self, gradients: Any) -> None:
        variables = self._model.trainable_variables
        if self._scaled:
            self._optimizer.apply(gradients, variables)
        else:
            self._optimizer.apply_gradients(zip(gradients, variables, strict=True))


def fitting(tf: Any, batches: Sequence[int], build: Callable[[int], PublishedTraining]) -> PublishedTraining:
    """Return the training with the first of these batches that fits the device's memory, after its first step."""
    for batch in batches:
        try:
            training = build(batch)
            float(training())
            return training
        except (tf.errors.ResourceExhaustedError, tf.errors.InternalError):
            if batch == batches[-1]:
                raise
    raise ValueError("there is no batch to try")
