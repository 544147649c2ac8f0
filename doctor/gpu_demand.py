"""The GPUs that a test requires, and whether TensorFlow has such GPUs on a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.accept import bytes_of
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.nvidia import CudaGpu, NvmlGpu
from tfgpu_doctor.model.report import Report

_CAPABILITY = re.compile(r"\d{1,2}\.\d")
_ARGUMENTS = ("memory", "count", "compute_capability")


class DemandError(ValueError):
    """A demand is invalid; the message says what is wrong with it."""


@dataclass(frozen=True)
class Demand:
    """A number of GPUs, each with this much free memory and at least this compute capability."""

    count: int = 1
    memory: str = ""  # "10GiB"
    compute_capability: str = ""  # "8.0"

    def __str__(self) -> str:
        """Return `2 GPUs with 10GiB, compute capability 8.0`."""
        capability = f"compute capability {self.compute_capability}" if self.compute_capability else ""
        features = ", ".join(each for each in (self.memory, capability) if each)
        gpus = "1 GPU" if self.count == 1 else f"{self.count} GPUs"
        return f"{gpus} with {features}" if features else gpus


@dataclass(frozen=True)
class UsableGpu:
    """A GPU that TensorFlow lists. None or empty: unknown. `memory_bytes` is the free memory if it is known, else the total."""

    name: str
    memory_bytes: int | None
    compute_capability: str
    is_free: bool  # whether `memory_bytes` is known to be free
    selector: str = ""  # what CUDA_VISIBLE_DEVICES selects it by

    def __str__(self) -> str:
        """Return `GPU:0 (24.0 GiB free, 8.6)`."""
        said = "free" if self.is_free else "in total"
        memory = "memory unknown" if self.memory_bytes is None else f"{self.memory_bytes / (1 << 30):.1f} GiB {said}"
        return f"{self.name} ({memory}, {self.compute_capability or 'compute capability unknown'})"

    def has(self, demand: Demand) -> bool:
        """Whether it is known to meet the demand."""
        wanted = bytes_of(demand.memory) or 0
        enough = not wanted or (self.memory_bytes or 0) >= wanted
        return enough and _pair(self.compute_capability) >= _pair(demand.compute_capability)


def read_demand(arguments: Sequence[Any], named: Mapping[str, Any]) -> Demand:
    """Return the demand in a marker's arguments. Raises DemandError."""
    if arguments:
        raise DemandError(f"it takes named arguments ({', '.join(_ARGUMENTS)}) only, not {arguments[0]!r}")
    for name in named:
        if name not in _ARGUMENTS:
            raise DemandError(f"it takes {', '.join(_ARGUMENTS)}, not {name!r}")
    demand = Demand(**named)
    if type(demand.count) is not int or demand.count < 1:
        raise DemandError(f"count is a number of GPUs of at least 1, not {demand.count!r}")
    if "memory" in named and not (isinstance(demand.memory, str) and bytes_of(demand.memory)):
        raise DemandError(f"memory is a size such as '10GiB', not {demand.memory!r}")
    capability = demand.compute_capability
    if "compute_capability" in named and not (isinstance(capability, str) and _CAPABILITY.fullmatch(capability)):
        raise DemandError(f"compute_capability is a version such as '8.0', not {capability!r}")
    return demand


def strictest(demands: Sequence[Demand]) -> Demand:
    """Return the demand that includes all of these: the highest of each argument."""
    return Demand(
        count=max(each.count for each in demands),
        memory=max((each.memory for each in demands), key=lambda text: bytes_of(text) or 0),
        compute_capability=max((each.compute_capability for each in demands), key=_pair),
    )


def why_no_gpu(report: Report) -> str:
    """Return the root cause why TensorFlow does not compute on a GPU, in one line; empty if it does."""
    computes = report.shows("computes")
    if computes and computes.outcome in ("pass", "warn"):
        return ""
    if report.causes:
        cause = report.causes[0]
        return f"{cause.title} ({cause.id}, {cause.label})"
    why = (computes.reason if computes else "") or "nothing showed that TensorFlow computes on a GPU"
    return f"{why} ({computes.id})" if computes else why


def usable_gpus(facts: Facts) -> tuple[UsableGpu, ...]:
    """Return the GPUs that TensorFlow lists, in its order."""
    listed = facts.runtime.gpus if facts.runtime else ()
    cuda = facts.cuda_driver.gpus if facts.cuda_driver else ()
    same = len(cuda) == len(listed)  # otherwise, the GPUs cannot be matched
    memory: list[tuple[int | None, bool]] = (
        [_memory(gpu, facts) for gpu in cuda] if same else [(None, False)] * len(listed)
    )
    selectors = _selectors(facts, len(listed)) if same else [""] * len(listed)
    return tuple(
        UsableGpu(
            name=gpu.name.removeprefix("/physical_device:"),
            memory_bytes=memory[place][0],
            compute_capability=gpu.compute_capability or (cuda[place].compute_capability if same else ""),
            is_free=memory[place][1],
            selector=selectors[place],
        )
        for place, gpu in enumerate(listed)
    )


def missing(demand: Demand, gpus: Sequence[UsableGpu]) -> str:
    """Return what is missing of a demand; empty if it is met by the GPUs that a test uses: the first that TensorFlow lists."""
    used, fitting = list(gpus[: demand.count]), [gpu for gpu in gpus if gpu.has(demand)][: demand.count]
    if len(fitting) < demand.count:
        return f"it needs {demand}; TensorFlow has {', '.join(map(str, gpus))}"
    return "" if fitting == used else _others_fit(demand, [gpu for gpu in used if gpu not in fitting], fitting)


def _others_fit(demand: Demand, short: Sequence[UsableGpu], fitting: Sequence[UsableGpu]) -> str:
    """Return which of the GPUs that a test uses do not meet the demand, which do, and how to select these."""
    first, have, them = (
        ("the first", "has", "it") if demand.count == 1 else (f"the first {demand.count}", "have", "them")
    )
    selectors = [gpu.selector for gpu in fitting]
    how = f"={','.join(selectors)} selects" if all(selectors) else " can select"
    return (
        f"it needs {demand}, and a test uses {first} that TensorFlow lists: {', '.join(map(str, short))} "
        f"{'does' if len(short) == 1 else 'do'} not have that; {', '.join(map(str, fitting))} {have}, and "
        f"CUDA_VISIBLE_DEVICES{how} {them}"
    )


def _memory(gpu: CudaGpu, facts: Facts) -> tuple[int | None, bool]:
    """Return the memory that CUDA reports, at most the free memory that NVML reports, and whether it is that.

    A MIG slice has no value of its own.
    """
    board = next((each for each in (facts.nvml.gpus if facts.nvml else ()) if is_board_of(each, gpu)), None)
    free = board.memory_free_bytes if board and not board.mig else None
    least = min((each for each in (gpu.memory_bytes, free) if each), default=None)
    return least, least is not None and least == free


def _selectors(facts: Facts, count: int) -> list[str]:
    """Return the entry of CUDA_VISIBLE_DEVICES for each GPU, in CUDA's order; empty if the variables are unknown."""
    if facts.environment is None:
        return [""] * count
    given = [entry.strip() for entry in (facts.environment.get("CUDA_VISIBLE_DEVICES") or "").split(",")]
    return given[:count] if given[0] and len(given) >= count else [str(place) for place in range(count)]


def is_board_of(board: NvmlGpu, gpu: CudaGpu) -> bool:
    """Return whether the GPU of CUDA is this board of NVML, or a MIG slice of it."""
    return bool(gpu.pci_address) and board.pci_address.lower().endswith(gpu.pci_address.lower())


def _pair(capability: str) -> tuple[int, int]:
    major, _, minor = capability.partition(".")
    return int(major or 0), int(minor or 0)
