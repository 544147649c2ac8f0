"""What a profile of a training says: where its steps spend their time, the one bottleneck, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor._exports import exported

if TYPE_CHECKING:
    from tfgpu_doctor.tracing.examine import Verdict as Verdict
    from tfgpu_doctor.tracing.examine import examine as examine
    from tfgpu_doctor.tracing.notebook import recorder_module as recorder_module
    from tfgpu_doctor.tracing.notebook import trace as trace
    from tfgpu_doctor.tracing.page import NAMES as NAMES
    from tfgpu_doctor.tracing.reading import Unreadable as Unreadable
    from tfgpu_doctor.tracing.reading import find_file as find_file
    from tfgpu_doctor.tracing.reading import read_profile as read_profile
    from tfgpu_doctor.tracing.recording import AGAIN as AGAIN
    from tfgpu_doctor.tracing.recording import STARTUP as STARTUP
    from tfgpu_doctor.tracing.result import Gain as Gain
    from tfgpu_doctor.tracing.result import Shares as Shares
    from tfgpu_doctor.tracing.result import StepTimes as StepTimes
    from tfgpu_doctor.tracing.result import TraceCause as TraceCause
    from tfgpu_doctor.tracing.result import TraceFix as TraceFix
    from tfgpu_doctor.tracing.result import TraceReport as TraceReport
    from tfgpu_doctor.tracing.result import make_report as make_report

# What other features may use.
__getattr__ = exported(
    __name__,
    {
        "AGAIN": "recording",
        "Gain": "result",
        "NAMES": "page",
        "STARTUP": "recording",
        "Shares": "result",
        "StepTimes": "result",
        "TraceCause": "result",
        "TraceFix": "result",
        "TraceReport": "result",
        "Unreadable": "reading",
        "Verdict": "examine",
        "examine": "examine",
        "find_file": "reading",
        "make_report": "result",
        "read_profile": "reading",
        "recorder_module": "notebook",
        "trace": "notebook",
    },
)
