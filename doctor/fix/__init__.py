"""Repair: apply the fix for a cause inside the target environment, verify it, and undo it on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor._exports import exported

if TYPE_CHECKING:
    from tfgpu_doctor.fix.bounds import NotPossible as NotPossible

# What other features may use.
__getattr__ = exported(
    __name__,
    {
        "NotPossible": "bounds",
    },
)
