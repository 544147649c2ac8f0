"""Whatever a machine calls its parts: nothing of a page changes but the cell where the name stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from browser import Browser
from built_bench import built_history, built_report
from healthy import broken, cuda_gpu, nvml_gpu

from tfgpu_doctor.bench.history import History
from tfgpu_doctor.bench.history_page import render_history
from tfgpu_doctor.bench.page import render_bench
from tfgpu_doctor.bench.result import BenchReport
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.nvidia import GpuProcess
from tfgpu_doctor.render import render

HOSTILE = (
    "</title></style></script><script>document.title = 'forged'</script><img src=x onerror=\"document.title = 'forged'\">"
    "<h1>forged</h1>--> ]]> {{ 7 * 7 }} {% raw %} '\"><a href='http://example.invalid'>x</a><svg onload=alert(1)>"
    " \u202eturned \u2066\u200f\x00\x1b[31m\ud800 &lt;b&gt; javascript:alert(1)"
)
HARMLESS = "a name"
KEPT = {
    "verdict",
    "status",
    "trend",
    "severity",
    "confidence",
    "schema",
    "label",
    "id",
    "explains",
}  # the doctor's own words

# The elements with their attributes' names and places; text apart, and what a command's box gets from the script.
SKELETON = """
return [...document.querySelectorAll("*")].map(each =>
  [each.tagName, [...each.attributes].map(one => one.name).sort().join(), each.parentElement?.tagName].join(" "));
"""
# Where all stands that bears no name: it may be pushed down by a long name, never aside.
EDGES = """
return [...document.querySelectorAll("body > *, section, h2, table, article, nav li")].map(each => {
  const box = each.getBoundingClientRect();
  return [each.tagName, Math.round(box.left), getComputedStyle(each).direction];
});
"""


def bench_page(name: str) -> str:
    return render_bench(filled(built_report(16), BenchReport, name), "html")


def history_page(name: str) -> str:
    return render_history(filled(built_history(6), History, name), "html")


def check_page(name: str) -> str:
    process = GpuProcess(pid=7, name=name, user=name, memory_bytes=23 << 30)
    gpu = nvml_gpu(name=name, processes=(process,), memory_free_bytes=1 << 20)
    facts = broken(
        nvml={"gpus": (gpu,)}, cuda_driver={"gpus": (cuda_gpu(name=name),)}, driver={"version": name},
        system={"distribution": name, "cpu_model": name}, container={"kind": name}, target={"prefix": name, "version": name},
    )  # fmt: skip
    return render(diagnose(facts), "html")


def filled(value: Any, type_: type[Any], name: str) -> Any:
    """The same with a name in place of every text that a machine or a suite may have told."""
    return msgspec.convert(_fill(msgspec.to_builtins(value), name), type_)


def _fill(value: Any, name: str, key: str = "") -> Any:
    if key in KEPT:
        return value
    if isinstance(value, dict):
        return {each: _fill(inner, name, each) for each, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_fill(each, name, key) for each in value]
    return name if isinstance(value, str) and value else value


@pytest.fixture(params=[check_page, bench_page, history_page], scope="module")
def make(request: pytest.FixtureRequest) -> Callable[[str], str]:
    found: Callable[[str], str] = request.param
    return found


@pytest.mark.parametrize("width", [1200, 360])
def test_a_hostile_name_stays_in_its_cell(browser: Browser, make: Callable[[str], str], width: int) -> None:
    browser.show(make(HARMLESS), width=width)
    skeleton, edges = browser.run(SKELETON), browser.run(EDGES)
    browser.show(make(HOSTILE), width=width)
    assert browser.run(SKELETON) == skeleton
    assert browser.run(EDGES) == edges
    assert browser.run("return document.title") != "forged"
    assert browser.overflowing == []
    assert browser.said == []
    assert browser.requested == []


def test_ten_megabytes_of_a_name_are_cut(browser: Browser, make: Callable[[str], str]) -> None:
    page = make("W" * (10 << 20))
    assert len(page.encode()) < 2_000_000
    browser.show(page, width=360)
    assert browser.overflowing == []
    browser.show(make("W" * 300), width=360)
    assert browser.overflowing == []


def test_a_name_of_another_direction_turns_nothing_around_it(browser: Browser) -> None:
    browser.show(check_page("שלום כרטיס \u202e עולם"))
    assert browser.run("return getComputedStyle(document.body).direction") == "ltr"
    assert "\u202e" not in browser.run("return document.documentElement.outerHTML")
    assert browser.run("return document.querySelectorAll('.gpu h3').length") == 1
