"""HLT: does heat or a power limit slow the GPU down?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfgpu_doctor.checks.devices import device_of
from tfgpu_doctor.checks.gpu.in_use import gpus_in_use, title
from tfgpu_doctor.checks.gpu.readings import heat_and_clocks, limit_in_force, power_limits
from tfgpu_doctor.checks.unseen import HOST_MAY_TELL, tell_silent
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Stage, Yielded, check
from tfgpu_doctor.model.clock_limits import HEAT
from tfgpu_doctor.model.facts.health import Temperature
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml, NvmlGpu
from tfgpu_doctor.model.tags import PARTIAL

_REASONS = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"
_LAPTOP = re.compile(r"laptop|max-q(?!.*workstation)|mobile|\bmx ?\d", re.IGNORECASE)
# Any other reason is normal: idle, a power cap under load, clocks set by a user.
_SLOWING = {
    "hw_thermal_slowdown": "by heat, in hardware",
    "sw_thermal_slowdown": "by heat, by the driver",
    "hw_power_brake_slowdown": "by a signal from the power supply",
    "hw_slowdown": "by its own protection against heat or power",
}
_COOL = "Check the fans, dust, airflow and room temperature"
_CONNECT = (
    "Check the power supply: its cables to the GPU, whether one of two supplies failed, and the machine's own power cap"
)


def _slowing(gpu: NvmlGpu) -> list[str]:
    return [name for name in _SLOWING if name in (gpu.health.throttle_reasons or ())]


def is_of_laptop(gpu: NvmlGpu) -> bool:
    """Whether its name is a name of an NVIDIA laptop GPU."""
    return bool(_LAPTOP.search(gpu.name))


@check(
    "HLT004",
    "neither heat nor a power brake slows the GPU down",
    family="GPU health",
    tags=(PARTIAL,),
    stage=Stage.SPEED,
    after=("GPU001", "DRV007"),
    causes=("gpu_thermal_or_power_throttling",),
    sources=(_REASONS, "https://docs.nvidia.com/deploy/nvidia-smi/index.html"),
)
def nothing_slows_gpu_down(nvml: Nvml, cuda_driver: CudaDriver | None = None) -> Yielded:
    """A GPU that is too hot, or whose power supply signals a problem, halves its clocks or more: everything works, but
    slowly. A power cap under load and low clocks at idle are normal.

    Fix: improve the cooling (fans, dust, airflow) or the power supply and its cables.
    """
    used = gpus_in_use(nvml, cuda_driver)
    told = [gpu for gpu in used if gpu.health.throttle_reasons is not None or _is_too_hot(gpu)]
    if not told:
        raise NotMeasured(f"NVML does not report what limits the clocks{_heat_alone(used)}; {HOST_MAY_TELL}")
    slowed = any(_slowing(gpu) or _is_too_hot(gpu) for gpu in told)
    yield from tell_silent(used, lambda gpu: gpu.health.throttle_reasons, _margin_or_limit, found=slowed)
    for gpu in told:
        reasons, hot = _slowing(gpu), _is_too_hot(gpu)
        if not reasons and not hot:
            yield Evidence(f"GPU {gpu.index}: {', '.join(_figures(gpu))}")
            continue
        heat = hot or any(name in HEAT for name in reasons)
        how = _SLOWING[reasons[0]] if reasons else ""
        yield Finding(
            f"{title(gpu)} is slowed down {how}" if how else f"{title(gpu)} is hotter than its limit",
            cause="gpu_thermal_or_power_throttling",
            severity="warning",
            confidence="high" if hot or reasons != ["hw_slowdown"] else "medium",
            evidence=(*_figures(gpu), *_thresholds(gpu)),
            fix=Fix(
                f"{_COOL if heat else _CONNECT}; then monitor it under load."
                + (" A laptop also does this on battery." if is_of_laptop(gpu) and not heat else ""),
                ("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",),
            ),
            devices=(device_of(gpu),),
            figures=heat_and_clocks(gpu),
        )


def _heat_alone(gpus: Sequence[NvmlGpu]) -> str:
    """Return the temperatures for a reason: they show no power brake, and without their limits no heat either."""
    known = [f"GPU {gpu.index} {gpu.health.temperature.gpu_c} °C" for gpu in gpus if gpu.health.temperature.gpu_c]
    return f"; it reports {', '.join(known)}" if known else ", nor temperatures"


def _margin_or_limit(gpu: NvmlGpu) -> int | None:
    heat = gpu.health.temperature
    return heat.margin_c if heat.margin_c is not None else heat.slowdown_c if heat.gpu_c is not None else None


def _is_too_hot(gpu: NvmlGpu) -> bool:
    heat = gpu.health.temperature
    if heat.margin_c is not None and heat.margin_c < 0:
        return True
    return heat.gpu_c is not None and heat.slowdown_c is not None and heat.gpu_c >= heat.slowdown_c > 0


def _figures(gpu: NvmlGpu) -> list[str]:
    """Return the readings of temperature, clocks and power."""
    heat, clocks, power = gpu.health.temperature, gpu.health.clocks, gpu.health.power
    found = []
    if heat.gpu_c is not None:
        limit = f" of {heat.slowdown_c} °C, its slowdown threshold" if heat.slowdown_c else ""
        found.append(f"{heat.gpu_c} °C{_margin(heat) or limit}")
    if heat.memory_c is not None:
        found.append(f"memory {heat.memory_c} °C")
    if clocks.sm_mhz and clocks.max_sm_mhz:
        share = f" ({100 * clocks.sm_mhz / clocks.max_sm_mhz:.0f} %)"
        found.append(f"SM clock {clocks.sm_mhz} of {clocks.max_sm_mhz} MHz{share}")
    if clocks.memory_mhz and clocks.max_memory_mhz:
        found.append(f"memory clock {clocks.memory_mhz} of {clocks.max_memory_mhz} MHz")
    if power.draw_w is not None:
        found.append(f"{power.draw_w:.0f} W")
    if gpu.health.performance_state is not None:
        found.append(f"performance state P{gpu.health.performance_state}")
    if gpu.health.throttle_reasons:
        found.append(f"clocks limited by {', '.join(gpu.health.throttle_reasons)}")
    return found or ["nothing limits the clocks"]


def _margin(heat: Temperature) -> str:
    if heat.margin_c is None:
        return ""
    return f", {abs(heat.margin_c)} °C {'above' if heat.margin_c < 0 else 'below'} its maximum"


def _thresholds(gpu: NvmlGpu) -> list[str]:
    """Return the temperatures that the GPU must not reach, in one line."""
    heat = gpu.health.temperature
    rows = (
        ("maximum", heat.max_c),
        ("slowdown", heat.slowdown_c),
        ("shutdown", heat.shutdown_c),
        ("memory maximum", heat.memory_max_c),
    )
    known = [f"{name} {degrees} °C" for name, degrees in rows if degrees]
    return [f"temperature thresholds: {', '.join(known)}"] if known else []


@check(
    "HLT005",
    "the GPU's power limit is not lowered",
    family="GPU health",
    stage=Stage.SPEED,
    after=("GPU001", "DRV007"),
    causes=("gpu_thermal_or_power_throttling",),
    sources=("https://docs.nvidia.com/deploy/nvidia-smi/index.html",),
)
def power_is_not_limited(nvml: Nvml, knowledge: Knowledge, cuda_driver: CudaDriver | None = None) -> Yielded:
    """A power limit below the default keeps the clocks low under load. If an administrator set it, within the range that the
    board allows, it is intended, because of the noise or the power supply; other users may not know about it. If the machine
    itself enforces it, or it is below the board's minimum, something is wrong.

    Fix: as root, run `nvidia-smi -pl WATTS` with the default, or keep the limit if it is intentional.
    """
    least = float(knowledge.boundaries["lowered_power_limit_percent"].value) / 100
    used = gpus_in_use(nvml, cuda_driver)
    gpus = [(gpu, limits) for gpu in used if (limits := _limits(gpu))]
    if not gpus:
        raise NotMeasured("NVML reports no power limit")
    lowered = [gpu for gpu, (limit, default) in gpus if limit < least * default and not is_of_laptop(gpu)]
    yield from tell_silent(used, _limits, lambda gpu: gpu.health.power.enforced_limit_w, found=bool(lowered))
    for gpu, (limit, default) in gpus:
        power = gpu.health.power
        if gpu not in lowered:
            yield Evidence(f"GPU {gpu.index}: may draw {limit:.0f} W, {default:.0f} W by default")
            continue
        by_hand = power.limit_w is not None and power.limit_w < least * default and limit >= least * power.limit_w
        intended = by_hand and limit >= (power.min_limit_w or 0.0)
        if intended:
            yield Evidence(f"GPU {gpu.index}: an administrator set its limit to {limit:.0f} W")
        yield Finding(
            f"{title(gpu)} may draw {limit:.0f} W, but its default limit is {default:.0f} W",
            cause="gpu_thermal_or_power_throttling",
            severity="info" if intended else "warning",
            confidence="medium",
            evidence=(
                _watts(gpu),
                "set by `nvidia-smi -pl`" if by_hand else "enforced by the machine itself, not set by `nvidia-smi -pl`",
            ),
            fix=Fix(
                f"If this is not intentional, run `nvidia-smi -i {gpu.index} -pl {default:.0f}` as root, and check the startup "
                "scripts for the command that lowers it."
                if by_hand
                else "Check the machine's management controller for a power cap, and check its power supplies."
            ),
            devices=(device_of(gpu),),
            figures=power_limits(gpu),
        )


def _watts(gpu: NvmlGpu) -> str:
    """Return the power limits that NVML reports, in words."""
    power = gpu.health.power
    rows = (
        ("limit", power.limit_w),
        ("enforced", power.enforced_limit_w),
        ("default", power.default_limit_w),
        ("minimum", power.min_limit_w),
        ("maximum", power.max_limit_w),
    )
    return ", ".join(f"{name} {watts:.0f} W" for name, watts in rows if watts is not None)


def _limits(gpu: NvmlGpu) -> tuple[float, float] | None:
    """Return the power limit in force and the default one; None if NVML does not report both."""
    limit, default = limit_in_force(gpu), gpu.health.power.default_limit_w
    return (limit, default) if limit and default else None
