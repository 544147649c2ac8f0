"""The shared parts of the programs that stress a GPU: their answer, their exit with the doctor, the TensorFlow setup.

Import this before TensorFlow: the import marks the start of a stress test.
"""

from __future__ import annotations

import gc
import json
import os
import stat
import sys
import threading
import time
import traceback

TYPE_CHECKING = False  # importing typing would take longer than the rest of the program
if TYPE_CHECKING:
    from typing import Any, TextIO


def open_answer() -> TextIO:
    """The process's original standard output, reserved for the answer; all other output goes to standard error."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answer


ANSWER = open_answer()


def say(**answer: object) -> None:
    """Write one line of the journal: known results survive even if this process crashes in the next moment."""
    ANSWER.write(json.dumps(answer) + "\n")
    ANSWER.flush()


def begin(phase: str) -> None:
    """Announce the next step, and when it begins: if it never ends, this shows for how long it ran."""
    say(phase=phase, phase_began_s=time.monotonic())


def end_with_the_doctor() -> None:
    """End at once when the doctor exits for any reason: the driver then frees the GPU's memory.

    The kernel ensures this on Linux; where the doctor has the other end of standard input, its closing is the signal.
    """
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    except (ImportError, OSError, AttributeError, TypeError):
        pass
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        threading.Thread(target=wait_for_the_end, daemon=True).start()


def wait_for_the_end() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


def last_line(error: BaseException) -> str:
    """Type and message of an exception, on one line of at most 1,000 characters."""
    return " ".join("".join(traceback.format_exception_only(type(error), error)).split())[:1000]


def forget_folder(folder: str) -> None:
    """Search modules as a user's program does: its own folder first, never the folder of these programs."""
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != folder]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, "")


def import_tensorflow() -> Any:
    """TensorFlow with reproducible results if it supports that. Raises whatever its import raises."""
    os.environ.pop("NVIDIA_TF32_OVERRIDE", None)  # it would disable what is measured
    begin("importing TensorFlow")
    started = time.monotonic()
    gc.disable()  # Almost all that an import makes, it keeps: looking for garbage in it takes a seventh of the time.
    import tensorflow as tf

    gc.enable()
    say(version=str(tf.__version__), import_seconds=time.monotonic() - started)
    tf.config.set_soft_device_placement(False)
    promise = getattr(tf.config.experimental, "enable_op_determinism", None)  # from 2.8 on
    if promise:
        promise()
    # Before 2.8, a variable enabled it: https://github.com/NVIDIA/framework-reproducibility
    say(deterministic=bool(promise) or os.environ.get("TF_DETERMINISTIC_OPS") == "1")
    return tf


def limit_memory(tf: Any, most_bytes: int | None) -> None:
    """Let memory grow as needed, up to a limit: the rest belongs to others, to cuDNN and to cuBLAS."""
    for device in tf.config.list_physical_devices("GPU"):
        if most_bytes and hasattr(tf.config, "set_logical_device_configuration"):
            # Growth is enabled by a variable: with a limit, set_memory_growth would be rejected.
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=max(1, most_bytes >> 20))
            tf.config.set_logical_device_configuration(device, [limit])
        else:
            tf.config.experimental.set_memory_growth(device, True)
