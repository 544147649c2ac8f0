"""The journal of a run: one JSON line a comparison or metric, written before and after, so that a death tells where it struck."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from tfgpu_doctor.perf_tests.variables import JOURNAL_VARIABLE


def note(kind: str, row: dict[str, Any]) -> None:
    """Add a line, where somebody keeps a journal."""
    path = os.environ.get(JOURNAL_VARIABLE)
    if path:
        with open(path, "a", encoding="utf-8") as file:  # one write a line: a killed process leaves none cut in half
            file.write(json.dumps({"kind": kind, "at": time.time(), **row}) + "\n")
