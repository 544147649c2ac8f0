"""Every format of the report on a watched training says the same, and no name of others changes anything outside of its place."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import made_watch
import msgspec
import pytest
from document_shapes import SHAPES
from made_watch import REPORTS

from tfgpu_doctor.watching.html_page import render_watch_html
from tfgpu_doctor.watching.page import render_watch_markdown, render_watch_text
from tfgpu_doctor.watching.result import TimelineEntry, WatchReport
from tfgpu_doctor.watching.stretches import in_slots, stretches, totals
from tfgpu_doctor.watching.units import clock, duration
from tfgpu_doctor.watching.words import cleaned, headline, machine_line, subject

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffe\ud800-\udfff]")
RED = "\x1b[1;31m"


def text(report: WatchReport) -> str:
    return render_watch_text(report, width=100, colour=False)


FORMATS: dict[str, Callable[[WatchReport], str]] = {
    "text": text,
    "markdown": render_watch_markdown,
    "html": render_watch_html,
}


def shown(document: str, format_: str) -> str:
    """The words of a document, without its markup."""
    document = html.unescape(document) if format_ == "html" else document
    return " ".join(document.replace("\\", "").split() if format_ == "markdown" else document.split())


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", [name for name in REPORTS if name != "hostile"])
def test_all_formats_say_the_same(name: str, format_: str) -> None:
    report = REPORTS[name]()
    words = shown(FORMATS[format_](report), format_)
    head = headline(report)
    for each in (head.title, head.line, *head.evidence, head.fix, report.command):
        assert " ".join(each.split()) in words
    for each in head.code.splitlines():
        assert " ".join(each.split()) in words
    for outside in report.machine:
        assert machine_line(outside) in words
        assert outside.fix in words
    for rule in report.rules:
        assert rule.rule in words
    for note in report.notes:
        assert note in words
    if report.gain.step_ms_at_best is not None:
        assert (f"would take {report.gain.step_ms_at_best:.1f} ms" in words) == (report.hang is None)


@pytest.mark.parametrize(
    ("name", "mark", "word"),
    [
        ("healthy", "✓ ", "Healthy"), ("input_bound", "✗ ", "Bottleneck"), ("hung", "✗ ", "Hang"),
        ("from_outside", "· ", "Inconclusive"), ("with_rules", "✓ ", "Healthy"), ("eight_gpus", "✗ ", "Bottleneck"),
    ],
)  # fmt: skip
def test_the_mark_is_that_of_the_verdict(name: str, mark: str, word: str) -> None:
    report = REPORTS[name]()
    title = headline(report).title
    assert f"\n{mark}{title}\n" in text(report)
    assert f"**{mark}{title}**" in render_watch_markdown(report).replace("\\", "")
    assert f"<title>{word}: {html.escape(title, quote=True)} (tfgpu-doctor watch)</title>" in render_watch_html(
        report
    ).replace("&#39;", "&#x27;")


def test_a_hang_comes_first_and_what_was_before_is_no_second_verdict() -> None:
    report = made_watch.hung()
    for document in (text(report), render_watch_markdown(report)):
        assert report.hang
        assert document.index(report.hang.title) < document.index(report.title)
        assert document.count("✗") == 1
        assert report.causes[0].fix.text[:40] not in document


def test_what_was_before_a_hang_is_taken_from_the_timeline_too() -> None:
    hung = made_watch.hung()
    assert hung.hang
    report = msgspec.structs.replace(hung, verdict="hang", title=hung.hang.title, causes=())
    assert headline(report).before == made_watch.cause().title
    late = TimelineEntry(at_s=500.0, verdict="hang", title=hung.hang.title)
    assert headline(msgspec.structs.replace(report, timeline=(*report.timeline, late))) == headline(report)
    first = TimelineEntry(at_s=2.0, verdict="watching", title="Nothing is known of the steps of the training yet")
    assert headline(msgspec.structs.replace(report, timeline=(first, late))).before == ""


def test_rules_say_when_and_how_long() -> None:
    words = shown(text(made_watch.with_rules()), "text")
    assert "✗ step_ms > 10 for 1 min: broken at 01:02; it held for up to 11 min at a stretch" in words
    assert "✓ gpu_idle > 40 % for 5 min: not broken; it held for up to 30 s at a stretch" in words
    assert "· memory > 90 % for 1 min: not known: the control group has no limit" in words


@pytest.mark.parametrize("name", REPORTS)
def test_one_cause_has_one_red_line(name: str) -> None:
    report = REPORTS[name]()
    document = render_watch_text(report, width=100, colour=True)
    broken = [rule for rule in report.rules if rule.broken]
    red = headline(report).healthy is False
    assert document.count(RED) == (1 if red else len(broken))


def test_what_could_not_be_measured_is_not_red() -> None:
    document = render_watch_text(made_watch.from_outside(), width=100, colour=True)
    assert RED not in document
    assert "nothing could be measured" in document
    assert "not known" in document
    assert 'class="card bad"' not in render_watch_html(made_watch.from_outside())


@pytest.mark.parametrize("width", [40, 80, 100, 140])
@pytest.mark.parametrize("name", REPORTS)
def test_lines_fit_into_the_width(name: str, width: int) -> None:
    report = cleaned(REPORTS[name]())
    lines = render_watch_text(report, width=width, colour=False).splitlines()
    code = headline(report).code
    assert lines[0].strip() == report.command, "a name is never wrapped"
    for line in lines[1:]:
        assert len(line) <= width or line.strip() in code, line


@pytest.mark.parametrize("format_", FORMATS)
def test_hostile_names_steer_nothing(format_: str) -> None:
    document = FORMATS[format_](made_watch.hostile())
    assert "forged" in document
    document.encode()
    assert not CONTROL.search(document)
    if format_ in ("html", "markdown"):
        assert "<script>alert(1)" not in document
    assert format_ != "html" or "<img" not in document
    for line in document.splitlines():
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
        assert "##vso[" not in line


@pytest.mark.parametrize("format_", FORMATS)
def test_hostile_names_stay_in_their_place(format_: str) -> None:
    """The structure is that of a document with harmless names in the same places."""
    documents = [FORMATS[format_](made_watch.hostile(word)) for word in (made_watch.HOSTILE, "y")]
    if format_ == "text":  # the second paragraph is the first that is not the command's
        documents = ["\n\n" + document.split("\n", 1)[1] for document in documents]
    assert SHAPES[format_](documents[0]) == SHAPES[format_](documents[1])


def test_a_verdict_from_outside_is_not_said_twice() -> None:
    outside = made_watch.contention()
    report = made_watch.watched(verdict=outside.label, title=outside.title, healthy=False, machine=(outside,))
    for format_, render in FORMATS.items():
        assert shown(render(report), format_).count(outside.fix) == 1
    assert outside.evidence[0] in shown(text(report), "text")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "it ended with exit code 0"), (3, "it ended with exit code 3"), (-9, "signal 9 (SIGKILL) ended it"),
        (137, "it ended with exit code 137 (SIGKILL)"), (-64 - 9, "signal 73 ended it"), (None, "it runs on"),
    ],
)  # fmt: skip
def test_how_the_program_ended(code: int | None, words: str) -> None:
    assert f"{words};" in shown(text(made_watch.watched(exit_code=code)), "text")


def test_times_in_words() -> None:
    told = [duration(each) for each in (0, 0.44, 9.96, 42, 59.7, 192, 3600, 3900, 90000)]
    assert told == ["0 s", "0.4 s", "10 s", "42 s", "1 min", "3 min 12 s", "1 h", "1 h 05 min", "25 h"]
    assert [clock(each) for each in (-1, 42.9, 62, 3723)] == ["00:00", "00:42", "01:02", "1:02:03"]


def test_the_timeline_joins_neighbours_and_puts_the_hang_in_its_place() -> None:
    found = stretches(made_watch.hung())
    assert [(each.begin_s, each.end_s, each.verdict) for each in found] == [
        (2, 120, "compute_bound"), (120, 400, "input_python"), (400, 410, "compute_bound"), (410, 500, "input_python"),
        (500, 723, "hang"),
    ]  # fmt: skip
    assert found[1].causes == ("cpu_contention",)
    assert [(each.verdict, each.seconds, each.times) for each in totals(found)] == [
        ("input_python", 370, 2),
        ("hang", 223, 1),
        ("compute_bound", 128, 2),
    ]
    assert in_slots(found, 723, 6) == ["compute_bound", *["input_python"] * 3, "hang", "hang"]


def test_a_hang_that_passed_leaves_what_came_after() -> None:
    hung = made_watch.hung()
    assert hung.hang
    report = msgspec.structs.replace(hung, hang=msgspec.structs.replace(hung.hang, at_s=130.0, seconds=20.0))
    assert [(each.begin_s, each.verdict) for each in stretches(report)][:4] == [
        (2, "compute_bound"), (120, "input_python"), (130, "hang"), (150, "input_python"),
    ]  # fmt: skip


def test_no_timeline_of_an_empty_run() -> None:
    report = made_watch.watched(seconds=0.0)
    assert stretches(report) == []
    assert in_slots([], 0.0, 4) == [""] * 4
    assert 'id="timeline"' not in render_watch_html(report)


@pytest.mark.slow
def test_a_page_does_not_grow_with_the_time_of_the_run() -> None:
    sizes = []
    for count in (1_000, 20_000):
        turns = tuple(
            made_watch.turn(10.0 * at, ("input_python", "compute_bound")[at % 2], "cpu_quota") for at in range(count)
        )
        report = msgspec.structs.replace(made_watch.input_bound(), timeline=turns, seconds=10.0 * count)
        sizes.append([len(render(report)) for render in FORMATS.values()])
        assert all("behind it" in render(report) for render in FORMATS.values())
    assert all(later < 1.1 * first for first, later in zip(*sizes, strict=True))


def test_uneven_steps_are_told_by_their_mean() -> None:
    report = made_watch.input_bound()
    assert subject(report).endswith("; steps of 29.9 ms (median)")
    uneven = msgspec.structs.replace(report, steps=msgspec.structs.replace(report.steps, mean_ms=70.0))
    assert subject(uneven).endswith("; steps of 70.0 ms (mean; median 29.9 ms)")
