"""Copy to and from each GPU, and between any two, as fast as TensorFlow can; the copied data is compared.

The argument is a plan in JSON: `devices` ("/GPU:0", ...), `seconds` in total, `copied_bytes` per copy.
"""

from __future__ import annotations

import json
import os
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)  # it is missing if Python runs with a safe path

from stress_driver import is_pinned, open_driver  # noqa: E402
from stress_process import (  # noqa: E402
    ANSWER,
    begin,
    end_with_the_doctor,
    forget_folder,
    import_tensorflow,
    last_line,
    limit_memory,
    say,
)

TYPE_CHECKING = False  # importing typing would take longer than the rest of the program
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Tuple

    Copy = Tuple[Callable[[], Any], str]  # how to copy once, and which kind of host memory it uses

SEED = 5
HOST = "/CPU:0"
LEAST_COPIES, MOST_COPIES = 3, 12  # the first ones allocate


class Links:
    """The copies between the host and some GPUs, each kind for its share of the time."""

    def __init__(self, tf: Any, np: Any, plan: dict[str, Any]) -> None:
        self._tf, self._np = tf, np
        self._devices = plan["devices"]
        self._sent = np.random.RandomState(SEED).randint(0, 1 << 62, plan["copied_bytes"] // 8, dtype="int64")
        self._ends = time.monotonic() + plan["seconds"]
        self._left = len(self._devices) * (len(self._devices) + 2)  # kinds of copies that remain
        self._driver = open_driver() if any(each.startswith("/GPU") for each in self._devices) else None
        self._bring = fetching(tf)

    def run(self) -> None:
        """Run all of them, each with its own journal entry."""
        for device in self._devices:
            self._measure(HOST, device, self._up_from_numpy)
            self._measure(device, HOST, self._down)
            self._measure(HOST, device, self._up)
        for step in range(1, len(self._devices)):
            for place, source in enumerate(self._devices):
                # The first step reaches every GPU, and sends from it: it does not depend on the time that the host's copies took.
                if step == 1 or time.monotonic() < self._ends:
                    self._measure(source, self._devices[(place + step) % len(self._devices)], self._across)

    def _measure(self, source: str, destination: str, prepare: Callable[[str, str], Copy]) -> None:
        """Copy until the share of the time is over; the fastest counts: interference only slows a copy down."""
        row: dict[str, Any] = {"source": name(source), "destination": name(destination)}
        begin("copying from %s to %s" % (row["source"], row["destination"]))
        until = time.monotonic() + max(0.0, self._ends - time.monotonic()) / self._left
        row["began_s"] = time.monotonic()
        try:
            copy, row["host_memory"] = prepare(source, destination)
            copies, fastest, arrived = 0, float("inf"), None  # type: tuple[int, float, Any]
            while copies < LEAST_COPIES or (copies < MOST_COPIES and time.monotonic() < until):
                started = time.monotonic()
                arrived = copy()
                with self._tf.device(destination):
                    int(arrived[-1])  # complete when its last word can be read
                fastest = min(fastest, time.monotonic() - started)
                copies += 1
            row.update(copies=copies, copied_bytes=self._sent.nbytes, gb_per_s=self._sent.nbytes / fastest / 1e9)
            row["mismatches"] = int(self._np.count_nonzero(arrived.numpy() != self._sent))
        except self._tf.errors.OpError as error:
            row["error"] = last_line(error)
        row["ended_s"] = time.monotonic()
        say(transfers={str(self._left): row})
        self._left -= 1

    def _up_from_numpy(self, source: str, destination: str) -> Copy:
        """From NumPy's memory."""
        with self._tf.device(source):
            sent = self._tf.constant(self._sent)
        return lambda: moved(self._tf, sent, source, destination), self._kind_of_memory(sent)

    def _down(self, source: str, _: str) -> Copy:
        """To the host memory in which TensorFlow keeps data from a GPU."""
        with self._tf.device(source):
            sent = self._tf.identity(self._tf.constant(self._sent))
        return lambda: self._bring(sent), self._kind_of_memory(self._bring(sent))

    def _up(self, source: str, destination: str) -> Copy:
        """From the host memory in which TensorFlow keeps data from a GPU."""
        with self._tf.device(destination):
            sent = self._bring(self._tf.identity(self._tf.constant(self._sent)))
        return lambda: moved(self._tf, sent, source, destination), self._kind_of_memory(sent)

    def _across(self, source: str, destination: str) -> Copy:
        """From one GPU to another."""
        with self._tf.device(source):
            sent = self._tf.identity(self._tf.constant(self._sent))
        return lambda: moved(self._tf, sent, source, destination), ""

    def _kind_of_memory(self, tensor: Any) -> str:
        """Whether a tensor on the host is in memory that a GPU reads directly."""
        pinned = is_pinned(self._driver, self._np.asarray(memoryview(tensor)).ctypes.data)
        return "" if pinned is None else "pinned" if pinned else "pageable"


def moved(tf: Any, tensor: Any, source: str, destination: str) -> Any:
    """A copy of a tensor on another device.

    TensorFlow caches the copy of a tensor for each device: only another handle of it is copied again.
    """
    with tf.device(source):
        again = tf.identity(tensor)
    with tf.device(destination):
        return tf.identity(again)


def fetching(tf: Any) -> Any:
    """A function that copies a tensor to the host: within a graph, TensorFlow receives it in pinned memory."""

    @tf.function  # type: ignore[untyped-decorator]
    def bring(tensor: Any) -> Any:
        with tf.device(HOST):
            return tf.identity(tensor)

    return bring


def name(device: str) -> str:
    """`GPU:0` of "/GPU:0", and `host` of the host."""
    return "host" if device == HOST else device.lstrip("/")


def main() -> None:
    end_with_the_doctor()
    plan = json.loads(sys.argv[1])
    forget_folder(FOLDER)
    try:
        tf = import_tensorflow()
        import numpy as np

        limit_memory(tf, None)
        Links(tf, np, plan).run()
    except Exception as error:  # noqa: BLE001 - whatever TensorFlow raises is the answer
        say(error=last_line(error))


if __name__ == "__main__":
    main()
    ANSWER.flush()
    os._exit(0)  # the driver frees the memory at once, and TensorFlow's teardown gives no information
