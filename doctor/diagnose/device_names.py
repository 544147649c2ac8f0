"""One name for each GPU, whichever check speaks of it: its UUID, else its PCI address, else its number.

NVML, CUDA, TensorFlow, the PCI bus and the kernel log name a GPU differently. NVML's numbers change when a GPU is lost,
and CUDA's order depends on variables; the UUID and the address stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tfgpu_doctor.model import Finding
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.health import GpuTrouble
from tfgpu_doctor.model.facts.nvidia import CudaGpu, Nvml, NvmlGpu

# With a domain of four, eight or no digits, with or without a function.
_ADDRESS = re.compile(r"(?:([\da-f]{4,8}):)?([\da-f]{2}):([\da-f]{2})(?:\.([0-7]))?", re.IGNORECASE)
_OF_NVML = re.compile(r"GPU (\d+)")
_OF_CUDA = re.compile(r"CUDA GPU (\d+)")
_OF_TENSORFLOW = re.compile(r"(?:.*[/:])?GPU:(\d+)")


class DeviceNames:
    """The names of a machine's GPUs, by everything that is known of it."""

    def __init__(self, facts: Facts) -> None:
        """Collect which UUID is at which address, and which number of NVML, CUDA and TensorFlow belongs to it."""
        cuda = facts.cuda_driver.gpus if facts.cuda_driver else ()
        in_order = _in_cudas_order(facts, cuda)
        stressed = {gpu.index: gpu.uuid for gpu in (facts.stress.gpus if facts.stress else ()) if gpu.uuid}
        places = _places(facts)
        self._uuids = {at: gpu.uuid for gpu, at in places if gpu.uuid and at}
        for index, uuid in stressed.items():
            if index in in_order and (at := canonical(in_order[index].pci_address)):
                self._uuids.setdefault(at, uuid)
        self._of_nvml: dict[int, str] = {}
        for gpu, at in places:
            if name := gpu.uuid or self._at(at):
                self._of_nvml.setdefault(gpu.index, name)
        self._of_cuda = {gpu.index: self._at(at) for gpu in cuda if (at := canonical(gpu.pci_address))}
        self._of_tensorflow = {
            index: self._of_cuda[gpu.index] for index, gpu in in_order.items() if gpu.index in self._of_cuda
        }
        self._of_tensorflow |= stressed

    def name(self, device: str) -> str:
        """Return the name of a GPU that a check names by its UUID, its address, or a number.

        A number is one of NVML (`GPU 1`), CUDA (`CUDA GPU 1`) or TensorFlow (`/GPU:1`). What names no GPU stays as it is.
        """
        if found := _OF_NVML.fullmatch(device):
            return self._of_nvml.get(int(found.group(1)), device)
        if found := _OF_CUDA.fullmatch(device):
            return self._of_cuda.get(int(found.group(1)), device)
        if found := _OF_TENSORFLOW.fullmatch(device):
            return self._of_tensorflow.get(int(found.group(1)), f"/GPU:{found.group(1)}")
        return self._at(canonical(device)) or device

    def in_finding(self, finding: Finding) -> Finding:
        """Return a finding with these names in its devices and figures."""
        return replace(
            finding,
            devices=tuple(dict.fromkeys(self.name(each) for each in finding.devices if each)),
            figures=tuple(replace(each, device=self.name(each.device)) for each in finding.figures),
        )

    def _at(self, address: str) -> str:
        return self._uuids.get(address, address)


def canonical(pci_address: str) -> str:
    """Return an address as the kernel writes it, `0000:01:00.0`; empty if the text is not one."""
    found = _ADDRESS.fullmatch(pci_address.strip())
    if not found:
        return ""
    domain, bus, device, function = found.groups()
    return f"{(domain or '').lstrip('0').zfill(4)}:{bus}:{device}.{function or 0}".lower()


def _places(facts: Facts) -> list[tuple[NvmlGpu | GpuTrouble, str]]:
    """Return the GPUs that NVML tells of, each with its address.

    A lost GPU does not tell its address. If it is the only such one, and one GPU on the bus is left over, it is that.
    """
    nvml = facts.nvml
    if nvml is None:
        return []
    told: list[NvmlGpu | GpuTrouble] = [*nvml.gpus, *nvml.troubles]
    addresses = {gpu.index: at for gpu in told if (at := canonical(gpu.pci_address))}
    silent = {gpu.index for gpu in told} - set(addresses)
    left = set(_on_bus(facts, nvml)) - set(addresses.values())
    if len(silent) == len(left) == 1:
        addresses[silent.pop()] = left.pop()
    return [(gpu, addresses.get(gpu.index, "")) for gpu in told]


def _on_bus(facts: Facts, nvml: Nvml) -> Iterable[str]:
    """Return the addresses of the GPUs that NVML may list: neither those of other drivers, nor excluded ones."""
    if facts.pci:
        own = (gpu for gpu in facts.pci.nvidia_gpus if gpu.driver in ("", "nvidia") and not gpu.physical_function)
        listed = [gpu.address for gpu in own]
    else:
        listed = list(facts.driver.gpus) if facts.driver else []
    excluded = {canonical(each) for each in nvml.excluded}
    return [at for each in listed if (at := canonical(each)) and at not in excluded]


def _in_cudas_order(facts: Facts, cuda: Sequence[CudaGpu]) -> dict[int, CudaGpu]:
    """Map TensorFlow's numbers to CUDA's GPUs. TensorFlow keeps their order, and may omit some.

    Those of a model of which it lists fewer than CUDA are left out: which one it omits is unknown.
    """
    listed = [
        (int(number.group(1)), gpu.description)
        for gpu in (facts.runtime.gpus if facts.runtime else ())
        if (number := _OF_TENSORFLOW.fullmatch(gpu.name))
    ] or [(gpu.index, gpu.name) for gpu in (facts.stress.gpus if facts.stress else ())]
    if len(listed) == len(cuda):
        return {index: gpu for (index, _), gpu in zip(listed, cuda, strict=True)}
    found: dict[int, CudaGpu] = {}
    for model in {name for _, name in listed}:
        ours, theirs = [index for index, name in listed if name == model], [gpu for gpu in cuda if gpu.name == model]
        if len(ours) == len(theirs):
            found |= dict(zip(ours, theirs, strict=True))
    return found
