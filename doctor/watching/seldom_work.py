"""What a training does now and then besides its steps, and a recording of a second mostly misses: validation, saving.

The main thread is looked at once a second. What it does in more of these looks than the recordings hold comes seldom;
and so does what a loop of the program's own does in stretches, for which five looks a second are taken.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter, deque
from collections.abc import Sequence

import msgspec

from tfgpu_doctor.tracing import HIGH, Found, Gain, Shares, TraceReport, besides_steps, make_cause, named, own_frames
from tfgpu_doctor.watching.agent import Frame, Look, Stack
from tfgpu_doctor.watching.captures import Capture
from tfgpu_doctor.watching.second_loop import Chain, in_second_loop, prefixes_of_second_loops
from tfgpu_doctor.watching.units import percent

LABEL = "uneven_steps"
_IN_EACH_STEP = ("host_callback", "host_python")  # with what they have TensorFlow compute
LOOK_EVERY_S = 0.2
_EACH = 5  # of the looks is counted: they must tell of different moments
_KEPT = 600 * _EACH  # looks
_STEPS_BETWEEN = 2.0  # two looks, at least
_COMPARE_EVERY, _COMPARED = 25, 1500  # looks: 5 s, and the last 5 minutes
_LEAST, _PAUSES = 20, 3  # looks; one pause alone (the first validation, the last checkpoint) is no habit
_MORE = 0.1  # of the time, than the recordings hold, at the lower end of what the looks say
_STILL = 0.05  # the same, once it was told: the verdict does not come and go
_STAYS = 0.75  # of the share from which on it is the verdict, once it is
_NEVER_AT_STEPS = 0.9  # of the looks: then another thread trains
_SURE = 60  # looks
_Z = 1.96  # two standard deviations: 95 %


class SeldomWork:
    """Takes the looks at the main thread of a process that trains."""

    def __init__(self) -> None:
        self._pid = 0
        self._last_s = 0.0
        self._told = False
        self._number = 0  # of the next look
        self._looks: deque[tuple[int, Frame | None, Chain]] = deque(maxlen=_KEPT)  # its number, the place if at no step
        self._prefixes: frozenset[Chain] = frozenset()
        self._every = 0  # of the looks, so many that steps take turns between; 0: steps are too long
        self._host, self._on_gpu = 0.0, False  # of the last recording
        self._untold = False  # whether it has no such work itself
        self._besides, self._sampled = 0, 0  # of the looks of all recordings

    @property
    def told_looks(self) -> int:
        """How many looks are behind what is told now; 0 if nothing is."""
        return len(self._counted()[0]) if self._told else 0

    def recorded(self, capture: Capture) -> None:
        """Take a recording of the process whose looks follow."""
        report = capture.report
        if capture.pid != self._pid:
            self._pid, self._told, self._besides, self._sampled = capture.pid, False, 0, 0
            self._looks.clear()
            self._number, self._prefixes = 0, frozenset()
        in_each = max((each.share for each in report.causes if each.label in _IN_EACH_STEP), default=0.0)
        self._host, self._on_gpu = max(report.shares.host, in_each), report.gpu is not None
        every = max(1, math.ceil(_STEPS_BETWEEN * report.steps.mean_ms / 1e3 / LOOK_EVERY_S))
        self._every = every if every <= _EACH else 0
        self._untold = all(each.label != LABEL for each in report.causes)
        self._besides, self._sampled = self._besides + capture.besides, self._sampled + capture.looks

    def look(self, look: Look | None) -> None:
        """Take the newest look at the process; one that was taken before counts once."""
        if look is not None and look.stack and look.at_s != self._last_s:
            self._last_s = look.at_s
            self._looks.append((self._number, *_judged(look.stack)))
            self._number += 1
            if self._every and self._number % _COMPARE_EVERY == 0:
                recent = itertools.islice(self._looks, max(0, len(self._looks) - _COMPARED), None)
                steps = [own for number, place, own in recent if place is None and number % self._every == 0]
                self._prefixes = prefixes_of_second_loops(steps)

    def _counted(self) -> tuple[list[Frame | None], int]:
        """Of one look a second what it found, if no step; and how many of them were in no second loop."""
        counted = [each for each in self._looks if each[0] % _EACH == 0]
        prefixes = self._prefixes if self._every else frozenset()
        places = [place or in_second_loop(own, prefixes) for _, place, own in counted]
        return places, sum(place is not None for _, place, _ in counted)

    def _recorded(self) -> float:
        """The share of other work than steps in the recordings.

        A GPU computes on while Python does other work, and the recording calls that time computation: there the looks
        of the recordings count, which are few, at the upper end of what they may mean.
        """
        return max(self._host, _ends(self._besides, self._sampled)[1]) if self._on_gpu else self._host

    def found(self) -> Found | None:
        """What comes seldom and no recording tells, if there is such. The longest pause is left out: it may be the only one."""
        looks, besides = self._counted()
        groups = itertools.groupby(looks, key=lambda place: place is not None)
        pauses = sorted(([place for place in group if place] for paused, group in groups if paused), key=len)
        places = [place for pause in pauses[:-1] for place in pause]
        count = len(looks) - len(pauses[-1] if pauses else ())
        # A recording also counts Python within TensorFlow, which no look tells from a step.
        recorded = min(self._recorded(), besides / max(1, len(looks)))
        seen = len(places) / max(1, count)
        more = _ends(len(places), count)[0] - recorded
        habit = self._untold and count >= _LEAST and _comes_again(places, pauses) and seen < _NEVER_AT_STEPS
        self._told = habit and more >= (_STILL if self._told else _MORE)
        if not self._told:
            return None
        most = named(places)
        return Found(LABEL, "high" if count >= _SURE else "medium", seen - recorded, [
            *(f"{number / count:.0%} of the looks found {name}" for name, number in most[:2]),
            f"of {count} looks at the main thread, one a second, {len(places)} found it at no step, in {len(pauses) - 1} pauses; "
            "the longest one is left out",
            f"it comes now and then: in the recordings such work takes {percent(recorded)} of the time",
        ], words={"what": most[0][0]})  # fmt: skip


def _comes_again(places: Sequence[Frame], pauses: Sequence[Sequence[Frame]]) -> bool:
    """Whether the function that most looks found is in several pauses; those of others (Python in each step) do not count."""
    most = Counter(file + name for file, _, name in places).most_common(1)
    return sum(any(file + name == most[0][0] for file, _, name in pause) for pause in pauses if most) >= _PAUSES


@functools.lru_cache(maxsize=256)
def _judged(stack: Stack) -> tuple[Frame | None, Chain]:
    return besides_steps(stack), own_frames(stack)[::-1]


def joined(report: TraceReport, found: Found, part: str = "host", *, told: bool = False) -> TraceReport:
    """What a recording says, and what comes besides: the recorded shares are those of the rest of the time.

    `part` is that of the breakdown to which it counts; `told`: it was the verdict before, and remains so a little longer. A step
    takes as much longer on average. The gain stays that of the verdict's cause alone.
    """
    rest = 1 - found.share
    shares = {name: round(rest * share, 4) for name, share in msgspec.structs.asdict(report.shares).items()}
    shares[part] = round(shares[part] + found.share, 4)
    others = [msgspec.structs.replace(each, share=round(rest * each.share, 4)) for each in report.causes]
    cause, first = make_cause(found), others[0].share if report.healthy is False and others else 0.0
    best_ms = report.gain.step_ms_at_best
    both = msgspec.structs.replace(
        report, shares=Shares(**shares), causes=(*others, cause),
        steps=msgspec.structs.replace(report.steps, mean_ms=round(report.steps.mean_ms / rest, 4)),
        gain=Gain(step_ms_at_best=None if best_ms is None else round(best_ms / rest, 4)),
    )  # fmt: skip
    if found.share < max(_STAYS * HIGH if told else HIGH, first):
        return both
    return msgspec.structs.replace(
        both, verdict=found.label, title=cause.title, why="", healthy=False, causes=(cause, *others),
        gain=Gain(step_ms_at_best=report.steps.mean_ms),
    )  # fmt: skip


def _ends(hits: int, count: int) -> tuple[float, float]:
    """The ends of Wilson's interval (95 %) for a share of which `hits` of `count` looks are seen; 0 and 1 without looks.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, J. Am. Stat. Assoc. 22 (1927).
    """
    if not count:
        return 0.0, 1.0
    share, spread = hits / count, _Z * _Z / count
    half = _Z * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    return (share + spread / 2 - half) / (1 + spread), (share + spread / 2 + half) / (1 + spread)
