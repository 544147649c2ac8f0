"""What the page's own script does: copying, opening what is folded, for a click, a link and paper."""

from __future__ import annotations

import pytest
from browser import Browser
from locations import TESTS

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import decode_facts
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.render import render

MACHINE = TESTS / "machines/synthetic/tensorflow-2.21.0-misses-cusolver/facts.json"


@pytest.fixture(scope="module")
def report() -> Report:
    return diagnose(decode_facts(MACHINE.read_bytes()))


def test_a_command_is_copied_whole(browser: Browser, report: Report) -> None:
    browser.show(render(report, "html"))
    browser.click(".copied button")
    browser.wait("return document.querySelector('.copied button').textContent === 'Copied'")
    assert browser.run("return getSelection().toString().trim()") == report.causes[0].fix.commands[0]


def test_a_link_opens_what_is_folded(browser: Browser, report: Report) -> None:
    browser.show(render(report, "html"))
    folded = next(result.id for result in report.results if result.outcome == "pass")
    inside = f"document.getElementById('{folded}')"
    browser.run(f"{inside}.closest('details').open = false")
    browser.run(f"location.hash = '{folded}'")
    browser.wait(f"return {inside}.closest('details').open && {inside}.getBoundingClientRect().top < innerHeight")


def test_what_was_folded_is_folded_again_after_printing(browser: Browser, report: Report) -> None:
    browser.show(render(report, "html"))
    count = "return document.querySelectorAll('details[open]').length"
    before = browser.run(count)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(count) == browser.run("return document.querySelectorAll('details').length") > before
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(count) == before
