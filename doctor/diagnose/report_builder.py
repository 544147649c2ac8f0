"""Build the report from facts and the results of the checks: the verdict, the causes, and the components of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tfgpu_doctor.diagnose.fitness import makes_unfit
from tfgpu_doctor.diagnose.libraries import list_libraries
from tfgpu_doctor.diagnose.root_cause import rank_causes
from tfgpu_doctor.diagnose.truncate import bound
from tfgpu_doctor.diagnose.versions import list_versions
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.health import GpuTrouble
from tfgpu_doctor.model.facts.machine import PciDevice
from tfgpu_doctor.model.facts.nvidia import CudaGpu, Nvml, NvmlGpu
from tfgpu_doctor.model.report import (
    IGNORED,
    OUTCOMES,
    GpuCard,
    GpuUser,
    MachineSummary,
    Report,
    Result,
    RootCause,
    TargetSummary,
)
from tfgpu_doctor.model.tags import UNFIT, Goal

# Why TensorFlow leaves a GPU out that is not at fault.
_CHOICES = ("gpu_below_min_multiprocessor_count", "gpu_compute_capability_too_old")
_NO_LIMITS = ("gpu_idle", "none")  # reasons of NVML that do not reduce the clocks


# The main question: does TensorFlow compute on a GPU? Without TensorFlow, does the driver, or a Mac, provide one?
# A machine is healthy only if one of these passed.
_GOALS: tuple[Goal, ...] = ("computes",)
_QUICK_GOALS: tuple[Goal, ...] = ("driver", "platform")
_REHEARSAL_GOALS: tuple[Goal, ...] = ("registers",)


def build_report(
    facts: Facts, results: Sequence[Result], checks: Iterable[Check], *, interrupted: bool, seconds: float
) -> Report:
    """Return the report on a machine with these results, which may omit checks; its text is cleaned and bounded."""
    counts: dict[str, int] = {outcome: sum(result.outcome == outcome for result in results) for outcome in OUTCOMES}
    wanted = _QUICK_GOALS if facts.quick else _REHEARSAL_GOALS if facts.simulated else _GOALS
    goals = [result for result in results if result.goal in wanted]
    asked = goals or results  # without a goal among the checks nothing is healthy, but what was asked may be judged
    passed = any(result.outcome in ("pass", "warn") for result in asked)
    untried = facts.quick or facts.simulated or (facts.target is None and facts.runtime is None)
    computes = None if untried else _computes(results, facts)
    fit = _fit(results, computes, facts)
    return bound(
        Report(
            healthy=bool(goals)
            and passed
            and fit is not False
            and not (counts["fail"] or counts["crash"] or interrupted),
            computes=computes,
            fit=fit,
            judged=passed or any(result.outcome == "fail" for result in asked),
            doctor=facts.doctor,
            recorded=facts.recorded,
            quick=facts.quick,
            level=facts.level or ("quick" if facts.quick else "standard"),
            interrupted=interrupted,
            seconds=round(seconds, 3),
            target=_target(facts),
            machine=_machine(facts),
            causes=tuple(_with_costs(cause) if computes else cause for cause in rank_causes(results)),
            results=tuple(results),
            counts=counts,
            versions=list_versions(facts, checks),
            libraries=list_libraries(facts),
            gpus=_cards(facts),
        )
    )


def _computes(results: Sequence[Result], facts: Facts) -> bool | None:
    """Return whether TensorFlow computes on a GPU; None if that was not tried, or not on each that it lists."""
    goal = next((each for each in results if each.goal in _GOALS), None)
    if goal is None or goal.outcome in ("skip", "crash") or _is_waived(goal, results):
        return None
    # A warning, such as kernels that were still compiled at the deadline, may stand where nothing was computed.
    return goal.outcome in ("pass", "warn") and (_products(facts) or None)


def _products(facts: Facts) -> bool:
    """Whether a product of matrices was right on every GPU that TensorFlow lists."""
    runtime = facts.runtime
    if runtime is None:
        return False
    right = {each.device for each in runtime.computations if each.operation == "matmul" and each.is_right}
    return bool(right) and len(right) >= len(runtime.gpus)


def _fit(results: Sequence[Result], computes: bool | None, facts: Facts) -> bool | None:
    """Return whether every GPU of the machine is fit for work.

    No, if an error says so of one of them. Yes, if TensorFlow computes on each that it lists, and every other GPU is known
    to be withheld. Otherwise, this is not known.
    """
    errors = [(each, result) for result in results for each in result.findings if each.severity == "error"]
    if any(makes_unfit(each.cause, result.tags) for each, result in errors):
        return False
    if any((result.reason == IGNORED or result.outcome == "crash") and UNFIT in result.tags for result in results):
        return None
    lists = next((each for each in results if each.goal == "registers"), None)
    if lists and any(each.cause not in _CHOICES for each in lists.findings):
        return None  # TensorFlow leaves a GPU out, and nobody knows why
    accounts = next((each.outcome for each in results if each.goal == "accounts"), "")
    accounted = accounts in ("pass", "warn") or (accounts == "skip" and not _has_more_gpus(facts))
    return True if computes and accounted else None


def _has_more_gpus(facts: Facts) -> bool:
    """Whether the PCI bus or NVML shows more GPUs than TensorFlow lists."""
    shown = max(len(facts.pci.nvidia_gpus) if facts.pci else 0, facts.nvml.gpu_count if facts.nvml else 0)
    return shown > (len(facts.runtime.gpus) if facts.runtime else 0)


def _with_costs(cause: RootCause) -> RootCause:
    """Add to a cause that is no error what it costs while TensorFlow computes."""
    row = read_knowledge().causes.get(cause.label)
    return msgspec.structs.replace(cause, costs=row.costs) if row and cause.severity != "error" else cause


def _is_waived(result: Result, results: Sequence[Result]) -> bool:
    """Return whether only checks that the user ignores block this one."""
    waived = {each.id for each in results if each.reason == IGNORED}
    return result.outcome == "blocked" and set(result.blocked_by) <= waived


def _target(facts: Facts) -> TargetSummary:
    """Return the interpreter and TensorFlow."""
    target, wheel, runtime = facts.target, facts.tensorflow, facts.runtime
    return TargetSummary(
        python=target.executable if target else "",
        version=target.version if target else "",
        prefix=target.prefix if target else "",
        tensorflow=(wheel.version if wheel else "") or (runtime.version if runtime else ""),
        distribution=wheel.distribution if wheel else "",
    )


def _machine(facts: Facts) -> MachineSummary:
    """Return system, driver, GPUs and container."""
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
    """Return the names of the GPUs from NVML, CUDA, or the device ids on the PCI bus."""
    if facts.nvml and facts.nvml.gpus:
        return tuple(gpu.name for gpu in facts.nvml.gpus)
    if facts.cuda_driver and facts.cuda_driver.gpus:
        return tuple(gpu.name for gpu in facts.cuda_driver.gpus)
    return tuple(_name_on_bus(gpu) for gpu in (facts.pci.nvidia_gpus if facts.pci else ()))


def _name_on_bus(gpu: PciDevice) -> str:
    return read_knowledge().name_for_id(gpu.device) or f"NVIDIA device {gpu.device}"


def _cards(facts: Facts) -> tuple[GpuCard, ...]:
    """Return each GPU with the most detailed data: from NVML, CUDA, or the PCI bus."""
    if facts.nvml and facts.nvml.gpu_count:
        return _cards_of_nvml(facts.nvml)
    if facts.cuda_driver and facts.cuda_driver.gpus:
        return tuple(map(_card_of_cuda, facts.cuda_driver.gpus))
    return tuple(
        GpuCard(
            index=index,
            name=_name_on_bus(gpu),
            pci_address=gpu.address,
            pcie_width=gpu.link.width if gpu.link else None,
            pcie_max_width=gpu.link.max_width if gpu.link else None,
        )
        for index, gpu in enumerate(facts.pci.nvidia_gpus if facts.pci else ())
    )


def _cards_of_nvml(nvml: Nvml) -> tuple[GpuCard, ...]:
    """Return one card for each GPU that this process may use: NVML may lose a GPU after it has described it."""
    cards = {gpu.index: _card(gpu) for gpu in nvml.gpus}
    for each in nvml.troubles:
        if not each.is_refused:
            known = GpuCard(index=each.index, name=each.name, pci_address=_short(each.pci_address))
            cards[each.index] = _in_trouble(cards.get(each.index, known), each)
    return tuple(cards[index] for index in sorted(cards))


def _card(gpu: NvmlGpu) -> GpuCard:
    health = gpu.health
    return GpuCard(
        index=gpu.index,
        name=gpu.name,
        pci_address=_short(gpu.pci_address),
        compute_capability=gpu.compute_capability,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_free_bytes=gpu.memory_free_bytes,
        temperature_c=health.temperature.gpu_c,
        slowdown_c=health.temperature.slowdown_c,
        power_w=health.power.draw_w,
        power_limit_w=health.power.enforced_limit_w or health.power.limit_w,
        utilization_percent=health.utilization_percent,
        pcie_generation=health.pcie.generation,
        pcie_width=health.pcie.width,
        pcie_max_generation=health.pcie.max_generation,
        pcie_max_width=health.pcie.max_width,
        nvlinks=len(health.nvlinks),
        nvlinks_up=sum(link.active for link in health.nvlinks),
        chip_to_chip=bool(health.chip_to_chip),
        slowed_by=tuple(reason for reason in health.throttle_reasons or () if reason not in _NO_LIMITS),
        mig=bool(gpu.mig),
        mig_devices=tuple(each.profile or each.uuid for each in health.mig_devices),
        users=tuple(
            GpuUser(
                pid=each.pid, name=each.name, user=each.user, memory_bytes=each.memory_bytes, computes=each.computes
            )
            for each in sorted(gpu.processes, key=lambda each: -(each.memory_bytes or 0))
        ),
    )


def _in_trouble(card: GpuCard, trouble: GpuTrouble) -> GpuCard:
    told = f"did not respond within {trouble.seconds:.0f} s" if trouble.is_silent else trouble.error_text
    return msgspec.structs.replace(card, trouble=told)


def _short(pci_address: str) -> str:
    """Shorten the domain: NVML writes eight digits, the kernel and CUDA four."""
    domain, mark, rest = pci_address.lower().partition(":")
    return f"{domain[-4:]}{mark}{rest}"


def _card_of_cuda(gpu: CudaGpu) -> GpuCard:
    return GpuCard(
        index=gpu.index,
        name=gpu.name,
        pci_address=gpu.pci_address,
        compute_capability=gpu.compute_capability,
        memory_total_bytes=gpu.memory_bytes or None,
    )
