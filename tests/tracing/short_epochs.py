"""A training of many short epochs with an iterator each, as `fit` makes them: `python short_epochs.py --seconds N`.

Nothing is wrong with it; on TensorFlow 2.18 and 2.21 the removal of the old iterators takes a third of the time and more.
With --mended all epochs have one iterator.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))  # it also runs by itself

import tensorflow as tf
from tensorflow import keras
from training_parts import AUTOTUNE, EndAfter

_PICTURES, _BATCH, _SIDE = 640, 32, 48


def _parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    data = tf.io.decode_raw(record, tf.uint8)
    return tf.reshape(tf.cast(data[1:], tf.float32) / 255.0, (_SIDE, _SIDE, 3)), tf.cast(data[0], tf.int32)


def main() -> None:
    """Write the pictures, and train on them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--mended", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = str(pathlib.Path(folder) / "pictures.tfrecord")
        with tf.io.TFRecordWriter(file) as writer:
            for number in range(_PICTURES):
                writer.write(bytes([number % 10]) + os.urandom(_SIDE * _SIDE * 3))
        data = tf.data.TFRecordDataset(file).shuffle(128).map(_parse, num_parallel_calls=AUTOTUNE)
        data = data.batch(_BATCH, drop_remainder=True).prefetch(AUTOTUNE)
        model = keras.Sequential([
            keras.layers.AveragePooling2D(2), keras.layers.Conv2D(24, 3, activation="relu"), keras.layers.Flatten(),
            keras.layers.Dense(10),
        ])  # fmt: skip
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        more = {"steps_per_epoch": _PICTURES // _BATCH} if options.mended else {}
        ends = EndAfter(options.seconds)
        model.fit(data.repeat() if options.mended else data, epochs=1_000_000, callbacks=[ends], verbose=0, **more)


if __name__ == "__main__":
    main()
