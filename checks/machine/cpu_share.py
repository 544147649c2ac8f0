"""LIM: has this process the processors that TensorFlow takes it to have?"""

from __future__ import annotations

import math

from tfgpu_doctor.checks.gpu.in_use import gpus_in_use
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Severity, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Environment, Scheduler, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml

_FIGURES = ("quota_least_processors", "throttled_periods", "throttled_share")
_POOLS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


@check(
    "LIM001",
    "TensorFlow starts no more threads than it has processors for",
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
    """TensorFlow counts the processors that it may run on, and no quota of time: in a container limited to 4 of 64
    processors it starts 64 threads in each of its pools. They use the quota up at once and are then stopped together, with
    them the thread that starts the GPU's kernels.

    Fix: TF_NUM_INTRAOP_THREADS and TF_NUM_INTEROP_THREADS, or `tf.config.threading`; a quota of at least one processor.
    """
    counted = len(limits.cpus) or (system.cpu_count if system else 0)
    if not counted:
        raise Skip("how many processors it may run on is not known")
    share, said = _share(limits, scheduler)
    set_by_hand = [f"{name}={environment.get(name)}" for name in _POOLS if environment.get(name)]
    harm = _harm(limits, knowledge, _is_at_work(nvml, cuda_driver, knowledge))
    if share is None or share >= counted:
        yield Evidence(f"it may run on {counted} processors, and nothing gives it a smaller share")
    elif len(set_by_hand) == len(_POOLS) and not harm:
        yield Evidence(f"{said}; {', '.join(set_by_hand)}")
    else:
        severity: Severity = "warning" if harm else "info"
        yield Finding(
            f"{said}, and TensorFlow starts {counted} threads in each of its pools",
            cause="input_pipeline_bound",
            severity=severity,
            confidence="medium",
            evidence=(
                f"it may run on {counted} processors, which is what TensorFlow counts",
                *(harm or _stops(limits)),
                *([f"the quota stands in {limits.cpu_quota_group}"] if limits.cpu_quota_group else ()),
            ),
            fix=_fix(share, harm),
        )
        yield Evidence(f"{said}; {counted} processors are counted")


def _share(limits: Limits, scheduler: Scheduler | None) -> tuple[float | None, str]:
    """The smallest number of processors that somebody allows, and who: the control group, or the batch job."""
    found: list[tuple[float, str]] = []
    if limits.cpu_quota is not None:
        found.append((limits.cpu_quota, f"a quota gives this process the time of {limits.cpu_quota:g} processors"))
    if scheduler and scheduler.cpus:
        found.append(
            (scheduler.cpus, f"the batch job was granted {scheduler.cpus} processors ({scheduler.cpus_said_by})")
        )
    return min(found, default=(None, ""))


def _harm(limits: Limits, knowledge: Knowledge, at_work: bool) -> tuple[str, ...]:
    """The figures which show that the quota does harm: a quota that a program lives well with has none.

    What ran out while no GPU was at work may have been a compiler's, or a test's, and is none of TensorFlow's.
    """
    figures = {name: float(knowledge.boundaries[name].value) for name in _FIGURES}
    quota, periods, stopped = limits.cpu_quota, limits.cpu_periods or 0, limits.cpu_throttled_periods or 0
    if quota is None:
        return ()
    harm = (
        [f"one busy thread is stopped for {1 - quota:.0%} of the time"]
        if quota < figures["quota_least_processors"]
        else []
    )
    enough = periods >= figures["throttled_periods"]  # hence not 0
    if at_work and enough and stopped / periods >= figures["throttled_share"]:
        harm += [*_stops(limits), "a GPU is at work meanwhile"]
    return tuple(harm)


def _stops(limits: Limits) -> tuple[str, ...]:
    periods, stopped = limits.cpu_periods or 0, limits.cpu_throttled_periods or 0
    if stopped <= 0 or periods <= 0:
        return ()
    return (f"in {stopped} of the {periods} periods in which it ran ({stopped / periods:.0%}) the quota ran out",)


def _is_at_work(nvml: Nvml | None, cuda_driver: CudaDriver | None, knowledge: Knowledge) -> bool:
    """Whether somebody computes on a GPU that this process sees; in a container NVML names no process, but the memory."""
    busy = int(knowledge.boundaries["busy_memory_bytes"].value)
    gpus = gpus_in_use(nvml, cuda_driver) if nvml else []
    known = [(gpu.memory_total_bytes, gpu.memory_free_bytes) for gpu in gpus]
    return any(total is not None and free is not None and total - free >= busy for total, free in known)


def _fix(share: float, harm: tuple[str, ...]) -> Fix:
    threads = max(1, math.floor(share))
    more = (
        "Give it more processors (`docker run --cpus=4`, Kubernetes' resources.limits.cpu, or no limit at all), and let "
        if harm
        else "Let "
    )
    return Fix(
        f"{more}TensorFlow start as many threads as it has processors for. In the program that is "
        f"`tf.config.threading.set_intra_op_parallelism_threads({threads})` and the same for inter_op; for tf.data "
        f"`options.autotune.cpu_budget = {threads}`.",
        tuple(f"export {name}={threads}" for name in _POOLS),
    )
