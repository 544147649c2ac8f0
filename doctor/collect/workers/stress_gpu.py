"""Stress-test one GPU: results that must repeat, products at full speed, patterns in its memory; once or repeatedly.

The argument is a plan in JSON: `device` ("/GPU:0"), `seconds` to work in total, `round_s` for each round, `side` and
`sustained_side` of the matrices, `precisions`, `most_memory_bytes` of the memory to test (none: all that is free).
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)  # it is missing if Python runs with a safe path

from stress_driver import free_memory, is_integrated, open_driver  # noqa: E402
from stress_exactness import OPERATIONS, Repeated  # noqa: E402
from stress_memory import PATTERNS, try_pattern  # noqa: E402
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
from stress_sustained import choose_tf32, sustain  # noqa: E402

TYPE_CHECKING = False  # importing typing would take longer than the rest of the program
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LEAST_MARGIN_BYTES, MARGIN = 1 << 30, 16  # of the free memory, left to others, to cuDNN and cuBLAS: a sixteenth
SHARES = {"exactness": 0.2, "speeds": 0.45, "memory": 0.35}  # of the time of a round
BYTES_OF_FACTORS = 16  # for each element of a sustained product: two factors, two results at a time


def usable(free: int, integrated: bool) -> int:
    """How much of the free memory may be used; a quarter if the GPU shares the host's memory."""
    return free // 4 if integrated else free - min(max(LEAST_MARGIN_BYTES, free // MARGIN), free // 2)


class StressTest:
    """The stress test of one GPU, and its journal."""

    def __init__(self, tf: Any, np: Any, plan: dict[str, Any], room_bytes: int | None) -> None:
        self._tf, self._np, self._plan, self._room = tf, np, plan, room_bytes
        self._device = plan["device"]
        self._repeated = [Repeated(np, plan["side"], *each) for each in OPERATIONS]
        self._ends = time.monotonic() + plan["seconds"]
        self._number, self._round_s = -1, 0.0
        self._fits: int | None = None  # of the memory, if that turned out to be less than expected
        self._round: dict[str, Any] = {}
        errors = tf.errors
        self._harmless = (  # a failure of TensorFlow here does not indicate a fault of the GPU
            errors.InvalidArgumentError, errors.NotFoundError, errors.UnimplementedError, errors.ResourceExhaustedError,
            AttributeError, NotImplementedError, TypeError, ValueError,
        )  # fmt: skip

    def run(self) -> None:
        """Repeat rounds until less than half of another one would fit into the time (`model/soak.py` relies on it)."""
        while self._number < 0 or time.monotonic() + self._plan["round_s"] / 2 < self._ends:
            self._number += 1
            self._round_s = min(self._plan["round_s"], max(0.0, self._ends - time.monotonic()))
            self._round = {"began_s": time.monotonic(), "exactness": [], "speeds": [], "memory": []}
            self._exactness()
            self._speeds()
            self._memory()

    def _take(self, step: str, phase: str, what: dict[str, object], measure: Callable[[], dict[str, object]]) -> None:
        """Write one measurement to the journal, or its exception before raising that again."""
        begin("%s, round %d" % (phase, self._number + 1))
        try:
            self._round[step].append(measure())
        except self._harmless as error:
            self._round[step].append(dict(what, error=last_line(error)))
        except self._tf.errors.OpError as error:
            self._round[step].append(dict(what, error=last_line(error)))
            raise
        finally:
            self._round["seconds"] = time.monotonic() - self._round["began_s"]
            say(rounds={str(self._number): self._round})

    def _share(self, step: str, parts: int) -> float:
        return self._round_s * SHARES[step] / parts

    def _exactness(self) -> None:
        choose_tf32(self._tf, True)  # the default
        for each in self._repeated:
            seconds = self._share("exactness", len(self._repeated))
            phase = "%s in %s" % (each.operation, each.precision)
            what = {"operation": each.operation, "precision": each.precision}
            measure = functools.partial(each.repeat, self._tf, self._np, self._device, seconds)
            self._take("exactness", phase, what, measure)

    def _speeds(self) -> None:
        side = self._plan["sustained_side"]
        while self._room and side > 256 and BYTES_OF_FACTORS * side * side > self._room // 2:
            side //= 2
        for precision in self._plan["precisions"]:
            seconds = self._share("speeds", len(self._plan["precisions"]))
            measure = functools.partial(sustain, self._tf, self._device, precision, side, seconds)
            self._take("speeds", "products in %s" % precision, {"precision": precision}, measure)

    def _memory(self) -> None:
        for pattern in PATTERNS if self._room else ():
            seconds = self._share("memory", len(PATTERNS))
            room = self._room if self._fits is None else self._fits
            measure = functools.partial(try_pattern, self._tf, self._np, self._device, pattern, room, seconds)
            self._take("memory", "memory with pattern %s" % pattern, {"pattern": pattern}, measure)
            # Another allocation that fails would cost ten seconds: the allocator waits that long.
            self._fits = self._round["memory"][-1].pop("fits", None) or self._fits


def main() -> None:
    end_with_the_doctor()
    plan = json.loads(sys.argv[1])
    forget_folder(FOLDER)
    begin("asking the driver for free memory")
    try:
        driver = open_driver() if plan["device"].startswith("/GPU") else None
        free, integrated = free_memory(driver), is_integrated(driver)
        limit = None if free is None else usable(free, integrated)
        say(free_bytes=free, integrated=integrated)
        tf = import_tensorflow()
        import numpy as np

        limit_memory(tf, limit)
        rooms = [each for each in (limit, plan.get("most_memory_bytes")) if each]
        StressTest(tf, np, plan, min(rooms) if rooms else None).run()
    except Exception as error:  # noqa: BLE001 - whatever TensorFlow raises is the answer
        say(error=last_line(error))


if __name__ == "__main__":
    main()
    ANSWER.flush()
    os._exit(0)  # the driver frees the memory at once, and TensorFlow's teardown gives no information
