"""Examine the machine, and print how long each probe took: {"probes": {name: seconds}, "unknown": {name: why}}."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tfgpu_doctor.collect import examination, probes

if os.environ.get("RECORD_GPU_MACHINE"):
    from gpu_run.programs import stand_in_doctor

    stand_in_doctor.stand_in()

TIMES: dict[str, float] = {}


def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a probe, whose seconds are kept."""

    @functools.wraps(function)
    def run(*given: Any, **named: Any) -> Any:
        began = time.monotonic()
        try:
            return function(*given, **named)
        finally:
            TIMES[name] = round(time.monotonic() - began, 3)

    return run


vars(probes)["ALL_PROBES"] = tuple(
    dataclasses.replace(each, function=timed(each.name, each.function)) for each in probes.ALL_PROBES
)
began = time.monotonic()
facts = examination.examine()
json.dump({"seconds": round(time.monotonic() - began, 2), "probes": TIMES, "unknown": facts.unknown}, sys.stdout)
