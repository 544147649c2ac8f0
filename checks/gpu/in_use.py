"""The GPUs that concern this process: those that CUDA lists to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import CudaDriver, GpuProcess, Nvml, NvmlGpu

SHOW_ALL = (
    "as root on the host, `nvidia-smi` and `fuser -v /dev/nvidia*` show processes of all users and containers; for a GPU of "
    "Windows and WSL, its Task Manager shows them"
)
_MPS_SERVER = "nvidia-cuda-mps-server"
_Place = TypeVar("_Place", int, str)


def gpus_in_use(nvml: Nvml, cuda_driver: CudaDriver | None) -> list[NvmlGpu]:
    """Return NVML's GPUs without those hidden from this process; all of them if CUDA reports none."""
    visible = {place(gpu.pci_address) for gpu in (cuda_driver.gpus if cuda_driver else ()) if gpu.pci_address}
    seen = [gpu for gpu in nvml.gpus if place(gpu.pci_address) in visible]
    return seen or list(nvml.gpus)


def chosen(environment: Environment | None, cuda_driver: CudaDriver | None) -> bool:
    """Whether CUDA_VISIBLE_DEVICES names GPUs, and CUDA lists as many: the others are withheld on purpose."""
    visible = environment.get("CUDA_VISIBLE_DEVICES") if environment else None
    names = [name for name in (visible or "").split(",") if name.strip()]
    return bool(names) and bool(cuda_driver) and len(names) == len(cuda_driver.gpus if cuda_driver else ())


def named_but_not_listed(
    gpus: Mapping[_Place, tuple[str, str]], environment: Environment, cuda_driver: CudaDriver
) -> set[_Place] | None:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names if CUDA lists fewer than that; None if it is not known which they are.

    `gpus` maps each GPU, in the order of the bus, to its model and UUID. CUDA reads the variable up to the first entry that
    names no GPU. It numbers GPUs of one model in that order, and those of several models only if CUDA_DEVICE_ORDER says so.
    """
    named: set[_Place] = set()
    by_number = False
    for entry in map(str.strip, (environment.get("CUDA_VISIBLE_DEVICES") or "").split(",")):
        found = _named(entry, gpus)
        if len(found) != 1:
            break
        named.update(found)
        by_number = by_number or entry.isdecimal()
    if len(named) <= len(cuda_driver.gpus):
        return set()
    in_order = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({model for model, _ in gpus.values()}) == 1
    return named if in_order or not by_number or len(named) == len(gpus) else None


def _named(entry: str, gpus: Mapping[_Place, tuple[str, str]]) -> list[_Place]:
    """Return the GPUs that an entry of CUDA_VISIBLE_DEVICES may mean."""
    if entry.isdecimal():
        return list(gpus)[int(entry) :][:1]
    return [each for each, (_, uuid) in gpus.items() if entry.startswith("GPU-") and uuid.startswith(entry)]


def serves_by_mps(gpu: NvmlGpu) -> bool:
    """Whether the server of MPS runs on a GPU; its clients see the GPUs that were given to the server."""
    return any(_MPS_SERVER in each.name for each in gpu.processes)


def tenants(gpu: NvmlGpu) -> list[GpuProcess]:
    """Return the processes that compute on a GPU, most memory first; the MPS server, which serves its clients, is excluded."""
    rows = [each for each in gpu.processes if each.computes and _MPS_SERVER not in each.name]
    return sorted(rows, key=lambda each: -(each.memory_bytes or 0))


def unseen_bytes(gpu: NvmlGpu) -> int | None:
    """Return how much memory of a GPU is in use by nobody whom NVML shows; None if NVML does not report the free memory."""
    if gpu.memory_total_bytes is None or gpu.memory_free_bytes is None:
        return None
    shown = sum(each.memory_bytes or 0 for each in gpu.processes)
    return max(0, gpu.memory_total_bytes - gpu.memory_free_bytes - shown)


def size(count: int | None) -> str:
    """Return a number of bytes in readable form."""
    return "an unknown amount" if count is None else f"{count / (1 << 30):.1f} GiB"


def who(gpu: NvmlGpu) -> tuple[str, ...]:
    """Return which processes compute on a GPU and how much memory they hold, most memory first."""
    return tuple(
        f"GPU {gpu.index}: {each.name or 'process'} ({each.pid}{f', of {each.user}' if each.user else ''}) holds "
        f"{size(each.memory_bytes)}"
        for each in tenants(gpu)
    )


def show_holders(gpu: NvmlGpu) -> tuple[str, ...]:
    """Commands that show which processes hold a GPU's memory; by PID only where /proc and NVML use the same PIDs."""
    known = [str(each.pid) for each in tenants(gpu) if each.user]
    return ("nvidia-smi", *([f"ps -o user,pid,lstart,cmd -p {','.join(known)}"] if known else []))


def title(gpu: NvmlGpu) -> str:
    """Return a GPU's name as used in findings."""
    return f"GPU {gpu.index} ({gpu.name})" if gpu.name else f"GPU {gpu.index}"


def place(pci_address: str) -> tuple[str, ...]:
    """Return a PCI address without its domain's leading zeros: NVML writes eight digits, CUDA and sysfs four."""
    domain, _, rest = pci_address.lower().partition(":")
    return domain.lstrip("0"), rest


def short_address(pci_address: str) -> str:
    """Return a PCI address as the kernel writes it, with a four-digit domain."""
    domain, rest = place(pci_address)
    return f"{domain.zfill(4)}:{rest}"


def told_places(nvml: Nvml) -> set[tuple[str, ...]]:
    """Return the places of the GPUs that NVML reports, including those with a problem if they reported an address."""
    addresses = [*(gpu.pci_address for gpu in nvml.gpus), *(each.pci_address for each in nvml.troubles)]
    return {place(address) for address in addresses if address}
