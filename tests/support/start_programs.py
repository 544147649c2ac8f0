"""Programs that do something else than train for a while: they make variables first, or evaluate."""

from __future__ import annotations

import time

import tensorflow as tf
from training_parts import AUTOTUNE, dense, fit, program

_STARTS_S = 5.0


@program("compute_bound")
def slow_start(seconds: float) -> None:
    """A network that takes long to build, variable by variable, and then trains."""
    rows = tf.data.Dataset.from_tensors((tf.ones((256, 512)), tf.ones((256,)))).repeat().prefetch(AUTOTUNE)
    ends, kept = time.monotonic() + _STARTS_S, []
    while time.monotonic() < ends:
        kept.append(tf.Variable(tf.random.normal((8, 8)) * 0.1))
    fit(dense(512, 1500, layers=3), rows, seconds)


@program("compute_bound")
def evaluation(seconds: float) -> None:
    """A network that is only evaluated."""
    rows = tf.data.Dataset.from_tensors((tf.ones((256, 512)), tf.ones((256,)))).repeat(400).prefetch(AUTOTUNE)
    model, ends = dense(512, 1500, layers=3), time.monotonic() + seconds
    while time.monotonic() < ends:
        model.evaluate(rows, verbose=0)
