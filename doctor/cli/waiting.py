"""The line on a terminal that states what the doctor is waiting for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

_PATIENCE_S = 0.5  # shorter waits are not shown


class Waiting:
    """Shows one line on standard error during a slow operation, and removes it at the end. Shows nothing in a pipe."""

    def __init__(self) -> None:
        self._stream = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
        self._shown = ""

    def __enter__(self) -> Waiting:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def show(self, waiting_for: Sequence[str], seconds: float) -> None:
        """Show what the doctor is waiting for, and for how many seconds so far."""
        if seconds >= _PATIENCE_S:
            self._write(f"waiting for {' and '.join(waiting_for[:2])} ({seconds:.0f} s)")

    def _write(self, line: str) -> None:
        if self._stream is None or line == self._shown:
            return
        try:
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()
        except OSError:
            self._stream = None
        self._shown = line
