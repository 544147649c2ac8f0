"""A bf16 product of 8192 and copies within the GPU, by TensorFlow and by CUDA's own libraries in turns, in one process.

Prints {"pairs": {what: [[TensorFlow, other], ...]}, "units": ..., "missing": {what: why}}: TFLOP/s, and GB/s read and written.
Both multiply the same numbers, since the power that a product draws depends on them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from gpu_run.programs import cuda_runtime

SMALL = "RECORD_GPU_SMALL" in os.environ
SIDE, COPIED_BYTES, CALLS, PAIRS = (256, 1 << 22, 3, 4) if SMALL else (8192, 1 << 30, 20, 15)
WARM_UP_S = 0.1 if SMALL else 2.0


def with_tensorflow(work: Callable[[], Any]) -> Callable[[], float]:
    """The seconds of a call by TensorFlow, between two moments at which the GPU has nothing to do."""

    def measure() -> float:
        tf.test.experimental.sync_devices()
        began = time.perf_counter()
        for _ in range(CALLS):
            work()
        tf.test.experimental.sync_devices()
        return (time.perf_counter() - began) / CALLS

    return measure


def in_turns(ours: Callable[[], float], other: Callable[[], float] | None, amount: float) -> list[list[float]]:
    """Pairs of speeds, after a while of warming up; each second pair begins with the other side."""
    sides = [ours] if other is None else [ours, other]
    ends = time.monotonic() + WARM_UP_S
    while time.monotonic() < ends:
        for side in sides:
            side()
    pairs = []
    for number in range(PAIRS):
        order = sides if number % 2 else sides[::-1]
        seconds = {side: side() for side in order}
        pairs.append([amount / seconds[side] for side in sides])
    return pairs


def alike(found: Any, expected: Any) -> None:
    """Raise CudaError unless two products are the same but for rounding to bfloat16."""
    worst = float(np.max(np.abs(found.astype(np.float32) - expected.astype(np.float32))))
    most = float(np.max(np.abs(expected.astype(np.float32))))
    if not worst <= 0.02 * most:
        raise cuda_runtime.CudaError(f"the products differ by {worst} of {most}")


def products(runtime: cuda_runtime.Runtime | None) -> tuple[list[list[float]], str]:
    """The pairs of TFLOP/s, and why there is no other side."""
    numbers = [np.random.default_rng(seed).standard_normal((SIDE, SIDE), np.float32) for seed in (1, 2)]
    halves = [each.astype(tf.bfloat16.as_numpy_dtype) for each in numbers]
    with tf.device("GPU:0"):
        one, two = (tf.identity(tf.constant(each)) for each in halves)
        ours = with_tensorflow(lambda: tf.linalg.matmul(one, two))
        other, why = None, "the CUDA runtime cannot be used"
        if runtime:
            try:
                product = cuda_runtime.Product(runtime, *halves)
                other, why = (lambda: runtime.seconds(product, CALLS)), ""
                other()
                found = np.empty_like(halves[0])
                runtime.download(found, product.result)
                alike(found, tf.linalg.matmul(one, two).numpy())
            except cuda_runtime.CudaError as error:
                other, why = None, str(error)
        return in_turns(ours, other, 2 * SIDE**3 / 1e12), why


def copies(runtime: cuda_runtime.Runtime | None) -> tuple[list[list[float]], str]:
    """The pairs of GB/s, read and written."""
    with tf.device("GPU:0"):
        original = tf.random.uniform((COPIED_BYTES // 4,))
        ours = with_tensorflow(lambda: tf.raw_ops.DeepCopy(x=original))
        other, why = None, "the CUDA runtime cannot be used"
        if runtime:
            try:
                source, target = runtime.allocate(COPIED_BYTES), runtime.allocate(COPIED_BYTES)
                other, why = (lambda: runtime.seconds(lambda: runtime.copy(target, source, COPIED_BYTES), CALLS)), ""
                other()
            except cuda_runtime.CudaError as error:
                other, why = None, str(error)
        return in_turns(ours, other, 2 * COPIED_BYTES / 1e9), why


def main() -> None:
    """Measure both, and print."""
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    with tf.device("GPU:0"):
        placed = tf.linalg.matmul(tf.ones((8, 8)), tf.ones((8, 8))).device  # loads the libraries that TensorFlow takes
    if "GPU:0" not in placed:
        sys.exit(f"error: TensorFlow computed on {placed}")
    runtime, missing = None, {}
    try:
        runtime = cuda_runtime.Runtime()
    except cuda_runtime.CudaError as error:
        missing["CUDA runtime"] = str(error)
    pairs = {}
    for what, measure in ((f"bf16 product of {SIDE}", products), ("copy within the GPU", copies)):
        pairs[what], why = measure(runtime)
        if why:
            missing[what] = why
    print(json.dumps({"pairs": pairs, "missing": missing}))


if __name__ == "__main__":
    main()
