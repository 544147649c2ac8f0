"""The probe of the batch job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probes.scheduler import scheduler

if TYPE_CHECKING:
    from collect.probes.conftest import Machine


def test_outside_of_a_job_there_is_none(machine: Machine) -> None:
    found = machine.ask(scheduler, environment={"SLURM_CONF": "/etc/slurm/slurm.conf", "SLURM_JOB_ID": ""})
    assert (found.kind, found.job, found.granted) == ("", "", {})


def test_a_job_of_slurm_with_gpus(machine: Machine) -> None:
    variables = {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_GPUS": "0,1",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_GPUS": "",
        "SLURM_JOB_USER": "anna",
    }
    found = machine.ask(scheduler, environment=variables)
    assert (found.kind, found.job) == ("slurm", "4711")
    assert found.granted == {"SLURM_JOB_GPUS": "0,1", "SLURM_GPUS_ON_NODE": "2"}


def test_a_job_of_slurm_without_gpus_was_granted_none(machine: Machine) -> None:
    found = machine.ask(scheduler, environment={"SLURM_JOB_ID": "4711", "SLURM_CPUS_ON_NODE": "8"})
    assert (found.kind, found.granted) == ("slurm", {})


@pytest.mark.parametrize(
    ("kind", "variables", "granted"),
    [
        ("lsf", {"LSB_JOBID": "7", "LSB_GPU_REQ": "num=1:mode=shared"}, {"LSB_GPU_REQ": "num=1:mode=shared"}),
        ("lsf", {"LSB_JOBID": "7"}, {}),
        ("pbs", {"PBS_JOBID": "7.head", "PBS_GPUFILE": "/var/spool/aux/7.headgpu"}, {"PBS_GPUFILE": "/var/spool/aux/7.headgpu"}),
        ("pbs", {"PBS_JOBID": "7.head"}, {}),
    ],
)  # fmt: skip
def test_jobs_of_other_schedulers(
    machine: Machine, kind: str, variables: dict[str, str], granted: dict[str, str]
) -> None:
    found = machine.ask(scheduler, environment=variables)
    assert (found.kind, found.granted) == (kind, granted)
    assert found.job.startswith("7")


@pytest.mark.parametrize(
    ("kind", "variables", "granted", "cpus"),
    [
        ("slurm", {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "SLURM_CPUS_PER_TASK": "4"}, {"SLURM_JOB_GPUS": "0"}, 4),
        ("slurm", {"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "16"}, {}, 16),
        ("slurm", {"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "16", "SLURM_CPUS_PER_TASK": "4"}, {}, 4),
        ("sge", {"JOB_ID": "7", "SGE_TASK_ID": "undefined", "SGE_HGR_gpu_card": "0 1", "NSLOTS": "8"}, {"SGE_HGR_gpu_card": "0 1"}, 8),
        ("sge", {"JOB_ID": "7", "SGE_TASK_ID": "3", "NSLOTS": "none"}, {}, None),
        ("pbs", {"PBS_JOBID": "7.head", "NCPUS": "", "PBS_NUM_PPN": "2"}, {}, 2),
        ("htcondor", {"_CONDOR_SLOT": "slot1_7", "_CONDOR_JOB_AD": "/x/.job.ad", "_CONDOR_AssignedGPUs": "GPU-1f2e"}, {"_CONDOR_AssignedGPUs": "GPU-1f2e"}, None),
        ("flux", {"FLUX_JOB_ID": "f7"}, {}, None),
    ],
)  # fmt: skip
def test_what_each_scheduler_grants(
    machine: Machine, kind: str, variables: dict[str, str], granted: dict[str, str], cpus: int | None
) -> None:
    found = machine.ask(scheduler, environment=variables)
    assert (found.kind, found.granted, found.denied, found.cpus) == (kind, granted, {}, cpus)
    assert bool(found.cpus_said_by) == (cpus is not None)


def test_htcondors_ten_thousandth_gpu_is_none(machine: Machine) -> None:
    variables = {"_CONDOR_SLOT": "slot1_12", "_CONDOR_JOB_AD": "/x/.job.ad", "_CONDOR_AssignedGPUs": "10000"}
    found = machine.ask(scheduler, environment=variables)
    assert (found.kind, found.granted, found.denied) == ("htcondor", {}, {"_CONDOR_AssignedGPUs": "10000"})


@pytest.mark.parametrize("granted", [{}, {"SLURM_STEP_GPUS": "2"}])
def test_a_step_of_slurm_has_gpus_of_its_own(machine: Machine, granted: dict[str, str]) -> None:
    variables = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_JOB_GPUS": "0,1,2,3", **granted}
    found = machine.ask(scheduler, environment=variables)
    assert (found.step, found.step_granted) == ("0", granted)
    assert found.granted["SLURM_JOB_GPUS"] == "0,1,2,3"


@pytest.mark.parametrize("variables", [{"JOB_ID": "7"}, {"_CONDOR_SLOT": "slot1"}, {"NSLOTS": "4"}])
def test_a_name_that_others_use_too_makes_no_job(machine: Machine, variables: dict[str, str]) -> None:
    assert machine.ask(scheduler, environment=variables).kind == ""
