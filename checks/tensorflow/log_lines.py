"""TensorFlow's own log, analyzed like `tfgpu-doctor log` does, for checks of the TensorFlow run."""

from __future__ import annotations

import io
import re
from collections.abc import Collection

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.log import Context, LogCause, Scanner, classify
from tfgpu_doctor.model import UNDETERMINED
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.python import Runtime

_JUDGED_ELSEWHERE = {"pip_without_and_cuda_extra"}  # by the check of the libraries, which sees the packages
_TROUBLE = ("W ", "E ", "F ")


def complaints(runtime: Runtime, knowledge: Knowledge) -> tuple[str, ...]:
    """Return the warnings and errors in the log, without those known to be harmless."""
    noise = [re.compile(row.pattern) for row in knowledge.log_signatures if row.noise]
    return tuple(
        line for line in runtime.log if line.startswith(_TROUBLE) and not any(each.search(line) for each in noise)
    )


def likely_causes(error: str, runtime: Runtime, knowledge: Knowledge, most: int = 3) -> list[LogCause]:
    """Return the causes that the rules for logs name for an error and the run's own log, the likeliest first."""
    scanner = Scanner(knowledge.log_signatures)
    scanner.scan(io.BytesIO("\n".join((error, *runtime.log)).encode()))
    report = classify(
        scanner.found, Context({"tensorflow": runtime.version, "cuda": "not said"}), knowledge, scanner.lines
    )
    return [each for each in report.causes if each.severity == "error" and each.label != UNDETERMINED][:most]


def cause_in_log(runtime: Runtime, system: System, knowledge: Knowledge, labels: Collection[str]) -> LogCause | None:
    """Return the first of these causes that the log rules name for the run; None if they name none of them."""
    scanner = Scanner(knowledge.log_signatures)
    scanner.scan(io.BytesIO("\n".join((*runtime.log, runtime.use_error)).encode()))
    # Other checks examine the CUDA installation; without this value the rules would assume that there is none.
    context = Context({"tensorflow": runtime.version, "os": system.os, "cuda": "not said"})
    report = classify(scanner.found, context, knowledge, scanner.lines)
    wanted = set(labels) - _JUDGED_ELSEWHERE
    return next((cause for cause in report.causes if cause.label in wanted), None)
