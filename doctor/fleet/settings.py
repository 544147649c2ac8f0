"""The settings that nodes of one kind have in common: versions, counts, limits. A difference from the majority is drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.nvidia import NvmlGpu
from tfgpu_doctor.model.report import Report

_MOST_VARIABLES = 60
_LONGEST_VALUE = 300
# The settings that count a node's GPUs.
GPU_COUNTS = ("GPUs on the PCI bus", "GPUs that TensorFlow lists", "GPUs that NVML lists")
# The kernel's default is a share of the memory that it found at its start, so equal nodes differ by a few (set_max_threads in
# https://github.com/torvalds/linux/blob/v6.12/kernel/fork.c).
_FROM_THE_MEMORY = frozenset({"nproc"})


def settings_of(facts: Facts, report: Report) -> dict[str, str]:
    """Return each setting by name. An unreadable setting is left out, so that it is not mistaken for another value."""
    found = [*_of_system(facts), *_of_gpus(facts), *_of_software(facts, report), *_of_limits(facts)]
    return {name: value[:_LONGEST_VALUE] for name, value in found if value}


def _of_system(facts: Facts) -> Iterator[tuple[str, str]]:
    system, container = facts.system, facts.container
    if system:
        yield "system", f"{system.distribution or system.os} {system.architecture}"
        yield "kernel", system.release
        yield "processor", system.cpu_model
        yield "processors", str(system.cpu_count or "")
        yield "NUMA nodes", str(len(system.numa_nodes) or "")
        yield "memory", f"{round(system.memory_bytes / 2**30)} GiB" if system.memory_bytes else ""
        yield "transparent huge pages", system.transparent_huge_pages
        yield "InfiniBand devices", str(len(system.rdma_devices))
    if container:
        yield "container", container.kind or "none"


def _of_gpus(facts: Facts) -> Iterator[tuple[str, str]]:
    yield "GPUs on the PCI bus", str(len(facts.pci.nvidia_gpus)) if facts.pci else ""
    if facts.runtime and facts.runtime.gpus_listed:
        yield "GPUs that TensorFlow lists", str(len(facts.runtime.gpus))
    if facts.nvml and facts.nvml.works:
        yield "GPUs that NVML lists", str(facts.nvml.gpu_count)
        yield "GPU models", counted(gpu.name for gpu in facts.nvml.gpus)
        yield "memory of the GPUs", counted(_gib(gpu) for gpu in facts.nvml.gpus)
        yield "compute mode", counted(gpu.compute_mode for gpu in facts.nvml.gpus)
        yield "MIG", counted(_switch(gpu.mig) for gpu in facts.nvml.gpus)
        yield "persistence mode", counted(_switch(gpu.health.persistence_mode) for gpu in facts.nvml.gpus)
        yield "ECC", counted(_switch(gpu.health.ecc.enabled if gpu.health.ecc else None) for gpu in facts.nvml.gpus)
        yield "power limit", counted(_watts(gpu.health.power.limit_w) for gpu in facts.nvml.gpus)
        yield "PCI Express", counted(_link(gpu) for gpu in facts.nvml.gpus)
        yield "NVLinks up", counted(str(sum(link.active for link in gpu.health.nvlinks)) for gpu in facts.nvml.gpus)


def _switch(on: bool | None) -> str:
    return "" if on is None else "on" if on else "off"


def _watts(watts: float | None) -> str:
    return f"{watts:.0f} W" if watts else ""


def _link(gpu: NvmlGpu) -> str:
    """Return the maximum of the link: its current state depends on whether the GPU is busy."""
    pcie = gpu.health.pcie
    return f"generation {pcie.max_generation} x{pcie.max_width}" if pcie.max_generation and pcie.max_width else ""


def _gib(gpu: NvmlGpu) -> str:
    return f"{gpu.memory_total_bytes / 2**30:.1f} GiB" if gpu.memory_total_bytes else ""


def _of_software(facts: Facts, report: Report) -> Iterator[tuple[str, str]]:
    for row in report.versions:
        yield row.component, row.found
    if facts.driver:
        yield "kernel module", facts.driver.version
    for library in report.libraries:
        if library.found and library.version:
            yield f"library {library.soname}", f"{library.version} ({library.origin or 'of unknown origin'})"
    variables = facts.environment.variables if facts.environment else {}
    for name in sorted(variables)[:_MOST_VARIABLES]:
        yield f"${name}", variables[name]


def _of_limits(facts: Facts) -> Iterator[tuple[str, str]]:
    limits = facts.limits
    if limits:
        yield "control groups", f"version {limits.cgroup_version}" if limits.cgroup_version else ""
        yield "processors it may use", str(len(limits.cpus) or "")
        yield "processor quota", f"{limits.cpu_quota:g}" if limits.cpu_quota else "none"
        yield "memory limit", f"{limits.memory_limit_bytes / 2**30:.1f} GiB" if limits.memory_limit_bytes else "none"
        for name in limits.resources:
            if name not in _FROM_THE_MEMORY:
                value = limits.resource(name)
                yield f"limit {name}", "none" if value is None else str(value)


def counted(words: Iterator[str]) -> str:
    """Return a count of the words, such as "8 x H100, 1 x A100"; empty if one of them is unknown."""
    counts = Counter(words)
    if "" in counts:
        return ""
    return ", ".join(f"{count} x {word}" for word, count in sorted(counts.items()))
