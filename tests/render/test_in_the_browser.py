"""Every kind of page in a real browser: it fits, it can be read and reached, it asks for nothing and complains of nothing."""

from __future__ import annotations

import functools
import itertools
import lzma
import pathlib
import tempfile
from collections.abc import Callable

import made_trace
import made_watch
import pytest
from browser import Browser
from built_bench import built_history, built_report
from locations import RECORDS, TESTS

from tfgpu_doctor.bench.history import history_of
from tfgpu_doctor.bench.history_page import render_history
from tfgpu_doctor.bench.page import render_bench
from tfgpu_doctor.bench.result import make_result
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts, decode_facts
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.render import render
from tfgpu_doctor.tracing.html_page import render_trace_html
from tfgpu_doctor.watching.html_page import render_watch_html


def trace_page(release: str) -> str:
    """The page on a real profile."""
    (file,) = (TESTS / "tracing/recorded").glob(f"{release}*-py_function.*.xz")
    with tempfile.TemporaryDirectory() as folder:
        made_trace.save_bytes(pathlib.Path(folder), lzma.decompress(file.read_bytes()))
        report, drawing = made_trace.judged(pathlib.Path(folder))
    return render_trace_html(report, None, drawing)


SAMPLE = (
    "hgx-8-gpus-at-work", "one-of-8-gpus-is-lost", "workstation-healthy", "vm-without-gpu", "tensorflow-2.21.0-misses-cusolver",
    "mac-metal-healthy", "windows-native-2.20", "loaded-too-hot", "pipx-doctor-beside-active-venv",
)  # fmt: skip
PAGES: dict[str, Callable[[], str]] = {
    **{name: functools.partial(lambda name: page_of(facts_of(name)), name) for name in SAMPLE},
    "nothing known": lambda: page_of(Facts(unknown={"pci": "/sys cannot be read"})),
    "interrupted": lambda: render(diagnose(facts_of("workstation-healthy"), interrupted=True), "html"),
    "bench": lambda: render_bench(built_report(30), "html"),
    "bench on one GPU": lambda: render_bench(built_report(3, "workstation-healthy", runs=1), "html"),
    "bench that measured nothing": lambda: render_bench(make_result(diagnose(Facts()), Bench(), seconds=1.0), "html"),
    "history": lambda: render_history(built_history(), "html"),
    "history without a run": lambda: render_history(history_of("here", []), "html"),
    "trace": lambda: trace_page("2.21"),
    "trace of an older release": lambda: trace_page("2.12"),
    "watch": lambda: render_watch_html(made_watch.input_bound()),
    "watch of a hang": lambda: render_watch_html(made_watch.hung()),
    "watch of eight GPUs": lambda: render_watch_html(made_watch.eight_gpus()),
}
WIDTHS = (320, 360, 768, 1440)


def facts_of(name: str) -> Facts:
    return decode_facts(RECORDS[name].read_bytes())


def page_of(facts: Facts) -> str:
    return render(diagnose(facts), "html")


@pytest.fixture(params=PAGES, scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return PAGES[request.param]()


def test_nothing_is_said_asked_for_or_cut_off(browser: Browser, page: str) -> None:
    browser.show(page)
    for width in WIDTHS:
        browser.look(width=width)
        assert browser.overflowing == [], width
    assert browser.said == []
    assert browser.requested == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(browser: Browser, page: str, scheme: str) -> None:
    browser.show(page, scheme=scheme)
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    assert browser.pale == []
    ground = browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(ground) > 3 * 128) == (scheme == "light")


def test_headings_landmarks_and_names_are_in_order(browser: Browser, page: str) -> None:
    browser.show(page)
    headings = browser.run("return [...document.querySelectorAll('h1,h2,h3,h4')].map(each => +each.tagName[1])")
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings)), headings
    for landmark in ("header", "main", "footer"):
        assert browser.run(f"return document.querySelectorAll('body > {landmark}').length") == 1
    assert browser.run("return document.documentElement.lang") == "en"
    assert len(browser.run("return document.title")) > 10
    assert browser.run(_NAMELESS) == []


# What has no name for a screen reader, or names what is not there.
_NAMELESS = """
const found = [];
const note = each => found.push(each.outerHTML.slice(0, 120));
const named = each => document.getElementById(each.getAttribute("aria-labelledby") ?? "")?.textContent.trim()
  || each.getAttribute("aria-label")?.trim();
for (const each of document.querySelectorAll("nav, section, [role=region], [role=img]")) if (!named(each)) note(each);
for (const each of document.querySelectorAll("svg:not([role=img])")) if (!each.closest("[aria-hidden=true]")) note(each);
for (const each of document.querySelectorAll("th")) if (!each.scope) note(each);
for (const each of document.querySelectorAll("a[href]")) {
  if (!each.textContent.trim() || !document.getElementById(decodeURIComponent(each.hash.slice(1)))) note(each);
}
const ids = [...document.querySelectorAll("[id]")].map(each => each.id);
found.push(...ids.filter((id, place) => ids.indexOf(id) !== place));
return found;
"""


@pytest.mark.parametrize("name", ["tensorflow-2.21.0-misses-cusolver", "bench on one GPU", "history"])
def test_the_keyboard_reaches_all_and_shows_where_it_is(browser: Browser, name: str) -> None:
    browser.show(PAGES[name]())
    reached, reachable, unmarked = browser.walk()
    assert reached >= reachable
    assert unmarked == []


def test_on_paper_all_is_open_and_nothing_to_click(browser: Browser, page: str) -> None:
    browser.show(page, scheme="dark")
    folded = (
        "[...document.querySelectorAll('details > :not(summary)')].filter(each => !each.getBoundingClientRect().height)"
    )
    browser.look(scheme="dark", media="print")
    assert browser.run(f"return {folded}.length") == 0
    assert (
        browser.run(
            "return [...document.querySelectorAll('button, nav')].filter(each => each.checkVisibility()).length"
        )
        == 0
    )
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.pale == []
    assert browser.print().startswith(b"%PDF")
