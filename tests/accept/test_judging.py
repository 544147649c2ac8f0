"""Machines judged by profiles: what is asked, what was measured, and what becomes of it."""

from __future__ import annotations

import datetime as dt
import pathlib
import re
from typing import Any

import msgspec
import pytest
from every import every
from healthy import broken, cuda_gpu, gpu, healthy, nvml_gpu, runtime
from judged import TODAY, bench, comparison, judged, metric, profile_of, recorded_machine, red, rows_of, shipped
from stressed import left_alone, soak_rounds, speed, stress, stress_round, stressed_gpu, under_stress

from tfgpu_doctor.accept import not_measured
from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.engine import BrokenPlugin
from tfgpu_doctor.model import Finding, Yielded, check
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, Comparison
from tfgpu_doctor.model.tags import GPU_LOST, STRESS, SUITES_STOPPED, requirement

WON = bench(comparison(), comparison(name="gpu[convolution]"), comparison("training", "step[cnn]"))
NOT_RUN = Comparison(
    suite="device_placement", name="gpu[matmul]", verdict="not run", reason="it ran on the CPU", on_gpu=True
)
ONE_COMPARISON = 'suites = ["device_placement"]\n[speed-ups]\n"device_placement/gpu[matmul]" = 4\n'


@check("ACME001", "a check of a plugin's", sources=("https://example.org",))
def breaks() -> Yielded:
    yield Finding(str(1 / 0))


@check("HLT005", "a check with two findings", sources=("https://example.org",))
def finds_two() -> Yielded:
    yield Finding("it is lost", cause="gpu_lost")
    yield Finding("it is hot", cause="gpu_thermal_or_power_throttling", severity="warning")


def by(toml: str, facts: Facts, folder: pathlib.Path, **more: Any) -> Certificate:
    return judged(facts, profile_of(toml, folder), **more)


def measured(run: Any, facts: Facts | None = None) -> Facts:
    return msgspec.structs.replace(facts or healthy(), bench=run)


# Accepted


@pytest.mark.parametrize("name", ["ci", "workstation", "server"])
def test_a_good_machine_is_accepted(name: str) -> None:
    certificate = judged(measured(WON, under_stress() if name == "server" else healthy()), shipped(name))
    assert red(certificate) == []
    assert (certificate.verdict, certificate.exit_code) == ("accepted", 0)
    assert all(row.measured for row in certificate.requirements)


def test_a_node_is_accepted_after_a_long_load() -> None:
    long = stress(stressed_gpu(rounds=soak_rounds(15)), level="soak", seconds=940.0)
    certificate = judged(measured(WON, under_stress(long)), shipped("cluster-node"))
    assert red(certificate) == []
    assert rows_of(certificate)["level"].measured == "level soak, 900 s of load on the GPU"


def test_no_machine_is_accepted_without_a_gpu_that_computes(tmp_path: pathlib.Path) -> None:
    nothing = "[checks]\nselect = ['BEN']\n"
    for facts in (recorded_machine("vm-without-gpu"), Facts(), Facts(unknown={"runtime": "it hangs"})):
        certificate = by(nothing, facts, tmp_path)
        assert certificate.verdict == "not accepted"
        assert "goal.GPU004" in rows_of(certificate)


def test_a_simulated_gpu_is_never_accepted() -> None:
    certificate = judged(msgspec.structs.replace(healthy(), simulated=True), shipped("ci"))
    row = rows_of(certificate)["goal.GPU004"]
    assert (row.outcome, row.reason) == ("not measured", "the GPUs and their driver are simulated")
    assert certificate.verdict == "not accepted"


# Required against measured


@pytest.mark.parametrize(
    ("toml", "key", "outcome", "told"),
    [
        ("gpus = 1", "gpus", "met", "1: NVIDIA GeForce RTX 3090"),
        ("gpus = 8", "gpus", "missed", "1: NVIDIA GeForce RTX 3090"),
        ("gpus = 0", "gpus", "missed", "1: NVIDIA GeForce RTX 3090"),
        ("gpus = '>1,<3'", "gpus", "missed", "1: NVIDIA GeForce RTX 3090"),
        ("models = ['geforce rtx 3090']", "models", "met", "NVIDIA GeForce RTX 3090"),
        ("models = ['H100*', '*RTX 30??']", "models", "met", "NVIDIA GeForce RTX 3090"),
        ("models = ['RTX 3090']", "models", "missed", "NVIDIA GeForce RTX 3090"),
        ("gpu-memory = '24 GiB'", "gpu-memory", "met", "24.0 GiB"),
        ("gpu-memory = '26GB'", "gpu-memory", "missed", "24.0 GiB"),
        ("driver = '>=550,<570'", "driver", "met", "560.35.03"),
        ("driver = '>=570'", "driver", "missed", "560.35.03"),
        ("tensorflow = '==2.20.*'", "tensorflow", "met", "2.20.0"),
        ("tensorflow = '>=2.21'", "tensorflow", "missed", "2.20.0"),
        ("level = 'quick'", "level", "met", "level standard"),
        ("level = 'deep'", "level", "not measured", "the machine was examined at level standard"),
        (
            "[checks]\nrequire = ['GPU005']",
            "require.GPU005",
            "met",
            "GPU:0: same result as on the CPU, in 0.30 s including compilation",
        ),
        ("[checks]\nrequire = ['SHR004']", "require.SHR004", "not measured", "no GPU needs a licence"),
    ],
)
def test_required_against_measured(toml: str, key: str, outcome: str, told: str, tmp_path: pathlib.Path) -> None:
    certificate = by(toml, healthy(), tmp_path)
    row = rows_of(certificate)[key]
    assert (row.outcome, row.reason or row.measured) == (outcome, told)
    assert row.profile == "mine.toml"
    assert bool(row.remedy) == (outcome == "not measured")
    assert certificate.verdict == ("accepted" if outcome == "met" else "not accepted")


def test_every_gpu_counts(tmp_path: pathlib.Path) -> None:
    small = cuda_gpu(1, name="NVIDIA A2", memory_bytes=16 << 30)
    facts = broken(
        cuda_driver={"gpus": (cuda_gpu(), small)}, runtime=runtime(gpus=(gpu(), gpu(1, description="NVIDIA A2"))),
        nvml={"gpus": (nvml_gpu(), nvml_gpu(1, name="NVIDIA A2", memory_total_bytes=16 << 30))},
    )  # fmt: skip
    rows = rows_of(by("gpus = 2\nmodels = ['*3090']\ngpu-memory = '20 GiB'", facts, tmp_path))
    assert rows["gpus"].measured == "2: NVIDIA GeForce RTX 3090, NVIDIA A2"
    assert rows["models"].outcome == "missed"
    assert (rows["gpu-memory"].outcome, rows["gpu-memory"].measured) == ("missed", "16.0 GiB on the smallest")


def test_a_version_that_nobody_can_compare_is_not_measured(tmp_path: pathlib.Path) -> None:
    facts = broken(nvml={"driver_version": "five hundred"}, driver={"version": "five hundred"})
    row = rows_of(by("driver = '>=550'", facts, tmp_path))["driver"]
    assert row.outcome == "not measured"
    assert "'five hundred'" in row.reason


# Findings


def test_findings_count_from_the_level_on(tmp_path: pathlib.Path) -> None:
    facts = recorded_machine("power-limit-lowered")  # a warning
    assert by("fail-level = 'error'", facts, tmp_path).verdict == "accepted"
    certificate = by("fail-level = 'warning'", facts, tmp_path)
    assert red(certificate) == ["checks.HLT005"]
    assert certificate.causes


@pytest.mark.parametrize(
    ("checks", "keys"),
    [("ignore = ['HLT005']", []), ("select = ['DRV', 'GPU']", []), ("ignore = ['HLT']", []), ("select = ['HLT']", ["checks.HLT005"])],
)  # fmt: skip
def test_the_profile_chooses_checks(checks: str, keys: list[str], tmp_path: pathlib.Path) -> None:
    facts = recorded_machine("power-limit-lowered")
    assert red(by(f"fail-level = 'warning'\n[checks]\n{checks}", facts, tmp_path)) == keys


def allowing(expires: dt.date, more: str = "") -> str:
    return (
        "fail-level = 'warning'\n[[allowed]]\ncheck = 'HLT005'\nreason = 'the rack feeds 250 W a board'\n"
        f"expires = {expires.isoformat()}\n{more}"
    )


def test_an_allowed_finding_does_not_count_until_its_day_is_over(tmp_path: pathlib.Path) -> None:
    facts = recorded_machine("power-limit-lowered")
    certificate = by(allowing(TODAY), facts, tmp_path)
    row = rows_of(certificate)["allowed.HLT005"]
    assert (row.outcome, row.profile) == ("allowed", "mine.toml")
    assert row.reason == "the rack feeds 250 W a board (until 2026-11-21)"
    assert certificate.verdict == "accepted"
    assert certificate.notes == ()


def test_an_expired_allowance_counts_again_and_says_so(tmp_path: pathlib.Path) -> None:
    facts = recorded_machine("power-limit-lowered")
    certificate = by(allowing(TODAY - dt.timedelta(days=1)), facts, tmp_path)
    row = rows_of(certificate)["checks.HLT005"]
    assert (row.outcome, row.reason) == ("missed", "was allowed until 2026-11-20")
    assert certificate.notes == ("the allowance of HLT005 (the rack feeds 250 W a board) expired on 2026-11-20",)
    assert certificate.verdict == "not accepted"


def test_an_allowance_of_another_cause_helps_nothing(tmp_path: pathlib.Path) -> None:
    facts = recorded_machine("power-limit-lowered")
    certificate = by(allowing(TODAY, "cause = 'driver_too_old'"), facts, tmp_path)
    assert red(certificate) == ["checks.HLT005"]
    assert certificate.notes == (
        "the allowance of HLT005 (the rack feeds 250 W a board) is not needed: the check has no such finding",
    )


def test_what_is_allowed_is_allowed_of_a_required_check_too(tmp_path: pathlib.Path) -> None:
    facts = recorded_machine("loaded-memory-flips")
    text = f"level = 'deep'\n{allowing(TODAY).replace('HLT005', 'LOD003')}\n[checks]\nrequire = ['LOD003']\n"
    certificate = by(text, facts, tmp_path)
    assert (certificate.verdict, red(certificate)) == ("accepted", [])
    assert "require.LOD003" not in rows_of(certificate)


TOO_HOT = "level = 'deep'\ngpus = 1\n[checks]\nrequire = ['LOD006']\n"
WARNING_ALLOWED = "[[allowed]]\ncheck = 'LOD006'\nreason = 'the fan is ordered'\nexpires = 2026-11-{}\n"


@every(
    "toml, outcome, reason",
    [
        (TOO_HOT, "missed", ""),
        (TOO_HOT + WARNING_ALLOWED.format(21), "allowed", "the fan is ordered (until 2026-11-21)"),
        (TOO_HOT + WARNING_ALLOWED.format(20), "missed", "was allowed until 2026-11-20"),
        (TOO_HOT.replace("require =", "select = ['GPU']\nrequire ="), "missed", ""),
    ],
)
def test_a_required_check_that_warns_does_not_pass(
    toml: str, outcome: str, reason: str, tmp_path: pathlib.Path
) -> None:
    """Below `fail-level`, and also if it is not among the checks that count."""
    certificate = by(toml, recorded_machine("loaded-too-hot"), tmp_path)
    row = rows_of(certificate)["require.LOD006"]
    assert (row.outcome, row.reason) == (outcome, reason)
    assert "keeps 50% of its highest clock" in row.measured
    assert red(certificate) == ["require.LOD006"] * (outcome == "missed")


def test_a_warning_beside_an_allowed_error_of_a_required_check_counts(tmp_path: pathlib.Path) -> None:
    checks = (*(each for each in ALL_CHECKS if each.id != "HLT005"), finds_two)
    certificate = by(
        "[checks]\nrequire = ['HLT005']\n[[allowed]]\ncheck = 'HLT005'\ncause = 'gpu_lost'\nreason = 'known'\n"
        "expires = 2027-01-01\n",
        healthy(), tmp_path, checks=checks,
    )  # fmt: skip
    assert rows_of(certificate)["allowed.HLT005"].measured == "it is lost"
    assert rows_of(certificate)["require.HLT005"].measured == "it is hot"
    assert red(certificate) == ["require.HLT005"]


def test_the_goal_cannot_be_allowed_away(tmp_path: pathlib.Path) -> None:
    facts = broken(
        runtime=runtime(computations=(msgspec.structs.replace(runtime().computations[0], largest_error=9.0),))
    )
    text = allowing(TODAY).replace("HLT005", "GPU004")
    certificate = by(text, facts, tmp_path)
    assert rows_of(certificate)["goal.GPU004"].outcome == "missed"


# What could not be measured


def test_what_could_not_be_measured_is_named_and_did_not_fail_to_apply(tmp_path: pathlib.Path) -> None:
    facts = recorded_machine("kernel-log-unreadable-healthy")
    certificate = by("fail-level = 'warning'", facts, tmp_path)
    row = rows_of(certificate)["checks"]
    told = re.fullmatch(
        r"\d+ passed, \d+ did not apply, \d+ were not examined, \d+ could not be measured: (.*)", row.measured
    )
    assert told
    assert {"XID001", "XID002", "HLT002", "HLT003", "HLT004"} <= set(told.group(1).split(", "))
    assert certificate.verdict == "accepted"
    required = by("fail-level = 'warning'\n[checks]\nrequire = ['XID001']", facts, tmp_path)
    assert red(required) == ["require.XID001"]


def test_what_a_level_leaves_out_is_not_called_unmeasurable(tmp_path: pathlib.Path) -> None:
    """A quick examination, and one without a stress test."""
    unasked = {"stress": "only --level deep and --level soak stress-test the GPUs"}
    for toml, facts in (("level = 'quick'", healthy(quick=True)), ("", healthy())):
        facts = msgspec.structs.replace(facts, unknown={**facts.unknown, **unasked})
        measured = rows_of(by(toml, facts, tmp_path))["checks"].measured
        assert not re.search(r"LOD|TFW|GPU00", measured), measured


def test_a_server_whose_nvml_does_not_answer_is_not_accepted() -> None:
    facts = measured(WON, under_stress())
    lost = msgspec.structs.replace(facts, nvml=None, unknown={"nvml": "no response before the deadline"})
    for name in ("server", "cluster-node"):
        certificate = judged(lost, shipped(name))
        assert "require.DRV007" in red(certificate)
        assert rows_of(certificate)["require.DRV007"].reason == "no response before the deadline"
    assert red(judged(lost, shipped("server"))) == ["require.DRV007"]


# One root cause, one red line


@pytest.mark.parametrize(
    ("machine", "profile", "root"),
    [
        ("ubuntu-without-driver", "ci", "checks.DRV001"),
        ("vm-without-gpu", "workstation", "checks.GPU001"),
        ("second-gpu-has-few-multiprocessors", "fail-level = 'warning'", "checks.GPU003"),
        ("server-xid-79-on-one-of-eight", "fail-level = 'warning'\ngpus = 8", "checks.XID001"),
        ("one-of-8-gpus-hangs", "fail-level = 'warning'\ngpus = 8", "checks.HLT001"),
        ("soaked-too-hot", "fail-level = 'warning'\nlevel = 'soak'", "checks.LOD006"),
        ("loaded-memory-flips", "level = 'deep'\n[checks]\nrequire = ['LOD003', 'LOD005']", "checks.LOD003"),
    ],
)
def test_one_root_cause_is_one_red_line(machine: str, profile: str, root: str, tmp_path: pathlib.Path) -> None:
    resolved = profile_of(profile, tmp_path) if " = " in profile else shipped(profile)
    certificate = judged(recorded_machine(machine), resolved)
    assert red(certificate) == [root]
    explained = [row for row in certificate.requirements if row.outcome == "explained"]
    assert explained
    assert {row.explained_by for row in explained} == {(root,)}
    assert certificate.verdict == "not accepted"


def test_fewer_gpus_than_asked_for_with_nothing_amiss_stand_for_themselves(tmp_path: pathlib.Path) -> None:
    assert red(by("gpus = 8\nfail-level = 'warning'", healthy(), tmp_path)) == ["gpus"]
    other = by("gpus = 8\nfail-level = 'warning'", recorded_machine("power-limit-lowered"), tmp_path)
    assert red(other) == ["checks.HLT005", "gpus"]


def test_what_a_record_does_not_hold_is_told_once() -> None:
    certificate = judged(healthy(), shipped("server"))
    rows = rows_of(certificate)
    assert red(certificate) == ["level", "suites"]
    assert rows["suites.training"].explained_by == rows["suites.device_placement"].explained_by == ("suites",)
    assert rows["require.LOD003"].explained_by == rows["reference-fractions.float16"].explained_by == ("level",)
    assert rows["level"].remedy == rows["suites"].remedy
    assert "tfgpu-doctor accept --profile server" in rows["level"].remedy


def test_a_comparison_that_is_lost_is_told_once(tmp_path: pathlib.Path) -> None:
    lost = comparison(ratio=0.5, verdict="slower", reason="0.50 times as fast")
    certificate = by(ONE_COMPARISON, measured(bench(lost, comparison("training", "step[cnn]"))), tmp_path)
    assert red(certificate) == ["checks.BEN001"]
    assert rows_of(certificate)["speed-ups.device_placement/gpu[matmul]"].explained_by == ("checks.BEN001",)


def test_every_explanation_leads_to_a_red_row() -> None:
    for path in (
        "hgx-fabric-manager-absent",
        "loaded-gpu-dies",
        "docker-without-gpus",
        "system-python-that-refuses-pip",
    ):
        certificate = judged(recorded_machine(path), shipped("cluster-node"))
        roots = {key for row in certificate.requirements for key in row.explained_by}
        assert roots <= set(red(certificate))


# Under load


def test_the_slowest_gpu_decides_on_fractions_of_the_peak(tmp_path: pathlib.Path) -> None:
    text = "level = 'deep'\ngpus = 2\n[checks]\nselect = ['GPU']\n[peak-fractions]\nfloat32 = 0.6"
    slow = stressed_gpu(1, rounds=(stress_round(speeds=(speed("float32", teraflops=17.8),)),))
    certificate = by(text, under_stress(stress(stressed_gpu(0), slow)), tmp_path)
    row = rows_of(certificate)["peak-fractions.float32"]
    assert (row.outcome, row.measured, row.required) == ("missed", "GPU 0 68%, GPU 1 50%", "60% of the peak")


def test_a_gpu_that_was_left_alone_is_not_measured(tmp_path: pathlib.Path) -> None:
    text = "level = 'deep'\n[peak-fractions]\nfloat32 = 0.6"
    certificate = by(text, under_stress(stress(stressed_gpu(0), left_alone(1))), tmp_path)
    row = rows_of(certificate)["level"]
    assert (row.outcome, row.reason) == ("not measured", "GPU 1 was not tested: python (4711) computes on it")
    assert "--even-if-busy" in row.remedy
    assert rows_of(certificate)["peak-fractions.float32"].explained_by == ("level",)


def test_a_model_without_a_known_peak_is_not_measured(tmp_path: pathlib.Path) -> None:
    text = "level = 'deep'\n[checks]\nselect = ['GPU']\n[peak-fractions]\nfloat32 = 0.6"
    certificate = by(text, under_stress(stress(stressed_gpu(name="NVIDIA Unheard-of 1"))), tmp_path)
    row = rows_of(certificate)["peak-fractions.float32"]
    assert row.outcome == "not measured"
    assert "NVIDIA Unheard-of 1" in row.reason
    assert row.remedy


# The suites


@pytest.mark.parametrize(
    ("run", "outcome", "told"),
    [
        (bench(comparison(ratio=20.0)), "met", "20 (95 %: 19.6 to 20.4)"),
        (bench(comparison(ratio=3.0)), "missed", "3 (95 %: 2.94 to 3.06)"),
        (
            bench(comparison(ratio=4.05)),
            "missed",
            "4.05 (95 %: 3.97 to 4.13); the measurement does not prove this speed-up",
        ),
        (
            bench(comparison(ratio=5.0, interval=(4.2, 7.0))),
            "missed",
            "5 (95 %: 4.2 to 7); the measurement does not prove this speed-up",
        ),
        (bench(NOT_RUN), "explained", ""),
        (bench(comparison("training", "step[cnn]")), "explained", ""),
        (None, "explained", ""),
        (bench(comparison(), interrupted=True), "explained", ""),
        (bench(comparison(), suite_version="0"), "explained", ""),
    ],
)
def test_what_a_comparison_shows(run: Any, outcome: str, told: str, tmp_path: pathlib.Path) -> None:
    certificate = by(ONE_COMPARISON, measured(run), tmp_path)
    row = rows_of(certificate)["speed-ups.device_placement/gpu[matmul]"]
    assert row.outcome == outcome
    assert "; ".join(filter(None, (row.measured, row.reason))) == told or outcome == "explained"
    assert certificate.verdict == ("accepted" if outcome == "met" else "not accepted")


def test_a_bound_for_a_suite_counts_for_each_of_its_comparisons_unless_one_has_its_own(tmp_path: pathlib.Path) -> None:
    text = 'suites = ["training"]\n[speed-ups]\ntraining = 2\n"training/step[cnn]" = 30\n'
    rows = rows_of(
        by(
            text,
            measured(bench(comparison("training", "step[cnn]"), comparison("training", "step[transformer]"))),
            tmp_path,
        )
    )
    assert rows["speed-ups.training/step[transformer]"].outcome == "met"
    assert rows["speed-ups.training/step[cnn]"].required == "30 times as fast"
    assert rows["speed-ups.training/step[cnn]"].outcome == "missed"


@pytest.mark.parametrize(
    ("share", "limit", "outcome"), [(0.8, 936.0, "met"), (0.5, 936.0, "missed"), (0.8, None, "not measured")]
)
def test_what_a_figure_reaches(share: float, limit: float | None, outcome: str, tmp_path: pathlib.Path) -> None:
    text = 'suites = ["device_placement"]\n[metric-fractions]\n"device_placement/copy in the device" = 0.7\n'
    run = bench(comparison(), metrics=(metric(share, limit=limit),))
    row = rows_of(by(text, measured(run), tmp_path))["metric-fractions.device_placement/copy in the device"]
    assert row.outcome == outcome
    assert row.measured.endswith(f"GB/s on GPU:0, {share:.0%}") or outcome == "not measured"


def test_a_suite_that_breaks_or_finds_something_wrong_is_missed(tmp_path: pathlib.Path) -> None:
    test = "test_device_placement.py::test_bandwidth[in the device]"
    for run in (
        bench(comparison(), problems=(f"{test}: the process was killed by SIGSEGV",)),
        bench(comparison(), failed={test: "wrong"}),
    ):
        certificate = by('suites = ["device_placement", "training"]', measured(run), tmp_path)
        rows = rows_of(certificate)
        assert not rows["suites.device_placement"].holds
        assert rows["suites.training"].outcome == "not measured"
        assert certificate.verdict == "not accepted"


def test_a_test_that_the_budget_cut_off_is_no_fault(tmp_path: pathlib.Path) -> None:
    problem = "test_device_placement.py::test_dispatch: the time budget of 60 s ended while it ran"
    certificate = by(ONE_COMPARISON, measured(bench(comparison(), problems=(problem,))), tmp_path)
    assert certificate.verdict == "accepted"
    hanging = f"{problem}; it had not gone on for 65 s: it may hang"
    certificate = by(ONE_COMPARISON, measured(bench(comparison(), problems=(hanging,))), tmp_path)
    assert certificate.verdict == "not accepted"


# Machines without a GPU


def test_a_machine_that_computes_on_its_processor(tmp_path: pathlib.Path) -> None:
    certificate = by("gpus = 0\ntensorflow = '>=2.16'", recorded_machine("vm-without-gpu"), tmp_path)
    assert (certificate.verdict, red(certificate), certificate.causes) == ("accepted", [], ())
    rows = rows_of(certificate)
    assert rows["goal.TFW001"].measured.startswith("TensorFlow 2.21.0, imported in")
    assert rows["gpus"].measured == "none"


def test_there_too_tensorflow_must_import(tmp_path: pathlib.Path) -> None:
    for name in ("vm-without-avx", "mac-metal-of-another-release", "numpy-2-with-tensorflow-2.15"):
        assert by("gpus = 0", recorded_machine(name), tmp_path).verdict == "not accepted"


# The doctor's own faults


def test_a_check_that_breaks_is_no_fault_of_the_machine(tmp_path: pathlib.Path) -> None:
    checks = (*ALL_CHECKS, breaks)
    certificate = by("", healthy(), tmp_path, checks=checks)
    assert (certificate.verdict, certificate.exit_code) == ("not judged", 3)
    row = rows_of(certificate)["crash.ACME001"]
    assert "ZeroDivisionError" in row.reason
    assert row.remedy.startswith("report it")
    with_fault = by("gpus = 2", healthy(), tmp_path, checks=checks)
    assert (with_fault.verdict, with_fault.exit_code) == ("not accepted", 1)


def test_a_plugin_that_does_not_load_is_told(tmp_path: pathlib.Path) -> None:
    certificate = by("", healthy(), tmp_path, broken=(BrokenPlugin("acme", "no module named acme"),))
    assert (certificate.verdict, red(certificate)) == ("not judged", ["crash.plugin:acme"])
    assert "whoever made the plugin acme" in rows_of(certificate)["crash.plugin:acme"].remedy


def test_an_interrupted_run_is_never_accepted() -> None:
    certificate = judged(healthy(), shipped("ci"), interrupted=True)
    assert (certificate.verdict, certificate.exit_code, red(certificate)) == ("interrupted", 130, [])


def test_every_tag_that_explains_is_on_a_check() -> None:
    on_checks = {tag for each in ALL_CHECKS for tag in each.tags}
    kinds = ("suites", "speed-ups", "metric-fractions", "peak-fractions", "driver", "tensorflow")
    assert {GPU_LOST, STRESS, SUITES_STOPPED, *map(requirement, kinds)} <= on_checks


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (None, "it was not run: the examination of the node found an error before; fix that first"),
        (bench(), "it measured nothing"),
        (bench(skipped={"perf_tests/test_training.py::test_step": "needs two GPUs"}), "needs two GPUs"),
        (bench(problems=("the suites crashed: SIGSEGV",)), "the suites crashed: SIGSEGV"),
        (bench(failed={"perf_tests/test_training.py::test_a": "wrong"}), "perf_tests/test_training.py::test_a: wrong"),
        (bench(comparison("training", "step")), ""),
        (bench(failed={"perf_tests/test_pipeline.py::test_a": "wrong"}, metrics=(metric(suite="training"),)), ""),
    ],
)
def test_a_suite_that_was_asked_for_and_measured_nothing(run: Bench | None, why: str) -> None:
    assert not_measured(run, ["training"]) == ({"training": why} if why else {})
