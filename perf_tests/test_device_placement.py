"""Work on the GPU against the same work on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.perf_tests.referee import Contender

SIDE = 2048  # large enough that a GPU wins on any machine, small enough for two CPU cores


class Product:
    """A float32 matrix product on one device."""

    def __init__(self, tf: Any, device: str, side: int) -> None:
        numbers = np.random.default_rng(seed=7)
        self.left = numbers.standard_normal((side, side), dtype=np.float32)
        self.right = numbers.standard_normal((side, side), dtype=np.float32)
        with tf.device(device):
            operands = tf.constant(self.left), tf.constant(self.right)
            self._call = tf.function(lambda: tf.linalg.matmul(*operands))
        self._tf, self.device = tf, device

    def __call__(self) -> Any:
        with self._tf.device(self.device):
            return self._call()

    def verify(self, result: Any) -> None:
        """Agrees with float64 within what TF32's 10 bits of mantissa allow."""
        exact = self.left.astype(np.float64) @ self.right.astype(np.float64)
        scale = np.abs(self.left).astype(np.float64) @ np.abs(self.right).astype(np.float64)
        assert np.max(np.abs(result.numpy() - exact) / scale) < 2**-10

    def contender(self) -> Contender:
        return Contender(f"matmul on {self.device}", self, self.verify, self.device)


@pytest.mark.telling(1)
def test_matmul(duel: Callable[..., None], tensorflow: Any, gpu: str) -> None:
    on_gpu, on_cpu = (Product(tensorflow, device, SIDE) for device in (gpu, "CPU:0"))
    duel(on_gpu.contender(), on_cpu.contender())
