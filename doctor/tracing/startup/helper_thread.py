"""A thread of the recorder that is there before it is needed.

Python 3.12.0 to 3.12.2 start no thread any more once the main thread has ended, though they wait for the program's other
threads: https://github.com/python/cpython/issues/113964. It may use the standard library alone, of any Python from 3.8 on.
"""

from __future__ import annotations

import _thread
import queue
import threading
from typing import Any, Callable, Set, Tuple

_Call = Tuple[Callable[..., None], Tuple[Any, ...]]


class HelperThread:
    """Makes calls, one after the other; what a call raises is dropped. `own` are the threads of the doctor."""

    def __init__(self, own: Set[int]) -> None:
        self._own = own
        self._calls: "queue.SimpleQueue[_Call]" = queue.SimpleQueue()
        self._stays = False

    def begin(self, *, stays: bool) -> None:
        """Start the thread, unless there is one that stays: another ends with its one call. RuntimeError if Python refuses."""
        if not self._stays:
            calls: "queue.SimpleQueue[_Call]" = queue.SimpleQueue()
            # None of `threading`'s: a program that joins all of its threads does not wait for this one.
            _thread.start_new_thread(self._run, (calls, stays))
            self._calls, self._stays = calls, stays

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Have a function called, after those before it."""
        self._calls.put((function, arguments))

    def forget(self) -> None:
        """In a process that this one forked: the thread is not there, and its queue may be locked for ever."""
        self._calls, self._stays = queue.SimpleQueue(), False

    def _run(self, calls: "queue.SimpleQueue[_Call]", stays: bool) -> None:
        self._own.add(threading.get_ident())
        while True:
            function, arguments = calls.get()
            try:
                function(*arguments)
            except Exception:  # noqa: BLE001 - the program goes on
                pass
            del function, arguments
            if not stays:
                break
        self._own.discard(threading.get_ident())


def nothing() -> None:
    """The call for a thread that is not needed after all."""
