"""The probe of the batch job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.probes.scheduler import scheduler

if TYPE_CHECKING:
    from probes.conftest import Machine


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
