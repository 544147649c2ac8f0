"""Start TensorFlow on a GPU with given memory settings, and report the memory in use and which allocations work."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from tfgpu_doctor.perf_tests.gpu_memory import gpu_memory
from tfgpu_doctor.perf_tests.importing import without_collection

MIB = 1 << 20
SMALL_MIB = 64


def set_up(tf: Any, order: dict[str, Any]) -> None:
    """Set growth and limits from the order; both must be set before the first operation."""
    if "parts" in order:
        parts = [tf.config.LogicalDeviceConfiguration()] * order["parts"]
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
        assert len(tf.config.list_logical_devices("CPU")) == order["parts"]
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus[: 1 if order.get("only_first") else None]:
        if "growth" in order:
            tf.config.experimental.set_memory_growth(gpu, order["growth"])
        if "limit_mib" in order:
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=order["limit_mib"])
            tf.config.set_logical_device_configuration(gpu, [limit])


def memory_mib() -> dict[str, float | None]:
    """Return the memory of the first visible GPU, in use by all processes and free; None if NVML does not report it."""
    gpus = gpu_memory()
    used, free = (gpus[0].used / MIB, gpus[0].free / MIB) if gpus else (None, None)
    return {"used_mib": used, "free_mib": free}


def allocate(tf: Any, mebibytes: int) -> str:
    """Allocate the memory in one block; return an empty string, or the name of the error."""
    try:
        with tf.device("GPU:0"):
            block = tf.ones((mebibytes, MIB // 4))
        return "" if float(block[-1, -1]) == 1.0 else "wrong"
    except tf.errors.ResourceExhaustedError:
        return "ResourceExhaustedError"


def largest(tf: Any, most_mib: int) -> int:
    """Return the largest block that fits (MiB), to a sixteenth of `most_mib`."""
    fits, fails = 0, most_mib
    while fails - fits > most_mib // 16:
        middle = (fits + fails) // 2
        fits, fails = (middle, fails) if not allocate(tf, middle) else (fits, middle)
    return fits


def late(tf: Any) -> dict[str, str]:
    """Return the error of a setting after the first operation; empty if TensorFlow accepts it."""
    tf.ones(4).numpy()
    gpus = tf.config.list_physical_devices("GPU")
    try:
        if gpus:
            tf.config.experimental.set_memory_growth(gpus[0], not tf.config.experimental.get_memory_growth(gpus[0]))
        else:
            parts = [tf.config.LogicalDeviceConfiguration()] * 2
            tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
    except RuntimeError as error:
        return {"late": str(error)}
    return {"late": ""}


def main() -> None:
    """Process one request per line of standard input; the first argument is a JSON object: growth, limit_mib, only_first."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    order = json.loads(sys.argv[1])
    before = memory_mib()
    with without_collection():
        import tensorflow as tf

    set_up(tf, order)
    print(json.dumps(before), file=answers, flush=True)
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        if word == "take":
            failed = allocate(tf, int(number or SMALL_MIB))
            answer: dict[str, Any] = {"failed": failed, **memory_mib()}
        elif word == "largest":
            answer = {"mib": largest(tf, int(number))}
        else:
            answer = dict(late(tf))
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
