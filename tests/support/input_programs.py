"""Trainings that wait for their input, each for one reason."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterator

import tensorflow as tf
from tensorflow import keras
from training_parts import AUTOTUNE, EndAfter, costly, dense, fit, labelled, numbers, program, spin


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
    endless = pictures(1).repeat()
    fit(dense(192, 64), endless.map(decode, num_parallel_calls=AUTOTUNE).batch(16).prefetch(AUTOTUNE), seconds)


@program("input_cpu_bound")
def no_cache(seconds: float) -> None:
    """Each epoch decodes the same pictures again: cache() after decoding is what mends it."""
    fit_epochs(pictures(160).map(decode, num_parallel_calls=AUTOTUNE), seconds)


@program("input_cpu_bound")
def random_pictures(seconds: float) -> None:
    """Each epoch distorts the same pictures in another way: after cache() they would all be the same."""

    def distort(data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pixels = tf.image.random_crop(tf.io.decode_jpeg(data, 3), (380, 380, 3))
        pixels = tf.image.resize(tf.image.random_flip_left_right(pixels), (8, 8))
        return tf.reshape(pixels, (192,)), tf.reduce_mean(pixels)

    fit_epochs(pictures(160).map(distort, num_parallel_calls=AUTOTUNE), seconds)


def pictures(count: int) -> tf.data.Dataset:
    """Some JPEG pictures."""
    pixels = tf.cast(tf.random.uniform((400, 400, 3), 0, 255, tf.int32), tf.uint8)
    return tf.data.Dataset.from_tensor_slices([tf.io.encode_jpeg(pixels).numpy()] * count)


def decode(data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    pixels = tf.image.resize(tf.io.decode_jpeg(data, 3), (8, 8))
    return tf.reshape(pixels, (192,)), tf.reduce_mean(pixels)


def fit_epochs(rows: tf.data.Dataset, seconds: float) -> None:
    """Train on all rows, epoch after epoch: Keras makes an iterator for each."""
    model = dense(192, 64)
    model.fit(rows.batch(16).prefetch(AUTOTUNE), epochs=10_000, callbacks=[EndAfter(seconds)], verbose=0)


@program("input_slow_source")
def stalling_source(seconds: float) -> None:
    """One record in 100 is large: reading it takes as long as many steps."""
    path = str(pathlib.Path(tempfile.mkdtemp()) / "records")
    with tf.io.TFRecordWriter(path, options="GZIP") as writer:
        for at in range(200):
            writer.write(os.urandom(60_000_000 if at % 100 == 50 else 256))

    def first(each: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.io.decode_raw(tf.strings.substr(each, 0, 64), tf.uint8), tf.float32)[:64]

    raw = tf.data.TFRecordDataset(path, compression_type="GZIP").repeat()
    rows = raw.map(lambda each: tf.ensure_shape(first(each), (64,)), num_parallel_calls=AUTOTUNE)
    fit(dense(64, 64), rows.map(labelled).batch(4).prefetch(2), seconds)


@program("input_per_element")
def map_before_batch(seconds: float) -> None:
    rows = tf.data.Dataset.range(100_000_000).map(lambda at: tf.cast(at, tf.float32)).map(lambda at: at / 1e6)
    rows = rows.map(lambda at: (at[None], at * 2.0)).batch(4096).prefetch(2)
    fit(dense(1, 16), rows, seconds)


@program("input_shuffle")
def shuffle_buffer(seconds: float) -> None:
    rows = numbers(size=64).shuffle(4000).take(400).map(labelled).batch(64).repeat()
    fit(dense(64, 64), rows.prefetch(1), seconds)
