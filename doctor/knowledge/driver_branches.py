"""The last driver branch that supports a generation of GPUs."""

from __future__ import annotations

from tfgpu_doctor.knowledge.reading import Knowledge
from tfgpu_doctor.knowledge.schema import Boundary

_GENERATION = {"3": "kepler", "5": "maxwell", "6": "pascal", "7.0": "volta", "7.2": "volta"}
_WINDOWS_NUMBERS = 9  # on Windows, a branch has several numbers: 470 to 475, 580 to 582


def last_branch(compute_capability: str, knowledge: Knowledge) -> Boundary | None:
    """Return the last driver branch for a compute capability ("6.1"); None if current branches support it."""
    generation = _GENERATION.get(compute_capability) or _GENERATION.get(compute_capability.partition(".")[0])
    return knowledge.boundaries[f"last_driver_of_{generation}"] if generation else None


def is_newer_than_branch(driver: str, last: Boundary, os: str = "Linux") -> bool:
    """Whether a driver is of a later branch than the last one for a GPU; `os` as `platform.system()` names it."""
    branch = driver.partition(".")[0]
    return branch.isdecimal() and int(branch) > int(last.value) + (_WINDOWS_NUMBERS if os == "Windows" else 0)
