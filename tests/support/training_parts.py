"""What the small trainings are made of; they run on TensorFlow 2.12 to the newest, on the processor."""

from __future__ import annotations

import time
from collections.abc import Callable

import tensorflow as tf
from tensorflow import keras

PROGRAMS: dict[str, tuple[str, Callable[[float], None]]] = {}
AUTOTUNE = tf.data.AUTOTUNE


def program(verdict: str) -> Callable[[Callable[[float], None]], Callable[[float], None]]:
    def register(function: Callable[[float], None]) -> Callable[[float], None]:
        PROGRAMS[function.__name__] = (verdict, function)
        return function

    return register


class EndAfter(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.end = time.monotonic() + seconds

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        if time.monotonic() > self.end:
            self.model.stop_training = True


def dense(inputs: int, width: int, layers: int = 2, **compile_options: object) -> keras.Model:
    model = keras.Sequential([keras.layers.InputLayer((inputs,))])
    for _ in range(layers):
        model.add(keras.layers.Dense(width, activation="relu"))
    model.add(keras.layers.Dense(1))
    model.compile(optimizer="adam", loss="mse", **compile_options)
    return model


def fit(model: keras.Model, data: tf.data.Dataset, seconds: float, **more: object) -> None:
    callbacks = [EndAfter(seconds), *more.pop("callbacks", [])]  # type: ignore[misc]
    # A batch that takes long does not end an epoch early: the clock is looked at after each.
    model.fit(
        data, epochs=10_000, steps_per_epoch=more.pop("steps_per_epoch", 50), callbacks=callbacks, verbose=0, **more
    )


def numbers(count: int = 1_000_000, size: int = 64) -> tf.data.Dataset:
    """Rows of one number each, so that making them costs little."""
    return tf.data.Dataset.range(count).map(lambda at: tf.fill((size,), tf.cast(at % 97, tf.float32) / 97.0))


def labelled(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return row, tf.reduce_mean(row, axis=-1)


def spin(milliseconds: float) -> None:
    end = time.perf_counter() + milliseconds / 1000
    while time.perf_counter() < end:
        pass


def costly(row: tf.Tensor) -> tf.Tensor:
    """About a millisecond of TensorFlow's own work."""
    noise = tf.random.normal((200, 200))
    return row + 0.0 * tf.reduce_sum(tf.linalg.matmul(noise, noise))
