"""The batch job that this process belongs to, and the GPUs that it was granted."""

from __future__ import annotations

from tfgpu_doctor.facts import Scheduler
from tfgpu_doctor.host import Host
from tfgpu_doctor.probe import probe

# (scheduler, variable with the job's number, variables that appear only where GPUs were granted)
# https://slurm.schedmd.com/gres.html, LSF and OpenPBS reference guides; read 2026-11-20
_SCHEDULERS = (
    ("slurm", "SLURM_JOB_ID", ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS")),
    ("lsf", "LSB_JOBID", ("LSB_GPU_REQ", "LSF_GPU_INFO")),
    ("pbs", "PBS_JOBID", ("PBS_GPUFILE",)),
)


@probe(waits_for="the scheduler's variables")
def scheduler(host: Host) -> Scheduler:
    """Read the variables that Slurm, LSF and PBS set in a job."""
    for kind, number, grants in _SCHEDULERS:
        if job := host.environment.get(number):
            granted = {name: host.environment[name] for name in grants if host.environment.get(name)}
            return Scheduler(kind=kind, job=job, granted=granted)
    return Scheduler()
