"""LIM: is there enough host memory?"""

from __future__ import annotations

from dataclasses import replace

from tfgpu_doctor.checks.devices import Row, figures_of
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.kernel import KernelLog, KernelMessage
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Container, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Runtime

_LITTLE_BYTES = 1 << 30  # if less than this is left, lack of memory explains a killed process
_LATER_S = 60.0  # from the end of TensorFlow to the look at the kernel log
_LEAST_BUDGET = 1 << 20  # bytes: less holds hardly a batch
_MORE = (
    "Give it more memory: `docker run --memory=16g` (or no limit), Kubernetes resources.limits.memory, Slurm `--mem`; "
    "`docker update --memory` changes a running container."
)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"


@check(
    "LIM003",
    "there is enough memory for TensorFlow",
    family="Process limits",
    stage=Stage.CONTAINER,
    causes=("container_memory_limit",),
    sources=("https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files",),
)
def memory_suffices(
    limits: Limits,
    system: System | None = None,
    container: Container | None = None,
    cuda_driver: CudaDriver | None = None,
    runtime: Runtime | None = None,
    kernel_log: KernelLog | None = None,
) -> Yielded:
    """If a control group runs out of memory, the kernel kills the program without a message: "Killed", exit code 137.
    Data and checkpoints pass through host memory on their way to the GPU.

    Fix: more memory for the container or job; smaller batches; `tf.data` instead of whole arrays in memory.
    """
    total, who = _total(limits, system, container)
    if total is None:
        raise NotMeasured("the amount of memory is unknown")
    left = _left(limits, system)
    if runtime and runtime.attempt.outcome == "killed_by_signal" and runtime.attempt.signal == "SIGKILL":
        plenty = limits.memory_limit_bytes is None and (left is None or left >= _LITTLE_BYTES)
        if plenty and not _ended_lately(kernel_log, runtime.attempt.seconds + _LATER_S):
            raise Skip(f"TensorFlow {runtime.attempt.ending}, and memory was not short when the doctor started")
        memory = f"{who} {_size(total)}, of which {_size(left or 0)} were available when the doctor started"
        rows: list[Row] = [("host memory", total, "B"), ("host memory available", left, "B")]
        found = _killed(runtime, limits, (memory, *_of_machine(limits, system)), kernel_log)
        yield replace(found, figures=figures_of("", rows))
        return
    largest = max((gpu.memory_bytes for gpu in (cuda_driver.gpus if cuda_driver else ())), default=0)
    if total < largest:
        yield Finding(
            f"{who} {_size(total)}, less than the GPU's {_size(largest)}",
            severity="info",
            evidence=(
                "data and checkpoints pass through host memory: larger ones cannot be loaded whole",
                *([f"{amount(limits.oom_kills, 'process')} killed for lack of memory"] if limits.oom_kills else ()),
                *_of_machine(limits, system),
            ),
            fix=Fix(
                f"Read data in parts with tf.data. {_MORE}" if limits.memory_limit_bytes else "Read data in parts."
            ),
            figures=figures_of("", [("host memory", total, "B"), ("memory of the largest GPU", largest, "B")]),
        )
    yield Evidence(f"{who} {_size(total)}" + (f", {_size(left)} are available" if left is not None else ""))


def _killed(runtime: Runtime, limits: Limits, memory: tuple[str, ...], kernel_log: KernelLog | None) -> Finding:
    return Finding(
        f"TensorFlow {runtime.attempt.ending}, which is how the kernel ends programs when memory runs out",
        cause="container_memory_limit" if limits.memory_limit_bytes else UNDETERMINED,
        confidence="medium",
        evidence=(
            *memory,
            *([f"processes killed in this control group before: {limits.oom_kills}"] if limits.oom_kills else ()),
            *(f"kernel log: {each.text}" for each in _ended_by_kernel(kernel_log)[:1]),
        ),
        fix=Fix(_MORE if limits.memory_limit_bytes else "End other programs, or add memory or swap."),
    )


def _of_machine(limits: Limits, system: System | None) -> list[str]:
    """Return the machine's swap and reserved huge pages; neither matters inside a control group with a memory limit."""
    if system is None or limits.memory_limit_bytes is not None:
        return []
    swap, pages = system.swap_bytes, system.huge_pages
    found = [] if swap is None else [f"the machine has {_size(swap)} of swap" if swap else "the machine has no swap"]
    return [*found, *([f"{pages} huge pages are reserved; ordinary allocations cannot use them"] if pages else ())]


def _total(limits: Limits, system: System | None, container: Container | None) -> tuple[int | None, str]:
    """Return the bytes, and the phrase that precedes the size in messages."""
    whole = system.memory_bytes if system else None
    limit = limits.memory_limit_bytes
    if limit is not None and (whole is None or limit < whole):
        return limit, f"this {container.kind if container and container.kind else 'control group'} may use"
    return whole, "the machine has"


def _left(limits: Limits, system: System | None) -> int | None:
    available = system.memory_available_bytes if system else None
    if limits.memory_limit_bytes is None or limits.memory_used_bytes is None:
        return available
    left = max(limits.memory_limit_bytes - limits.memory_used_bytes, 0)
    return left if available is None else min(left, available)


@check(
    "LIM007",
    "tf.data's buffers fit the memory that this process may use",
    family="Process limits",
    stage=Stage.SPEED,
    after=("GPU001", "LIM003"),
    sources=("https://www.tensorflow.org/api_docs/python/tf/data/experimental/AutotuneOptions",),
)
def data_buffers_fit(limits: Limits, system: System, knowledge: Knowledge) -> Yielded:
    """With AUTOTUNE, tf.data lets its buffers grow to half of the free memory of the machine. It ignores the limit of a
    control group: in a small container on a large machine, prefetching ends in "Killed".

    Fix: set `options.autotune.ram_budget = BYTES`.
    """
    limit, free = limits.memory_limit_bytes, system.memory_free_bytes
    if limit is None or free is None:
        raise Skip("no control group limits memory" if limit is None else "the amount of free memory is unknown")
    share = knowledge.boundaries["data_buffer_share"]
    budget = int(free * float(share.value))
    left = max(limit - (limits.memory_used_bytes or 0), 0)
    if budget > left:
        bytes_ = left // 2  # 0 would be TensorFlow's default: half of what is free on the machine
        fix = (
            f"Set `options = tf.data.Options(); options.autotune.ram_budget = {bytes_}` and call `dataset.with_options(options)` "
            "for datasets that use AUTOTUNE."
            if bytes_ >= _LEAST_BUDGET
            else "Raise the memory limit of the control group, or end other programs in it: nearly all of it is in use."
        )
        yield Finding(
            f"tf.data would let its buffers grow to {_size(budget)}, but only {_size(left)} are available to this process",
            severity="info",
            evidence=(f"{_size(free)} are free on the machine, and tf.data uses up to half of that ({share.source})",),
            fix=Fix(fix),
            figures=figures_of("", [("buffers of tf.data", budget, "B"), ("host memory available", left, "B")]),
        )
    elif limits.memory_used_bytes is None:
        raise NotMeasured(f"how much of the {_size(limit)} that the control group allows is in use is unknown")
    yield Evidence(f"a budget of {_size(budget)} for buffers, {_size(left)} available")


def _ended_by_kernel(kernel_log: KernelLog | None) -> list[KernelMessage]:
    """Return the Python processes that the kernel killed for lack of memory since boot."""
    ended = kernel_log.of_kind("out_of_memory") if kernel_log else ()
    return [each for each in ended if each.process.startswith(("python", "ipython", "jupyter"))]


def _ended_lately(kernel_log: KernelLog | None, within_s: float) -> bool:
    """Return whether it killed one in the last seconds; an older message says nothing of this run."""
    return any(each.last_age_s is not None and each.last_age_s <= within_s for each in _ended_by_kernel(kernel_log))
