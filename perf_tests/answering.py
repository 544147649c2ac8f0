"""Whether a GPU still answers this process: after some errors of CUDA no operation of a process succeeds any more."""

from __future__ import annotations

from typing import Any

from tfgpu_doctor.perf_tests.placement import short_device
from tfgpu_doctor.perf_tests.runner import reason_of

_SIDE = 64


def why_silent(tf: Any, device: str) -> str:
    """Why a small product on the device ("GPU:0") fails; empty where it is right."""
    try:
        with tf.device(device):
            ones = tf.ones((_SIDE, _SIDE))
            product = tf.linalg.matmul(ones, ones)
        answer = product.numpy()
    except Exception as error:  # noqa: BLE001 - whatever a framework raises says that the GPU does not answer
        return reason_of(error)
    if (ran_on := short_device(product.backing_device)) != device:
        return f"TensorFlow works on {ran_on} in its place"
    return "" if (answer == _SIDE).all() else "it multiplies wrongly"


def why_lost(listed_before: int, listed_now: int) -> str:
    """What became of a GPU that TensorFlow listed before the suites began; empty where it lists them still."""
    if listed_now >= listed_before:
        return ""
    return f"TensorFlow listed {listed_before} GPUs when the run began, and lists {listed_now} now"
