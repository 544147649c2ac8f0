"""What TensorFlow's own log says, read as `tfgpu-doctor log` reads one; for checks that judge its run."""

from __future__ import annotations

import io
import re
from collections.abc import Collection

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.log.classify import LogCause, classify
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.signatures import Scanner
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.python import Runtime

_TROUBLE = ("W ", "E ", "F ")


def complaints(runtime: Runtime, knowledge: Knowledge) -> tuple[str, ...]:
    """Lines of the log that are warnings or errors, without those known to mean nothing."""
    noise = [re.compile(row.pattern) for row in knowledge.log_signatures if row.noise]
    return tuple(
        line for line in runtime.log if line.startswith(_TROUBLE) and not any(each.search(line) for each in noise)
    )


def cause_in_log(runtime: Runtime, system: System, knowledge: Knowledge, labels: Collection[str]) -> LogCause | None:
    """The first of these causes that the rules for logs name for the run; None where they name none of them."""
    scanner = Scanner(knowledge.log_signatures)
    scanner.scan(io.BytesIO("\n".join((*runtime.log, runtime.use_error)).encode()))
    # Which CUDA is there is for other checks to judge: without a word on it the rules would take it that there is none.
    context = Context({"tensorflow": runtime.version, "os": system.os, "cuda": "not said"})
    report = classify(scanner.found, context, knowledge, scanner.lines)
    return next((cause for cause in report.causes if cause.label in labels), None)
