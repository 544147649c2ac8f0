"""Operations with exact results in float64, and the error allowed for each element in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
UNIT = 2.0**-23  # float32 has 24 bits of mantissa
TF32_UNIT = 2.0**-10  # TF32, which tensor cores may use for float32, has 11


@dataclass(frozen=True)
class Operation:
    """An operation. `error` is the largest error of an element, relative to the maximum rounding error: 1.0 is just allowed.

    `scale`: the sum of the magnitudes of an element's terms; `rounded`: how many units of it rounding may lose;
    `carriers`: parts of the names of the TensorFlow operations that compute it.
    """

    name: str
    call: Callable[[Any, list[Any]], Any]
    inputs: list[Array]
    exact: Array
    scale: Array
    rounded: float
    carriers: tuple[str, ...]
    may_use_tf32: bool = False

    def error(self, answer: Array, unit: float = UNIT) -> float:
        allowed = self.rounded * unit * self.scale + np.finfo(np.float32).tiny
        return float(np.max(np.abs(answer.astype(np.float64) - self.exact) / allowed))


def operations(seed: int = 23, *, turned: bool = False) -> list[Operation]:
    """Return products, a convolution, sums and functions on numbers of both signs. `turned`: pictures of another shape."""
    numbers = np.random.default_rng(seed=seed)

    def normal(*shape: int) -> Array:
        return numbers.standard_normal(shape).astype(np.float32)

    left, right, images, kernel, rows = (
        normal(96, 257),
        normal(257, 65),
        normal(2, 19, 17, 8) if turned else normal(2, 17, 19, 8),
        normal(3, 3, 8, 12),
        normal(64, 1001),
    )
    return [
        _product(left, right),
        _convolution(images, kernel),
        _softmax(rows),
        _layer_norm(rows),
        _map("sum", "Sum", lambda tf, x: tf.reduce_sum(x, axis=1), rows, _sum, lambda x: _sum(np.abs(x)), 64),
        _map("exp", "Exp", lambda tf, x: tf.exp(x), rows, np.exp, np.exp, 16),
        _map("tanh", "Tanh", lambda tf, x: tf.tanh(x), rows, np.tanh, lambda x: np.abs(np.tanh(x)), 16),
        _map("log", "Log", lambda tf, x: tf.math.log(x), np.abs(rows) + 2, np.log, np.log, 16),
    ]


def _sum(rows: Array) -> Array:
    added: Array = rows.sum(axis=1)
    return added


def _map(
    name: str, carrier: str, call: Callable[[Any, Any], Any], given: Array, exact: Callable[[Array], Array],
    scale: Callable[[Array], Array], rounded: float,
) -> Operation:  # fmt: skip
    wide = given.astype(np.float64)
    due, size = exact(wide), scale(wide)
    return Operation(name, lambda tf, inputs: call(tf, inputs[0]), [given], due, size, rounded, (carrier,))


def _product(left: Array, right: Array) -> Operation:
    wide = left.astype(np.float64), right.astype(np.float64)
    scale = np.abs(wide[0]) @ np.abs(wide[1])
    return Operation(
        "matmul",
        lambda tf, given: tf.linalg.matmul(*given),
        [left, right],
        wide[0] @ wide[1],
        scale,
        8,
        ("MatMul",),
        True,
    )


def _convolution(images: Array, kernel: Array) -> Operation:
    def convolve(pictures: Array, weights: Array) -> Array:
        high, wide = weights.shape[:2]
        windows = np.lib.stride_tricks.sliding_window_view(pictures, (high, wide), axis=(1, 2))
        answer: Array = np.einsum("nyxcij,ijco->nyxo", windows, weights)
        return answer

    pair = images.astype(np.float64), kernel.astype(np.float64)
    scale = convolve(np.abs(pair[0]), np.abs(pair[1]))
    # 32: a convolution by transforms (Winograd) rounds more than one that multiplies and adds.
    return Operation(
        "conv2d", lambda tf, given: tf.nn.conv2d(*given, 1, "VALID"), [images, kernel], convolve(*pair), scale, 32,
        ("Conv2D",), True,
    )  # fmt: skip


def _softmax(rows: Array) -> Operation:
    wide = np.exp(rows.astype(np.float64))
    exact = wide / wide.sum(axis=1, keepdims=True)
    return Operation("softmax", lambda tf, given: tf.nn.softmax(given[0]), [rows], exact, exact, 64, ("Softmax",))


def _layer_norm(rows: Array) -> Operation:
    wide = rows.astype(np.float64)
    deviation = np.sqrt(wide.var(axis=1, keepdims=True) + 1e-3)
    exact = (wide - wide.mean(axis=1, keepdims=True)) / deviation
    scale = np.abs(exact) + 1.0  # the subtracted mean counts as well

    def call(tf: Any, given: list[Any]) -> Any:
        mean, variance = tf.nn.moments(given[0], axes=[1], keepdims=True)
        return (given[0] - mean) * tf.math.rsqrt(variance + 1e-3)

    return Operation("layer normalisation", call, [rows], exact, scale, 64, ("Mul", "Mean"))
