"""The line on a terminal that says what the doctor waits for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

_PATIENCE_S = 0.5  # nobody needs to be told of a shorter wait


class Waiting:
    """Shows one line on standard error while something is slow, and takes it away at the end. Nothing in a pipe."""

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
        """What is waited for, and for how long already (seconds)."""
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
