"""Notes and timeline of a run of weeks: they stay short, and say what they leave out."""

from __future__ import annotations

from tfgpu_doctor.watching.bounded import MOST_NOTES, Notes, shorten
from tfgpu_doctor.watching.result import TimelineEntry


def turn(at_s: float, verdict: str, *causes: str) -> TimelineEntry:
    return TimelineEntry(at_s=at_s, verdict=verdict, title=verdict, causes=causes)


def test_a_note_that_repeats_is_counted() -> None:
    texts: list[str] = []
    notes = Notes(texts)
    notes.add("the program goes on after 71 s")
    notes.add("a GPU is gone")
    notes.add("the program goes on after 310.5 s")
    assert texts == ["the program goes on after 71 s (the first of 2 such notes)", "a GPU is gone"]


def test_notes_have_an_end() -> None:
    texts = ["of somebody else"]
    notes = Notes(texts)
    names = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(MOST_NOTES + 50)]
    for name in names:
        notes.add(f"file {name} is gone")
    assert len(texts) == MOST_NOTES + 2
    assert texts[-1] == "50 more notes are left out"
    notes.add(f"file {names[0]} is gone")
    assert texts[1].endswith("(the first of 2 such notes)")


def test_the_shortest_stretches_are_left_out() -> None:
    timeline = [turn(0, "a"), turn(100, "b"), turn(101, "a"), turn(200, "c"), turn(300, "d")]
    assert shorten(timeline, 4) == 2, "before and after it is the same"
    assert [(each.at_s, each.verdict) for each in timeline] == [(0, "a"), (200, "c"), (300, "d")]


def test_a_timeline_that_flaps_for_weeks_stays_short() -> None:
    timeline: list[TimelineEntry] = []
    left_out = 0
    for number in range(5000):
        timeline.append(turn(number * 7.0, "ab"[number % 2], *(["c"] if number % 3 else [])))
        left_out += shorten(timeline, 50)
        assert len(timeline) <= 50
    assert left_out + len(timeline) == 5000
    assert timeline[0].at_s == 0
    assert timeline[-1].at_s == 4999 * 7.0
    assert shorten(timeline[:2], 1) == 0
