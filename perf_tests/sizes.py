"""Sizes of work on a GPU, by its memory and its speed: long enough for its clock, and small enough for 4 GB."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tfgpu_doctor.perf_tests.ceilings import model_of, peak_teraflops
from tfgpu_doctor.perf_tests.timing import Stopwatch

# One call keeps the GPU busy for so long: a kernel takes some 5 us to launch, and a call of a tf.function some 200 us.
BUSY_S = 1e-3
SHARE = 0.2  # of the memory, for one comparison: less than a quarter of what is free on an idle card with 4 GB
UNKNOWN_BYTES = 4 << 30  # where nothing says how much memory there is
_IDLE = 0.8  # of its memory TensorFlow may use at least, where nothing else uses the GPU
_SIDE, _COPIED = 4096, 1 << 25  # of the quick measurements: a product, and float32 numbers that are copied


class Speed(NamedTuple):
    """What a GPU has, as far as sizes depend on it."""

    memory_bytes: float
    teraflops: float
    gb_per_s: float


class Each(NamedTuple):
    """What one sample needs: floating-point operations, bytes read and written, and bytes held at the same time."""

    operations: float = 0.0
    moved: float = 0.0
    held: float = 0.0


def samples(speed: Speed, each: Each, *, least: int = 1, most: int = 1 << 30) -> int:
    """Return how many samples keep the GPU busy for BUSY_S, a power of two times `least`, as far as memory allows."""
    sample_s = each.operations / (speed.teraflops * 1e12) + each.moved / (speed.gb_per_s * 1e9)
    fits = min(most, SHARE * speed.memory_bytes / max(each.held, 1.0))
    count = least
    while count * sample_s < BUSY_S and 2 * count <= fits:
        count *= 2
    return count


def side(speed: Speed, *, least: int, most: int) -> int:
    """Return the side of a product of matrices that keeps the GPU busy for BUSY_S, a power of two times `least`."""
    found = least
    while 2 * found**3 / (speed.teraflops * 1e12) < BUSY_S and 2 * found <= most:
        found *= 2
    return found


@functools.cache
def speed_of(tf: Any, device: str, precision: str = "float32") -> Speed:
    """Return what a GPU ("GPU:0") has; what the tables do not know about its model is measured, in a second."""
    model = model_of(tf, device)
    sold = model.memory_bytes if model else None
    teraflops = peak_teraflops(model, precision) or _measured(tf, device, precision)
    bandwidth = model.memory_bandwidth_gb_per_s if model else None
    return Speed(memory_of(usable_bytes(tf, device), sold), teraflops, bandwidth or _measured_gb_per_s(tf, device))


def memory_of(usable: float | None, sold: float | None) -> float:
    """Return the bytes that sizes depend on: those of the model, the same in each run, unless TensorFlow has far less."""
    if usable is None or sold is None:
        return usable or sold or UNKNOWN_BYTES
    return sold if usable >= _IDLE * sold else usable


def usable_bytes(tf: Any, device: str) -> float | None:
    """Return the bytes that TensorFlow may use on a device, after limits and MIG; None if it does not tell."""
    tf.config.list_logical_devices()
    try:
        from tensorflow.python import pywrap_tfe  # no public function tells the limit
        from tensorflow.python.client import pywrap_tf_session as session
        from tensorflow.python.eager import context

        rows = pywrap_tfe.TFE_ContextListDevices(context.context()._handle)  # noqa: SLF001
        found = {session.TF_DeviceListName(rows, place): place for place in range(session.TF_DeviceListCount(rows))}
        place = next((place for name, place in found.items() if name.endswith(f"device:{device}")), None)
        return None if place is None else float(session.TF_DeviceListMemoryBytes(rows, place)) or None
    except (ImportError, AttributeError, TypeError):
        return None


def _measured(tf: Any, device: str, precision: str) -> float:
    """The TFLOP/s of a product, to a power of two, so that each run finds the same."""
    kind = precision if precision in ("float16", "bfloat16") else "float32"
    with tf.device(device):
        numbers = tf.ones((_SIDE, _SIDE), kind)
        took_s = _seconds(tf, lambda: tf.linalg.matmul(numbers, numbers))
    return nearest_power(2 * _SIDE**3 / took_s / 1e12)


def _measured_gb_per_s(tf: Any, device: str) -> float:
    with tf.device(device):
        numbers = tf.ones(_COPIED)
        took_s = _seconds(tf, lambda: tf.raw_ops.DeepCopy(x=numbers))
    return nearest_power(2 * 4 * _COPIED / took_s / 1e9)


def nearest_power(value: float) -> float:
    """Return the nearest power of two."""
    return float(2.0 ** round(math.log2(value)))


def _seconds(tf: Any, call: Callable[[], Any]) -> float:
    return Stopwatch(tf.test.experimental.sync_devices).per_call(call)
