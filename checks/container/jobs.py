"""JOB: does this step of a batch job have the job's GPUs?"""

from __future__ import annotations

from tfgpu_doctor.checks.container.access import hidden_otherwise
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.machine import Environment, Scheduler
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.tags import GPU_LOST


@check(
    "JOB001",
    "the step of the batch job has the job's GPUs",
    family="Batch job",
    tags=(GPU_LOST,),
    stage=Stage.CONTAINER,
    after=("GPU001", "CNT004"),
    causes=("scheduler_did_not_grant_gpu",),
    sources=("https://slurm.schedmd.com/gres.html", "https://slurm.schedmd.com/srun.html"),
)
def step_has_gpus(
    scheduler: Scheduler, environment: Environment, cuda_driver: CudaDriver, knowledge: Knowledge
) -> Yielded:
    """Each srun in a Slurm job creates a step with its own GPU allocation. If the job has GPUs only because it has the
    whole node (--exclusive), or if another step runs at the same time, a step that requests no GPUs gets none.

    Fix: request the GPUs for srun too: `srun --gres=gpu:1 ...`, or start the program in the job without srun.
    """
    if not scheduler.step:
        raise Skip("this is not a step of a batch job")
    step = f"step {scheduler.step} of {scheduler.kind} job {scheduler.job}"
    job = [f"{name}={value}" for name, value in scheduler.granted.items() if name not in scheduler.step_granted]
    if scheduler.step_granted:
        yield Evidence(", ".join(f"{name}={value}" for name, value in scheduler.step_granted.items()))
    elif cuda_driver.gpus:
        yield Evidence(f"CUDA lists {amount(len(cuda_driver.gpus), 'GPU')} in {step}")
    elif hidden := hidden_otherwise(scheduler, environment, knowledge):
        raise Skip(hidden)
    elif job and cuda_driver.attempt.answered and not cuda_driver.library_error:
        yield Finding(
            f"the job has GPUs, but {step} has none",
            cause="scheduler_did_not_grant_gpu",
            confidence="medium",
            evidence=(
                *job,
                "no variable names GPUs of the step, and CUDA lists no GPU",
                f"CUDA_VISIBLE_DEVICES is {environment.get('CUDA_VISIBLE_DEVICES')!r}",
            ),
            fix=Fix("Request the GPUs for the step too: `srun --gres=gpu:1 ...`, or start the program without srun."),
        )
    else:
        raise Skip("no variable names GPUs of the job" if not job else "the GPUs that CUDA lists are unknown")
