"""A power limit below its default, named in the row that a GPU misses because of its speed."""

from __future__ import annotations

from collections.abc import Iterable

from tfgpu_doctor.accept.requirement import Asked, Requirement
from tfgpu_doctor.diagnose.device_names import canonical
from tfgpu_doctor.model.facts import Facts

REMEDY = (
    "if this power limit is not intended, raise it (`tfgpu-doctor explain HLT005` says how); if it is, require less in the "
    "profile"
)


def missed(asked: Asked, facts: Facts, slow: Iterable[int], told: str, reason: str = "") -> Requirement:
    """Return the row that the GPUs `slow` (TensorFlow's index) do not meet; if their power limit is lowered, it says so."""
    caps: dict[str, list[str]] = {}
    for index in dict.fromkeys(slow):
        if watts := _lowered(facts, index):
            caps.setdefault(watts, []).append(f"GPU {index}")
    said = [f"the power limit of {', '.join(gpus)} is {watts}" for watts, gpus in caps.items()]
    return asked.missed("; ".join([told, *said]), "; ".join(filter(None, (reason, REMEDY if said else ""))))


def _lowered(facts: Facts, index: int) -> str:
    """Return `400 of 700 W` if the limit in force is below its default; empty if it is not, or not known."""
    limit, default = _limits(facts, index)
    if not limit or not default or round(limit) >= round(default):
        return ""
    return f"{limit:.0f} of {default:.0f} W"


def _limits(facts: Facts, index: int) -> tuple[float | None, float | None]:
    """Return the enforced power limit of a GPU and its default: during the stress test, else as NVML reads them."""
    for gpu in facts.stress.gpus if facts.stress else ():
        if gpu.index == index:
            return gpu.power_limit_w, gpu.default_power_limit_w
    cuda = facts.cuda_driver.gpus if facts.cuda_driver else ()
    address = next((canonical(gpu.pci_address) for gpu in cuda if gpu.index == index and gpu.pci_address), "")
    for each in facts.nvml.gpus if facts.nvml and address else ():
        if canonical(each.pci_address) == address:
            return each.health.power.enforced_limit_w, each.health.power.default_limit_w
    return None, None
