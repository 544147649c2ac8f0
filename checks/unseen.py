"""What a check did not see: next to a finding it is told, and without one it makes the check skip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tfgpu_doctor.checks.gpu.in_use import title
from tfgpu_doctor.model import Evidence, NotMeasured
from tfgpu_doctor.model.facts.nvidia import NvmlGpu

# Why a value is missing for good on many healthy machines, and who might have it.
HOST_MAY_TELL = (
    "some GPUs never do; of a virtual GPU or a MIG slice the host may know it, and in a container root on the node"
)


def tell_missing(missing: str, *, found: bool) -> Iterator[Evidence]:
    """Tell what was not measured next to what was found; skip if nothing was found: the rest is no evidence for it."""
    if missing and not found:
        raise NotMeasured(missing)
    if missing:
        yield Evidence(missing)


def tell_silent(gpus: Sequence[NvmlGpu], *reads: Callable[[NvmlGpu], object], found: bool) -> Iterator[Evidence]:
    """Tell of which GPUs NVML does not report what it reports of others of their model; skip if nothing was found.

    `reads` return a value each, or None if NVML does not report it. A GPU that MIG divides may report less than others.
    """
    whole = [gpu for gpu in gpus if not gpu.mig]
    silent: set[int] = set()
    for read in reads:
        models = {gpu.name for gpu in whole if read(gpu) is not None}
        silent |= {gpu.index for gpu in whole if gpu.name in models and read(gpu) is None}
    names = ", ".join(title(gpu) for gpu in whole if gpu.index in silent)
    words = f"NVML does not report this of {names}, and does of others of its model: compare them in `nvidia-smi -q`"
    yield from tell_missing(words if names else "", found=found)
