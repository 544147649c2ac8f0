"""The report as Markdown (render/markdown_page.py), and the page of a ticket, which goes on after it (ticket/ticket_page.py)."""

from __future__ import annotations

import re

from tfgpu_doctor.log.own_report import (
    SUBJECTS,
    VERDICTS,
    NamedCause,
    OwnReport,
    Part,
    confidence_of,
    severity_of,
)
from tfgpu_doctor.render.words import NOTES_FAIL

HEADING = "## tfgpu-doctor"
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]<>|#~!@&$.)=+-])|&#8203;")
_CAUSE = re.compile(r"`(\w+)` \((\S+), (\w+), confidence (\w+)\)$")
_FENCE = re.compile(r"`{3,}")
_END = "_tfgpu-doctor "
_PARTS = ("- ", "|", "<details>", "</details>", "Explains: ", "**Costs:** ", "**Fix:** ")
# What comes after the report in a ticket.
_SECTION = re.compile(
    r"<details><summary>(Versions|GPUs|Libraries|TensorFlow's log|The kernel's messages|The last benchmark|The log)</summary>$"
)
_OF_LOG, _SECTION_ENDS = "The log", "</details>"
_CUT = "The rest is too long for a comment; it is in the bundle."
_TOO_LONG = ": too long for a comment; it is in the bundle."
_CLOSING = (
    "Placeholders (the same value always has the same one): ",
    "To reproduce this diagnosis from the bundle that ",
)
_COMMAND = "tfgpu-doctor --facts ticket.zip"


class MarkdownForm:
    """Reads a report that begins with its heading."""

    def __init__(self) -> None:
        self.report = OwnReport(format="markdown")
        self._cause: NamedCause | None = None
        self._title = self._fence = self._section = ""
        self._are_notes = self._is_ticket = self._is_over = False
        self._last_in_fence = ""

    def take(self, number: int, line: str) -> Part:
        """Take a line: of a code block, of a section of the ticket, or of the report."""
        if line == _CUT:
            self._fence, self._is_ticket = "", True
        elif self._fence:
            return self._take_fenced(line)
        elif found := _FENCE.match(line):
            if self._is_over and not self._is_ticket:
                return Part.PAST
            self._fence, self._last_in_fence = found[0], ""
        elif self._section:
            self._section = "" if line == _SECTION_ENDS else self._section
        elif self._is_ticket or self._is_over:
            return self._take_of_ticket(line)
        elif line and line != HEADING:
            return self._take_of_report(number, line)
        return Part.OWN

    def close(self) -> None:
        """All that it states was read line by line."""

    def _take_fenced(self, line: str) -> Part:
        if line == self._fence:
            self._fence = ""
            return Part.LAST if self._last_in_fence == _COMMAND and self._is_ticket else Part.OWN
        self._last_in_fence = line
        return Part.QUOTED if self._section == _OF_LOG else Part.OWN

    def _take_of_ticket(self, line: str) -> Part:
        """Take a line behind the report: a ticket has more, and anything else is past it."""
        if found := _SECTION.match(line):
            self._section, self._is_ticket = found[1], True
        elif line.endswith(_TOO_LONG) or line.startswith(_CLOSING):
            self._is_ticket = True
        elif line:
            return Part.PAST
        return Part.OWN

    def _take_of_report(self, number: int, line: str) -> Part:
        if line.startswith(_END):
            self._is_over, self._cause = True, None
        elif line.startswith("### "):
            self._title, self._cause = _unescaped(line[4:]), None
        elif found := _CAUSE.match(line):
            label, id_, severity, confidence = found.groups()
            self._cause = NamedCause(
                line=number, label=label, id=id_, title=self._title, severity=severity_of(severity),
                confidence=confidence_of(confidence),
            )  # fmt: skip
            if not self._are_notes:
                self.report.causes.append(self._cause)
        elif line.startswith("**") and line.strip("*").startswith(VERDICTS):
            self.report.verdict = line.strip("*")
        elif line == NOTES_FAIL:
            self._are_notes = True
        elif line.startswith(_PARTS):
            if self._cause and line.startswith("- "):
                self._cause.add_evidence(number, _unescaped(line[2:]))
        elif self.report.subject or not line.startswith(SUBJECTS):
            return Part.PAST
        else:
            self.report.subject = _unescaped(line)
        return Part.OWN


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: found[1] or "", text)
