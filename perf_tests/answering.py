"""Check whether a GPU still responds to this process: after some CUDA errors every operation of a process fails."""

from __future__ import annotations

from typing import Any

from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.perf_tests.placement import short_device
from tfgpu_doctor.perf_tests.runner import reason_of

_SIDE = 64


def why_silent(tf: Any, device: str) -> str:
    """Return why a small matrix product on the device ("GPU:0") fails; empty if the result is correct."""
    try:
        with tf.device(device):
            ones = tf.ones((_SIDE, _SIDE))
            product = tf.linalg.matmul(ones, ones)
        answer = product.numpy()
    except Exception as error:  # noqa: BLE001 - any exception of a framework means that the GPU does not respond
        return reason_of(error)
    if (ran_on := short_device(product.backing_device)) != device:
        return f"TensorFlow ran the operation on {ran_on} instead"
    return "" if (answer == _SIDE).all() else "the result of a matrix product is wrong"


def why_lost(listed_before: int, listed_now: int) -> str:
    """Return why TensorFlow lists fewer GPUs than before the suites started; empty if it still lists them all."""
    if listed_now >= listed_before:
        return ""
    return f"TensorFlow listed {amount(listed_before, 'GPU')} when the run started, and lists {listed_now} now"
