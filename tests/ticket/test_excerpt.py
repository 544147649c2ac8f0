"""The part of a log that a ticket includes."""

from __future__ import annotations

import pytest

from tfgpu_doctor.ticket.excerpt import Excerpt, excerpt_of

STUB = "failed call to cuInit: UNKNOWN ERROR (34)"


def log_with(*telling: int, lines: int = 2000) -> bytes:
    """A long log in which these lines (from 0) tell something."""
    return "\n".join(STUB if number in telling else f"line {number}" for number in range(lines)).encode()


def numbered(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last + 1)]


def test_three_lines_before_and_after_a_telling_line_are_kept() -> None:
    excerpt = excerpt_of(log_with(1000))
    assert (excerpt.kept, excerpt.lines) == (500, 2000)
    assert excerpt.text.split("\n") == [
        *numbered(0, 292), "... 704 lines left out ...",
        *numbered(997, 999), STUB, *numbered(1001, 1003), "... 796 lines left out ...",
        *numbered(1800, 1999),
    ]  # fmt: skip


def test_the_lines_around_telling_lines_close_to_each_other_are_kept_once() -> None:
    kept = excerpt_of(log_with(1000, 1002)).text.split("\n")
    begin = kept.index("line 997")
    assert kept[begin - 1 : begin + 10] == [
        "... 706 lines left out ...", *numbered(997, 999), STUB, "line 1001", STUB, *numbered(1003, 1005),
        "... 794 lines left out ...",
    ]  # fmt: skip


def test_a_short_log_is_kept_whole() -> None:
    excerpt = excerpt_of(log_with(0, 499, lines=500))
    assert excerpt.text.split("\n") == [STUB, *numbered(1, 498), STUB]
    assert (excerpt.kept, excerpt.lines) == (500, 500)


@pytest.mark.parametrize("mark", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_only_a_line_feed_ends_a_line(mark: str) -> None:
    log = log_with(1000).decode().replace("line 10\n", f"{mark.join(f'step {step}' for step in range(900))}\n")
    excerpt = excerpt_of(log.encode())
    kept = excerpt.text.split("\n")
    place = kept.index(STUB)
    assert kept[place - 3 : place + 4] == [*numbered(997, 999), STUB, *numbered(1001, 1003)]
    assert (excerpt.kept, excerpt.lines) == (500, 2000)


def test_the_line_ends_of_windows_are_none_of_the_text() -> None:
    excerpt = excerpt_of(f"line 0\r\n{STUB}\r\n".encode())
    assert (excerpt.text, excerpt.lines) == (f"line 0\n{STUB}", 2)


def test_what_tells_something_in_a_line_that_is_too_long_is_kept() -> None:
    bar = "".join(f"\r{step}/9999 [====>.....]" for step in range(999))
    first, line = excerpt_of(f"line 0\n{bar}\r{STUB}\n".encode()).text.split("\n")
    assert first == "line 0"
    assert STUB in line
    assert len(line) < 1000
    assert "\r" not in line


def test_the_empty_log_has_no_lines() -> None:
    assert excerpt_of(b"") == Excerpt("", 0, 0)
