"""The report of one node, out of recorded machines."""

from __future__ import annotations

import json

import msgspec
import pytest
from built_machines import several
from every import every
from healthy import broken, nvml_gpu
from replayed import NAMES, facts_of
from stressed import under_stress

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.fleet.measurements import measurements_of
from tfgpu_doctor.fleet.node import NodeReport, encode_node, file_name
from tfgpu_doctor.fleet.reporting import in_a_line, missing_node, node_report
from tfgpu_doctor.fleet.unjudged import not_examined
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import Environment, Scheduler
from tfgpu_doctor.model.facts.stress import Readings, Speed, StressedGpu, StressRound, StressTest, Transfer
from tfgpu_doctor.model.report import Outcome, Result


def of_machine(facts: Facts, node: str = "node-1") -> NodeReport:
    report = diagnose(facts)
    return node_report(
        node, facts, report, began="2026-11-21T12:00:00Z", seconds=3.0, exit_code=report.exit_code("error")
    )


@every("machine", NAMES)
def test_every_recorded_machine_makes_one(machine: str) -> None:
    facts = facts_of(machine)
    node = of_machine(facts)
    document = json.loads(encode_node(node))
    assert list(document)[:2] == ["schema", "kind"]
    assert document["checks"] == {result.id: result.outcome for result in node.report.results}  # type: ignore[union-attr]
    if node.outcome == "reported":
        assert [cause["label"] for cause in document["causes"]] == [cause.label for cause in node.report.causes]  # type: ignore[union-attr]
    assert all(document["settings"].values())
    if facts.nvml and facts.nvml.works:
        assert document["settings"]["GPUs that NVML lists"] == str(facts.nvml.gpu_count)


@pytest.mark.parametrize(
    ("machine", "scheduler", "said"),
    [("slurm-without-gres", "slurm", "(`fleet emit slurm --gpus N`)"), ("htcondor-without-gpu", "htcondor", "")],
)
def test_a_job_that_asked_for_no_gpu_says_nothing_about_the_node(machine: str, scheduler: str, said: str) -> None:
    node = of_machine(facts_of(machine))
    assert (node.outcome, node.exit_code, node.causes) == ("not granted", 3, ())
    assert f"the job asked {scheduler} for no GPU" in node.reason
    assert node.reason.endswith(said)
    assert node.report is not None
    assert [cause.label for cause in node.report.causes] == ["scheduler_did_not_grant_gpu"]


def test_a_node_that_nothing_judged_says_why() -> None:
    node = of_machine(facts_of("8-a100-nvlinks"))
    assert node.exit_code == 3
    assert node.report is not None
    goal = node.report.shows("computes")
    assert goal is not None
    assert node.unjudged == f"{goal.id} was skipped: {goal.reason}"
    assert in_a_line(node) == f"not judged: {node.unjudged}"


def with_variable(value: str | None) -> Facts:
    """A healthy machine with two GPUs of one model; CUDA lists the first alone where the variable says so."""
    machine = several(2)
    listed = machine["cuda_driver"]["gpus"]
    variables = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    seen = {"gpus": listed[:1] if value == "0" else listed}
    return broken(**{**machine, "cuda_driver": seen, "environment": Environment(variables)})


@pytest.mark.parametrize("value", ["0", "0,1", None])
def test_a_node_whose_gpus_a_variable_hides_is_not_judged(value: str | None) -> None:
    facts = with_variable(value)
    report = diagnose(facts)
    why = not_examined(facts, report)
    node = node_report("n1", facts, report, began="", seconds=1.0, exit_code=0, not_measured=why)
    assert bool(why) is (value == "0")
    assert node.exit_code == (3 if why else 0)
    if why:
        assert node.reason.startswith(
            "GPUs: CUDA_VISIBLE_DEVICES=0 hides 1 of 2 GPUs, which were not examined: unset it"
        )


def examined(facts: Facts) -> NodeReport:
    """The report of a node that was ordered without a profile, as `fleet node` makes it."""
    report = diagnose(facts)
    return node_report(
        "n1", facts, report, began="", seconds=1.0, exit_code=report.exit_code("error"),
        not_measured=not_examined(facts, report),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("loaded-without-a-free-gpu-healthy", "GPU 0 was not tested: python (4711) computes on it"),
        ("loaded-one-of-two-busy-healthy", "GPU 1 was not tested: python (4711) computes on it"),
        ("deep-without-a-load-healthy", "no GPU was stress-tested"),
    ],
)
def test_a_node_that_was_ordered_and_not_stress_tested_is_not_judged(machine: str, said: str) -> None:
    node = examined(facts_of(machine))
    assert (node.exit_code, node.reason) == (3, f"stress test: {said}")
    assert in_a_line(node) == f"not judged: stress test: {said}"


@every("machine", [name for name in NAMES if name.endswith("healthy")])
def test_a_healthy_node_is_judged_if_no_stress_test_was_ordered_or_it_reached_every_gpu(machine: str) -> None:
    facts = facts_of(machine)
    untested = facts.level == "deep" and not (facts.stress and len(facts.stress.tested) == len(facts.stress.gpus))
    assert bool(not_examined(facts, diagnose(facts))) == untested


@pytest.mark.parametrize("machine", ["loaded-gpu-dies", "loaded-ecc-error", "loaded-memory-flips"])
def test_a_gpu_that_fails_under_load_is_a_finding_and_nothing_is_unknown_of_it(machine: str) -> None:
    node = examined(facts_of(machine))
    assert (node.exit_code, node.reason) == (1, "")


def test_a_gpu_that_nvml_lists_and_a_job_may_not_have_got_was_not_stress_tested() -> None:
    facts = under_stress()
    job = Scheduler(kind="slurm", job="7", granted={"SLURM_JOB_GPUS": "0"})
    beside = broken(facts, nvml={"gpus": tuple(map(nvml_gpu, (0, 1)))}, scheduler=job)
    assert examined(beside).reason.startswith("stress test: NVML reads GPU 1")
    standard = msgspec.structs.replace(beside, level="standard", stress=None)
    assert examined(standard).reason == ""
    mig = broken(facts, nvml={"gpus": (nvml_gpu(), nvml_gpu(1, mig=True, mig_devices=("MIG-1",)))}, scheduler=job)
    assert examined(mig).reason == ""


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("crash", "a check crashed: TFW009: its own bug"),
        ("blocked", "TFW009 was not tried: it is blocked by DRV001, whose errors are left out"),
    ],
)
def test_a_check_that_judged_nothing_is_named(outcome: Outcome, said: str) -> None:
    facts = facts_of("8-a100-nvlinks")
    result = Result(
        id="TFW009", title="it computes", goal="computes", outcome=outcome, reason="its own bug", blocked_by=("DRV001",)
    )
    report = msgspec.structs.replace(diagnose(facts), results=(result,))
    assert node_report("n1", facts, report, began="", seconds=1.0, exit_code=3).unjudged == said
    assert node_report("n1", facts, report, began="", seconds=1.0, exit_code=1).unjudged == ""


def test_a_step_without_the_gpus_of_its_job_is_a_finding() -> None:
    node = of_machine(facts_of("slurm-step-without-gres"))
    assert (node.outcome, node.exit_code) == ("reported", 1)


def test_what_was_measured_under_load_is_told_by_device_and_model() -> None:
    rounds = tuple(
        StressRound(
            speeds=(
                Speed(precision="float16", teraflops=speed, iterations=9, finite=True),
                Speed(precision="tf32", error="out of memory"),
            ),
            readings=Readings(samples=9, sm_mhz=1700, temperature_c=60),
        )
        for speed in (720.0, 700.0, 500.0)
    )
    gpu = StressedGpu(index=1, name="NVIDIA H100", rounds=rounds)
    transfers = (Transfer(source="host", destination="GPU:1", host_memory="pinned", gb_per_s=50.0),)
    found = {
        each.name: each for each in measurements_of(Facts(stress=StressTest("deep", gpus=(gpu,), transfers=transfers)))
    }
    assert set(found) == {
        "float16 matrix product", "clock under load", "temperature under load", "copy host to GPU pinned",
    }  # fmt: skip
    assert found["float16 matrix product"].value == 600.0  # of the later half, in which the GPU is warm
    assert {each.device for each in found.values()} == {"GPU:1"}
    assert {each.model for each in found.values()} == {"NVIDIA H100"}
    assert found["temperature under load"].better == "lower"


def test_a_node_that_gave_no_report_is_a_report_with_its_reason() -> None:
    document = json.loads(encode_node(missing_node("node-3", "hung", "no answer within 300 s")))
    assert document["outcome"] == "hung"
    assert document["reason"] == "no answer within 300 s"
    assert document["exit_code"] is None


@pytest.mark.parametrize("node", ["../../etc/passwd", "a/b", "", ".", "x" * 500, "<script>", "\u202enode", "a:b"])
def test_no_name_leads_out_of_the_folder(node: str) -> None:
    name = file_name(node)
    assert "/" not in name
    assert not name.startswith(".")
    assert name.endswith(".json")
    assert len(name) < 200


def test_different_nodes_have_different_files() -> None:
    names = ["a/b", "a_b", "a:b", "x" * 200, "x" * 201, "", ".", "node", "expected"]
    assert len({file_name(each) for each in names} | {"expected.json"}) == len(names) + 1
