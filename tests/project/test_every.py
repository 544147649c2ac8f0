"""One test of all rows fails where one row does, and says which."""

from __future__ import annotations

import pathlib

import pytest
from every import every


@every("number, square", [(2, 4), (3, 9)])
def test_rows_fill_the_parameters_and_fixtures_the_rest(number: int, square: int, tmp_path: pathlib.Path) -> None:
    assert number**2 == square
    assert tmp_path.is_dir()


def test_each_bad_row_is_named() -> None:
    @every("number", range(10), key=lambda number: f"row {number}")
    def check(number: int) -> None:
        assert number % 4, "a multiple of four"

    with pytest.raises(pytest.fail.Exception, match=r"3 of 10:\nrow 0: AssertionError: a multiple of four(?s:.*)row 8"):
        check()


def test_no_rows_are_no_pass() -> None:
    @every("number", [])
    def check(number: int) -> None:
        raise AssertionError

    with pytest.raises(AssertionError, match="0 rows"):
        check()


def test_an_error_of_any_kind_counts() -> None:
    @every("number", [0, 1])
    def check(number: int) -> None:
        assert 1 / number

    with pytest.raises(pytest.fail.Exception, match="1 of 2:\n0: ZeroDivisionError"):
        check()


def test_where_every_row_is_skipped_so_is_the_test() -> None:
    @every("number", [0, 1])
    def check(number: int) -> None:
        pytest.skip(f"not {number}")

    with pytest.raises(pytest.skip.Exception, match="not 0"):
        check()
