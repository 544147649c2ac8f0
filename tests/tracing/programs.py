"""Small trainings, each with one bottleneck or none: `python programs.py NAME --seconds N`. Nothing here knows of profiles.

They run on TensorFlow 2.12 to the newest, on the processor.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator

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


@program("input_python")
def py_function(seconds: float) -> None:
    def load(row: tf.Tensor) -> tf.Tensor:
        spin(3)
        return row

    rows = numbers().map(
        lambda row: tf.ensure_shape(tf.py_function(load, [row], tf.float32), (64,)), num_parallel_calls=4
    )
    fit(dense(64, 64), rows.map(labelled).batch(32).prefetch(2), seconds)


@program("input_python")
def numpy_function(seconds: float) -> None:
    import numpy as np

    def load(row: np.ndarray) -> np.ndarray:
        for _ in range(12):
            row = np.sort(np.concatenate([row] * 40))[::40]
        return row.astype("float32")

    rows = numbers().batch(64).map(lambda row: tf.ensure_shape(tf.numpy_function(load, [row], tf.float32), (None, 64)))
    fit(dense(64, 64), rows.unbatch().map(labelled).batch(64).prefetch(1), seconds)


@program("input_python")
def generator(seconds: float) -> None:
    def rows() -> Iterator[tuple[list[float], float]]:
        while True:
            spin(1)
            yield [0.5] * 64, 1.0

    kinds = (tf.TensorSpec((64,), tf.float32), tf.TensorSpec((), tf.float32))
    fit(dense(64, 64), tf.data.Dataset.from_generator(rows, output_signature=kinds).batch(32).prefetch(2), seconds)


@program("input_python")
def sequence(seconds: float) -> None:
    import numpy as np

    base = keras.utils.PyDataset if hasattr(keras.utils, "PyDataset") else keras.utils.Sequence

    class Rows(base):  # type: ignore[misc, valid-type]
        def __len__(self) -> int:
            return 50

        def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
            spin(40)
            return np.ones((32, 64), "float32"), np.ones((32,), "float32")

    model = dense(64, 64)
    model.fit(Rows(), epochs=10_000, callbacks=[EndAfter(seconds)], verbose=0)


@program("input_serial_map")
def serial_map(seconds: float) -> None:
    fit(dense(64, 64), numbers().map(costly).map(labelled).batch(32).prefetch(2), seconds)


@program("input_serial_map")
def two_replicas(seconds: float) -> None:
    """MirroredStrategy puts generators and buffers of its own between the pipeline and each replica."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(2)])
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        model = dense(64, 64)
    fit(model, numbers().map(costly).map(labelled).batch(64).prefetch(2), seconds)


@program("input_no_prefetch")
def no_prefetch(seconds: float) -> None:
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    rows = numbers(size=1024).batch(64).map(lambda rows: (busy(rows, 20), tf.reduce_mean(rows, -1)))
    fit(dense(1024, 1024), rows.with_options(options), seconds)


def busy(rows: tf.Tensor, times: int) -> tf.Tensor:
    noise = tf.random.normal((400, 400))
    for _ in range(times):
        noise = tf.linalg.matmul(noise, noise) / 20.0
    return rows + 0.0 * tf.reduce_sum(tf.clip_by_value(noise, -1.0, 1.0))


@program("input_slow_source")
def compressed_records(seconds: float) -> None:
    """One compressed file, which one thread reads."""
    import numpy as np

    path = str(pathlib.Path(tempfile.mkdtemp()) / "records")
    noise = np.random.default_rng(0)
    with tf.io.TFRecordWriter(path, options="GZIP") as writer:
        for _ in range(200):
            writer.write(noise.integers(0, 9, 400_000, dtype=np.uint8).tobytes())

    def decode(each: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.io.decode_raw(tf.strings.substr(each, 0, 64), tf.uint8), tf.float32)[:64]

    raw = tf.data.TFRecordDataset(path, compression_type="GZIP").repeat()
    rows = raw.map(lambda each: tf.ensure_shape(decode(each), (64,)), num_parallel_calls=AUTOTUNE)
    fit(dense(64, 64), rows.map(labelled).batch(8).prefetch(2), seconds)


@program("input_cpu_bound")
def decoding(seconds: float) -> None:
    picture = tf.io.encode_jpeg(tf.cast(tf.random.uniform((400, 400, 3), 0, 255, tf.int32), tf.uint8))
    pictures = tf.data.Dataset.from_tensors(picture).repeat()

    def decode(data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pixels = tf.image.resize(tf.io.decode_jpeg(data, 3), (8, 8))
        return tf.reshape(pixels, (192,)), tf.reduce_mean(pixels)

    fit(dense(192, 64), pictures.map(decode, num_parallel_calls=AUTOTUNE).batch(16).prefetch(AUTOTUNE), seconds)


@program("input_per_element")
def map_before_batch(seconds: float) -> None:
    rows = tf.data.Dataset.range(100_000_000).map(lambda at: tf.cast(at, tf.float32)).map(lambda at: at / 1e6)
    rows = rows.map(lambda at: (at[None], at * 2.0)).batch(4096).prefetch(2)
    fit(dense(1, 16), rows, seconds)


@program("input_shuffle")
def shuffle_buffer(seconds: float) -> None:
    rows = numbers(size=64).shuffle(4000).take(400).map(labelled).batch(64).repeat()
    fit(dense(64, 64), rows.prefetch(1), seconds)


@program("launch_bound")
def tiny_steps(seconds: float) -> None:
    rows = tf.data.Dataset.from_tensors((tf.ones((8, 16)), tf.ones((8,)))).repeat().prefetch(AUTOTUNE)
    fit(dense(16, 8), rows, seconds, steps_per_epoch=2000)


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
        with tf.GradientTape() as tape:
            out = given
            for each in weights:
                out = tf.nn.relu(tf.linalg.matmul(out, each))
            loss = tf.reduce_mean(out**2)
        for each, slope in zip(weights, tape.gradient(loss, weights), strict=False):
            each.assign_sub(0.01 * slope)
        if time.monotonic() > end:
            return


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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    PROGRAMS[options.name][1](options.seconds)


if __name__ == "__main__":
    main()
