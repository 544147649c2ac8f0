"""The lines of the journal of a run, written as things happen."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from tfgpu_doctor.perf_tests.variables import JOURNAL_VARIABLE

_BEAT_EVERY_S = 1.0
_beats = [0.0]  # when the last one was noted


def note(kind: str, row: dict[str, Any]) -> None:
    """Add a line if the run has a journal."""
    path = os.environ.get(JOURNAL_VARIABLE)
    if path:
        with open(path, "a", encoding="utf-8") as file:  # one write per line: a killed process leaves no partial line
            file.write(json.dumps({"kind": kind, "at": time.time(), **row}) + "\n")


def alive() -> None:
    """Note that the test goes on. Call it after each step of what takes long: what notes nothing for minutes hangs."""
    now = time.monotonic()
    if now - _beats[0] > _BEAT_EVERY_S:
        _beats[0] = now
        note("alive", {})
