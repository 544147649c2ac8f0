"""BEN: what the perf suites measured."""

from __future__ import annotations

import msgspec
import pytest

from tfgpu_doctor.checks.speed.suites import (
    gpu_answers_to_the_end,
    gpu_beats_cpu,
    gpu_comes_near_its_limits,
    suites_find_nothing_wrong,
)
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.references import COPY, MATMUL, sustained_speed
from tfgpu_doctor.model import Evidence, Finding, NotMeasured, Skip
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric, Side, Verdict
from tfgpu_doctor.model.facts.stress import Readings


def comparison(verdict: Verdict, ratio: float | None = 5.0, *, on_gpu: bool = True) -> Comparison:
    return Comparison(
        suite="device_placement", name="matmul", verdict=verdict, ratio=ratio, on_gpu=on_gpu,
        interval=(ratio * 0.9, ratio * 1.1) if ratio else None, reason="" if verdict == "faster" else "because",
    )  # fmt: skip


def test_a_gpu_that_wins_passes_with_its_figures() -> None:
    (told,) = gpu_beats_cpu(Bench(comparisons=(comparison("faster"),)), read_knowledge())
    assert told == Evidence("device_placement matmul: 5.0 times as fast")


@pytest.mark.parametrize("verdict", ["slower", "not shown", "not run"])
def test_what_is_not_won_is_said(verdict: Verdict) -> None:
    ratio = None if verdict == "not run" else 0.9
    found = gpu_beats_cpu(Bench(comparisons=(comparison("faster"), comparison(verdict, ratio))), read_knowledge())
    (finding,) = [each for each in found if isinstance(each, Finding)]
    assert finding.message.startswith("1 of 2 comparisons on the GPU does not show a faster candidate")
    assert f"{verdict}, because" in finding.evidence[0]


NOISY = comparison("too noisy", 1.3)
TOO_LARGE = msgspec.structs.replace(comparison("not run", None), reason="out of memory: 4 GiB", harmless=True)
OF_TWO_PROCESSES = msgspec.structs.replace(comparison("not run", 1.3), interval=None)


@pytest.mark.parametrize("unmeasured", [NOISY, TOO_LARGE, OF_TWO_PROCESSES])
def test_what_could_not_be_measured_is_no_fault_of_the_gpu(unmeasured: Comparison) -> None:
    won, told = gpu_beats_cpu(Bench(comparisons=(comparison("faster"), unmeasured)), read_knowledge())
    assert isinstance(won, Evidence)
    assert isinstance(told, Evidence)
    assert told.text.startswith("device_placement matmul could not be judged: ")
    with pytest.raises(NotMeasured, match=f"could not be judged: {unmeasured.verdict}, {unmeasured.reason}"):
        gpu_beats_cpu(Bench(comparisons=(unmeasured,)), read_knowledge())


def test_what_could_not_be_measured_is_not_counted_as_lost() -> None:
    run = Bench(comparisons=(comparison("slower", 0.9), NOISY, comparison("faster")))
    (finding,) = [each for each in gpu_beats_cpu(run, read_knowledge()) if isinstance(each, Finding)]
    assert finding.message.startswith("1 of 3 comparisons on the GPU does not show a faster candidate")
    assert not any("too noisy" in line for line in finding.evidence)


def test_comparisons_on_the_cpu_say_nothing_of_the_gpu() -> None:
    with pytest.raises(Skip, match="no comparison ran on a GPU"):
        gpu_beats_cpu(Bench(comparisons=(comparison("slower", on_gpu=False),)), read_knowledge())


def test_heat_during_the_comparison_is_the_cause() -> None:
    hot = Readings(samples=20, reasons={"sw_thermal_slowdown": 0.6, "sw_power_cap": 1.0})
    lost = msgspec.structs.replace(comparison("slower", 0.8), readings={"0": hot})
    (finding,) = gpu_beats_cpu(Bench(comparisons=(lost,)), read_knowledge())
    assert isinstance(finding, Finding)
    assert finding.cause == "gpu_thermal_or_power_throttling"
    assert "limited by sw_thermal_slowdown in 60% of 20 samples" in finding.evidence[1]
    assert not any("sw_power_cap" in line for line in finding.evidence)


def metric(
    value: float, limit: float | None = 100.0, usual: float | None = 80.0, *, name: str = "matmul 8192 in bfloat16",
    device: str = "GPU:0",
) -> Metric:  # fmt: skip
    return Metric(
        suite="device_placement", name=name, value=value, unit="TFLOP/s", device=device, limit=limit,
        usual=usual, usual_source="1,939 nodes",
    )  # fmt: skip


# A step of a small CNN on an H100 beside 224 CPUs, which compute it as fast; and the same of all 8 GPUs.
AGAINST_CPUS = Comparison(
    suite="training", name="step[cnn]", verdict="not shown", reason="1.01 times as fast", ratio=1.01, interval=(0.97, 1.05),
    on_gpu=True, device="GPU:0", candidate=Side(name="cnn on GPU:0", device="GPU:0"), baseline=Side(name="cnn on CPU:0", device="CPU:0"),
)  # fmt: skip
ALL_GPUS = tuple(f"GPU:{number}" for number in range(1, 8))
ALL_AGAINST_CPUS = msgspec.structs.replace(
    AGAINST_CPUS,
    suite="mirrored_strategy",
    name="against_cpu",
    candidate=Side(name="8 GPUs", device="GPU:0", also=ALL_GPUS),
)
FAST = metric(49.8, limit=67.0, usual=None, name="matmul 8192 in float32")
BY_TF32 = metric(344.0, limit=494.5, usual=330.0, name="matmul 8192 in tf32")


@pytest.mark.parametrize(
    "lost", [AGAINST_CPUS, ALL_AGAINST_CPUS, msgspec.structs.replace(AGAINST_CPUS, verdict="slower")]
)
@pytest.mark.parametrize("speeds", [(FAST,), (BY_TF32,), (FAST, BY_TF32, metric(660.0, limit=989.4, usual=None))])
def test_where_the_gpu_is_as_fast_as_is_due_many_cpus_are_no_fault_of_it(
    lost: Comparison, speeds: tuple[Metric, ...]
) -> None:
    won, told = gpu_beats_cpu(Bench(comparisons=(comparison("faster"), lost), metrics=speeds), read_knowledge())
    assert isinstance(won, Evidence)
    assert isinstance(told, Evidence)
    assert f"{lost.suite} {lost.name}: 1.01 times as fast as the CPUs of this machine" in told.text
    assert f"{speeds[0].name} on GPU:0: {speeds[0].value:,.4g} TFLOP/s" in told.text


HOT = {"0": Readings(samples=20, reasons={"hw_thermal_slowdown": 0.6})}
SLOW = metric(15.0, limit=67.0, usual=None, name="matmul 8192 in float32")  # 22 % of its peak


@pytest.mark.parametrize(
    ("lost", "speeds"),
    [
        (AGAINST_CPUS, ()),
        (AGAINST_CPUS, (SLOW,)),
        (AGAINST_CPUS, (metric(200.0, limit=494.5, usual=330.0, name="matmul 8192 in tf32"),)),
        (AGAINST_CPUS, (FAST, metric(100.0, limit=989.4, usual=None))),  # fast in one precision alone
        (AGAINST_CPUS, (metric(660.0, limit=989.4, usual=None),)),  # neither side computes in it
        (AGAINST_CPUS, (metric(49.8, limit=None, usual=None, name="matmul 8192 in float32"),)),
        (AGAINST_CPUS, (metric(49.8, limit=67.0, usual=None, name="matmul 8192 in float32", device="GPU:1"),)),
        (ALL_AGAINST_CPUS, (FAST, msgspec.structs.replace(SLOW, device="GPU:5"))),
        (msgspec.structs.replace(AGAINST_CPUS, readings=HOT), (FAST,)),
        (msgspec.structs.replace(AGAINST_CPUS, baseline=Side(name="float32", device="GPU:0")), (FAST,)),
        (msgspec.structs.replace(AGAINST_CPUS, baseline=None), (FAST,)),
        (msgspec.structs.replace(AGAINST_CPUS, verdict="not run", ratio=None, reason="InternalError: x"), (FAST,)),
    ],
)  # fmt: skip
def test_where_that_is_not_shown_a_comparison_with_the_cpus_stays_lost(
    lost: Comparison, speeds: tuple[Metric, ...]
) -> None:
    found = gpu_beats_cpu(Bench(comparisons=(comparison("faster"), lost), metrics=speeds), read_knowledge())
    (finding,) = [each for each in found if isinstance(each, Finding)]
    assert finding.severity == "error"
    assert f"{lost.suite} {lost.name}" in finding.message


def test_a_gpu_near_what_its_model_reaches_passes() -> None:
    (told,) = gpu_comes_near_its_limits(Bench(metrics=(metric(65.0),)), read_knowledge())
    assert isinstance(told, Evidence)
    assert "65% of the limit" in told.text


def test_a_gpu_far_below_what_its_model_reaches_is_said() -> None:
    (told,) = gpu_comes_near_its_limits(Bench(metrics=(metric(50.0),)), read_knowledge())
    assert isinstance(told, Finding)
    assert told.severity == "warning"
    assert "62% of what GPUs of this model usually reach" in told.message
    assert "1,939 nodes" in told.evidence[0]


def test_where_nobody_measured_many_nothing_is_required() -> None:
    """A data sheet alone refuses healthy GPUs: A100s reach 67 % of its bandwidth in copies."""
    with pytest.raises(NotMeasured, match="20% of the limit"):
        gpu_comes_near_its_limits(Bench(metrics=(metric(20.0, usual=None),)), read_knowledge())


def test_the_populations_are_within_their_data_sheets() -> None:
    """What 1,939 nodes reach is no fault: 82 to 86 % in products on tensor cores, 67 to 74 % in copies."""
    knowledge = read_knowledge()
    model = knowledge.gpu_named("NVIDIA A100-SXM4-40GB")
    assert model
    assert model.memory_bandwidth_gb_per_s
    for precision, kind in {"bfloat16": "fp16", "float16": "fp16", "tf32": "tf32", "float32": "fp32"}.items():
        row = sustained_speed(knowledge, model.name, MATMUL, precision)
        assert row
        assert row.n > 1000
        assert 0.8 < row.value / model.peak_teraflops[kind] < 0.95, precision
    copy = sustained_speed(knowledge, model.name, COPY)
    assert copy
    assert 0.65 < copy.value / model.memory_bandwidth_gb_per_s < 0.76


def test_without_a_limit_nothing_can_be_said() -> None:
    with pytest.raises(Skip, match="no metric with a known limit"):
        gpu_comes_near_its_limits(Bench(metrics=(metric(50.0, limit=None),)), read_knowledge())


def test_a_gpu_that_answered_to_the_end_passes() -> None:
    (told,) = gpu_answers_to_the_end(
        Bench(comparisons=(comparison("faster"), comparison("slower"), comparison("not run", None)))
    )
    assert told == Evidence("completed comparisons on the GPU: 2")


def test_a_gpu_lost_during_the_suites_is_said_with_what_it_said_last() -> None:
    found = list(gpu_answers_to_the_end(Bench(gpu_lost="InternalError: cudaGetDevice() failed")))
    assert isinstance(found[0], Finding)
    assert found[0].severity == "error"
    assert found[0].cause == "undetermined"
    assert found[0].evidence == ("InternalError: cudaGetDevice() failed",)


def test_a_gpu_on_which_nothing_came_to_its_end_is_not_passed() -> None:
    with pytest.raises(Skip, match="was completed"):
        list(gpu_answers_to_the_end(Bench(comparisons=(comparison("not run", None),))))


def test_suites_without_a_gpu_say_nothing_of_its_loss() -> None:
    with pytest.raises(Skip, match="nothing ran on a GPU"):
        list(gpu_answers_to_the_end(Bench(comparisons=(comparison("faster", on_gpu=False),))))


def test_suites_that_found_nothing_wrong_pass_with_what_they_measured() -> None:
    (told,) = suites_find_nothing_wrong(Bench(comparisons=(comparison("slower"),), metrics=(metric(50.0),)))
    assert told == Evidence("no wrong result; comparisons: 1, metrics: 1")


def test_what_the_suites_found_wrong_is_said_with_the_command_that_runs_it_again() -> None:
    found = list(suites_find_nothing_wrong(Bench(failed={"test_numerics.py::test_sums[GPU]": "off by 3"})))
    assert isinstance(found[0], Finding)
    assert "test_sums[GPU]" in found[0].message
    assert found[0].evidence == ("test_numerics.py::test_sums[GPU]: off by 3",)
    assert found[0].fix
    assert found[0].fix.commands == ("tfgpu-doctor bench numerics",)


def test_suites_that_measured_nothing_found_nothing_right() -> None:
    with pytest.raises(Skip, match="measured nothing"):
        list(suites_find_nothing_wrong(Bench()))
