"""LIM: does this process have as many CPUs as TensorFlow assumes?"""

from __future__ import annotations

import math

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.checks.gpu.in_use import gpus_in_use
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Severity, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Environment, Scheduler, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml

_FIGURES = ("quota_least_processors", "throttled_periods", "throttled_share")
_POOLS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


@check(
    "LIM001",
    "TensorFlow starts no more threads than it has CPUs",
    family="Process limits",
    stage=Stage.SPEED,
    after=("GPU001",),
    causes=("input_pipeline_bound",),
    sources=(
        "https://github.com/tensorflow/tensorflow/issues/17206",
        "https://docs.kernel.org/scheduler/sched-bwc.html",
    ),
)
def threads_fit_processors(
    limits: Limits,
    environment: Environment,
    knowledge: Knowledge,
    scheduler: Scheduler | None = None,
    system: System | None = None,
    nvml: Nvml | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """TensorFlow counts the CPUs that it may run on, and ignores CPU quotas: in a container limited to 4 of 64 CPUs, it
    starts 64 threads in each of its pools. They use up the quota at once and are then throttled together, including the
    thread that launches the GPU kernels.

    Fix: TF_NUM_INTRAOP_THREADS and TF_NUM_INTEROP_THREADS, or `tf.config.threading`; a quota of at least one CPU.
    """
    counted = len(limits.cpus) or (system.cpu_count if system else 0)
    if not counted:
        raise NotMeasured("the number of CPUs that this process may run on is unknown")
    share, said = _share(limits, scheduler)
    set_by_hand = [f"{name}={environment.get(name)}" for name in _POOLS if environment.get(name)]
    harm = _harm(limits, knowledge, _is_at_work(nvml, cuda_driver, knowledge))
    if share is None or share >= counted:
        yield Evidence(f"this process may run on {amount(counted, 'CPU')}, and nothing limits it to fewer")
    elif len(set_by_hand) == len(_POOLS) and not harm:
        yield Evidence(f"{said}; {', '.join(set_by_hand)}")
    else:
        severity: Severity = "warning" if harm else "info"
        yield Finding(
            f"{said}, and TensorFlow starts {amount(counted, 'thread')} in each of its pools",
            cause="input_pipeline_bound",
            severity=severity,
            confidence="medium",
            evidence=(
                f"this process may run on {amount(counted, 'CPU')}, which TensorFlow counts",
                *(harm or _stops(limits)),
                *([f"the quota is set in {limits.cpu_quota_group}"] if limits.cpu_quota_group else ()),
            ),
            fix=_fix(share, harm),
            figures=figures_of("", [("CPUs allowed", share, ""), ("CPUs counted", counted, "")]),
        )
        yield Evidence(f"{said}; TensorFlow counts {amount(counted, 'CPU')}")


def _share(limits: Limits, scheduler: Scheduler | None) -> tuple[float | None, str]:
    """Return the smallest number of CPUs allowed by the control group or the batch job, and which of them sets it."""
    found: list[tuple[float, str]] = []
    if limits.cpu_quota is not None:
        found.append((limits.cpu_quota, f"a quota limits this process to {amount(limits.cpu_quota, 'CPU')}"))
    if scheduler and scheduler.cpus:
        found.append(
            (scheduler.cpus, f"the batch job was granted {amount(scheduler.cpus, 'CPU')} ({scheduler.cpus_said_by})")
        )
    return min(found, default=(None, ""))


def _harm(limits: Limits, knowledge: Knowledge, at_work: bool) -> tuple[str, ...]:
    """Return the values that show that the quota does harm; empty if the program runs well with it.

    A quota that ran out while no GPU was in use may have been used up by a compiler or a test, not by TensorFlow.
    """
    figures = {name: float(knowledge.boundaries[name].value) for name in _FIGURES}
    quota, periods, stopped = limits.cpu_quota, limits.cpu_periods or 0, limits.cpu_throttled_periods or 0
    if quota is None:
        return ()
    harm = (
        [f"one busy thread is throttled for {1 - quota:.0%} of the time"]
        if quota < figures["quota_least_processors"]
        else []
    )
    enough = periods >= figures["throttled_periods"]  # hence not 0
    if at_work and enough and stopped / periods >= figures["throttled_share"]:
        harm += [*_stops(limits), "a GPU is in use at the same time"]
    return tuple(harm)


def _stops(limits: Limits) -> tuple[str, ...]:
    periods, stopped = limits.cpu_periods or 0, limits.cpu_throttled_periods or 0
    if stopped <= 0 or periods <= 0:
        return ()
    return (
        f"the quota ran out in {stopped} of the {periods} periods in which the process ran ({stopped / periods:.0%})",
    )


def _is_at_work(nvml: Nvml | None, cuda_driver: CudaDriver | None, knowledge: Knowledge) -> bool:
    """Whether a visible GPU is in use. Judged by its memory, because NVML lists no processes inside a container."""
    busy = int(knowledge.boundaries["busy_memory_bytes"].value)
    gpus = gpus_in_use(nvml, cuda_driver) if nvml else []
    known = [(gpu.memory_total_bytes, gpu.memory_free_bytes) for gpu in gpus]
    return any(total is not None and free is not None and total - free >= busy for total, free in known)


def _fix(share: float, harm: tuple[str, ...]) -> Fix:
    threads = max(1, math.floor(share))
    more = (
        "Give it more CPUs (`docker run --cpus=4`, Kubernetes resources.limits.cpu, or no limit), and let "
        if harm
        else "Let "
    )
    return Fix(
        f"{more}TensorFlow start only as many threads as it has CPUs. In the program, call "
        f"`tf.config.threading.set_intra_op_parallelism_threads({threads})` and the same for inter_op; for tf.data, set "
        f"`options.autotune.cpu_budget = {threads}`.",
        tuple(f"export {name}={threads}" for name in _POOLS),
    )
