"""TF32 and full float32 in one process.

TensorFlow keeps the plan of a convolution, once it has chosen it, by its shapes, its type and the GPU, but not by the
switch of TF32 (`ConvParameters` in tensorflow/core/util/autotune_maps/conv_parameters.h, 2.9 to 2.21). With equal shapes,
the second state would run with the plan of the first. So each has shapes of its own: with TF32 pictures are wider than
high, without it they are the same pictures transposed: as many operations and bytes, and the same results, transposed.
(Products have no such plan, unless TF_USE_CUBLASLT is set.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_MORE = 2  # columns than rows


@contextlib.contextmanager
def tf32(tf: Any, *, on: bool) -> Iterator[None]:
    """Switch TF32 on or off in the block."""
    options = tf.config.experimental
    before = options.tensor_float_32_execution_enabled()
    options.enable_tensor_float_32_execution(on)
    try:
        yield
    finally:
        options.enable_tensor_float_32_execution(before)


def sides(side: int, *, on: bool) -> tuple[int, int]:
    """Return the height and the width of pictures with TF32, or without it."""
    return (side, side + _MORE) if on else (side + _MORE, side)


def turned(tf: Any, pictures: Any) -> Any:
    """Return pictures transposed: (samples, width, height, channels)."""
    return tf.transpose(pictures, (0, 2, 1, 3))


def turned_kernel(tf: Any, kernel: Any) -> Any:
    """Return the kernel whose convolution of transposed pictures is the transposed one."""
    return tf.transpose(kernel, (1, 0, 2, 3))
