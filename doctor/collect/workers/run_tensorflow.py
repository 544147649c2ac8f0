"""Import TensorFlow, list its GPUs, and compute on each; memory growth is on, so that no GPU's memory is all reserved.

The first argument is the kind of device to compute on: "GPU", or "CPU" to test only this program. With a second
one, "list", nothing is computed.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback

TYPE_CHECKING = False  # importing typing would take longer than the rest of the program
if TYPE_CHECKING:
    from typing import Any, TextIO

# A user's program has its own folder first on the search path; this one acts as if it were in the user's working folder.
sys.path[0] = "" if not getattr(sys.flags, "safe_path", False) else sys.path[0]

SIDE = 256  # of the square matrices; integers up to 4 keep every product and sum exact in TF32 and float32


def open_answer() -> TextIO:
    """The process's original standard output, reserved for the answer; all other output goes to standard error."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answer


ANSWER = open_answer()


def say(**answer: object) -> None:
    ANSWER.write(json.dumps(answer) + "\n")
    ANSWER.flush()


def die_with_parent() -> None:
    """Tell the kernel to kill this process when the doctor exits for any reason (Linux)."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    except (ImportError, OSError, AttributeError, TypeError):
        pass


def environment_at_start() -> dict[str, str]:
    """The variables that this process was started with: a .pth file or sitecustomize.py may have changed them since."""
    try:
        with open("/proc/self/environ", "rb") as file:
            rows = [os.fsdecode(row).partition("=") for row in file.read().split(b"\0")]
        return {name: value for name, _, value in rows if name}
    except OSError:
        return dict(os.environ)


def last_line(error: BaseException) -> str:
    """Type and message of an exception, on one line of at most 2,000 characters."""
    return " ".join("".join(traceback.format_exception_only(type(error), error)).split())[:2000]


def matmul(tf: Any) -> Any:
    """The product of two matrices of small integers."""
    numbers = tf.range(SIDE * SIDE, dtype=tf.float32)
    left = tf.reshape(tf.math.floormod(numbers, 5.0) - 2.0, (SIDE, SIDE))
    right = tf.reshape(tf.math.floormod(numbers, 7.0) - 3.0, (SIDE, SIDE))
    return tf.linalg.matmul(left, right)


def convolution(tf: Any) -> Any:
    """A convolution of small integers, like the first layer of an image network."""
    image = tf.reshape(tf.math.floormod(tf.range(2 * 32 * 32 * 8, dtype=tf.float32), 5.0) - 2.0, (2, 32, 32, 8))
    kernel = tf.reshape(tf.math.floormod(tf.range(3 * 3 * 8 * 16, dtype=tf.float32), 3.0) - 1.0, (3, 3, 8, 16))
    return tf.nn.conv2d(image, kernel, strides=1, padding="SAME")


OPERATIONS = {"matmul": matmul, "convolution": convolution}


def compute(tf: Any, operation: str, device: str) -> dict[str, object]:
    """Compute on one device, compare with the CPU, and report the device of the result."""
    row: dict[str, object] = {"operation": operation, "device": device}
    started = time.monotonic()
    try:
        with tf.device("/CPU:0"):
            expected = OPERATIONS[operation](tf)
        with tf.device(device):
            found = OPERATIONS[operation](tf)
        row["placed_on"] = found.device
        with tf.device("/CPU:0"):
            found = tf.identity(found)
            scale = tf.reduce_max(tf.abs(expected))
            error = float(tf.reduce_max(tf.abs(found - expected)) / scale)
        if error != error:
            raise ArithmeticError("the result contains NaN")
        row["largest_error"] = error
    except Exception as error:  # noqa: BLE001 - whatever TensorFlow raises is the answer
        row["error"] = last_line(error)
    row["seconds"] = time.monotonic() - started
    return row


def describe(tf: Any, device: Any) -> dict[str, object]:
    """Name and details of one physical device."""
    details = tf.config.experimental.get_device_details(device)
    capability = details.get("compute_capability")
    return {
        "name": device.name,
        "description": str(details.get("device_name", "")),
        "compute_capability": "%d.%d" % capability if capability else "",
        "memory_growth": tf.config.experimental.get_memory_growth(device),
    }


def use(tf: Any, kind: str, computes: bool) -> None:
    """List the devices of that kind, and compute on each."""
    say(version=str(tf.__version__), phase="listing the GPUs")
    devices = tf.config.list_physical_devices(kind)
    say(gpus_listed=True, gpus=[{"name": device.name} for device in devices] if kind == "GPU" else [])
    if not devices:
        return
    say(phase="describing the GPUs")
    if kind == "GPU":
        say(gpus=[describe(tf, device) for device in devices])
        for device in devices:
            tf.config.experimental.set_memory_growth(device, True)
        say(growth_set=all(tf.config.experimental.get_memory_growth(device) for device in devices))
    if not computes:
        return
    tf.config.set_soft_device_placement(False)
    done = []
    for index in range(len(devices)):
        for operation in OPERATIONS:
            say(phase="%s on %s:%d" % (operation, kind, index))
            done.append(compute(tf, operation, "/%s:%d" % (kind, index)))
            say(computations=done)


def main() -> None:
    die_with_parent()
    before = environment_at_start()
    say(phase="importing TensorFlow")
    started = time.monotonic()
    try:
        import tensorflow as tf

        say(import_seconds=time.monotonic() - started)
    except BaseException as error:  # noqa: BLE001 - including SystemExit and the like: the import is under examination
        lines = traceback.format_exc().splitlines()
        say(import_error=last_line(error), import_traceback=[line[:300] for line in lines[-40:]])
        return
    try:
        use(tf, sys.argv[1], "list" not in sys.argv[2:])
    except Exception as error:  # noqa: BLE001 - whatever TensorFlow raises is the answer
        say(use_error=last_line(error))
    watched = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR", "XLA_FLAGS")
    after = {name: os.environ.get(name, "") for name in watched if os.environ.get(name) != before.get(name)}
    say(changed_variables=after)


if __name__ == "__main__":
    main()
    ANSWER.flush()
    os._exit(0)  # TensorFlow's teardown takes a tenth of a second and gives no information
