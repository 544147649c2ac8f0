"""The page of a certificate in a real browser."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

import pytest
from browser import Browser
from judged import bench, comparison, judged, profile_of, recorded_machine, shipped
from msgspec.structs import replace
from stressed import under_stress

from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.accept.page import render_certificate
from tfgpu_doctor.accept.verifying import verify

ALLOWED = "fail-level = 'warning'\n[[allowed]]\ncheck = 'HLT005'\nreason = 'the rack feeds 250 W'\nexpires = {}\n"


def accepted() -> Certificate:
    comparisons = (comparison(), comparison(name="gpu[convolution]"), comparison("training", "step[cnn]"))
    return judged(replace(under_stress(), bench=bench(*comparisons)), shipped("server"))


def with_allowance(expires: str, folder: pytest.TempPathFactory) -> Certificate:
    return judged(
        recorded_machine("power-limit-lowered"), profile_of(ALLOWED.format(expires), folder.mktemp("profile"))
    )


CERTIFICATES: dict[str, Callable[[pytest.TempPathFactory], Certificate]] = {
    "accepted": lambda _: accepted(),
    "sealed": lambda _: accepted().proved(b"a key that is long enough"),
    "interrupted": lambda _: judged(recorded_machine("workstation-healthy"), shipped("ci"), interrupted=True),
    "allowed": lambda folder: with_allowance("2027-01-01", folder),
    "no longer allowed": lambda folder: with_allowance("2026-01-01", folder),
    **{
        name: functools.partial(lambda _, name: judged(recorded_machine(name), shipped("cluster-node")), name=name)
        for name in ("ubuntu-without-driver", "one-of-8-gpus-is-lost", "loaded-memory-flips", "soaked-too-hot")
    },
}


@pytest.fixture(params=CERTIFICATES, scope="module")
def certificate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return CERTIFICATES[request.param](tmp_path_factory)


@pytest.fixture(scope="module")
def page(certificate: Certificate) -> str:
    return render_certificate(certificate, "html", key=b"a key that is long enough" if certificate.seal else None)


def test_it_fits_asks_for_nothing_and_complains_of_nothing(browser: Browser, page: str) -> None:
    browser.show(page)
    browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    for width in (320, 360, 768, 1440):
        browser.look(width=width)
        assert browser.overflowing == [], width
    assert browser.said == []
    assert browser.requested == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read(browser: Browser, page: str, scheme: str) -> None:
    browser.show(page, scheme=scheme)
    assert browser.pale == []


def test_all_of_it_can_be_reached_by_keyboard(browser: Browser, page: str) -> None:
    browser.show(page)
    reached, reachable, unmarked = browser.walk()
    assert reached == reachable
    assert unmarked == []


def test_it_shows_every_row_and_carries_the_certificate(browser: Browser, page: str, certificate: Certificate) -> None:
    browser.show(page)
    rows = browser.run("return document.querySelectorAll('#requirements ~ .scroll tbody tr').length")
    assert rows == len(certificate.requirements)
    carried = json.loads(browser.run("return document.getElementById('certificate').textContent"))
    assert carried["digest"] == certificate.digest
    assert verify(page.encode()).status == "intact"


def test_it_goes_on_paper(browser: Browser, page: str) -> None:
    browser.show(page)
    assert browser.print().startswith(b"%PDF")


def test_what_a_browser_saves_is_told_from_what_was_issued(browser: Browser, page: str) -> None:
    """A browser that saves a page writes it anew; such a copy is not the page that was issued."""
    browser.show(page)
    saved = browser.run("return '<!DOCTYPE html>' + document.documentElement.outerHTML")
    assert verify(saved.encode()).status == "changed"
