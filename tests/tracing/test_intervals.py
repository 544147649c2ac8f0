"""Sets of time, against sets of whole numbers: an interval is the numbers from its begin to before its end."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfgpu_doctor.tracing.intervals import Interval, clip, dilated, length, overlap, shared, union, without

TIME = st.integers(0, 40)
SPANS = st.lists(st.tuples(TIME, TIME).map(lambda pair: (min(pair), max(pair))), max_size=12)
UNIONS = SPANS.map(lambda spans: union((low, high) for low, high in spans if low < high))


def moments(intervals: list[Interval]) -> set[int]:
    """Every whole number that the intervals cover."""
    return {at for low, high in intervals for at in range(int(low), int(high))}


def is_union(intervals: list[Interval]) -> bool:
    """Whether the intervals are sorted, and none is empty or overlaps the next."""
    return all(low < high for low, high in intervals) and all(
        one[1] <= other[0] for one, other in itertools.pairwise(intervals)
    )


@given(SPANS)
def test_union_covers_the_same_time(spans: list[Interval]) -> None:
    joined = union(spans)
    assert moments(joined) == moments(spans)
    assert joined == sorted(joined)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(joined)), "what touches is one"
    assert length(joined) == len(moments(spans))
    assert union(joined) == joined
    assert union(reversed(spans)) == joined


@given(UNIONS, TIME, TIME)
def test_clip_keeps_what_lies_between(some: list[Interval], one: int, other: int) -> None:
    low, high = min(one, other), max(one, other)
    kept = clip(some, low, high)
    assert moments(kept) == moments(some) & set(range(low, high))
    assert is_union(kept)


@given(UNIONS, UNIONS)
def test_overlap_is_the_common_time(some: list[Interval], others: list[Interval]) -> None:
    common = overlap(some, others)
    assert moments(common) == moments(some) & moments(others)
    assert is_union(common)
    assert overlap(others, some) == common


@given(UNIONS, UNIONS)
def test_without_is_the_rest(some: list[Interval], others: list[Interval]) -> None:
    left = without(some, others)
    assert moments(left) == moments(some) - moments(others)
    assert is_union(left)


@given(UNIONS, UNIONS)
def test_what_two_have_in_common_and_the_rest_are_the_whole(some: list[Interval], others: list[Interval]) -> None:
    assert length(overlap(some, others)) + length(without(some, others)) == length(some)
    assert union([*overlap(some, others), *without(some, others)]) == some


@given(UNIONS, UNIONS)
def test_shared_is_the_share_in_the_others(some: list[Interval], others: list[Interval]) -> None:
    assert shared(some, some) == (1.0 if some else 0.0)
    assert shared(some, others) * length(some) == pytest.approx(len(moments(some) & moments(others)))


@given(SPANS, st.integers(1, 9))
def test_dilated_closes_the_small_gaps(spans: list[Interval], gap: int) -> None:
    joined = dilated(spans, gap)
    assert moments(joined) >= moments(spans)
    assert all(other[0] - one[1] >= gap for one, other in itertools.pairwise(joined))
    added = without(joined, union(spans))
    assert all(high - low < gap for low, high in added)


def test_nothing() -> None:
    assert union([]) == clip([], 0, 9) == overlap([], [(1, 2)]) == overlap([(1, 2)], []) == without([], [(1, 2)]) == []
    assert without([(1, 2)], []) == [(1, 2)]
    assert length([]) == 0
