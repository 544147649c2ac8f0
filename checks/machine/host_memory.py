"""LIM: is there enough of the machine's own memory?"""

from __future__ import annotations

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Container, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Runtime

_LITTLE_BYTES = 1 << 30  # where less than this is left, a killed process was killed for it
_MORE = (
    "Give it more memory: `docker run --memory=16g` (or no limit), Kubernetes' resources.limits.memory, Slurm's `--mem`; "
    "`docker update --memory` changes a container that runs."
)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"


@check(
    "LIM003",
    "the memory suffices for TensorFlow",
    stage=Stage.CONTAINER,
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
    """Where a control group's memory runs out the kernel kills the program without a word: "Killed", exit code 137.
    Data and checkpoints pass through the machine's memory on their way to the GPU.

    Fix: more memory for the container or job; smaller batches; `tf.data` in place of arrays held whole.
    """
    total, who = _total(limits, system, container)
    if total is None:
        raise Skip("how much memory there is is not known")
    left = _left(limits, system)
    if runtime and runtime.attempt.outcome == "killed_by_signal" and runtime.attempt.signal == "SIGKILL":
        if limits.memory_limit_bytes is None and (left is None or left >= _LITTLE_BYTES):
            raise Skip(f"TensorFlow {runtime.attempt.ending}, and memory was not short when the doctor began")
        yield _killed(runtime, limits, f"{who} {_size(total)}, of which {_size(left or 0)} were left", kernel_log)
        return
    largest = max((gpu.memory_bytes for gpu in (cuda_driver.gpus if cuda_driver else ())), default=0)
    if total < largest:
        yield Finding(
            f"{who} {_size(total)}, less than the GPU's {_size(largest)}",
            severity="info",
            evidence=(
                "data and checkpoints pass through it: those larger than that cannot be loaded whole",
                *([f"killed for lack of memory: {limits.oom_kills} processes"] if limits.oom_kills else ()),
            ),
            fix=Fix(
                f"Read data in pieces with tf.data. {_MORE}" if limits.memory_limit_bytes else "Read data in pieces."
            ),
        )
    yield Evidence(f"{who} {_size(total)}" + (f", {_size(left)} are left" if left is not None else ""))


def _killed(runtime: Runtime, limits: Limits, memory: str, kernel_log: KernelLog | None) -> Finding:
    return Finding(
        f"TensorFlow {runtime.attempt.ending}, as the kernel ends programs for which there is no memory",
        confidence="medium",
        evidence=(
            f"{memory} when the doctor began",
            *([f"killed in this control group before: {limits.oom_kills}"] if limits.oom_kills else ()),
            *(f"the kernel's log: {line}" for line in _said_by_kernel(kernel_log)),
        ),
        fix=Fix(_MORE if limits.memory_limit_bytes else "End other programs, or add memory or swap."),
    )


def _total(limits: Limits, system: System | None, container: Container | None) -> tuple[int | None, str]:
    """Bytes, and who says so, in words that a size completes."""
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
    stage=Stage.SPEED,
    after=("GPU001", "LIM003"),
    sources=("https://www.tensorflow.org/api_docs/python/tf/data/experimental/AutotuneOptions",),
)
def data_buffers_fit(limits: Limits, system: System, knowledge: Knowledge) -> Yielded:
    """With AUTOTUNE tf.data lets its buffers grow up to half of the memory that is free on the machine. It does not know
    of a control group's limit: in a small container on a large machine prefetching ends in "Killed".

    Fix: `options.autotune.ram_budget = BYTES`.
    """
    limit, free = limits.memory_limit_bytes, system.memory_free_bytes
    if limit is None or free is None:
        raise Skip("no control group limits memory" if limit is None else "how much memory is free is not known")
    share = knowledge.boundaries["data_buffer_share"]
    budget = int(free * float(share.value))
    left = max(limit - (limits.memory_used_bytes or 0), 0)
    if budget > left:
        bytes_ = left // 2
        yield Finding(
            f"tf.data would let its buffers take {_size(budget)}, and {_size(left)} are left to this process",
            severity="info",
            evidence=(f"{_size(free)} are free on the machine, and tf.data takes up to half of it ({share.source})",),
            fix=Fix(
                f"Set `options = tf.data.Options(); options.autotune.ram_budget = {bytes_}` and `dataset.with_options("
                "options)`, where a dataset uses AUTOTUNE."
            ),
        )
    yield Evidence(f"a budget of {_size(budget)} for buffers, {_size(left)} left")


def _said_by_kernel(kernel_log: KernelLog | None) -> list[str]:
    """The last Python that the kernel ended for want of memory since the boot."""
    ended = kernel_log.of_kind("out_of_memory") if kernel_log else ()
    return [each.text for each in ended if each.process.startswith(("python", "ipython", "jupyter"))][:1]
