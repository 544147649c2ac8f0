"""The target and the machine in a few words, for the head of a report."""

from __future__ import annotations

from tfgpu_doctor.facts import Facts
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.report import MachineSummary, TargetSummary


def summarise_target(facts: Facts) -> TargetSummary:
    """Interpreter and TensorFlow."""
    target, wheel, runtime = facts.target, facts.tensorflow, facts.runtime
    return TargetSummary(
        python=target.executable if target else "",
        version=target.version if target else "",
        prefix=target.prefix if target else "",
        tensorflow=(wheel.version if wheel else "") or (runtime.version if runtime else ""),
        distribution=wheel.distribution if wheel else "",
    )


def summarise_machine(facts: Facts) -> MachineSummary:
    """System, driver, GPUs, container."""
    system = facts.system
    words = (
        [system.distribution or system.os, system.architecture, f"WSL {system.wsl}" if system.wsl else ""]
        if system
        else []
    )
    return MachineSummary(
        system=" ".join(word for word in words if word),
        driver=(facts.driver.version if facts.driver else "") or (facts.nvml.driver_version if facts.nvml else ""),
        gpus=_gpus(facts),
        container=facts.container.kind if facts.container else "",
    )


def _gpus(facts: Facts) -> tuple[str, ...]:
    """Names of the GPUs, from whoever knows them: NVML, CUDA, or the PCI bus by its numbers."""
    if facts.nvml and facts.nvml.gpus:
        return tuple(gpu.name for gpu in facts.nvml.gpus)
    if facts.cuda_driver and facts.cuda_driver.gpus:
        return tuple(gpu.name for gpu in facts.cuda_driver.gpus)
    on_bus = facts.pci.nvidia_gpus if facts.pci else ()
    return tuple(read_knowledge().name_for_id(gpu.device) or f"NVIDIA device {gpu.device}" for gpu in on_bus)
