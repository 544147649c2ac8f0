"""Generated images as JPEG bytes, and the pipelines that turn them into the input of a network."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

PICTURE_SIDE, INPUT_SIDE = 320, 96
BATCH = 8
_SEED = 11


def make_jpegs(tf: Any, count: int, side: int = PICTURE_SIDE) -> list[bytes]:
    """Generate images of smooth colors with noise, so that the files are as large as photographs."""
    numbers = np.random.default_rng(seed=_SEED)
    down, across = np.mgrid[0:side, 0:side] / side
    made = []
    for _ in range(count):
        waves = [np.sin(numbers.uniform(2, 9) * down + numbers.uniform(2, 9) * across) for _ in range(3)]
        picture = 128 + 90 * np.stack(waves, axis=-1) + numbers.normal(0, 8, (side, side, 3))
        made.append(bytes(tf.io.encode_jpeg(np.clip(picture, 0, 255).astype(np.uint8)).numpy()))
    return made


def prepare(tf: Any, number: Any, content: Any) -> Any:
    """Decode, resize, augment. An image is always changed in the same way, so that results can be compared."""
    picture = tf.cast(tf.io.decode_jpeg(content, channels=3), tf.float32) / 255.0
    picture = tf.image.resize(picture, (INPUT_SIDE + 8, INPUT_SIDE + 8), antialias=True)
    seed = tf.stack([tf.cast(number, tf.int32), _SEED])
    picture = tf.image.stateless_random_crop(picture, (INPUT_SIDE, INPUT_SIDE, 3), seed)
    picture = tf.image.stateless_random_flip_left_right(picture, seed)
    return tf.image.stateless_random_brightness(picture, 0.1, seed)


def as_written(tf: Any, dataset: Any) -> Any:
    """Return the dataset without automatic optimization: TensorFlow may add a prefetch or make a map parallel."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.with_options(options)


def tuned_and_naive(tf: Any, pictures: Any) -> tuple[Any, Any]:
    """Return the same batches of images from a tuned pipeline and from a generator."""
    ready = partial(prepare, tf)
    tuned = pictures.map(ready, num_parallel_calls=tf.data.AUTOTUNE).cache().batch(BATCH).prefetch(tf.data.AUTOTUNE)

    def one_by_one() -> Iterator[Any]:
        for number, content in pictures:
            with tf.device("CPU:0"):
                picture = ready(number, content).numpy()
            yield picture

    signature = tf.TensorSpec((INPUT_SIDE, INPUT_SIDE, 3), tf.float32)
    naive = tf.data.Dataset.from_generator(one_by_one, output_signature=signature).batch(BATCH)
    return tuned, as_written(tf, naive.apply(tf.data.experimental.assert_cardinality(-(-len(pictures) // BATCH))))
