"""ENV: do the environment variables that matter say something that is understood?"""

from __future__ import annotations

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment

# Judged by checks of their own, which know more.
_JUDGED_ELSEWHERE = ("TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR")


@check(
    "ENV001",
    "the GPU's environment variables have values that count",
    stage=Stage.ADVICE,
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",),
)
def values_are_understood(environment: Environment, knowledge: Knowledge) -> Yielded:
    """A value that is not understood is mostly ignored without a word, and the variable does nothing.

    Fix: use one of the values that the finding names.
    """
    for name, value in environment.variables.items():
        row = knowledge.variables.get(name)
        if row and row.values and value not in row.values and name not in _JUDGED_ELSEWHERE:
            yield Finding(
                f"{name}={value!r} is not understood: {row.about}",
                severity="info",
                evidence=(f"values that count: {', '.join(row.values)} ({row.source})",),
                fix=Fix(f"Use one of {', '.join(row.values)}, or unset it.", (f"unset {name}",)),
            )
    yield Evidence(f"{len(environment.variables)} variables that matter are set")


@check(
    "ENV002",
    "no variable slows every kernel down",
    stage=Stage.ADVICE,
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",),
)
def no_debugging_variable(environment: Environment) -> Yielded:
    """CUDA_LAUNCH_BLOCKING=1 makes every launch wait for the kernel's end: right for debugging, slow for work.

    Fix: `unset CUDA_LAUNCH_BLOCKING`.
    """
    if environment.get("CUDA_LAUNCH_BLOCKING") == "1":
        yield Finding(
            "CUDA_LAUNCH_BLOCKING=1 makes every launch wait for its kernel to end",
            severity="info",
            evidence=("CUDA_LAUNCH_BLOCKING is '1'",),
            fix=Fix("Unset it when debugging is done.", ("unset CUDA_LAUNCH_BLOCKING",)),
        )
    else:
        yield Evidence("CUDA_LAUNCH_BLOCKING is not 1")
