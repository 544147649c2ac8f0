"""The processor time of a call, without the garbage collector's looks through what earlier tests have left."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def least_seconds(call: Callable[[], object]) -> float:
    """The smallest of three readings. What only a first call does, such as an import, is to be done before."""
    readings = []
    gc.collect()
    gc.freeze()
    try:
        for _ in range(3):
            began = time.process_time()
            call()
            readings.append(time.process_time() - began)
    finally:
        gc.unfreeze()
    return min(readings)
