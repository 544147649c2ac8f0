"""Find the cause in a log: match lines to signatures, then signatures and context to causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor._exports import exported

if TYPE_CHECKING:
    from tfgpu_doctor.log.classification import classify as classify
    from tfgpu_doctor.log.context import Context as Context
    from tfgpu_doctor.log.gpu_names import find_gpus as find_gpus
    from tfgpu_doctor.log.lines import blocks as blocks
    from tfgpu_doctor.log.lines import split_lines as split_lines
    from tfgpu_doctor.log.opened import NotALogError as NotALogError
    from tfgpu_doctor.log.opened import OpenedLog as OpenedLog
    from tfgpu_doctor.log.report import LogCause as LogCause
    from tfgpu_doctor.log.report import LogReport as LogReport
    from tfgpu_doctor.log.signatures import Scanner as Scanner

# What other features may use.
__getattr__ = exported(
    __name__,
    {
        "LogCause": "report",
        "LogReport": "report",
        "classify": "classification",
        "Context": "context",
        "find_gpus": "gpu_names",
        "blocks": "lines",
        "split_lines": "lines",
        "Scanner": "signatures",
        "NotALogError": "opened",
        "OpenedLog": "opened",
    },
)
