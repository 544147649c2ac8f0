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


def shrink(tf: Any, content: Any) -> Any:
    """Decode a JPEG and resize it, to a little more than the input of a network."""
    picture = tf.cast(tf.io.decode_jpeg(content, channels=3), tf.float32) / 255.0
    return tf.image.resize(picture, (INPUT_SIDE + 8, INPUT_SIDE + 8), antialias=True)


def augment(tf: Any, number: Any, picture: Any) -> Any:
    """Crop, flip and brighten at random: the number is the seed, so that results can be compared."""
    seed = tf.stack([tf.cast(number, tf.int64), tf.constant(_SEED, tf.int64)])
    picture = tf.image.stateless_random_crop(picture, (INPUT_SIDE, INPUT_SIDE, 3), seed)
    picture = tf.image.stateless_random_flip_left_right(picture, seed)
    return tf.image.stateless_random_brightness(picture, 0.1, seed)


def prepare(tf: Any, number: Any, content: Any) -> Any:
    """Decode, resize, augment. An image is always changed in the same way."""
    return augment(tf, number, shrink(tf, content))


def as_written(tf: Any, dataset: Any, *, autotune: bool = False) -> Any:
    """Return the dataset without automatic optimization: TensorFlow may add a prefetch or make a map parallel.

    `autotune`: TensorFlow still chooses what the pipeline leaves to it with AUTOTUNE.
    """
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = autotune
    return dataset.with_options(options)


def tuned_and_naive(tf: Any, pictures: Any) -> tuple[Any, Any]:
    """Return the same batches of images from a tuned pipeline and from a generator.

    The tuned pipeline caches before the augmentation: a cache after it would repeat the same changes in each epoch.
    """
    ready, at_once = partial(prepare, tf), tf.data.AUTOTUNE
    small = pictures.map(lambda number, content: (number, shrink(tf, content)), num_parallel_calls=at_once).cache()
    tuned = small.map(partial(augment, tf), num_parallel_calls=at_once).batch(BATCH).prefetch(at_once)

    def one_by_one() -> Iterator[Any]:
        for number, content in pictures:
            with tf.device("CPU:0"):
                picture = ready(number, content).numpy()
            yield picture

    signature = tf.TensorSpec((INPUT_SIDE, INPUT_SIDE, 3), tf.float32)
    naive = tf.data.Dataset.from_generator(one_by_one, output_signature=signature).batch(BATCH)
    return tuned, as_written(tf, naive.apply(tf.data.experimental.assert_cardinality(-(-len(pictures) // BATCH))))


def draw_changes(count: int) -> np.ndarray[Any, Any]:
    """Draw the random changes of each image: whether to flip it, its angle, contrast and brightness."""
    numbers = np.random.default_rng(seed=_SEED)
    lows, highs = (0, -0.3, 0.8, -0.1), (1, 0.3, 1.2, 0.1)
    return numbers.uniform(lows, highs, (count, 4)).astype(np.float32)


def change(tf: Any, pictures: Any, changes: Any) -> Any:
    """Flip, rotate, and change contrast and brightness of a batch of 8-bit images, on any device.

    Every operation has kernels for the CPU and for GPUs, and treats each image of the batch on its own.
    """
    flips, angles, contrasts, lights = tf.unstack(changes[:, :, None, None, None], axis=1)
    pictures = tf.cast(pictures, tf.float32) / 255.0
    pictures = tf.where(flips > 0.5, tf.reverse(pictures, [2]), pictures)
    pictures = _rotate(tf, pictures, angles[:, 0, 0, 0])
    mean = tf.reduce_mean(pictures, (1, 2), keepdims=True)
    return (pictures - mean) * contrasts + mean + lights


def _rotate(tf: Any, pictures: Any, angles: Any) -> Any:
    """Rotate each image around its center."""
    height, width = (int(side) for side in pictures.shape[1:3])
    down, across = (height - 1) / 2, (width - 1) / 2
    cosine, sine, zeros = tf.cos(angles), tf.sin(angles), tf.zeros_like(angles)
    to_left, to_top = across - cosine * across + sine * down, down - sine * across - cosine * down
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=pictures,
        transforms=tf.stack([cosine, -sine, to_left, sine, cosine, to_top, zeros, zeros], axis=1),
        output_shape=(height, width),
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="REFLECT",
    )
