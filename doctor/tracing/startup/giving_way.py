"""The program's own profiles come first: TensorFlow records one at a time, and refuses a second.

While the doctor records, the lock of TensorFlow's profiler is one that ends the doctor's recording as soon as somebody
else takes it: `tf.profiler.experimental.start`, `stop` and `Profile`, `tf.summary.trace_on`, and Keras' TensorBoard all
take it, also through a name that they imported before. It may use the standard library alone, of any Python from 3.8 on.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, List, Tuple

_V2 = "tensorflow.python.profiler.profiler_v2"
_MODULES = (_V2, "tensorflow.python.eager.profiler")  # the second: up to 2.4 or so
_LOCK, _SESSION = "_profiler_lock", "_profiler"


class GivingWay:
    """The locks that stand in for TensorFlow's from `begin` to `end`; `changing` is held before TensorFlow's own."""

    def __init__(self, changing: Any, give_way: Callable[[], None]) -> None:
        self.changing, self.give_way = changing, give_way
        self._kept: List[Tuple[Any, Any]] = []
        self._free = True

    def begin(self) -> None:
        """Take the place of the locks. A release that has none is left alone."""
        self._free = getattr(sys.modules.get(_V2), _SESSION, None) is None
        for name in _MODULES:
            module = sys.modules.get(name)
            lock = getattr(module, _LOCK, None)
            if lock is not None and not isinstance(lock, _Lock):
                self._kept.append((module, lock))
                setattr(module, _LOCK, _Lock(lock, self))

    def end(self) -> None:
        """Give the places back."""
        for module, lock in self._kept:
            setattr(module, _LOCK, lock)
        self._kept = []

    def clear(self) -> None:
        """After a start that failed: while its profiler's server records, TensorFlow keeps that session, and refuses others."""
        module = sys.modules.get(_V2)
        if self._free and module is not None:
            setattr(module, _SESSION, None)


class _Lock:
    """TensorFlow's lock, taken after the doctor has given way; the doctor's own thread holds `changing` already."""

    def __init__(self, lock: Any, giving: GivingWay) -> None:
        self._lock, self._giving = lock, giving

    def __enter__(self) -> bool:
        with self._giving.changing:
            self._giving.give_way()
            taken: bool = self._lock.__enter__()
        return taken

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)
