"""The report on a run of the suites, in every format."""

from __future__ import annotations

import html.parser
import itertools
import json

import msgspec
import pytest
from healthy import broken, healthy

from tfgpu_doctor.bench.conditions import Changed
from tfgpu_doctor.bench.page import render_bench
from tfgpu_doctor.bench.regression import compare
from tfgpu_doctor.bench.result import BenchReport, make_result
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric, Side
from tfgpu_doctor.render.charts import change_scale

EVIL = "<script>alert(1)</script>\x1b[31m"
WON = Comparison(
    suite="pipeline", name="prefetch", verdict="faster", ratio=1.54, interval=(1.5, 1.6), rounds=12, device="CPU:0",
    candidate=Side(name="prefetch", seconds=(0.164,)), baseline=Side(name="none", seconds=(0.252,)),
)  # fmt: skip
LOST = Comparison(suite="training", name="step", verdict="not run", reason=f"out of memory: {EVIL}", on_gpu=True)


def result(*comparisons: Comparison, then: Bench | None = None) -> BenchReport:
    metrics = (Metric(suite="device_placement", name="copy", value=20.0, unit="GB/s", limit=25.0, device="GPU:0"),)
    bench = Bench(
        comparisons=comparisons, metrics=metrics, skipped={"test_x.py::test_scaling": "no GPU"}, problems=(EVIL,)
    )
    regressions = tuple(compare(bench, [then])) if then else ()
    report = diagnose(Facts(bench=bench))
    return make_result(report, bench, reference="before" if then else "", regressions=regressions, seconds=12.3)


class Text(html.parser.HTMLParser):
    """The words of a page, and its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words, self.tags = "", set[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.words += data + "\n"


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_a_clock_that_fell_is_told_where_the_candidate_is_faster_too(format_: str) -> None:
    fell = (
        "the SM clock of GPU 0 fell from 1900 to 1550 MHz during the measurement: its boost ended, or it became too hot"
    )
    for reason in (fell, f"1.01 times as fast; {fell}"):
        page = render_bench(result(msgspec.structs.replace(WON, reason=reason)), format_)
        assert "fell from 1900 to 1550 MHz" in " ".join((Text(page).words if format_ == "html" else page).split())
        assert "1.01 times" not in page


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_every_page_tells_the_same(format_: str) -> None:
    page = render_bench(result(WON, LOST, then=Bench(comparisons=(WON,))), format_)
    words = Text(page).words if format_ == "html" else page
    for said in ("prefetch", "faster", "1.54 (1.50 to 1.60)", "164 ms", "252 ms", "not run", "out of memory", "80% of 25 GB/s",
                 "within", "scaling", "no GPU", "1 faster, 1 not run", "12.3 s"):  # fmt: skip
        assert said in words, said
    assert "\x1b" not in page


def test_causes_are_told_with_evidence_and_commands() -> None:
    bench = Bench(comparisons=(WON,), failed={"test_numerics.py::test_gpus_equal": "GPU:1 gives other bits"})
    report = diagnose(broken(healthy(), bench=bench))
    for format_ in ("text", "markdown", "html"):
        page = render_bench(make_result(report, bench, seconds=1.0), format_).replace("\\", "")
        assert "GPU:1 gives other bits" in page
        assert "tfgpu-doctor bench numerics" in page
        assert page.count("GPU:1 gives other bits") == 1


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_a_lost_gpu_is_told_with_what_was_seen_of_it(format_: str) -> None:
    bench = Bench(
        comparisons=(WON, msgspec.structs.replace(LOST, reason="the GPU is lost")),
        gpu_lost="CUDA_ERROR_UNKNOWN, then silence",
    )
    page = render_bench(make_result(diagnose(broken(healthy(), bench=bench)), bench, seconds=1.0), format_).replace(
        "\\", ""
    )
    assert "the GPU no longer responds after the perf suites ran on it" in page
    assert "CUDA_ERROR_UNKNOWN, then silence" in page


def test_the_head_of_the_page_says_what_stands_against_it() -> None:
    slow = msgspec.structs.replace(WON, ratio=1.2, interval=(1.19, 1.21))
    bench, then = Bench(comparisons=(slow,)), Bench(comparisons=(WON, msgspec.structs.replace(WON, name="cache")))
    report = diagnose(broken(healthy(), bench=bench))
    made = make_result(report, bench, reference="last", regressions=tuple(compare(bench, [then])), seconds=1.0)
    head, _, rest = render_bench(made, "html").partition("</header>")
    assert "compared with the last run: 1 slower, 1 missing" in head
    assert "Compared with the last run" in rest
    assert "Not as expected" in head
    well = make_result(report, bench, seconds=1.0)
    assert "As expected" in render_bench(well, "html").partition("</header>")[0]


def test_nothing_in_a_page_becomes_an_element() -> None:
    strange = Text(render_bench(result(WON, LOST), "html"))
    plain = Text(render_bench(result(WON, msgspec.structs.replace(LOST, reason="out of memory")), "html"))
    assert strange.tags == plain.tags


def test_the_json_document_is_the_contract() -> None:
    document = json.loads(render_bench(result(WON, LOST), "json"))
    assert document["schema"] == 2
    assert document["seconds"] == 12.3
    for comparison in document["comparisons"]:
        assert {"suite", "name", "verdict", "ratio", "interval", "rounds", "reason", "device"} <= set(comparison)
    assert document["comparisons"][1]["ratio"] is None
    assert document["comparisons"][1]["reason"].startswith("out of memory")


@pytest.mark.parametrize(
    ("comparisons", "problems", "code"),
    [
        ((WON,), (), 0),
        ((WON, LOST), (), 1),
        ((LOST,), (), 1),
        ((), (), 3),
        ((), ("pytest died",), 1),
        ((WON,), ("pytest died",), 1),
    ],
)
def test_exit_codes(comparisons: tuple[Comparison, ...], problems: tuple[str, ...], code: int) -> None:
    assert msgspec.structs.replace(result(*comparisons), problems=problems).exit_code == code


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_a_reason_that_several_tests_failed_for_is_told_once(format_: str) -> None:
    why = "TensorFlow cannot be imported: ModuleNotFoundError: No module named 'distutils'"
    failed = {**{f"test_numerics.py::test_{name}": why for name in ("one", "other")}, "test_x.py::test_y": "its own"}
    page = render_bench(msgspec.structs.replace(result(WON), failed=failed), format_)
    words = " ".join((Text(page).words if format_ == "html" else page).replace("\\", "").split())
    assert words.count("TensorFlow cannot be imported") == 1
    assert f"one, other: {why}" in words
    assert "y: its own" in words


UNSURE = msgspec.structs.replace(WON, name="map", interval=(1.1, 2.1))
SLOWER = msgspec.structs.replace(WON, ratio=1.2, interval=(1.18, 1.22))


@pytest.mark.parametrize(
    ("now", "then", "status", "untold", "code"),
    [
        ((WON,), (WON,), "within", 0, 0),
        ((WON, UNSURE), (WON,), "no reference", 0, 0),
        ((WON, UNSURE), (WON, UNSURE), "unstable", 1, 3),
        ((WON,), (WON, UNSURE), "missing", 1, 3),
        ((UNSURE,), (UNSURE, WON), "missing", 2, 3),
        ((UNSURE,), (msgspec.structs.replace(WON, ratio=None),), "no reference", 1, 3),
        ((SLOWER,), (WON,), "slower", 0, 1),
        ((SLOWER, UNSURE), (WON, UNSURE), "slower", 1, 1),
    ],
)
def test_what_cannot_be_told_is_neither_a_pass_nor_a_fault(
    now: tuple[Comparison, ...], then: tuple[Comparison, ...], status: str, untold: int, code: int
) -> None:
    found = msgspec.structs.replace(result(*now, then=Bench(comparisons=then)), problems=())
    assert status in [each.status for each in found.regressions]
    assert (found.untold, found.exit_code) == (untold, code)
    for format_ in ("text", "markdown", "html"):
        page = render_bench(found, format_)
        words = " ".join((Text(page).words if format_ == "html" else page).split())
        assert ("run it again with --budget full" in words or "nothing was compared" in words) == bool(untold)
    assert ("Inconclusive" in words) == (code == 3)


@pytest.mark.parametrize("furthest", [1.03, 1.1, 1.3, 1.58, 2.5, 40.0, 1e300])
def test_the_words_of_a_scale_of_changes_have_room(furthest: float) -> None:
    ticks = change_scale([1 / furthest, furthest]).ticks
    assert len(ticks) >= 3
    assert "0%" in [tick.text for tick in ticks]
    assert all(right.at - left.at >= 18 for left, right in itertools.pairwise(ticks))


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_what_else_changed_is_told_beside_what_became_slower(format_: str) -> None:
    bench, then = Bench(comparisons=(WON,)), [Bench(comparisons=(WON,)), Bench(comparisons=(WON,))]
    changed = (Changed(what="driver", now="560.35.03", reference="550.54.15"),)
    found = make_result(
        diagnose(healthy()), bench, reference="before", runs=2, changed=changed, regressions=tuple(compare(bench, then)),
        seconds=1.0,
    )  # fmt: skip
    page = render_bench(found, format_).replace("\\", "")
    words = Text(page).words if format_ == "html" else page
    assert "changed since the reference before (2 runs): driver 550.54.15 → 560.35.03" in words
