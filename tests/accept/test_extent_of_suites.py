"""A row of a suite says how much of it ran, and where: a suite that works on GPUs is not met by its tests on the CPU."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from healthy import broken, computation, cuda_gpu, gpu, nvml_gpu, runtime
from judged import bench, comparison, judged, metric, profile_of, recorded_machine, red, rows_of

from tfgpu_doctor.accept import not_measured
from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.accept.suite_extent import ON_GPUS
from tfgpu_doctor.bench.names import SUITES, suite_names
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, Metric

BUSY = "others use a GPU (GPU:0: python (4711) computes on it): end them, or add --even-if-busy"
NO_TIME = "the time budget ended before this test; a budget of `full` runs all tests"
CUT_OFF = "the time budget of 60 s ended while it ran"


def on_cpu(suite: str, name: str, **changes: Any) -> Metric:
    fields = {"suite": suite, "name": name, "value": 0.2, "unit": "of the allowed", "device": "CPU:0"}
    return Metric(**{**fields, **changes})


def with_gpus(count: int, run: Bench) -> Facts:
    """The healthy machine with that many GPUs, and what the suites measured on it."""
    places = range(count)
    facts = broken(
        nvml={"gpus": tuple(map(nvml_gpu, places))},
        cuda_driver={"gpus": tuple(map(cuda_gpu, places))},
        runtime=runtime(
            gpus=tuple(map(gpu, places)),
            computations=tuple(computation(name, place) for place in places for name in ("matmul", "convolution")),
        ),
    )
    return msgspec.structs.replace(facts, bench=run)


def by(suites: str, facts: Facts, folder: pathlib.Path, more: str = "") -> Certificate:
    return judged(facts, profile_of(f"suites = {suites}\n{more}[checks]\nselect = ['GPU', 'BEN']\n", folder))


NUMERICS = tuple(on_cpu("numerics", f"error of {name}") for name in ("matmul", "convolution", "sums"))
OF_NUMERICS = ("gpu_against_float64", "tf32_against_float64", "repeats_are_equal[GPU]", "gpus_agree")


def left_out(suite: str, names: tuple[str, ...], why: str) -> dict[str, str]:
    return {f"test_{suite}.py::test_{name}": why for name in names}


@pytest.mark.parametrize(
    ("run", "reason", "remedy"),
    [
        (bench(metrics=NUMERICS, skipped=left_out("numerics", OF_NUMERICS, BUSY), busy={"GPU:0": "python (4711)"}),
         f"nothing of it ran on a GPU; 4 tests were skipped: {BUSY}", "--even-if-busy"),
        (bench(metrics=NUMERICS, skipped=left_out("numerics", OF_NUMERICS, NO_TIME)),
         "nothing of it ran on a GPU; 4 tests had no time", "`budget`"),
        (bench(metrics=NUMERICS, skipped=left_out("numerics", OF_NUMERICS[1:], NO_TIME),
               problems=(f"test_numerics.py::test_{OF_NUMERICS[0]}: {CUT_OFF}",)),
         "nothing of it ran on a GPU; 4 tests had no time", "`budget`"),
        (bench(metrics=NUMERICS), "nothing of it ran on a GPU", "`budget`"),
    ],
)  # fmt: skip
def test_the_tests_on_the_cpu_alone_do_not_meet_a_suite_of_gpus(
    run: Bench, reason: str, remedy: str, tmp_path: pathlib.Path
) -> None:
    certificate = by("['numerics']", with_gpus(1, run), tmp_path)
    row = rows_of(certificate)["suites.numerics"]
    assert (row.outcome, row.reason) == ("not measured", reason)
    assert remedy in row.remedy
    assert (certificate.verdict, red(certificate)) == ("not accepted", ["suites.numerics"])


def test_disk_and_input_do_not_meet_training(tmp_path: pathlib.Path) -> None:
    measured = (on_cpu("training", "storage", device=""), on_cpu("training", "input of pictures"))
    run = bench(metrics=measured, skipped=left_out("training", ("step[cnn]", "published[cnn]"), NO_TIME))
    assert red(by("['training']", with_gpus(8, run), tmp_path)) == ["suites.training"]


@pytest.mark.parametrize(
    ("skipped", "told"),
    [
        ({}, ""),
        (left_out("numerics", ("tf32_against_float64",), "TF32 is disabled"), "; 1 test was skipped: TF32 is disabled"),
        ({**left_out("numerics", ("gpus_agree",), "there is no second GPU"), **left_out("numerics", OF_NUMERICS[1:3], NO_TIME),
          **left_out("training", ("step[cnn]",), NO_TIME)},
         "; 2 tests had no time; 1 test was skipped: there is no second GPU"),
    ],
)  # fmt: skip
def test_a_suite_that_is_met_says_what_was_left_out(skipped: dict[str, str], told: str, tmp_path: pathlib.Path) -> None:
    run = bench(metrics=(*NUMERICS, on_cpu("numerics", "error of sin", device="GPU:0")), skipped=skipped)
    certificate = by("['numerics']", with_gpus(1, run), tmp_path)
    row = rows_of(certificate)["suites.numerics"]
    assert (row.outcome, row.measured) == ("met", f"0 comparisons, 4 metrics{told}")
    assert row.required == "measures something on a GPU, and no test fails"
    assert certificate.verdict == "accepted"


def test_what_was_cut_off_is_among_what_had_no_time(tmp_path: pathlib.Path) -> None:
    run = bench(
        comparison(), skipped=left_out("device_placement", ("needless_transfers",), NO_TIME),
        problems=(f"test_device_placement.py::test_dispatch[CPU]: {CUT_OFF}",),
    )  # fmt: skip
    row = rows_of(by("['device_placement']", with_gpus(1, run), tmp_path))["suites.device_placement"]
    assert (row.outcome, row.measured) == ("met", "1 comparison, 0 metrics; 2 tests had no time")


@pytest.mark.parametrize("suite", ["files", "pipeline", "threads"])
def test_a_suite_of_the_cpu_needs_no_gpu(suite: str, tmp_path: pathlib.Path) -> None:
    """Also if the few tests that would use the GPU had no time."""
    won = comparison(suite, "prefetch", device="CPU:0", on_gpu=False)
    run = bench(won, skipped=left_out(suite, ("fit", "gpu_thread_mode"), NO_TIME))
    certificate = by(f"['{suite}']", with_gpus(1, run), tmp_path)
    row = rows_of(certificate)[f"suites.{suite}"]
    assert (row.outcome, row.required) == ("met", "measures something, and no test fails")
    assert row.measured == "1 comparison, 0 metrics, on the CPU alone; 2 tests had no time"


def test_a_machine_without_a_gpu_is_met_by_its_cpu(tmp_path: pathlib.Path) -> None:
    skipped = left_out("numerics", OF_NUMERICS, "no_gpu_in_machine: there is no NVIDIA GPU in this machine")
    facts = msgspec.structs.replace(recorded_machine("vm-without-gpu"), bench=bench(metrics=NUMERICS, skipped=skipped))
    certificate = judged(facts, profile_of("suites = ['numerics']\ngpus = 0\n", tmp_path))
    row = rows_of(certificate)["suites.numerics"]
    assert (row.outcome, row.required) == ("met", "measures something, and no test fails")
    assert certificate.verdict == "accepted"


def test_a_suite_of_several_gpus_on_one_is_met_by_what_one_can_do(tmp_path: pathlib.Path) -> None:
    one = "there is only one GPU: the strategy has nothing to distribute"
    run = bench(
        comparison("mirrored_strategy", "against_cpu"),
        skipped=left_out("mirrored_strategy", ("all_gpus", "scaling[weak]", "scaling[strong]"), one),
    )
    row = rows_of(by("['mirrored_strategy']", with_gpus(1, run), tmp_path))["suites.mirrored_strategy"]
    assert (row.outcome, row.measured) == ("met", f"1 comparison, 0 metrics; 3 tests were skipped: {one}")


@pytest.mark.parametrize(("why", "outcome"), [(BUSY, "not measured"), (NO_TIME, "met"), ("no data here", "met")])
def test_of_an_own_suite_a_skip_tells_whether_it_would_use_the_gpu(
    why: str, outcome: str, tmp_path: pathlib.Path
) -> None:
    own = tmp_path / "test_ingest.py"
    own.write_text("")
    run = bench(metrics=(on_cpu("ingest", "rows"),), skipped=left_out("ingest", ("train",), why))
    assert rows_of(by(f"['{own}']", with_gpus(1, run), tmp_path))["suites.ingest"].outcome == outcome


def test_a_budget_that_ended_before_the_first_test_is_the_reason(tmp_path: pathlib.Path) -> None:
    why = "the time budget of 60 s ended before the first test"
    rows = rows_of(by("['numerics']", with_gpus(1, bench(skipped={"all tests": why})), tmp_path))
    assert (rows["suites.numerics"].outcome, rows["suites.numerics"].reason) == ("not measured", why)


def test_a_busy_gpu_has_its_remedy(tmp_path: pathlib.Path) -> None:
    run = bench(skipped=left_out("inference", ("gpu", "float16"), BUSY))
    row = rows_of(by("['inference']", with_gpus(1, run), tmp_path))["suites.inference"]
    assert (row.outcome, row.reason) == ("not measured", BUSY)
    assert "--even-if-busy" in row.remedy


def test_a_node_is_told_the_same() -> None:
    run = bench(metrics=NUMERICS, skipped=left_out("numerics", OF_NUMERICS, BUSY))
    assert not_measured(run, ["numerics"]) == {}  # a machine without a GPU, or an earlier doctor
    assert not_measured(msgspec.structs.replace(run, gpus_listed=8), ["numerics"]) == {
        "numerics": f"nothing of it ran on a GPU; 4 tests were skipped: {BUSY}"
    }
    assert not_measured(bench(comparison("inference", "gpu"), gpus_listed=8), ["inference"]) == {}


# Of several GPUs, the suites use the first


def test_a_row_of_the_first_of_several_gpus_says_so(tmp_path: pathlib.Path) -> None:
    more = (
        "[speed-ups]\n'device_placement/gpu[matmul]' = 4\n[metric-fractions]\n'device_placement/copy in the device' = 0.5\n"
        "[metrics]\n'device_placement/copy in the device' = '>= 9 GB/s'\n"
    )
    for count, of in ((1, ""), (8, " of 8")):
        rows = rows_of(
            by("['device_placement']", with_gpus(count, bench(comparison(), metrics=(metric(),))), tmp_path, more)
        )
        said = {key: rows[key].measured for key in rows if "device_placement" in key}
        assert said == {
            "suites.device_placement": "1 comparison, 1 metric" + (", on GPU:0 of 8" if of else ""),
            "speed-ups.device_placement/gpu[matmul]": "20 (95 %: 19.6 to 20.4)" + (" on GPU:0 of 8" if of else ""),
            "metric-fractions.device_placement/copy in the device": f"748.8 GB/s on GPU:0{of}, 80%",
            "metrics.device_placement/copy in the device": f"748.8 GB/s on GPU:0{of}",
        }
        assert {rows[key].outcome for key in said} == {"met"}


def test_a_metric_of_some_gpus_says_of_how_many(tmp_path: pathlib.Path) -> None:
    more = "[metrics]\n'device_placement/copy in the device' = '>= 9 GB/s'\n"
    for count, told in ((2, ""), (8, "; 2 of 8 GPUs")):
        run = bench(metrics=(metric(), metric(0.7, device="GPU:1")))
        rows = rows_of(by("['device_placement']", with_gpus(count, run), tmp_path, more))
        measured = rows["metrics.device_placement/copy in the device"].measured
        assert measured == f"748.8 GB/s on GPU:0, 655.2 GB/s on GPU:1{told}"


def test_what_all_gpus_did_together_is_not_of_the_first(tmp_path: pathlib.Path) -> None:
    together = Metric(suite="mirrored_strategy", name="weak scaling", value=7.8, unit="times one GPU", device="GPU")
    more = "[metrics]\n'mirrored_strategy/weak scaling' = '>= 7 times one GPU'\n"
    rows = rows_of(by("['mirrored_strategy']", with_gpus(8, bench(metrics=(together,))), tmp_path, more))
    assert rows["metrics.mirrored_strategy/weak scaling"].measured == "7.8 times one GPU on GPU"
    assert rows["suites.mirrored_strategy"].measured == "0 comparisons, 1 metric"


# Which suites those are

_PLUGIN = """
def pytest_collection_finish(session):
    for item in session.items:
        uses = {"gpu", "gpu_or_cpu"} & set(item.fixturenames) or "[GPU" in item.name
        print("TEST", item.path.stem.removeprefix("test_"), int(bool(uses)), sep="\\t")
"""


def test_the_suites_of_gpus_are_those_whose_tests_mostly_use_one(tmp_path: pathlib.Path) -> None:
    """As pytest collects them: a test uses a GPU if its fixtures do, or if it is one of two for CPU and GPU."""
    (tmp_path / "print_uses.py").write_text(_PLUGIN)
    plugins = ("no:cacheprovider", "pytest_benchmark.plugin", "tfgpu_doctor.perf_tests.plugin", "print_uses")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-c", f"{SUITES}/pytest.ini", "--rootdir", SUITES,
         *(word for name in plugins for word in ("-p", name)), SUITES],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    uses: dict[str, list[int]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("TEST\t"):
            uses.setdefault(line.split("\t")[1], []).append(int(line.split("\t")[2]))
    assert set(uses) == set(suite_names())
    assert sorted(ON_GPUS) == sorted(suite for suite, each in uses.items() if 2 * sum(each) > len(each))
