"""An open question is told as such in every format, with the reasons; a warning beside it stays a warning."""

from __future__ import annotations

import dataclasses
import re

import msgspec
import pytest
from healthy import broken, healthy

from tfgpu_doctor.diagnose.engine import BrokenPlugin, diagnose
from tfgpu_doctor.diagnose.selection import Selection
from tfgpu_doctor.fleet.reporting import in_a_line, node_report
from tfgpu_doctor.model import Check, Evidence, Finding, Fix, Skip, Yielded, check
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import Pci
from tfgpu_doctor.model.report import RehearsalReport, Report
from tfgpu_doctor.model.tags import of_plugin
from tfgpu_doctor.rehearse.page import render_rehearsal
from tfgpu_doctor.render import render
from tfgpu_doctor.render.words import NOTES_FAIL, headline, subject
from tfgpu_doctor.ticket.ticket_page import Page, render_ticket

REASON = "TensorFlow was not started: no Python was found"
WARNING = "the link of the GPU has 4 of 16 lanes"
OPEN = "Not judged: nothing showed whether TensorFlow computes on a GPU."
NOT_AMONG = "Whether TensorFlow computes on a GPU was not among them."


@check("TST001", "the link is whole", causes=("pcie_link_degraded",))
def warns() -> Yielded:
    yield Finding(WARNING, cause="pcie_link_degraded", severity="warning", fix=Fix("move the card"))


@check("TST002", "TensorFlow computes on a GPU", goal="computes")
def skips() -> Yielded:
    yield from ()
    raise Skip(REASON)


@check("TST003", "the driver answers")
def passes() -> Yielded:
    yield Evidence("seen")


@check("TST004", "the kernel log has no errors")
def cannot() -> Yielded:
    yield from ()
    raise Skip("the kernel log cannot be read")


@check("TST005", "the check of a plugin")
def crashes() -> Yielded:
    yield from ()
    raise ZeroDivisionError("of its own making")


def report_of(*checks: Check, select: tuple[str, ...] = (), ignore: tuple[str, ...] = ()) -> Report:
    return diagnose(broken(), checks=checks, selection=Selection(select=select, ignore=ignore))


def plain(document: str) -> str:
    """The words of a document, without markup and the line breaks between them."""
    return " ".join(re.sub(r"<[^>]*>|[*\\]|%0A", " ", document).split())


@pytest.mark.parametrize("format_", ["text", "markdown", "html", "github", "junit", "sarif"])
def test_an_open_question_is_told_beside_a_warning(format_: str) -> None:
    report = report_of(warns, skips)
    assert report.exit_code() == 3
    document = render(report, format_)
    assert OPEN in (document if format_ == "junit" else plain(document))
    assert REASON in document
    assert WARNING in document


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_what_is_open_comes_before_the_warning(format_: str) -> None:
    document = render(report_of(warns, skips), format_)
    main = document[document.index("<main") :] if format_ == "html" else document
    assert main.index(REASON) < main.index(WARNING)


def test_a_page_does_not_call_a_warning_the_root_cause() -> None:
    page = render(report_of(warns, skips), "html")
    assert f"<h1>{OPEN}</h1>" in page
    assert "Not judged, with issues to fix" in page
    assert "Root cause" not in page
    assert "To fix" in page


def test_a_page_calls_no_warning_the_root_cause_of_a_crash() -> None:
    page = render(report_of(warns, crashes), "html")
    assert "<h1>A check of the doctor crashed; what it examines was not judged.</h1>" in page
    assert "Root cause" not in page


@check("TST007", "the check of a plugin", tags=(of_plugin("acme"),))
def crashes_too() -> Yielded:
    yield from ()
    raise ZeroDivisionError("of its own making")


BROKEN = (BrokenPlugin("acme", "no module"), BrokenPlugin("rack", "no module"))


@pytest.mark.parametrize(
    ("checks", "unloaded", "said"),
    [
        ((crashes,), (), "A check of the doctor crashed; what it examines was not judged."),
        ((crashes_too,), (), "A check of the plugin acme crashed; what it examines was not judged."),
        (
            (crashes, crashes_too),
            (),
            "2 checks of the doctor and of the plugin acme crashed; what they examine was not judged.",
        ),
        ((passes,), BROKEN[:1], "The plugin acme could not be loaded; what its checks examine was not judged."),
        ((), BROKEN, "The plugins acme and rack could not be loaded; what their checks examine was not judged."),
        (
            (crashes,),
            BROKEN[1:],
            "A check of the doctor crashed; what it examines was not judged. "
            "The plugin rack could not be loaded; what its checks examine was not judged.",
        ),
    ],
)
def test_a_crash_is_of_whoever_made_the_check(
    checks: tuple[Check, ...], unloaded: tuple[BrokenPlugin, ...], said: str
) -> None:
    assert headline(diagnose(healthy(), checks=checks, broken=unloaded)) == said


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_an_error_answers_the_question(format_: str) -> None:
    @check("TST006", "the driver is loaded", causes=("nouveau_loaded",))
    def fails() -> Yielded:
        yield Finding("nouveau is loaded", cause="nouveau_loaded", fix=Fix("blacklist it"))

    document = plain(render(report_of(fails, warns, skips), format_))
    assert "Not judged:" not in document
    assert "nouveau is loaded" in document


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        ((passes,), "The selected checks pass."),
        ((passes, cannot), "Not every selected check passed: 1 passed · 1 skipped."),
        ((passes, warns, cannot), "Not every selected check passed: 1 passed · 1 with warnings · 1 skipped."),
        ((warns,), "Not every selected check passed: 1 with warnings."),
    ],
)
def test_selected_checks_that_were_not_judged_do_not_pass(checks: tuple[Check, ...], told: str) -> None:
    report = report_of(*checks, skips, select=tuple(each.id for each in checks))
    assert report.exit_code() == 0
    assert headline(report) == f"{told} {NOT_AMONG}"
    for format_ in ("text", "markdown", "html", *(() if report.causes else ("github",))):
        document = plain(render(report, format_))
        assert f"{told} {NOT_AMONG}" in document
        assert ("pass." in document) == (checks == (passes,)), format_
        assert cannot not in checks or "the kernel log cannot be read" in document or format_ == "github"
    assert ("Selected checks pass" in render(report, "html")) == (checks == (passes,))


def test_what_ignored_checks_block_is_not_said_to_pass() -> None:
    @check("TST006", "the driver is loaded", causes=("nouveau_loaded",))
    def fails() -> Yielded:
        yield Finding("nouveau is loaded", cause="nouveau_loaded", fix=Fix("blacklist it"))

    @check("TST007", "the libraries load", after=("TST006",))
    def blocked() -> Yielded:
        yield Evidence("never reached")

    report = report_of(passes, fails, blocked, ignore=("TST006",))
    assert report.exit_code() == 0
    assert headline(report) == f"Not every selected check passed: 1 passed · 1 blocked · 1 skipped. {NOT_AMONG}"


def test_facts_that_a_record_lacks_are_called_not_examined() -> None:
    report = diagnose(Facts())
    assert subject(report) == "TensorFlow not examined · NVIDIA driver not examined · NVIDIA GPU not examined"
    document = render(report, "text")
    assert "there is no fact" not in render(report, "text", verbose=True)
    assert document.count("not examined: ") == 1
    assert "kernel log" in document


def test_what_an_interruption_left_unknown_is_not_called_absent() -> None:
    facts = broken(pci=None, nvml=None, cuda_driver=None, runtime=None)
    report = diagnose(msgspec.structs.replace(facts, unknown={"pci": "interrupted"}), interrupted=True)
    assert "NVIDIA GPU not examined" in subject(report)
    assert "driver 5" in subject(report)


def test_facts_that_are_empty_are_absent() -> None:
    report = diagnose(broken(pci=Pci(), nvml=None, cuda_driver=None))
    assert "no NVIDIA GPU" in subject(report)
    assert "not examined" not in subject(report)


@check("TST008", "the counters can be read")
def notes() -> Yielded:
    yield Finding("only root may profile", severity="info", fix=Fix("allow it to all"))


@pytest.mark.parametrize("format_", ["text", "markdown", "html", "github", "junit"])
def test_notes_that_fail_the_run_are_shown(format_: str) -> None:
    report = report_of(passes, notes)
    assert report.exit_code("info") == 1
    document = render(report, format_, fail_level="info")
    told = document if format_ == "junit" else plain(document)
    for words in (NOTES_FAIL, "TST008", "only root may profile", "allow it to all"):
        assert words in told
    for level in ("warning", "error"):
        assert render(report, format_, fail_level=level) == render(report, format_)
    assert NOTES_FAIL not in render(report, format_)


def test_notes_that_fail_a_rehearsal_are_shown() -> None:
    fields = {name: getattr(report_of(passes, notes), name) for name in Report.__struct_fields__}
    report = RehearsalReport(**fields, registered=1, expected=1, memory_growth_set=True, cuda="12.4")
    page = render_rehearsal(report, width=100, colour=False, verbose=False, fail_level="info")
    for words in (NOTES_FAIL, "TST008", "only root may profile", "allow it to all"):
        assert words in page
    assert NOTES_FAIL not in render_rehearsal(report, width=100, colour=False, verbose=False)


def test_notes_that_fail_a_node_are_among_its_causes() -> None:
    report = report_of(passes, notes)
    node = node_report("a", Facts(), report, began="", seconds=1.0, exit_code=1, fail_level="info")
    assert in_a_line(node) == "undetermined (TST008): only root may profile"
    assert [cause.severity for cause in node.causes] == ["info"]
    assert not node_report("a", Facts(), report, began="", seconds=1.0, exit_code=0).causes


def test_notes_that_fail_a_ticket_are_on_its_page() -> None:
    page = Page(report_of(passes, notes), Facts(), None, None, ())
    told = render_ticket(dataclasses.replace(page, fail_level="info"))
    for words in (NOTES_FAIL, "TST008", "only root may profile", "allow it to all"):
        assert words in plain(told)
    assert NOTES_FAIL not in render_ticket(page)
