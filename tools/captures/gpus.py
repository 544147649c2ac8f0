"""The GPUs of a capture: identities masked, and what only other outputs of nvidia-smi state added."""

from __future__ import annotations

import csv
import re

import msgspec

from tfgpu_doctor.log.readers.smi import with_slices
from tfgpu_doctor.model.facts.nvidia import Nvml, NvmlGpu

_GPU, _SLICE = "GPU-00000000-0000-0000-0000-{:012d}", "MIG-00000000-0000-0000-{:04d}-{:012d}"
_USER = re.compile(r"(\\Users\\|/home/)[^\\/]+")  # the name of a person in a path
_CAPABILITY = re.compile(r"\d{1,2}\.\d")


def masked(nvml: Nvml) -> Nvml:
    """The same GPUs under made-up UUIDs, and without names of people; a GPU or slice without a UUID has none."""
    gpus = tuple(_masked(gpu) for gpu in nvml.gpus)
    troubles = tuple(
        msgspec.structs.replace(each, uuid=_GPU.format(each.index) if each.uuid else "") for each in nvml.troubles
    )
    return msgspec.structs.replace(nvml, gpus=gpus, troubles=troubles)


def _masked(gpu: NvmlGpu) -> NvmlGpu:
    slices = tuple(
        msgspec.structs.replace(each, uuid=_SLICE.format(gpu.index, place) if each.uuid else "")
        for place, each in enumerate(gpu.health.mig_devices)
    )
    processes = tuple(msgspec.structs.replace(each, name=_USER.sub(r"\1user", each.name)) for each in gpu.processes)
    uuid = _GPU.format(gpu.index) if gpu.uuid else ""
    return with_slices(msgspec.structs.replace(gpu, uuid=uuid, processes=processes), slices)


def with_capabilities(nvml: Nvml, table: str) -> Nvml:
    """The GPUs with the compute capabilities that `nvidia-smi --query-gpu` states."""
    rows = csv.DictReader(table.strip().splitlines(), skipinitialspace=True)
    stated = {row.get("pci.bus_id", "").lower(): row.get("compute_cap", "") for row in rows}
    return msgspec.structs.replace(
        nvml, gpus=tuple(_capable(gpu, stated.get(gpu.pci_address, "")) for gpu in nvml.gpus)
    )


def _capable(gpu: NvmlGpu, capability: str) -> NvmlGpu:
    known = capability if _CAPABILITY.fullmatch(capability) else ""
    return msgspec.structs.replace(gpu, compute_capability=known)
