"""JOB001: steps of batch jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from built_machines import cuda_that_fails, cuda_without_library, variables
from healthy import ANSWERED

from tfgpu_doctor.checks.container.access import job_was_granted_gpu
from tfgpu_doctor.checks.container.jobs import step_has_gpus
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Environment, Scheduler
from tfgpu_doctor.model.facts.nvidia import CudaDriver

if TYPE_CHECKING:
    from checks.conftest import Judge

JOB = {"SLURM_JOB_GPUS": "0,1,2,3", "SLURM_GPUS_ON_NODE": "4"}
STEP = Scheduler(kind="slurm", job="7", granted=JOB, step="1")
NOTHING = cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")


@pytest.mark.parametrize("scheduler", [Scheduler(), Scheduler(kind="slurm", job="7", granted=JOB)])
def test_what_is_no_step_is_not_judged(judge: Judge, scheduler: Scheduler) -> None:
    assert judge.skips(step_has_gpus, scheduler=scheduler) == "this is not a step of a batch job"


def test_a_step_without_the_jobs_gpus(judge: Judge) -> None:
    finding = judge.finding(step_has_gpus, scheduler=STEP, cuda_driver=NOTHING)
    assert (finding.cause, finding.severity) == ("scheduler_did_not_grant_gpu", "error")
    assert finding.message == "the job has GPUs, but step 1 of slurm job 7 has none"
    assert "SLURM_JOB_GPUS=0,1,2,3" in finding.evidence
    assert finding.fix and "srun --gres=gpu:1" in finding.fix.text


def test_a_step_with_gpus_of_its_own(judge: Judge) -> None:
    step = Scheduler(
        kind="slurm", job="7", granted={**JOB, "SLURM_STEP_GPUS": "2"}, step="1", step_granted={"SLURM_STEP_GPUS": "2"}
    )
    assert judge.passes(step_has_gpus, scheduler=step, cuda_driver=NOTHING) == "SLURM_STEP_GPUS=2"


def test_a_step_that_sees_gpus_has_them(judge: Judge) -> None:
    assert "CUDA lists 1 GPU" in judge.passes(step_has_gpus, scheduler=STEP)


@pytest.mark.parametrize(
    "cuda", [cuda_without_library(), CudaDriver(attempt=Attempt(outcome="timed_out", seconds=15.0))]
)
def test_cuda_that_was_not_reached_tells_nothing(judge: Judge, cuda: CudaDriver) -> None:
    assert judge.skips(step_has_gpus, scheduler=STEP, cuda_driver=cuda)


def test_a_job_without_gpus_is_judged_elsewhere(judge: Judge) -> None:
    step = Scheduler(kind="slurm", job="7", step="1")
    assert judge.skips(step_has_gpus, scheduler=step, cuda_driver=NOTHING) == "no variable names GPUs of the job"


@pytest.mark.parametrize(("visible", "blamed"), [("-1", False), ("NoDevFiles", True), ("", True), ("0", True)])
def test_a_step_that_hides_the_gpus_itself_is_judged_elsewhere(judge: Judge, visible: str, blamed: bool) -> None:
    environment = variables(CUDA_VISIBLE_DEVICES=visible)
    if blamed:
        assert judge.finding(step_has_gpus, scheduler=STEP, environment=environment, cuda_driver=NOTHING)
    else:
        reason = judge.skips(step_has_gpus, scheduler=STEP, environment=environment, cuda_driver=NOTHING)
        assert reason == "CUDA_VISIBLE_DEVICES='-1' hides every GPU, and slurm does not set that value"


# CNT004 with the schedulers that came later


def test_a_job_of_htcondor_without_gpu(judge: Judge) -> None:
    scheduler = Scheduler(kind="htcondor", job="slot1_12", denied={"_CONDOR_AssignedGPUs": "10000"})
    environment = variables(CUDA_VISIBLE_DEVICES="10000")
    finding = judge.finding(job_was_granted_gpu, scheduler=scheduler, environment=environment, cuda_driver=NOTHING)
    assert finding.cause == "scheduler_did_not_grant_gpu"
    assert "_CONDOR_AssignedGPUs=10000, which means no GPU" in finding.evidence
    assert finding.fix and "request_gpus = 1" in finding.fix.text


@pytest.mark.parametrize(
    ("kind", "words"),
    [("slurm", "--gres=gpu:1"), ("lsf", "bsub -gpu"), ("pbs", "ngpus=1"), ("sge", "-l gpu=1"), ("flux", "flux run -g 1"), ("oar", "see the batch system documentation")],
)  # fmt: skip
def test_each_scheduler_is_asked_in_its_own_words(judge: Judge, kind: str, words: str) -> None:
    finding = judge.finding(
        job_was_granted_gpu,
        scheduler=Scheduler(kind=kind, job="7"),
        environment=Environment(),
        cuda_driver=NOTHING,
    )
    assert finding.fix and words in finding.fix.text


def test_fewer_gpus_than_the_node_has_are_a_grant(judge: Judge) -> None:
    from built_machines import several
    from healthy import broken, cuda_gpu

    machine = broken(broken(**several(4)), cuda_driver={"attempt": ANSWERED, "gpus": (cuda_gpu(),)})
    said = judge.passes(job_was_granted_gpu, machine, scheduler=Scheduler(kind="slurm", job="7"))
    assert said == "CUDA lists 1 GPU of the node's 4 in slurm job 7"
