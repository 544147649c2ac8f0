"""What a profile of a training says: where its steps spend their time, the one bottleneck, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor._exports import exported

if TYPE_CHECKING:
    from tfgpu_doctor.tracing.notebook import trace as trace
    from tfgpu_doctor.tracing.result import TraceReport as TraceReport

# What other features may use.
__getattr__ = exported(__name__, {"TraceReport": "result", "trace": "notebook"})
