"""Trainings with enough work for a GPU: `trainings.py healthy|float32|copies --seconds N`. At the end: median and mean step.

They are the same network; in bfloat16 it is healthy, in float32 without TF32 it wastes the tensor cores. `copies` is the
healthy one, but its rows come from the host, 134 MB for each step. The layers have no bias: for so wide a layer TensorFlow adds
the gradient of a bias up with a slow kernel.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time

import tensorflow as tf
from tensorflow import keras

SMALL = "RECORD_GPU_SMALL" in os.environ
WIDTH, BATCH = (768, 128) if SMALL else (8192, 4096)
LAYERS, LOOK_EVERY = 3, 10


def train(seconds: float, *, from_host: bool) -> dict[str, float]:
    """Train until the time is over."""
    model = keras.Sequential(
        [keras.layers.Input((WIDTH,)), *(keras.layers.Dense(WIDTH, "relu", use_bias=False) for _ in range(LAYERS))]
    )
    optimizer = keras.optimizers.SGD(1e-3)

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def train_step(rows: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.cast(model(rows, training=True), tf.float32) ** 2)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    there = tf.random.normal((BATCH, WIDTH))
    data = tf.data.Dataset.from_tensors(there).repeat().prefetch(2) if from_host else itertools.repeat(there)
    times, ends, began = [], time.monotonic() + seconds, time.perf_counter()
    for number, rows in enumerate(data):
        loss = train_step(rows)
        if number % LOOK_EVERY == LOOK_EVERY - 1:
            loss.numpy()
            times.append((time.perf_counter() - began) / LOOK_EVERY)
            began = time.perf_counter()
        if time.monotonic() > ends:
            break
    kept = times[1:] or times or [0.0]
    return {"median_ms": 1000 * statistics.median(kept), "mean_ms": 1000 * statistics.fmean(kept), "steps": number + 1}


def main() -> None:
    """Read the arguments, and train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=("healthy", "float32", "copies"))
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    if options.name == "float32":
        tf.config.experimental.enable_tensor_float_32_execution(False)
    else:
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    print(json.dumps(train(options.seconds, from_host=options.name == "copies")))


if __name__ == "__main__":
    main()
