"""Trainings that run many steps in one call from Python, which takes seconds."""

from __future__ import annotations

import time

import tensorflow as tf
from training_parts import AUTOTUNE, EndAfter, dense, numbers, program, spin


def loop(rows: tf.data.Dataset, width: int, seconds: float, steps: int) -> None:
    """Train in a loop inside of a graph, as many steps in each call."""
    size = int(rows.element_spec.shape[-1])
    weights = [tf.Variable(tf.random.normal((size, width)) * 0.1), tf.Variable(tf.random.normal((width, size)) * 0.1)]

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def train_many() -> tf.Tensor:
        total = tf.constant(0.0)
        for given in rows.take(steps):
            with tf.GradientTape() as tape:
                out = tf.nn.relu(tf.linalg.matmul(given, weights[0]))
                loss = tf.reduce_mean((tf.linalg.matmul(out, weights[1]) - given) ** 2)
            for each, slope in zip(weights, tape.gradient(loss, weights), strict=False):
                each.assign_sub(0.01 * slope)
            total += loss
        return total

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        train_many()


@program("compute_bound")
def healthy_long_calls(seconds: float) -> None:
    rows = tf.data.Dataset.from_tensors((tf.ones((128, 512)), tf.ones((128,)))).repeat().prefetch(AUTOTUNE)
    model = dense(512, 1024, steps_per_execution=400)
    model.fit(rows, epochs=1000, steps_per_epoch=4000, callbacks=[EndAfter(seconds)], verbose=0)


@program("compute_bound")
def healthy_dataset_loop(seconds: float) -> None:
    loop(tf.data.Dataset.from_tensors(tf.ones((128, 1024))).repeat().prefetch(AUTOTUNE), 1024, seconds, steps=300)


@program("input_python")
def python_in_a_loop(seconds: float) -> None:
    def load(given: tf.Tensor) -> tf.Tensor:
        spin(10)
        return given

    rows = numbers().repeat().batch(32).map(lambda row: tf.py_function(load, [row], tf.float32))
    loop(rows.map(lambda row: tf.ensure_shape(row, (None, 64))).prefetch(2), 64, seconds, steps=200)
