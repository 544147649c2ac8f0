"""Trainings with enough work for a GPU: `trainings.py NAME --seconds N`. At the end: median and mean step, in ms.

`healthy`, `float32` and `copies` are the same network; in bfloat16 it is healthy, in float32 without TF32 it wastes the tensor
cores, and `copies` has its rows from the host, 134 MB for each step. The layers have no bias: for so wide a layer TensorFlow
adds the gradient of a bias up with a slow kernel, which `wide_bias` shows. `sync_each_step` reads its loss after each step, and
then works in Python for some milliseconds; `cpu_fallback` has an operation that has no kernel for a GPU;
`long_calls` is healthy, and a call of it lasts longer than a recording.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from tensorflow import keras

SMALL = "RECORD_GPU_SMALL" in os.environ
WIDTH, BATCH, SIDE = (768, 128, 16) if SMALL else (8192, 4096, 128)
LAYERS, LOOK_EVERY = 3, 10
PYTHON_STEPS, STEPS_OF_CALL = 100_000, 100

Training = Callable[[float], dict[str, float]]
TRAININGS: dict[str, Training] = {}


def training(function: Training) -> Training:
    """Keep a training under its name."""
    TRAININGS[function.__name__] = function
    return function


def stepper(model: keras.Model, *, compiled: bool = False) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return the function that makes a step, `compiled` by XLA or not, and returns the loss."""
    optimizer = keras.optimizers.SGD(1e-3)
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=compiled)  # type: ignore[untyped-decorator, unused-ignore]
    def train_step(rows: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.cast(model(rows, training=True), tf.float32) ** 2)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    step: Callable[[tf.Tensor], tf.Tensor] = train_step
    return step


def run(
    seconds: float, step: Callable[[tf.Tensor], tf.Tensor], data: Iterable[tf.Tensor], look_every: int = LOOK_EVERY,
    work: Callable[[float], Any] = lambda _loss: None,
) -> dict[str, float]:  # fmt: skip
    """Make steps until the time is over; each `look_every`th loss is read, and given to `work`."""
    times, ends, began = [], time.monotonic() + seconds, time.perf_counter()
    for number, rows in enumerate(data):
        loss = step(rows)
        if number % look_every == look_every - 1:
            work(float(loss))
            times.append((time.perf_counter() - began) / look_every)
            began = time.perf_counter()
        if time.monotonic() > ends:
            break
    kept = times[1:] or times or [0.0]
    return {"median_ms": 1000 * statistics.median(kept), "mean_ms": 1000 * statistics.fmean(kept), "steps": number + 1}


def dense(width: int = WIDTH, layers: int = LAYERS, *, bias: bool = False) -> keras.Model:
    """Return a network of dense layers in the precision of the policy."""
    hidden = (keras.layers.Dense(width, "relu", use_bias=bias) for _ in range(layers))
    return keras.Sequential([keras.layers.Input((width,)), *hidden])


@training
def healthy(seconds: float) -> dict[str, float]:
    """The rows are on the GPU."""
    return run(seconds, stepper(dense()), itertools.repeat(tf.random.normal((BATCH, WIDTH))))


@training
def float32(seconds: float) -> dict[str, float]:
    """The same without the tensor cores."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    keras.mixed_precision.set_global_policy("float32")
    return healthy(seconds)


@training
def copies(seconds: float) -> dict[str, float]:
    """The rows come from the host."""
    data = tf.data.Dataset.from_tensors(tf.random.normal((BATCH, WIDTH))).repeat().prefetch(2)
    return run(seconds, stepper(dense()), data)


@training
def wide_bias(seconds: float) -> dict[str, float]:
    """Layers of 8,192 units with a bias."""
    return run(seconds, stepper(dense(bias=True)), itertools.repeat(tf.random.normal((BATCH, WIDTH))))


@training
def sync_each_step(seconds: float) -> dict[str, float]:
    """The loss is read in each step; in the Python that follows the GPU has nothing to do."""
    width = WIDTH // 2
    rows = itertools.repeat(tf.random.normal((BATCH, width)))
    return run(seconds, stepper(dense(width, 4)), rows, look_every=1, work=lambda loss: sum(range(PYTHON_STEPS)) * loss)


@training
def cpu_fallback(seconds: float) -> dict[str, float]:
    """Pooling with random regions, which TensorFlow has for the CPU alone, between convolutions."""
    inside = keras.Input((SIDE, SIDE, 32))
    first = keras.layers.Conv2D(32, 3, padding="same")(inside)
    pooled = keras.layers.Lambda(
        lambda given: tf.nn.fractional_max_pool(tf.cast(given, tf.float32), (1.0, 1.4, 1.4, 1.0))[0],
        output_shape=(int(SIDE / 1.4), int(SIDE / 1.4), 32),
    )(first)
    model = keras.Model(inside, keras.layers.Conv2D(32, 3, padding="same")(pooled))
    return run(seconds, stepper(model), itertools.repeat(tf.random.normal((16, SIDE, SIDE, 32))))


@training
def long_calls(seconds: float) -> dict[str, float]:
    """A call runs a hundred steps, in a loop inside of a graph; the rows are made on the GPU. Its times are those of calls."""
    step, seeds = stepper(dense()), tf.data.Dataset.range(2 * STEPS_OF_CALL).batch(2).prefetch(2)

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def train_many(_rows: tf.Tensor) -> tf.Tensor:
        loss = tf.constant(0.0)
        for seed in seeds:
            loss = step(tf.random.stateless_normal((BATCH, WIDTH), seed=seed))
        return loss

    return run(seconds, train_many, itertools.repeat(tf.zeros(())), look_every=1)


def main() -> None:
    """Read the arguments, and train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=tuple(TRAININGS))
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    print(json.dumps(TRAININGS[options.name](options.seconds)))


if __name__ == "__main__":
    main()
