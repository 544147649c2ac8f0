"""Matrix products on the GPU against the CPU: where they ran is proved, the answer is checked, then the speed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.perf_tests.duel import run_duel

SIDE = 2048  # large enough that a GPU wins on any machine, small enough for two CPU cores
ROUNDS = 10


class Product:
    """A float32 matrix product on one device; calling it returns when the device is done."""

    def __init__(self, tf: Any, device: str) -> None:
        self._tf, self._device = tf, device
        numbers = np.random.default_rng(seed=7)
        self.left = numbers.standard_normal((SIDE, SIDE), dtype=np.float32)
        self.right = numbers.standard_normal((SIDE, SIDE), dtype=np.float32)
        with tf.device(device):
            self._operands = tf.constant(self.left), tf.constant(self.right)

    def __call__(self) -> Any:
        with self._tf.device(self._device):
            result = self._tf.linalg.matmul(*self._operands)
            # Reading one number back waits for the device; copying all of it would be measured as well.
            result[0, 0].numpy()
        return result

    def verify(self) -> None:
        """The result lies where it was asked for, and agrees with float64 within what TF32's 10 bits allow."""
        result = self()
        assert self._device.removeprefix("/") in result.device
        exact = self.left.astype(np.float64) @ self.right.astype(np.float64)
        scale = np.abs(self.left).astype(np.float64) @ np.abs(self.right).astype(np.float64)
        assert np.max(np.abs(result.numpy() - exact) / scale) < 2**-10


@pytest.fixture(params=["/CPU:0", "/GPU:0"], ids=["cpu", "gpu"])
def product(request: pytest.FixtureRequest, tensorflow: Any) -> Product:
    device = request.getfixturevalue("gpu") if request.param == "/GPU:0" else request.param
    return Product(tensorflow, device)


def test_matmul(benchmark: Any, product: Product) -> None:
    product.verify()
    benchmark.extra_info["operations"] = 2 * SIDE**3
    benchmark.pedantic(product, rounds=ROUNDS, warmup_rounds=2)
    assert len(benchmark.stats.stats.data) == ROUNDS


def test_gpu_beats_cpu(tensorflow: Any, gpu: str) -> None:
    on_gpu, on_cpu = Product(tensorflow, gpu), Product(tensorflow, "/CPU:0")
    on_gpu.verify()
    on_cpu.verify()
    duel = run_duel(on_gpu, on_cpu, rounds=ROUNDS)
    assert duel.speedup > 1, f"the GPU is {1 / duel.speedup:.2f} times slower than the CPU"
