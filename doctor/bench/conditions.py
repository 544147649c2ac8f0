"""What results depend on besides the hardware, so that a changed result can be told with what else changed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tfgpu_doctor.model.facts import Facts

_PACKAGES = ("keras", "tf-keras", "numpy", "tensorflow-io", "tensorflow-rocm")
_VARIABLES = (
    "NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "TF_CUDNN_USE_AUTOTUNE", "TF_ENABLE_ONEDNN_OPTS",
    "TF_GPU_ALLOCATOR", "TF_GPU_THREAD_COUNT", "TF_GPU_THREAD_MODE", "TF_XLA_FLAGS", "XLA_FLAGS",
)  # fmt: skip
NONE = "none"


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that differs between two runs; "none" where a run does not have it."""

    what: str
    now: str
    reference: str


def conditions_of(facts: Facts) -> dict[str, str]:
    """Return the conditions of a run by name: software, variables, and settings of the GPUs."""
    found = {
        "driver": facts.nvml.driver_version if facts.nvml else "",
        "TensorFlow": facts.runtime.version if facts.runtime else "",
        **_of_system(facts),
        **_of_target(facts),
    }
    variables = facts.environment.variables if facts.environment else {}
    found |= {name: variables[name] for name in _VARIABLES if name in variables}
    for gpu in facts.nvml.gpus if facts.nvml else ():
        health = gpu.health
        found |= {
            f"power limit of GPU {gpu.index}": f"{health.power.enforced_limit_w:g} W"
            if health.power.enforced_limit_w
            else "",
            f"ECC of GPU {gpu.index}": _on_or_off(health.ecc.enabled if health.ecc else None),
            f"MIG of GPU {gpu.index}": _on_or_off(gpu.mig),
            f"persistence mode of GPU {gpu.index}": _on_or_off(health.persistence_mode),
            f"compute mode of GPU {gpu.index}": gpu.compute_mode,
        }
    return {name: value for name, value in found.items() if value}


def _of_system(facts: Facts) -> dict[str, str]:
    if not facts.system:
        return {}
    limits = facts.limits
    return {
        "operating system": facts.system.distribution,
        "kernel": facts.system.release,
        "CPUs that it may use": limits.cpu_list if limits else "",
        "CPU quota": f"{limits.cpu_quota:g}" if limits and limits.cpu_quota else "",
    }


def _of_target(facts: Facts) -> dict[str, str]:
    if not facts.target:
        return {}
    packages = {
        each.name: each.version
        for each in facts.target.distributions
        if each.name in _PACKAGES or each.name.startswith("nvidia-")
    }
    return {"Python": facts.target.version, **packages}


def _on_or_off(value: bool | None) -> str:
    return "" if value is None else "on" if value else "off"


def changed_between(now: Mapping[str, str], reference: Mapping[str, str]) -> tuple[Changed, ...]:
    """Return what differs; nothing if a run, saved by an earlier doctor, has no conditions.

    A setting of a GPU that one of them does not have is unknown there, and no change.
    """
    if not now or not reference:
        return ()
    unknown = {name for name in now.keys() ^ reference.keys() if " of GPU " in name}
    names = [name for name in dict.fromkeys((*now, *reference)) if name not in unknown]
    return tuple(
        Changed(what=name, now=now.get(name, NONE), reference=reference.get(name, NONE))
        for name in names
        if now.get(name) != reference.get(name)
    )
