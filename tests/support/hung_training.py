"""A real training that never ends: an exception in `fit` while tf.py_function feeds it, and what /proc shows of it then.

TensorFlow 2.21 with Keras 3: the iterator's destructor waits, with the GIL, for calls of Python functions that need the GIL.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import time
from collections.abc import Iterator

_PROGRAM = """
import time
import numpy as np, tensorflow as tf

def slow(number):
    # A call must be under way when `fit` ends, however slow this machine is: there the later ones take long.
    time.sleep(0.005 if number < 96 else 1)
    return np.float32([float(number)])

def load(number):
    value = tf.py_function(slow, [number], tf.float32)
    value.set_shape([1])
    return value, value

class Raises(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            raise RuntimeError("the callback raised")

data = tf.data.Dataset.range(100_000).map(load, num_parallel_calls=4).batch(16)
model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, verbose=0, callbacks=[Raises()], steps_per_epoch=10)
"""
_STARTS, _STARTS_S, _STILL_S = 5, 120.0, 3.0
_FIRST_NAMESPACE = "pid:[4026531836]"


@contextlib.contextmanager
def hung_training(python: str, folder: pathlib.Path) -> Iterator[int]:
    """The id of a process that has printed its traceback and hangs; it is killed afterwards.

    Now and then TensorFlow ends the program after all; then it is started again.
    """
    for _ in range(_STARTS):
        said = folder / "hung_training.log"
        with said.open("wb") as log:
            process = subprocess.Popen(
                [python, "-c", _PROGRAM], cwd=folder, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow"},
            )  # fmt: skip
        try:
            if _hangs(process, said):
                yield process.pid
                return
        finally:
            process.kill()
            process.wait()
    raise AssertionError(f"it ended {_STARTS} times: this TensorFlow does not hang")


def _hangs(process: subprocess.Popen[bytes], said: pathlib.Path) -> bool:
    end = time.monotonic() + _STARTS_S
    while "the callback raised" not in (text := said.read_text(errors="replace")):
        assert process.poll() is None, text
        assert time.monotonic() < end, text
        time.sleep(0.5)
    used, since = "", time.monotonic()
    while time.monotonic() - since < _STILL_S:
        if process.poll() is not None:
            return False
        assert time.monotonic() < end, "it still computes"
        now = " ".join(pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13])
        if now != used:
            used, since = now, time.monotonic()
        time.sleep(0.2)
    return True


def copy_of_its_files(pid: int, root: pathlib.Path, as_pid: int) -> None:
    """What /proc shows of a process, under a made-up root and another id."""
    there, here = pathlib.Path(f"/proc/{pid}"), root / f"proc/{as_pid}"
    for name in ("stat", "wchan", "net/tcp", "net/tcp6", "net/unix"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_bytes((there / name).read_bytes() if (there / name).exists() else b"")
    (here / "fd").mkdir()
    for link in (there / "fd").iterdir():
        (here / "fd" / link.name).symlink_to(os.readlink(link))
    (root / "proc/self/ns").mkdir(parents=True, exist_ok=True)
    if not (root / "proc/self/ns/pid").is_symlink():
        (root / "proc/self/ns/pid").symlink_to(_FIRST_NAMESPACE)
