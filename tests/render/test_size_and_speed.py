"""Large pages stay small and are made at once, and every recorded machine has its page."""

from __future__ import annotations

import time
from html.parser import HTMLParser

from built_bench import built_report
from replayed import each_machine, report_on

from tfgpu_doctor.bench.page import render_bench
from tfgpu_doctor.render import render

VOID = {"meta", "br"}
LARGEST_BYTES = 2_000_000
PATIENCE_S = 20  # ten times what it may take on a machine that does nothing else


class Tree(HTMLParser):
    """Whether all elements are closed in their turn, the ids, and all that names an address."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.words = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        found = dict(attrs)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.addresses += [found[name] or "" for name in ("href", "src", "action", "data") if name in found]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data + " "


@each_machine
def test_every_recorded_machine_has_its_page(machine: str) -> None:
    report = report_on(machine)
    page = render(report, "html")
    tree = Tree(page)
    assert tree.open == []
    assert len(set(tree.ids)) == len(tree.ids)
    assert all(address.startswith("#") and address[1:] in tree.ids for address in tree.addresses)
    said = " ".join(tree.words.split())
    for cause in report.causes:
        assert said.count(" ".join(cause.title.split())) >= 1
        assert all(" ".join(line.split()) in said for line in (*cause.evidence, *cause.fix.commands))
    for result in report.results:
        assert result.id in said
    for library in report.libraries:
        assert library.soname in said
    assert page.count('<article class="card gpu') == len(report.gpus)


def test_8_gpus_and_200_benchmarks() -> None:
    report = built_report(200)
    assert (len(report.machine.gpus), len(report.comparisons)) == (8, 200)
    started = time.perf_counter()
    page = render_bench(report, "html")
    assert time.perf_counter() - started < PATIENCE_S
    assert len(page.encode()) < LARGEST_BYTES
    assert Tree(page).open == []


def test_a_machine_with_8_gpus() -> None:
    report = report_on("hgx-8-gpus-at-work")
    started = time.perf_counter()
    page = render(report, "html")
    assert time.perf_counter() - started < PATIENCE_S
    assert len(page.encode()) < LARGEST_BYTES
    assert page.count('<article class="card gpu') == 8
