"""Epochs that end slowly: TensorFlow removes the iterator of the old one, and waits for the thread that tunes it.

~IteratorResource ends the thread of AUTOTUNE (model.cc, OptimizeLoop), which may sleep on for as long as the pause between
two of its rounds: these double from 10 ms to 60 s. Native stacks and pauses of 0.3 to 10 s were seen on TensorFlow 2.18 and
2.21, with AUTOTUNE in the pipeline and without; none with `options.autotune.enabled = False` or one iterator for all epochs.
The thread that waits is the one that lets go of the iterator last: mostly where the next is made, but wherever Python looks for
garbage, too.
"""

from __future__ import annotations

import bisect
import itertools
import re

from tfgpu_doctor.tracing.intervals import Interval, clip, overlap, union, without
from tfgpu_doctor.tracing.python_samples import Frame, Sample, of_framework
from tfgpu_doctor.tracing.recorded import Profile
from tfgpu_doctor.tracing.steps import Steps

_MADE = "MakeIterator"
_STANDS_MS, _LOOKS = 30.0, 3  # looks come every 10 ms
_APART_MS = 50.0  # looks that are further apart were held up themselves
_NEXT = "iterator_ops.py"
_QUICK = re.compile(  # Python's own, in which no time is spent
    r"[/\\][Ll]ib[/\\](python[\d.]+[/\\])?"
    r"(abc|contextlib|dataclasses|enum|functools|inspect|linecache|traceback|types|typing|warnings|weakref|collections[/\\]\w+)\.py$"
)
# Work of TensorFlow's or Keras' that has no event: copies of arrays, files and profiles written, the progress bar.
_TAKES_TIME = re.compile(r"[/\\](constant_op|file_io|io_utils|profiler[/\\]\w+)\.py$")
_COPIES = re.compile(r"numpy|_np\b|_np_|concat")
_AROUND = ("other", "input wait", "call")  # kinds of events that do not say what the thread does within


def standing_at_epoch_ends(
    profile: Profile, steps: Steps, own: list[Interval], python: list[Interval]
) -> list[Interval]:
    """The time in which the main thread stands at one place of TensorFlow's, and does nothing, though iterators were replaced.

    `own`: the time of the program's thread that nothing else claims, `python`: the pipeline is in Python.
    """
    thread, samples = steps.thread, profile.samples
    if thread is None or not samples:
        return []
    made = [event.begin for event in thread.events.get("eager", ()) if event.name.endswith(_MADE)]
    if not made:
        return []
    works = [event.interval for kind, events in thread.events.items() if kind not in _AROUND for event in events]
    still = without(overlap(_standing(samples), own), union([*works, *python]))
    times = [sample.at for sample in samples]
    found = [each for each in still if each[1] - each[0] >= _STANDS_MS and _looks(times, each) >= _LOOKS]
    held_up = sum(bool(clip(found, *step)) for step in steps.intervals)
    return found if held_up <= len(made) + 1 else []  # each iterator is removed once


def place_of(samples: list[Sample], standing: list[Interval]) -> str:
    """The function in which it stands for longest; empty if no look tells."""
    low, high = max(standing, key=lambda each: each[1] - each[0])
    inside = [sample.main[0] for sample in samples if low <= sample.at <= high and sample.main]
    return inside[0][2] if inside else ""


def _looks(times: list[float], within: Interval) -> int:
    return bisect.bisect_right(times, within[1]) - bisect.bisect_left(times, within[0])


def _standing(samples: list[Sample]) -> list[Interval]:
    """The time in which look after look finds the main thread at the same place of TensorFlow's or Keras'."""
    loops = _loops(samples)
    return union(
        (one.at, other.at)
        for one, other in itertools.pairwise(samples)
        if one.main == other.main and other.at - one.at < _APART_MS and one.main
        if _quick(one.main) or one.main[0] in loops
    )


def _quick(stack: tuple[Frame, ...]) -> bool:
    """Whether code of TensorFlow's or Keras' stands, or of Python's that these called, where no time should go by."""
    caller = next((frame for frame in stack if not _QUICK.search(frame[0])), stack[0])
    return of_framework(caller) and not _TAKES_TIME.search(caller[0]) and not _COPIES.search(caller[2])


def _loops(samples: list[Sample]) -> set[Frame]:
    """The lines `for batch in dataset`: an iterator ends there, too."""
    return {
        caller
        for sample in samples
        for called, caller in itertools.pairwise(sample.main)
        if called[0].endswith(_NEXT) and not of_framework(caller)
    }
