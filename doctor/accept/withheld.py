"""GPUs of the machine that TensorFlow does not list: how many there are, and which of them a variable alone hides."""

from __future__ import annotations

from tfgpu_doctor.diagnose.device_names import canonical
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.nvidia import NvmlGpu
from tfgpu_doctor.model.report import Report

VARIABLE = "CUDA_VISIBLE_DEVICES"


def others_of(facts: Facts, listed: int) -> int:
    """Return how many NVIDIA GPUs the PCI bus or NVML shows beside those listed; a virtual function is none of its own."""
    bus = [each for each in (facts.pci.nvidia_gpus if facts.pci else ()) if not each.physical_function]
    return max(0, max(len(bus), facts.nvml.gpu_count if facts.nvml else 0) - listed)


def hidden_gpus(facts: Facts, report: Report) -> list[NvmlGpu]:
    """Return the GPUs that only CUDA_VISIBLE_DEVICES withholds, of a model that CUDA lists: those that were to be examined.

    The variable says nothing about a GPU of another model, which may be there for the display; about one that a job or
    container was not given; about one that is divided by MIG, since CUDA gives a process either whole GPUs or one MIG
    device; nor about one that a finding names.
    """
    nvml, cuda, environment = facts.nvml, facts.cuda_driver, facts.environment
    given_by_a_job = facts.scheduler is not None and facts.scheduler.kind
    if not (nvml and nvml.works and cuda and cuda.works and environment) or given_by_a_job:
        return []
    seen = {canonical(gpu.pci_address) for gpu in cuda.gpus if gpu.pci_address}
    in_use = [gpu for gpu in nvml.gpus if canonical(gpu.pci_address) in seen]
    if environment.get(VARIABLE) is None or not in_use or any(gpu.mig for gpu in in_use):
        return []
    accounts = report.shows("accounts")
    named = {device for finding in (accounts.findings if accounts else ()) for device in finding.devices}
    troubled = {each.index for each in nvml.troubles}
    models = {gpu.name for gpu in in_use}
    beside = [gpu for gpu in nvml.gpus if gpu not in in_use and gpu.name in models and gpu.index not in troubled]
    return [gpu for gpu in beside if not gpu.mig and gpu.compute_mode != "prohibited" and gpu.uuid not in named]
