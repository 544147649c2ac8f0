"""The shared data types: checks, findings, facts, the report. Pure data."""

from tfgpu_doctor.model.checks import Check, Stage, check, in_order
from tfgpu_doctor.model.finding import (
    CONFIDENCES,
    SEVERITIES,
    UNDETERMINED,
    CannotTell,
    Confidence,
    Evidence,
    Figure,
    Finding,
    Fix,
    NotMeasured,
    PluginError,
    Severity,
    Skip,
    Yielded,
)

__all__ = [
    "CONFIDENCES",
    "SEVERITIES",
    "UNDETERMINED",
    "CannotTell",
    "Check",
    "Confidence",
    "Evidence",
    "Figure",
    "Finding",
    "Fix",
    "NotMeasured",
    "PluginError",
    "Severity",
    "Skip",
    "Stage",
    "Yielded",
    "check",
    "in_order",
]
