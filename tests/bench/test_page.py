"""The report on a run of the suites, in every format."""

from __future__ import annotations

import html.parser
import itertools
import json
from typing import Any

import jsonschema
import msgspec
import pytest
from healthy import broken, healthy
from locations import ROOT

from tfgpu_doctor.bench.conditions import Changed
from tfgpu_doctor.bench.page import render_bench
from tfgpu_doctor.bench.regression import compare
from tfgpu_doctor.bench.result import BenchReport, ended, make_result
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric, Side
from tfgpu_doctor.render.charts import change_scale

SCHEMA = json.loads((ROOT / "doctor/bench/bench.schema.json").read_text("utf-8"))
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
    assert document["exit_code"] == 1
    assert document["why"][0] == "1 of 1 comparison on the GPU does not show a faster candidate: training step"
    jsonschema.validate(document, SCHEMA)


NOISY = msgspec.structs.replace(
    WON, suite="mixed_precision", name="speed[conv]", verdict="too noisy", reason="1.30 times as fast", interval=(1.08, 1.56),
    on_gpu=True, device="GPU:0",
)  # fmt: skip
LOST_ON_GPU = msgspec.structs.replace(NOISY, verdict="not shown", ratio=1.01, interval=(0.99, 1.03))
TOO_LARGE = msgspec.structs.replace(LOST, reason="out of memory: 4 GiB", harmless=True)
ACCURATE = Metric(suite="numerics", name="error of sums", value=0.2, unit="of the allowed", limit=1.0, device="GPU:0")
NO_TIME = {"test_numerics.py::test_repeats": "the time budget of 60 s ended before this test"}
ELSEWHERE = {"test_mirrored_strategy.py::test_all_gpus": "there is only one GPU"}


TOLD_BY_LISTS = ("a suite did not finish", "the run was interrupted")  # text has a line of its own for each problem


def ended_with(*comparisons: Comparison, strict: bool = False, **bench: Any) -> BenchReport:
    """What a run of the suites ends with, on a machine on which the doctor finds nothing else."""
    run = Bench(comparisons=comparisons, **bench)
    return make_result(diagnose(broken(healthy(), bench=run)), run, seconds=1.0, strict=strict)


@pytest.mark.parametrize(
    ("comparisons", "more", "code", "why"),
    [
        ((WON,), {}, 0, ()),
        ((LOST_ON_GPU,), {}, 1, ("1 of 1 comparison on the GPU does not show a faster candidate: mixed_precision speed[conv]",)),
        ((WON, LOST), {}, 1, ("1 of 1 comparison on the GPU does not show a faster candidate: training step",)),
        (
            (WON, NOISY), {}, 3,
            ("1 comparison could not be judged: mixed_precision speed[conv] (too noisy); run it again with --budget full, or when the machine is idle",),
        ),
        ((WON, TOO_LARGE), {}, 3, ("1 comparison could not be judged: training step (not run: out of memory: 4 GiB)",)),
        (
            (LOST_ON_GPU, TOO_LARGE), {}, 1,
            (
                "1 of 2 comparisons on the GPU does not show a faster candidate: mixed_precision speed[conv]",
                "1 comparison could not be judged: training step (not run: out of memory: 4 GiB)",
            ),
        ),
        ((msgspec.structs.replace(NOISY, on_gpu=False),), {}, 0, ()),
        ((msgspec.structs.replace(LOST_ON_GPU, on_gpu=False),), {}, 0, ()),
        (
            (msgspec.structs.replace(LOST_ON_GPU, on_gpu=False),), {"strict": True}, 1,
            ("1 comparison on the CPU does not show a faster candidate, as --strict asks: mixed_precision speed[conv]",),
        ),
        ((WON,), {"problems": ("pytest died",)}, 1, ("a suite did not finish: pytest died",)),
        ((), {"problems": ("pytest died", "again")}, 1, ("a suite did not finish: pytest died (and 1 more)", "nothing was measured")),
        ((WON,), {"failed": {"test_numerics.py::test_sums": "off by 3"}}, 1, ("1 test of the perf suites failed; the first is test_sums",)),
        ((), {}, 3, ("nothing was measured",)),
        ((), {"skipped": ELSEWHERE}, 3, ("nothing was measured: there is only one GPU",)),
        ((), {"metrics": (ACCURATE,)}, 0, ()),
        ((), {"metrics": (ACCURATE,), "skipped": ELSEWHERE}, 0, ()),
        (
            (), {"metrics": (ACCURATE,), "skipped": NO_TIME}, 3,
            ("no comparison was measured, and 1 test had no time; run it again with a larger --budget",),
        ),
        (
            (WON,), {"suites": ("pipeline", "numerics"), "skipped": NO_TIME}, 3,
            ("the suite numerics measured nothing: the time budget of 60 s ended before this test",),
        ),
        ((WON,), {"suites": ("pipeline", "mirrored_strategy"), "skipped": ELSEWHERE}, 0, ()),
        (
            (WON,), {"busy": {"GPU:1": "python (pid 7) uses 4 GiB"}}, 3,
            ("others use a GPU (GPU:1: python (pid 7) uses 4 GiB): end them, choose idle GPUs with CUDA_VISIBLE_DEVICES, or add --even-if-busy",),
        ),
        ((WON,), {"interrupted": True}, 130, ("the run was interrupted; what it measured until then is here",)),
    ],
)  # fmt: skip
def test_every_exit_code_has_its_reasons_in_every_format(
    comparisons: tuple[Comparison, ...], more: dict[str, Any], code: int, why: tuple[str, ...]
) -> None:
    found = ended_with(*comparisons, **more)
    assert (found.exit_code, found.why) == (code, why)
    document = json.loads(render_bench(found, "json"))
    assert (document["exit_code"], tuple(document["why"])) == (code, why)
    jsonschema.validate(document, SCHEMA)
    for format_ in ("text", "markdown", "html"):
        page = render_bench(found, format_).replace("\\", "")
        words = " ".join((Text(page.partition("</header>")[0]).words if format_ == "html" else page).split())
        assert all(each in words for each in why if format_ == "html" or not each.startswith(TOLD_BY_LISTS)), words
        assert ("pytest died" in words, "interrupted" in words) == ("problems" in more, code == 130)


def test_of_tests_that_failed_without_a_finding_the_names_are_told() -> None:
    """As where an earlier finding kept the check from judging them."""
    failed = {f"test_numerics.py::test_{name}": "off by 3" for name in ("sums", "products")}
    found = ended(msgspec.structs.replace(result(WON), failed=failed, problems=(), causes=()))
    assert (found.exit_code, found.why) == (1, ("2 tests failed: sums, products",))


def test_a_run_of_metrics_alone_says_so() -> None:
    found = ended_with(metrics=(ACCURATE, msgspec.structs.replace(ACCURATE, name="error of products")))
    head = Text(render_bench(found, "html").partition("</header>")[0]).words
    assert "As expected" in head
    assert "2 metrics" in head
    assert "2 metrics, no comparison · 1.0 s" in render_bench(found, "text")


def test_many_cpus_beside_a_fast_gpu_are_no_fault() -> None:
    lost = msgspec.structs.replace(
        LOST_ON_GPU, suite="training", name="step[cnn]", candidate=Side(name="cnn on GPU:0", device="GPU:0", seconds=(0.1,)),
        baseline=Side(name="cnn on CPU:0", device="CPU:0", seconds=(0.1,)),
    )  # fmt: skip
    speed = Metric(
        suite="device_placement", name="matmul 8192 in float32", value=49.8, unit="TFLOP/s", device="GPU:0", limit=67.0
    )
    found = ended_with(WON, lost, metrics=(speed,))
    assert found.exit_code == 0
    for format_ in ("text", "markdown", "html"):
        page = render_bench(found, format_)
        words = " ".join((Text(page).words if format_ == "html" else page.replace("\\", "")).split())
        assert "1.01 times as fast as the CPUs of this machine, but the GPU itself computes as fast as is due" in words
    assert ended_with(WON, lost, metrics=(msgspec.structs.replace(speed, value=12.0),)).exit_code == 1
    assert ended_with(WON, lost).exit_code == 1


ON_GPU_0 = msgspec.structs.replace(LOST_ON_GPU, verdict="faster", ratio=3.0, interval=(2.9, 3.1))
ON_ALL = msgspec.structs.replace(
    ON_GPU_0, suite="mirrored_strategy", name="all_gpus",
    candidate=Side(name="all", device="GPU:0", also=tuple(f"GPU:{number}" for number in range(1, 8)), seconds=(0.1,)),
    baseline=Side(name="one", device="GPU:0", seconds=(0.3,)),
)  # fmt: skip
PEAK = Metric(
    suite="device_placement", name="matmul 8192 in float16", value=600.0, unit="TFLOP/s", limit=989.0, device="GPU:0"
)
ALL_PEAKS = tuple(msgspec.structs.replace(PEAK, device=f"GPU:{number}") for number in range(8))
STEPS_EVERYWHERE = tuple(
    Metric(suite="training", name="step of the cnn", value=3.0, unit="ms", device=f"GPU:{number}")
    for number in range(8)
)
BETWEEN = Metric(suite="device_placement", name="copy device to device", value=200.0, unit="GB/s", device="GPU:7")
OTHERS = tuple(f"GPU:{number}" for number in range(1, 8))


@pytest.mark.parametrize(
    ("comparisons", "metrics", "listed", "left"),
    [
        ((ON_GPU_0,), (), 8, OTHERS),
        ((ON_GPU_0, ON_ALL), STEPS_EVERYWHERE, 8, OTHERS),
        ((), (PEAK, BETWEEN), 8, OTHERS),
        ((), (ACCURATE,), 8, OTHERS),
        ((), ALL_PEAKS, 8, ()),
        ((), ALL_PEAKS[:7], 8, ("GPU:7",)),
        ((ON_GPU_0,), (), 1, ()),
        ((ON_GPU_0,), (), 0, ()),  # an earlier doctor did not record how many there are
        ((WON,), (), 8, ()),  # no GPU was asked for
        ((ON_ALL,), (), 8, ()),
    ],
)
def test_the_gpus_that_nothing_measured_alone_are_told_once(
    comparisons: tuple[Comparison, ...], metrics: tuple[Metric, ...], listed: int, left: tuple[str, ...]
) -> None:
    found = ended_with(*comparisons, metrics=metrics, gpus_listed=listed)
    assert found.gpus_not_measured == left
    assert json.loads(render_bench(found, "json"))["gpus_not_measured"] == list(left)
    for format_ in ("text", "markdown", "html"):
        page = render_bench(found, format_)
        words = " ".join((Text(page).words if format_ == "html" else page).replace("\\", "").split())
        assert words.count("--level deep` tests every GPU") == bool(left), words
        if left == OTHERS:
            assert "what needs one GPU was measured on GPU:0; 7 other GPUs were not measured (GPU:1 to GPU:7)" in words


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_a_reason_that_several_tests_failed_for_is_told_once(format_: str) -> None:
    why = "TensorFlow cannot be imported: ModuleNotFoundError: No module named 'distutils'"
    failed = {**{f"test_numerics.py::test_{name}": why for name in ("one", "other")}, "test_x.py::test_y": "its own"}
    page = render_bench(ended(msgspec.structs.replace(result(WON), failed=failed)), format_)
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
    found = ended(msgspec.structs.replace(result(*now, then=Bench(comparisons=then)), problems=()))
    assert status in [each.status for each in found.regressions]
    assert (found.untold, found.exit_code) == (untold, code)
    for format_ in ("text", "markdown", "html"):
        page = render_bench(found, format_)
        words = " ".join((Text(page).words if format_ == "html" else page).split())
        assert ("run it again with --budget full" in words or "nothing was compared" in words) == bool(untold)
    assert ("Inconclusive" in words) == (code == 3)


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_metrics_alone_are_not_compared_with_a_reference(format_: str) -> None:
    """A suite without a comparison, such as numerics: without a reference its metrics are all that was asked for."""
    alone = msgspec.structs.replace(result(), problems=())
    assert ended(alone).exit_code == 0
    found = ended(msgspec.structs.replace(alone, reference="before", reference_runs=1))
    assert found.exit_code == 3
    page = render_bench(found, format_)
    words = " ".join((Text(page).words if format_ == "html" else page).replace("\\", "").split())
    why = "nothing was compared: neither this run nor the reference before has a comparison of these suites"
    assert f"{why}; name suites that have one, or leave out --compare" in words


def test_where_nothing_was_measured_this_alone_is_told() -> None:
    nothing = msgspec.structs.replace(result(), problems=(), metrics=(), reference="before")
    assert ended(nothing).why == ("nothing was measured: no GPU",)


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
