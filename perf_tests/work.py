"""Work that runs in the same way on the GPU and the CPU, with results that can be checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tfgpu_doctor.perf_tests.runner import Variant

# Relative to the sum of the magnitudes, by the bits of the mantissa; TF32, which may compute float32, has 10 bits.
_TOLERANCE = {"float32": 2.0**-10, "float16": 2.0**-9, "bfloat16": 2.0**-7}
_LOOKED_AT = 64  # elements of a result that are verified in float64
Array: TypeAlias = np.ndarray[Any, Any]


class Work:
    """A tf.function on one device with its operands; `verify` checks some elements of its result against `exact`."""

    name = ""
    carriers: tuple[str, ...] = ()  # parts of the names of the operations that compute it
    operations = 0  # floating-point operations; a multiplication and an addition count as two

    def __init__(
        self, tf: Any, device: str, call: Callable[..., Any], operands: tuple[Array, ...], precision: str = "float32"
    ) -> None:
        with tf.device(device):
            placed = [tf.cast(tf.identity(tf.constant(each)), precision) for each in operands]
            self._call = tf.function(lambda: call(*placed))
        self._tf, self.device, self.operands, self._precision = tf, device, operands, precision

    def __call__(self) -> Any:
        with self._tf.device(self.device):
            return self._call()

    def exact(self) -> tuple[tuple[Array, ...], Array, Array]:
        """Return the indexes of some elements, their exact values in float64, and the sums of the magnitudes of their terms."""
        raise NotImplementedError

    def verify(self, result: Any) -> None:
        """Compare the result with the exact values of those elements."""
        places, due, scale = self.exact()
        seen = result.numpy()[places].astype(np.float64)
        error = np.abs(seen - due) / scale
        assert error.max() < _TOLERANCE[self._precision], f"the error is {error.max():.2g} of the sum of magnitudes"

    def variant(self) -> Variant:
        return Variant(f"{self.name} on {self.device}", self, self.verify, self.device, self.carriers)


class Product(Work):
    """A product of two square matrices."""

    carriers = ("MatMul",)

    def __init__(self, tf: Any, device: str, side: int, precision: str = "float32") -> None:
        numbers = np.random.default_rng(seed=7)
        pair = tuple(numbers.standard_normal((side, side), dtype=np.float32) for _ in range(2))
        super().__init__(tf, device, tf.linalg.matmul, pair, precision)
        self.name, self.operations = f"matmul {side}", 2 * side**3

    def exact(self) -> tuple[tuple[Array, ...], Array, Array]:
        left, right = self.operands
        rows, columns = np.random.default_rng(seed=1).integers(0, len(left), (2, _LOOKED_AT))
        terms = left[rows].astype(np.float64) * right[:, columns].T
        return (rows, columns), terms.sum(axis=1), np.abs(terms).sum(axis=1)


class Convolution(Work):
    """A 3x3 convolution of images with as many output maps as channels."""

    carriers = ("Conv2D",)

    def __init__(self, tf: Any, device: str, side: int, *, batch: int = 8, channels: int = 64) -> None:
        numbers = np.random.default_rng(seed=9)
        pictures = numbers.standard_normal((batch, side, side, channels), dtype=np.float32)
        kernel = numbers.standard_normal((3, 3, channels, channels), dtype=np.float32)
        super().__init__(
            tf, device, lambda given, weights: tf.nn.conv2d(given, weights, 1, "VALID"), (pictures, kernel)
        )
        self.name, self.operations = f"convolution {side}", 2 * batch * (side - 2) ** 2 * 9 * channels**2

    def exact(self) -> tuple[tuple[Array, ...], Array, Array]:
        pictures, kernel = (each.astype(np.float64) for each in self.operands)
        draw = np.random.default_rng(seed=1).integers
        batch, side, _, channels = pictures.shape
        which, maps = draw(0, batch, _LOOKED_AT), draw(0, channels, _LOOKED_AT)
        down, across = draw(0, side - 2, (2, _LOOKED_AT))
        windows = [pictures[w, d : d + 3, a : a + 3] for w, d, a in zip(which, down, across, strict=True)]
        terms = np.stack([window * kernel[..., m] for window, m in zip(windows, maps, strict=True)])
        axes = (1, 2, 3)
        return (which, down, across, maps), terms.sum(axis=axes), np.abs(terms).sum(axis=axes)
