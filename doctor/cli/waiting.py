"""The line on a terminal that states what the doctor is waiting for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from types import TracebackType

_PATIENCE_S = 0.5  # shorter waits are not shown
_USUAL_WIDTH = 80  # of a terminal that does not tell


class Waiting:
    """Shows one line on standard error during a slow operation, and removes it at the end. Shows nothing in a pipe."""

    def __init__(self) -> None:
        self._stream = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
        self._shown = ""
        self._since: dict[str, float] = {}

    def __enter__(self) -> Waiting:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def show(self, waiting_for: Sequence[str], seconds: float) -> None:
        """Show what the doctor is waiting for, and for how many seconds so far; what has just begun may end at once."""
        begun = {_name(each): self._since.get(_name(each), seconds) for each in waiting_for}
        self._since = begun
        shown = [each for each in waiting_for if seconds - begun[_name(each)] >= _PATIENCE_S]
        if shown or self._shown:  # what the line named may have ended
            named = f"waiting for {' and '.join(shown[:2])}" if shown else "waiting"
            self._write(_cut(named, f" ({seconds:.0f} s)", self._width() - 1))

    def _width(self) -> int:
        """Return the columns of the terminal; of standard error, as standard output may be a file."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _USUAL_WIDTH if self._stream else _USUAL_WIDTH
        except (OSError, ValueError):
            return shutil.get_terminal_size().columns

    def _write(self, line: str) -> None:
        if self._stream is None or line == self._shown:
            return
        try:
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()
        except OSError:
            self._stream = None
        self._shown = line


def _name(waited_for: str) -> str:
    """Return what is waited for without the numbers of its progress, which change: `test_a (3 of 8 done)`."""
    return waited_for.partition(" (")[0]


def _cut(line: str, end: str, most: int) -> str:
    """Return the line and its end in at most so many columns: a longer one could not be removed."""
    if len(line) + len(end) > most:
        line = f"{line[: max(0, most - len(end) - 3)]}..."
    return (line + end)[: max(0, most)]
