"""Small trainings, each with one bottleneck or none: `python programs.py NAME --seconds N`. Nothing here knows of profiles.

They run on TensorFlow 2.12 to the newest, on the processor.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))  # it also runs by itself

import long_call_programs
import start_programs
import tensorflow as tf
from input_programs import serial_map
from tensorflow import keras
from training_parts import AUTOTUNE, PROGRAMS, dense, fit, labelled, numbers, program, spin

__all__ = [
    "PROGRAMS",
    "long_call_programs",
    "serial_map",
    "start_programs",
]  # the programs of those modules register themselves


@program("launch_bound")
def tiny_steps(seconds: float) -> None:
    rows = tf.data.Dataset.from_tensors((tf.ones((8, 16)), tf.ones((8,)))).repeat().prefetch(AUTOTUNE)
    fit(dense(16, 8), rows, seconds, steps_per_epoch=2000)


@program("launch_bound")
def small_operations(seconds: float) -> None:
    """A pendulum whose path is computed in many steps of a few numbers each, and its friction learned."""
    friction = tf.Variable(0.1)

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def train_step(angles: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            angle, speed = angles, tf.zeros_like(angles)
            for _ in range(120):
                speed -= 0.01 * (tf.sin(angle) + friction * speed)
                angle += 0.01 * speed
            loss = tf.reduce_mean(angle**2)
        friction.assign_sub(1e-3 * tape.gradient(loss, friction))

    end = time.monotonic() + seconds
    for angles in tf.data.Dataset.from_tensors(tf.ones(8)).repeat().prefetch(AUTOTUNE):
        train_step(angles)
        if time.monotonic() > end:
            return


@program("eager")
def run_eagerly(seconds: float) -> None:
    rows = tf.data.Dataset.from_tensors((tf.ones((32, 64)), tf.ones((32,)))).repeat().prefetch(AUTOTUNE)
    fit(dense(64, 64, run_eagerly=True), rows, seconds)


@program("eager")
def eager_loop(seconds: float) -> None:
    weights = [tf.Variable(tf.random.normal((64, 64)) * 0.1) for _ in range(6)]
    rows = tf.data.Dataset.from_tensors(tf.ones((32, 64))).repeat().prefetch(AUTOTUNE)
    end = time.monotonic() + seconds
    for given in rows:
        descend(weights, given)
        if time.monotonic() > end:
            return


def descend(weights: list[tf.Variable], rows: tf.Tensor) -> None:
    """One step of a training, of products of matrices."""
    with tf.GradientTape() as tape:
        out = rows
        for each in weights:
            out = tf.nn.relu(tf.linalg.matmul(out, each))
        loss = tf.reduce_mean(out**2)
    for each, slope in zip(weights, tape.gradient(loss, weights), strict=False):
        each.assign_sub(0.01 * slope)


@program("retracing")
def retracing(seconds: float) -> None:
    model = dense(64, 64)
    optimizer = keras.optimizers.SGD(0.01)

    @tf.function(reduce_retracing=False)  # type: ignore[untyped-decorator, unused-ignore]
    def train_step(rows: tf.Tensor, scale: float) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(rows, training=True) ** 2) * scale
        slopes = tape.gradient(loss, model.trainable_variables)
        for each, slope in zip(model.trainable_variables, slopes, strict=False):
            each.assign_sub(0.01 * slope)
        return loss

    del optimizer
    end = time.monotonic() + seconds
    for at, rows in enumerate(tf.data.Dataset.from_tensors(tf.ones((32, 64))).repeat()):
        train_step(rows, 1.0 / (at + 1))
        if time.monotonic() > end:
            return


@program("compile")
def xla_shapes(seconds: float) -> None:
    weights = [tf.Variable(tf.random.normal((64, 64)) * 0.1) for _ in range(4)]

    rows_of_64 = [tf.TensorSpec((None, 64), tf.float32)]

    @tf.function(jit_compile=True, input_signature=rows_of_64)  # type: ignore[untyped-decorator, unused-ignore]
    def train_step(rows: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            out = rows
            for each in weights:
                out = tf.nn.relu(tf.linalg.matmul(out, each))
            loss = tf.reduce_mean(out**2)
        for each, slope in zip(weights, tape.gradient(loss, weights), strict=False):
            each.assign_sub(0.01 * slope)
        return loss

    end, at = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        at += 1
        train_step(tf.ones((8 + at % 900, 64)))


@program("host_callback")
def slow_callback(seconds: float) -> None:
    class Plot(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            spin(25)

    rows = tf.data.Dataset.from_tensors((tf.ones((32, 64)), tf.ones((32,)))).repeat().prefetch(AUTOTUNE)
    fit(dense(64, 64), rows, seconds, callbacks=[Plot()])


@program("host_callback")
def predicting_callback(seconds: float) -> None:
    """What it has the model predict after each step is TensorFlow's work, and none of the training."""

    class Probe(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            self.model.predict(tf.ones((256, 64)), batch_size=128, verbose=0)

    rows = tf.data.Dataset.from_tensors((tf.ones((32, 64)), tf.ones((32,)))).repeat().prefetch(AUTOTUNE)
    fit(dense(64, 64), rows, seconds, callbacks=[Probe()])


def custom_step(model: keras.Model) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    optimizer = tf.Variable(0.01)

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def train_step(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            out = model(rows, training=True)
            loss = tf.reduce_mean(out**2)
        for each, slope in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=False):
            each.assign_sub(optimizer * slope)
        return loss, out

    return train_step  # type: ignore[no-any-return, unused-ignore]


@program("host_python")
def metrics_on_host(seconds: float) -> None:
    train_step = custom_step(dense(64, 64))
    end = time.monotonic() + seconds
    total = 0.0
    for rows in tf.data.Dataset.from_tensors(tf.ones((2048, 64))).repeat().prefetch(2):
        _, out = train_step(rows)
        values = out.numpy().ravel().tolist()
        total += sum(sorted(value * value for value in values for _ in range(20)))
        if time.monotonic() > end:
            return


@program("uneven_steps")
def checkpoints(seconds: float) -> None:
    folder = pathlib.Path(tempfile.mkdtemp())

    class Save(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            if batch % 10 == 9:
                self.model.save_weights(str(folder / "weights.weights.h5"))

    rows = tf.data.Dataset.from_tensors((tf.ones((4, 1500)), tf.ones((4,)))).repeat().prefetch(AUTOTUNE)
    fit(dense(1500, 1500, layers=3), rows, seconds, callbacks=[Save()])


@program("uneven_steps")
def tf_checkpoints(seconds: float) -> None:
    """TensorFlow's own checkpoints, which its operations write."""
    model = dense(1500, 1500, layers=3)
    train_step, checkpoint = custom_step(model), tf.train.Checkpoint(model=model)
    folder = pathlib.Path(tempfile.mkdtemp())
    end = time.monotonic() + seconds
    for at, rows in enumerate(tf.data.Dataset.from_tensors(tf.ones((4, 1500))).repeat().prefetch(AUTOTUNE)):
        train_step(rows)
        if at % 5 == 4:
            checkpoint.write(str(folder / "weights"))
        if time.monotonic() > end:
            return


@program("uneven_steps")
def validation(seconds: float) -> None:
    """Ten steps of training, then a validation that takes longer than they do."""
    rows = tf.data.Dataset.from_tensors((tf.ones((32, 512)), tf.ones((32,)))).repeat().prefetch(AUTOTUNE)
    fit(dense(512, 512), rows, seconds, steps_per_epoch=10, validation_data=rows, validation_steps=60)


@program("compute_bound")
def healthy_dense(seconds: float) -> None:
    rows = numbers(20_000, 512).map(labelled).cache().repeat().shuffle(1000).batch(128).prefetch(AUTOTUNE)
    fit(dense(512, 1500, layers=3), rows, seconds)


@program("compute_bound")
def healthy_convolution(seconds: float) -> None:
    model = keras.Sequential(
        [
            keras.layers.InputLayer((48, 48, 3)),
            keras.layers.Conv2D(48, 3, activation="relu"),
            keras.layers.Conv2D(48, 3, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(optimizer="sgd", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    pictures = tf.data.Dataset.from_tensors((tf.ones((48, 48, 3)), 1)).repeat()
    pictures = pictures.map(
        lambda each, label: (tf.image.random_flip_left_right(each), label), num_parallel_calls=AUTOTUNE
    )
    fit(model, pictures.batch(32).prefetch(AUTOTUNE), seconds)


@program("compute_bound")
def healthy_loop(seconds: float) -> None:
    train_step = custom_step(dense(512, 1024, layers=3))
    end = time.monotonic() + seconds
    for at, rows in enumerate(tf.data.Dataset.from_tensors(tf.ones((256, 512))).repeat().prefetch(AUTOTUNE)):
        loss, _ = train_step(rows)
        if at % 20 == 0:
            print("loss", float(loss))
        if time.monotonic() > end:
            return


@program("compute_bound")
def healthy_xla(seconds: float) -> None:
    """A step that XLA has compiled: before 2.18 nothing but its call is recorded."""
    weights = [tf.Variable(tf.random.normal((800, 800)) * 0.03) for _ in range(4)]

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator, unused-ignore]
    def train_step(rows: tf.Tensor) -> None:
        descend(weights, rows)

    end = time.monotonic() + seconds
    for rows in tf.data.Dataset.from_tensors(tf.ones((64, 800))).repeat().prefetch(AUTOTUNE):
        train_step(rows)
        if time.monotonic() > end:
            return


@program("compute_bound")
def healthy_recurrent(seconds: float) -> None:
    model = keras.Sequential([keras.layers.InputLayer((40, 32)), keras.layers.LSTM(128), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse", steps_per_execution=4)
    rows = tf.data.Dataset.from_tensors((tf.ones((64, 40, 32)), tf.ones((64,)))).repeat().prefetch(AUTOTUNE)
    fit(model, rows, seconds, steps_per_epoch=40)


@program("compute_bound")
def healthy_with_python(seconds: float) -> None:
    """A little Python in the pipeline that its prefetch hides."""

    def load(row: tf.Tensor) -> tf.Tensor:
        spin(0.2)
        return row

    rows = (
        numbers(size=512)
        .batch(128)
        .map(lambda row: tf.ensure_shape(tf.py_function(load, [row], tf.float32), (None, 512)))
    )
    fit(dense(512, 1500, layers=3), rows.map(labelled).prefetch(2), seconds)


def own_profile(folder: str, steps: int, before: int) -> None:
    """Profile the steps of a training itself, as TensorFlow's guide says, some steps after its begin."""
    rows = tf.data.Dataset.from_tensors((tf.ones((128, 512)), tf.ones((128,)))).repeat().prefetch(AUTOTUNE)
    model = dense(512, 1024)
    if before:
        model.fit(rows, steps_per_epoch=before, verbose=0)
    tf.profiler.experimental.start(folder)
    model.fit(rows, steps_per_epoch=steps, verbose=0)
    tf.profiler.experimental.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    PROGRAMS[options.name][1](options.seconds)


if __name__ == "__main__":
    main()
