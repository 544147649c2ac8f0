"""JOB: was the part of a batch job that this is given the job's GPUs?"""

from __future__ import annotations

from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment, Scheduler
from tfgpu_doctor.model.facts.nvidia import CudaDriver


@check(
    "JOB001",
    "the step of the batch job has the job's GPUs",
    stage=Stage.CONTAINER,
    after=("GPU001", "CNT004"),
    causes=("scheduler_did_not_grant_gpu",),
    sources=("https://slurm.schedmd.com/gres.html", "https://slurm.schedmd.com/srun.html"),
)
def step_has_gpus(scheduler: Scheduler, environment: Environment, cuda_driver: CudaDriver) -> Yielded:
    """Each srun inside of a Slurm job makes a step, which has GPUs of its own. A job that has GPUs only because it has
    the node alone (--exclusive) gives none to a step that does not ask, nor does a step that runs beside another.

    Fix: name the GPUs at srun as well: `srun --gres=gpu:1 ...`, or start the program in the job without srun.
    """
    if not scheduler.step:
        raise Skip("this is no step of a batch job")
    step = f"step {scheduler.step} of {scheduler.kind} job {scheduler.job}"
    job = [f"{name}={value}" for name, value in scheduler.granted.items() if name not in scheduler.step_granted]
    if scheduler.step_granted:
        yield Evidence(", ".join(f"{name}={value}" for name, value in scheduler.step_granted.items()))
    elif cuda_driver.gpus:
        yield Evidence(f"CUDA lists {len(cuda_driver.gpus)} GPUs in {step}")
    elif job and cuda_driver.attempt.answered and not cuda_driver.library_error:
        yield Finding(
            f"the job has GPUs, and {step} has none",
            cause="scheduler_did_not_grant_gpu",
            confidence="medium",
            evidence=(
                *job,
                "no variable names GPUs of the step, and CUDA lists none",
                f"CUDA_VISIBLE_DEVICES is {environment.get('CUDA_VISIBLE_DEVICES')!r}",
            ),
            fix=Fix("Ask for them at the step as well: `srun --gres=gpu:1 ...`, or start the program without srun."),
        )
    else:
        raise Skip("the job itself names no GPUs" if not job else "what CUDA lists is not known")
