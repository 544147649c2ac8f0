"""Sets of time: sorted intervals that do not overlap, in any unit."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the time that at least one of the intervals covers."""
    return union_of_sorted(sorted(intervals))


def union_of_sorted(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same of intervals that come in the order of their begins."""
    joined: list[Interval] = []
    for interval in intervals:
        if not joined or interval[0] > joined[-1][1]:
            joined.append(interval)
        elif interval[1] > joined[-1][1]:
            joined[-1] = (joined[-1][0], interval[1])
    return joined


def dilated(intervals: Iterable[Interval], gap: float = 1.0) -> list[Interval]:
    """Return a union in which what lies closer together than a gap is one."""
    joined: list[Interval] = []
    for low, high in union(intervals):
        if joined and low - joined[-1][1] < gap:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def length(intervals: Iterable[Interval]) -> float:
    """Return the sum of the lengths."""
    return sum(high - low for low, high in intervals)


def shared(some: Sequence[Interval], others: Sequence[Interval]) -> float:
    """Return how much of one union lies in another, of 1."""
    whole = length(some)
    return shared_time(some, others) / whole if whole else 0.0


def shared_time(some: Sequence[Interval], others: Sequence[Interval]) -> float:
    """Return how much time two unions have in common."""
    return length(_overlaps(some, others))


def clip(intervals: Sequence[Interval], low: float, high: float) -> list[Interval]:
    """Return the part of a union that lies between two times."""
    if low >= high:
        return []
    first = bisect.bisect_right(intervals, (low, float("inf")))
    first -= first > 0 and intervals[first - 1][1] > low
    kept = list(intervals[first : bisect.bisect_left(intervals, (high,))])
    if kept:
        kept[0] = (max(kept[0][0], low), kept[0][1])
        kept[-1] = (kept[-1][0], min(kept[-1][1], high))
    return kept


def overlap(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return the time that two unions have in common."""
    return list(_overlaps(some, others))


def _overlaps(some: Sequence[Interval], others: Sequence[Interval]) -> Iterator[Interval]:
    one = other = 0
    while one < len(some) and other < len(others):
        mine, yours = some[one], others[other]
        low = max(yours[0], mine[0])
        high = min(yours[1], mine[1])
        if low < high:
            cut = (low, high)  # there are many: the same time is one object
            yield mine if cut == mine else yours if cut == yours else cut
        if mine[1] < yours[1]:
            one += 1
        else:
            other += 1


def without(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return the time of one union that another does not cover."""
    left: list[Interval] = []
    place = 0
    for interval in some:
        low, high = interval
        at = low
        while place < len(others) and others[place][1] <= at:
            place += 1
        scan = place
        while scan < len(others) and others[scan][0] < high:
            if others[scan][0] > at:
                left.append((at, others[scan][0]))
            at = max(at, others[scan][1])
            scan += 1
        if at < high:
            left.append(interval if at == low else (at, high))
    return left
