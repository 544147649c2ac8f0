"""What a profile of a training says: where its steps spend their time, the one bottleneck, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor._exports import exported

if TYPE_CHECKING:
    from tfgpu_doctor.tracing.case import HIGH as HIGH
    from tfgpu_doctor.tracing.case import Found as Found
    from tfgpu_doctor.tracing.judged import judge_profile as judge_profile
    from tfgpu_doctor.tracing.notebook import recorder_module as recorder_module
    from tfgpu_doctor.tracing.notebook import trace as trace
    from tfgpu_doctor.tracing.page import NAMES as NAMES
    from tfgpu_doctor.tracing.python_samples import besides_steps as besides_steps
    from tfgpu_doctor.tracing.python_samples import looks_besides_steps as looks_besides_steps
    from tfgpu_doctor.tracing.python_samples import named as named
    from tfgpu_doctor.tracing.python_samples import of_pipeline as of_pipeline
    from tfgpu_doctor.tracing.python_samples import of_user as of_user
    from tfgpu_doctor.tracing.python_samples import own_frames as own_frames
    from tfgpu_doctor.tracing.reading import Unreadable as Unreadable
    from tfgpu_doctor.tracing.recording import AGAIN as AGAIN
    from tfgpu_doctor.tracing.recording import STARTUP as STARTUP
    from tfgpu_doctor.tracing.result import Gain as Gain
    from tfgpu_doctor.tracing.result import Shares as Shares
    from tfgpu_doctor.tracing.result import StepTimes as StepTimes
    from tfgpu_doctor.tracing.result import TraceCause as TraceCause
    from tfgpu_doctor.tracing.result import TraceFix as TraceFix
    from tfgpu_doctor.tracing.result import TraceReport as TraceReport
    from tfgpu_doctor.tracing.result import make_cause as make_cause

# What other features may use.
__getattr__ = exported(
    __name__,
    {
        "AGAIN": "recording",
        "Found": "case",
        "Gain": "result",
        "HIGH": "case",
        "NAMES": "page",
        "STARTUP": "recording",
        "Shares": "result",
        "StepTimes": "result",
        "TraceCause": "result",
        "TraceFix": "result",
        "TraceReport": "result",
        "Unreadable": "reading",
        "besides_steps": "python_samples",
        "judge_profile": "judged",
        "looks_besides_steps": "python_samples",
        "make_cause": "result",
        "named": "python_samples",
        "of_pipeline": "python_samples",
        "of_user": "python_samples",
        "own_frames": "python_samples",
        "recorder_module": "notebook",
        "trace": "notebook",
    },
)
