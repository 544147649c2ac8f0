"""Who is looked at again, and beside whom."""

from __future__ import annotations

import pytest

from tfgpu_doctor.fleet.fleet import STATUSES, Fleet, Status
from tfgpu_doctor.fleet.retest import chosen_again


def fleet(**nodes: tuple[str, ...]) -> Fleet:
    statuses: dict[Status, tuple[str, ...]] = {each: nodes.get(each, ()) for each in STATUSES}
    return Fleet(doctor="1", exit_code=0, heard=sum(map(len, statuses.values())), statuses=statuses)


KINDS = {"a": "8 x H100", "b": "8 x H100", "c": "8 x H100", "x": "8 x A100", "y": "8 x A100", "z": "1 x T4"}


def test_a_slow_node_is_looked_at_beside_a_good_one_of_its_kind() -> None:
    assert chosen_again(fleet(good=("a", "b", "x"), suspect=("y",)), KINDS, (), failures=False) == ("x", "y")


def test_each_has_a_peer_of_its_own_as_far_as_there_are_any() -> None:
    found = chosen_again(fleet(good=("a", "x"), suspect=("b", "y")), KINDS, (), failures=False)
    assert found == ("a", "b", "x", "y")
    assert chosen_again(fleet(good=("a", "x"), suspect=("b", "c")), KINDS, (), failures=False) == ("a", "b", "c")


def test_without_a_peer_of_its_kind_it_is_looked_at_alone() -> None:
    assert chosen_again(fleet(good=("a", "b"), suspect=("z",)), KINDS, (), failures=False) == ("z",)


@pytest.mark.parametrize(("failures", "expected"), [(True, ("a", "b")), (False, ())])
def test_who_failed_is_looked_at_again_where_it_failed_under_load(failures: bool, expected: tuple[str, ...]) -> None:
    assert chosen_again(fleet(good=("a", "c"), fails=("b",)), KINDS, (), failures=failures) == expected


def test_where_most_are_in_doubt_it_is_not_the_node() -> None:
    assert chosen_again(fleet(good=("a",), suspect=("b", "c")), KINDS, (), failures=False) == ()


def test_nobody_is_looked_at_a_third_time() -> None:
    assert chosen_again(fleet(good=("a", "x"), suspect=("b", "y")), KINDS, {"b"}, failures=False) == ("x", "y")
