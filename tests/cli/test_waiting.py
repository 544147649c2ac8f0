"""The line that states what the doctor is waiting for: it fits the terminal, and names nothing that has just begun."""

from __future__ import annotations

import io
import os

import pytest

from tfgpu_doctor.cli.waiting import Waiting

IMPORT, LIBRARIES = "TensorFlow to import and list its GPUs", "the libraries that TensorFlow opens"


class Terminal(io.StringIO):
    """A terminal of some width; its last line is what stands after the last carriage return."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    @property
    def line(self) -> str:
        return self.getvalue().rpartition("\r\x1b[K")[2]


def terminal_of(monkeypatch: pytest.MonkeyPatch, columns: int) -> Terminal:
    """Standard error as a terminal of that width; called by the test itself, as pytest replaces the stream before it."""
    found = Terminal()
    monkeypatch.setattr("sys.stderr", found)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
    return found


@pytest.mark.parametrize("columns", [8, 20, 40, 80, 200])
def test_the_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    terminal = terminal_of(monkeypatch, columns)
    waiting = Waiting()
    for seconds in (0.0, 12.0):
        waiting.show([IMPORT, LIBRARIES], seconds)
    assert 0 < len(terminal.line) < columns
    assert columns < 20 or terminal.line.endswith(" (12 s)")
    assert (LIBRARIES in terminal.line) is (columns == 200)


def test_a_terminal_without_a_width_is_taken_for_a_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch, 0)
    waiting = Waiting()
    for seconds in (0.0, 1.0):
        waiting.show([IMPORT, LIBRARIES], seconds)
    assert len(terminal.line) == 79


def test_what_has_just_begun_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch, 80)
    waiting = Waiting()
    waiting.show([IMPORT], 0.0)
    waiting.show([IMPORT], 1.0)
    waiting.show(["the stress test of the GPUs"], 3.0)
    assert "stress" not in terminal.getvalue()
    assert terminal.line == "waiting (3 s)"  # what ended is no longer waited for
    waiting.show(["the stress test of the GPUs"], 3.6)
    assert terminal.line == "waiting for the stress test of the GPUs (4 s)"


def test_before_the_first_wait_that_lasts_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch, 80)
    waiting = Waiting()
    for tenth in range(40):
        waiting.show([f"part {tenth // 4}"], tenth / 10)
    assert terminal.getvalue() == ""


def test_what_goes_on_is_named_when_another_part_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch, 120)
    waiting = Waiting()
    for seconds in (0.0, 1.0):
        waiting.show([IMPORT, LIBRARIES], seconds)
    waiting.show([LIBRARIES], 2.0)
    assert terminal.line == f"waiting for {LIBRARIES} (2 s)"


def test_numbers_that_change_do_not_begin_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch, 80)
    waiting = Waiting()
    for seconds in range(3):
        waiting.show([f"test_a (2 of 8 done, {30 - seconds} s left)"], float(seconds))
    assert terminal.line == "waiting for test_a (2 of 8 done, 28 s left) (2 s)"


def test_the_line_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch, 80)
    with Waiting() as waiting:
        waiting.show([IMPORT], 0.0)
        waiting.show([IMPORT], 1.0)
        assert terminal.line
    assert terminal.line == ""
