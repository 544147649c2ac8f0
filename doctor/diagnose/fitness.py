"""Which errors say that a GPU of the machine is not fit for work."""

from __future__ import annotations

from collections.abc import Iterable

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import UNDETERMINED
from tfgpu_doctor.model.tags import UNFIT


def makes_unfit(label: str, tags: Iterable[str]) -> bool:
    """Whether an error says so: by the label of its cause; without a known cause, by the tags of its check."""
    row = read_knowledge().causes.get(label)
    return row.unfit if row and label != UNDETERMINED else UNFIT in tags
