"""Let TensorFlow read TF_XLA_FLAGS and XLA_FLAGS: list the devices, and compile an addition for the CPU."""

from __future__ import annotations

import json
import os
import sys

# As for a user's program, the working folder comes first.
sys.path[0] = "" if not getattr(sys.flags, "safe_path", False) else sys.path[0]


def open_answer() -> object:
    """The process's original standard output, reserved for the answer; all other output goes to standard error."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answer


ANSWER = open_answer()


def say(**answer: object) -> None:
    ANSWER.write(json.dumps(answer) + "\n")  # type: ignore[attr-defined]
    ANSWER.flush()  # type: ignore[attr-defined]


def die_with_parent() -> None:
    """Tell the kernel to kill this process when the doctor exits for any reason (Linux)."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    except (ImportError, OSError, AttributeError, TypeError):
        pass


def main() -> None:
    die_with_parent()
    say(phase="importing TensorFlow")
    import tensorflow as tf

    say(phase="listing the devices")  # reads TF_XLA_FLAGS
    tf.config.list_physical_devices("CPU")
    say(phase="compiling with XLA")  # reads XLA_FLAGS
    with tf.device("/CPU:0"):
        float(tf.function(lambda number: number + 1.0, jit_compile=True)(tf.constant(1.0)))
    say(read=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # TensorFlow's teardown takes a tenth of a second and gives no information
