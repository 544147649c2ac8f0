"""Whether a program that uses its CPUs still makes steps, by its recordings.

It may validate, sort, or save meanwhile: this is told as a note, and is no hang.
"""

from __future__ import annotations

from collections import Counter

from tfgpu_doctor.tracing import of_user
from tfgpu_doctor.watching.agent import Look
from tfgpu_doctor.watching.hang_diagnosis import in_words
from tfgpu_doctor.watching.units import duration, percent

_MEDIANS, _LONG, _PAUSES = 100.0, 5.0, 3.0  # steps, times the time after which a program hangs, times the longest pause
_RECORDINGS = 3  # without a step
_IDLE_CPU = 0.1
_SHOWN = 2


class StepWatch:
    """Takes recordings and looks; the answer is a note, empty if there is nothing to say. Times of the monotonic clock."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._median_ms: float | None = None
        self._empty_s: list[float] = []  # when recordings without a step began, since the last step
        self._longest_s = 0.0
        self._places: Counter[str] = Counter()
        self._cpu, self._looks = 0.0, 0
        self._told = False

    def recorded(self, at_s: float, count: int, median_ms: float) -> str:
        """Take a recording that began at `at_s` and has `count` steps."""
        if not count:
            if self._median_ms is not None:
                self._empty_s.append(at_s)
            return ""
        said = ""
        if self._empty_s:
            pause_s = at_s - self._empty_s[0]
            self._longest_s = max(self._longest_s, pause_s)
            said = f"steps are made again after {duration(pause_s)}" if self._told else ""
        self._median_ms, self._empty_s, self._told = median_ms, [], False
        self._places.clear()
        self._cpu, self._looks = 0.0, 0
        return said

    def look(self, now: float, look: Look | None, cpu: float) -> str:
        """Take a look at the main thread, and the CPUs that the program uses and waits for."""
        if self._told or not self._empty_s or self._median_ms is None:
            return ""
        self._looks, self._cpu = self._looks + 1, self._cpu + cpu
        if look is not None and look.stack:
            self._places[in_words((of_user(look.stack) or look.stack[0],))] += 1
        limit_s = max(_MEDIANS * self._median_ms / 1000, _LONG * self._after_s, _PAUSES * self._longest_s)
        passed_s = now - self._empty_s[0]
        if len(self._empty_s) < _RECORDINGS or passed_s < limit_s or self._cpu < _IDLE_CPU * self._looks:
            return ""
        self._told = True
        found = ", ".join(
            f"{name} in {percent(count / self._looks)} of the looks" for name, count in self._places.most_common(_SHOWN)
        )
        where = f"; its main thread was meanwhile in {found}" if found else ""
        return (
            f"no step was recorded for {duration(passed_s)}, in {len(self._empty_s)} recordings; before, a step took "
            f"{self._median_ms:.0f} ms; it wants {self._cpu / self._looks:.1f} CPUs{where}"
        )
