"""LIM: do the limits of this process allow CUDA and TensorFlow to work?"""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.checks.devices import Row, figures_of
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml
from tfgpu_doctor.model.facts.python import Runtime, Target

_GETRLIMIT = "https://man7.org/linux/man-pages/man2/getrlimit.2.html"
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
_NO_ADDRESSES = (
    "failed to map segment", "Cannot allocate memory", "MemoryError", "std::bad_alloc", "CUDA_ERROR_OUT_OF_MEMORY",
)  # fmt: skip
_NO_THREAD = ("pthread_create", "can't start new thread")
_NO_TASK = "Resource temporarily unavailable"  # strerror of EAGAIN, from fork
_NO_FILE, _IN_SYSTEM = "Too many open files", "Too many open files in system"  # strerror of EMFILE and of ENFILE
_ENOUGH_FREE_BYTES = 1 << 30  # on a GPU: with this much free, GPU memory did not run out


@check(
    "LIM002",
    "the address space is large enough for CUDA",
    family="Process limits",
    stage=Stage.CONTAINER,
    causes=("address_space_limit",),
    sources=(_GETRLIMIT, "https://github.com/tensorflow/tensorflow/issues/37449"),
)
def address_space_suffices(
    limits: Limits,
    cuda_driver: CudaDriver | None = None,
    nvml: Nvml | None = None,
    runtime: Runtime | None = None,
    target: Target | None = None,
) -> Yielded:
    """CUDA reserves address space for all host and GPU memory, far more than it uses. `ulimit -v` limits address space, not
    memory, and makes CUDA report that memory ran out; batch systems set it (h_vmem of Grid Engine).

    Fix: `ulimit -v unlimited`; limit memory with a control group, as Slurm and Kubernetes do.
    """
    if "as" not in limits.resources:
        raise NotMeasured("the limit is not known")
    limit = limits.resource("as")
    if limit is None:
        yield Evidence("ulimit -v is unlimited")
        return
    said = f"ulimit -v is {limit / (1 << 30):.1f} GiB"
    complaint = next(_complaints(cuda_driver, nvml, runtime, target), "")
    if runtime and runtime.computes:
        yield Evidence(f"{said}, and TensorFlow computes on the GPU")
    elif complaint:
        yield Finding(
            f"{said}, and memory runs out: CUDA reserves more address space than that",
            cause="address_space_limit",
            confidence="medium",
            evidence=(complaint, f"{said}; it limits address space, whether or not memory backs it"),
            fix=Fix(
                "Remove the limit, first in this shell. If it returns, find out what sets it: the batch system "
                "(h_vmem of Grid Engine: request more, or no limit), /etc/security/limits.conf (as), or a shell profile.",
                ("ulimit -v unlimited",),
            ),
            figures=figures_of("", [("address space allowed", limit, "B")]),
        )
    elif cuda_driver and cuda_driver.works:
        yield Evidence(f"{said}, and cuInit succeeds")
    else:
        raise Skip(f"{said}, and CUDA does not work for another reason")


def _complaints(
    cuda_driver: CudaDriver | None, nvml: Nvml | None, runtime: Runtime | None, target: Target | None
) -> Iterator[str]:
    """Return the reported errors that indicate exhausted address space."""
    if cuda_driver and cuda_driver.init_code == _OUT_OF_MEMORY:
        yield f"cuInit returned {_OUT_OF_MEMORY}, CUDA_ERROR_OUT_OF_MEMORY"
    said = [cuda_driver.library_error, cuda_driver.attempt.error] if cuda_driver else []
    said += [runtime.import_error, runtime.use_error, runtime.attempt.error] if runtime else []
    said += [target.attempt.error] if target else []
    free = [gpu.memory_free_bytes for gpu in (nvml.gpus if nvml else ())]
    if runtime and all(each is None or each >= _ENOUGH_FREE_BYTES for each in free):
        said += [each.error for each in runtime.computations]
    yield from (each for each in said if any(words in each for words in _NO_ADDRESSES))


@check(
    "LIM004",
    "TensorFlow may start its threads",
    family="Process limits",
    stage=Stage.CONTAINER,
    causes=("task_limit",),
    sources=(_GETRLIMIT, "https://github.com/tensorflow/tensorflow/issues/41532"),
)
def threads_may_be_started(
    limits: Limits,
    knowledge: Knowledge,
    system: System | None = None,
    runtime: Runtime | None = None,
    target: Target | None = None,
) -> Yielded:
    """TensorFlow starts several threads per CPU, hundreds on a server. If the task limit of a container or `ulimit -u`
    prevents that, the program aborts: "creation via pthread_create() failed".

    Fix: set `docker run --pids-limit=-1`, Kubernetes podPidsLimit or a higher `ulimit -u`, or start fewer threads.
    """
    processors = len(limits.cpus) or (system.cpu_count if system else 0)
    wanted = processors * int(knowledge.boundaries["threads_per_processor"].value)
    room = _room(limits)
    said = _who_allows(limits)
    lines = (*runtime.log, *runtime.attempt.stderr, runtime.use_error) if runtime else ()
    died = [line for line in lines if any(words in line for words in _NO_THREAD)]
    alone = [line for line in _not_started(runtime, target) if _NO_TASK in line]
    if runtime and runtime.computes:
        yield Evidence("TensorFlow computes" + (f"; {said}" if said else ""))
    elif alone:
        yield _not_even_one(alone[0], said, limits)
    elif died or (room is not None and room < wanted):
        yield Finding(
            f"TensorFlow starts about {wanted} threads on {amount(processors, 'CPU')}"
            + (f", and {said}" if said else ", but could not start one of them"),
            cause="task_limit",
            severity="error" if died else "warning",
            evidence=(*died[:2], *([said] if said else ("no control group limit was found; check `ulimit -u`",))),
            fix=Fix(
                "Allow more tasks: `docker run --pids-limit=-1` (also for podman), Kubernetes podPidsLimit, TasksMax for Slurm "
                "and systemd, or `ulimit -u`. Or let TensorFlow start fewer threads.",
                ("export TF_NUM_INTRAOP_THREADS=4", "export TF_NUM_INTEROP_THREADS=4"),
            ),
            figures=figures_of("", [*_tasks(limits), ("threads of TensorFlow", wanted, ""), ("CPUs", processors, "")]),
        )
    elif doubt := _doubt(limits, wanted):
        raise NotMeasured(
            f"TensorFlow starts about {wanted} threads on {amount(processors, 'CPU')}; {said}, and {doubt}"
        )
    else:
        yield Evidence(said or "no control group limits the number of tasks")


def _not_started(runtime: Runtime | None, target: Target | None) -> Iterator[str]:
    """Return why processes could not be started, as far as they were not."""
    for what, fact in (("TensorFlow's Python", runtime), ("the target's Python", target)):
        if fact and fact.attempt.outcome == "not_started":
            yield f"{what} {fact.attempt.ending}"


def _not_even_one(message: str, said: str, limits: Limits) -> Finding:
    """Return the finding that the doctor's own child could not be started."""
    return Finding(
        "the doctor may not even start one process" + (f": {said}" if said else ""),
        cause="task_limit",
        evidence=(message, said or "no control group limit was found; check `ulimit -u`"),
        fix=Fix(
            "End processes of this user, or allow more tasks: `ulimit -u`, `docker run --pids-limit=-1` (also for podman), "
            "Kubernetes podPidsLimit, TasksMax for Slurm and systemd. Then run the doctor again."
        ),
        figures=figures_of("", _tasks(limits)),
    )


def _tasks(limits: Limits) -> list[Row]:
    return [
        ("tasks allowed", limits.tasks_limit, ""),
        ("tasks", limits.tasks_used, ""),
        ("tasks allowed to the user", limits.resource("nproc"), ""),
    ]


def _room(limits: Limits) -> int | None:
    """Return how many more tasks the control group allows, at most: how many are running may be unknown."""
    return None if limits.tasks_limit is None else limits.tasks_limit - (limits.tasks_used or 0)


def _doubt(limits: Limits, wanted: int) -> str:
    """Return why nobody knows whether so many tasks may be started; empty if that is known."""
    own = limits.resource("nproc")
    if own is not None and own < wanted:
        return "whether this user may exceed it, as root may, is unknown"
    # Beside a program there are its shell, its notebook and what else runs in a container.
    few = limits.tasks_limit is not None and limits.tasks_limit < 2 * wanted
    return "how many are running is unknown" if few and limits.tasks_used is None else ""


def _who_allows(limits: Limits) -> str:
    parts = []
    if limits.tasks_limit is not None:
        parts.append(
            f"its control group allows {limits.tasks_limit} tasks"
            + ("" if limits.tasks_used is None else f", of which {limits.tasks_used} are running")
        )
    if (own := limits.resource("nproc")) is not None:
        parts.append(f"ulimit -u allows this user {own} tasks")
    return " and ".join(parts)


@check(
    "LIM005",
    "enough files may be open at once",
    family="Process limits",
    stage=Stage.CONTAINER,
    causes=("open_files_limit",),
    sources=(_GETRLIMIT,),
)
def files_may_be_opened(
    limits: Limits,
    knowledge: Knowledge,
    system: System | None = None,
    runtime: Runtime | None = None,
    target: Target | None = None,
) -> Yielded:
    """The driver keeps files open for each GPU, tf.data one for each shard that it reads, and NCCL two for each
    connection; if the limit is too low, the program ends with "Too many open files".

    Fix: `ulimit -n 65536`, or `docker run --ulimit nofile=65536`.
    """
    if "nofile" not in limits.resources or (system and system.os != "Linux"):
        raise NotMeasured("the limit is not known")
    limit, least = limits.resource("nofile"), int(knowledge.boundaries["least_open_files"].value)
    said = [runtime.import_error, runtime.use_error, *runtime.attempt.stderr, *runtime.log] if runtime else []
    said += _not_started(runtime, target)
    died = [line for line in said if _NO_FILE in line and _IN_SYSTEM not in line] if limit is not None else []
    if limit is not None and (died or limit < least):
        works = bool(runtime and runtime.computes)
        yield Finding(
            f"only {limit} files may be open at once"
            + (f", and {_who_needs_more(runtime, target)} more" if died else ""),
            cause="open_files_limit" if died else UNDETERMINED,
            severity="info" if not died else "warning" if works else "error",
            evidence=(*died[:2], f"ulimit -n is {limit}; the Linux default is {least}"),
            fix=Fix(
                "Raise the limit, at most to the value of `ulimit -Hn`.",
                (f"ulimit -n {max(least, 4 * limit if died else 0)}",),
            ),
            figures=figures_of("", [("open files allowed", limit, "")]),
        )
    yield Evidence(f"ulimit -n is {'unlimited' if limit is None else limit}")


def _who_needs_more(runtime: Runtime | None, target: Target | None) -> str:
    return "no process can be started: the doctor needs" if any(_not_started(runtime, target)) else "TensorFlow needs"


@check(
    "LIM006",
    "memory may be locked for InfiniBand",
    family="Process limits",
    stage=Stage.SPEED,
    after=("GPU001",),
    sources=("https://docs.nvidia.com/deeplearning/frameworks/user-guide/index.html", _GETRLIMIT),
)
def memory_may_be_locked(limits: Limits, system: System, knowledge: Knowledge) -> Yielded:
    """With InfiniBand, NCCL registers its buffers with the adapter, which locks them in memory; `ulimit -l` limits that.
    On a single machine, NCCL locks no memory this way.

    Fix: `ulimit -l unlimited`; in a container `--ulimit memlock=-1`; for Slurm and systemd, LimitMEMLOCK=infinity.
    """
    if not system.rdma_devices or "memlock" not in limits.resources:
        raise Skip("there is no InfiniBand on this machine" if not system.rdma_devices else "the limit is not known")
    limit, least = limits.resource("memlock"), int(knowledge.boundaries["locked_memory_for_rdma_bytes"].value)
    if limit is not None and limit < least:
        yield Finding(
            f"only {limit >> 10} KiB of memory may be locked, which is too little for NCCL over InfiniBand",
            severity="info",
            evidence=(f"ulimit -l is {limit >> 10}", f"InfiniBand: {', '.join(system.rdma_devices)}"),
            fix=Fix(
                "Start the container with `--ulimit memlock=-1`; outside a container, set memlock to unlimited in "
                "/etc/security/limits.conf, or LimitMEMLOCK=infinity for slurmd."
            ),
            figures=figures_of("", [("memory that may be locked", limit, "B")]),
        )
    yield Evidence(f"ulimit -l is {'unlimited' if limit is None else f'{limit >> 10} KiB'}")
