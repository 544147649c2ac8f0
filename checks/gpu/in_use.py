"""Which of the machine's GPUs are this process's business: those that CUDA lists to it."""

from __future__ import annotations

from tfgpu_doctor.model.facts.nvidia import CudaDriver, GpuProcess, Nvml, NvmlGpu

_MPS_SERVER = "nvidia-cuda-mps-server"


def gpus_in_use(nvml: Nvml, cuda_driver: CudaDriver | None) -> list[NvmlGpu]:
    """NVML's GPUs without those that are hidden from this process; all of them where CUDA does not tell."""
    visible = {place(gpu.pci_address) for gpu in (cuda_driver.gpus if cuda_driver else ()) if gpu.pci_address}
    seen = [gpu for gpu in nvml.gpus if place(gpu.pci_address) in visible]
    return seen or list(nvml.gpus)


def tenants(gpu: NvmlGpu) -> list[GpuProcess]:
    """The processes that compute on a GPU, most memory first; the MPS server, which lets its clients in, is none."""
    rows = [each for each in gpu.processes if each.computes and _MPS_SERVER not in each.name]
    return sorted(rows, key=lambda each: -(each.memory_bytes or 0))


def size(count: int | None) -> str:
    """Bytes as a reader likes them."""
    return "an unknown amount" if count is None else f"{count / (1 << 30):.1f} GiB"


def who(gpu: NvmlGpu) -> tuple[str, ...]:
    """Who computes on a GPU and holds how much, most memory first."""
    return tuple(
        f"GPU {gpu.index}: {each.name or 'process'} ({each.pid}{f', of {each.user}' if each.user else ''}) holds "
        f"{size(each.memory_bytes)}"
        for each in tenants(gpu)
    )


def show_holders(gpu: NvmlGpu) -> tuple[str, ...]:
    """Commands that show who holds a GPU's memory; by number only where /proc counts as NVML does."""
    known = [str(each.pid) for each in tenants(gpu) if each.user]
    return ("nvidia-smi", *([f"ps -o user,pid,lstart,cmd -p {','.join(known)}"] if known else []))


def title(gpu: NvmlGpu) -> str:
    """A GPU as findings name it."""
    return f"GPU {gpu.index} ({gpu.name})" if gpu.name else f"GPU {gpu.index}"


def place(pci_address: str) -> tuple[str, ...]:
    """A PCI address without its domain's leading zeros: NVML writes eight digits, CUDA and sysfs four."""
    domain, _, rest = pci_address.lower().partition(":")
    return domain.lstrip("0"), rest


def short_address(pci_address: str) -> str:
    """A PCI address as the kernel writes it, with four digits of domain."""
    domain, rest = place(pci_address)
    return f"{domain.zfill(4)}:{rest}"


def told_places(nvml: Nvml) -> set[tuple[str, ...]]:
    """Where the GPUs are that NVML tells of, those in trouble among them as far as they told."""
    addresses = [*(gpu.pci_address for gpu in nvml.gpus), *(each.pci_address for each in nvml.troubles)]
    return {place(address) for address in addresses if address}
