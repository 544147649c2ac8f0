"""ENV: do the relevant environment variables have valid values?"""

from __future__ import annotations

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment

# Separate checks cover these in more detail.
_JUDGED_ELSEWHERE = ("TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR")


@check(
    "ENV001",
    "the GPU-related environment variables have valid values",
    family="Environment variables",
    stage=Stage.ADVICE,
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",),
)
def values_are_understood(environment: Environment, knowledge: Knowledge) -> Yielded:
    """An invalid value is mostly ignored silently, and the variable has no effect.

    Fix: use one of the values that the finding lists.
    """
    for name, value in environment.variables.items():
        row = knowledge.variables.get(name)
        if row and row.values and value not in row.values and name not in _JUDGED_ELSEWHERE:
            yield Finding(
                f"{name}={value!r} is not a valid value: {row.about}",
                severity="info",
                evidence=(f"valid values: {', '.join(row.values)} ({row.source})",),
                fix=Fix(f"Use one of {', '.join(row.values)}, or unset the variable.", (f"unset {name}",)),
            )
    count = len(environment.variables)
    yield Evidence("1 relevant variable is set" if count == 1 else f"{count} relevant variables are set")


@check(
    "ENV002",
    "no variable slows down every kernel",
    family="Environment variables",
    stage=Stage.ADVICE,
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",),
)
def no_debugging_variable(environment: Environment) -> Yielded:
    """CUDA_LAUNCH_BLOCKING=1 makes every launch wait until the kernel ends: useful for debugging, but slow.

    Fix: `unset CUDA_LAUNCH_BLOCKING`.
    """
    if environment.get("CUDA_LAUNCH_BLOCKING") == "1":
        yield Finding(
            "CUDA_LAUNCH_BLOCKING=1 makes every launch wait until the kernel ends",
            severity="info",
            evidence=("CUDA_LAUNCH_BLOCKING is '1'",),
            fix=Fix("Unset it when you finish debugging.", ("unset CUDA_LAUNCH_BLOCKING",)),
        )
    else:
        yield Evidence("CUDA_LAUNCH_BLOCKING is not 1")
