"""Lines of a log, given what is known, as a report and as the labels of its causes."""

from __future__ import annotations

import io

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log import Context, LogReport, Scanner, classify

KNOWLEDGE = read_knowledge()


def read(*lines: str, **given: str) -> LogReport:
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO("\n".join((*lines, "")).encode()))
    return classify(scanner.found, Context(given), KNOWLEDGE, scanner.lines, scanner.kept.texts())


def labels(*lines: str, **given: str) -> list[str]:
    return [cause.label for cause in read(*lines, **given).causes]
