"""Which of the machine's GPUs are this process's business: those that CUDA lists to it."""

from __future__ import annotations

from tfgpu_doctor.facts import CudaDriver, GpuProcess, Nvml, NvmlGpu

_MPS_SERVER = "nvidia-cuda-mps-server"


def gpus_in_use(nvml: Nvml, cuda_driver: CudaDriver | None) -> list[NvmlGpu]:
    """NVML's GPUs without those that are hidden from this process; all of them where CUDA does not tell."""
    visible = {_place(gpu.pci_address) for gpu in (cuda_driver.gpus if cuda_driver else ()) if gpu.pci_address}
    seen = [gpu for gpu in nvml.gpus if _place(gpu.pci_address) in visible]
    return seen or list(nvml.gpus)


def tenants(gpu: NvmlGpu) -> list[GpuProcess]:
    """The processes that compute on a GPU, most memory first; the MPS server, which lets its clients in, is none."""
    rows = [each for each in gpu.processes if each.computes and _MPS_SERVER not in each.name]
    return sorted(rows, key=lambda each: -(each.memory_bytes or 0))


def _place(pci_address: str) -> tuple[str, ...]:
    """A PCI address without its domain's leading zeros: NVML writes eight digits, CUDA and sysfs four."""
    domain, _, rest = pci_address.lower().partition(":")
    return domain.lstrip("0"), rest
