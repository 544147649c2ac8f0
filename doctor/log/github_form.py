"""The report as annotations of GitHub Actions (render/github_annotations.py): as commands, and as GitHub's log shows them."""

from __future__ import annotations

import re

from tfgpu_doctor.log.own_report import COMPUTES, FIT, SUBJECTS, NamedCause, OwnReport, Part, named, severity_of
from tfgpu_doctor.render.words import NOTES_FAIL, OPEN

_COMMAND = re.compile(r"::(error|warning|notice) title=([^:]*)::(.*)")
_OURS = re.compile(r"\S+: |tfgpu-doctor$|\S+ crashed$")
_MORE = re.compile(r"\d+ more$")  # of a kind: GitHub shows only so many
_SHOWN = re.compile(r"##\[(error|warning|notice)\]|(Error|Warning|Notice): ")
_KNOWN = re.compile(r"\((.+)\)$")
_LINES = ("- ", "Fix: ", "    ")
_REASON = re.compile(r"[A-Z]{2,4}\d{3}(?: and \d+ more)?: ")


def is_annotation(line: str) -> bool:
    """Whether a line is an annotation of the doctor's, and not of another program."""
    found = _COMMAND.match(line)
    if not found:
        return False
    title, text = _decoded(found[2]), _decoded(found[3]).split("\n")
    if not _OURS.match(title):
        return False
    if ": " not in title:
        return True
    place = 2 if text[0] == NOTES_FAIL else 1
    return len(text) > place and _cause_in(text[place], 0) is not None


def is_shown_annotation(title: str, known: str) -> bool:
    """Whether two lines are the first of an annotation of the doctor's, as GitHub's log shows it."""
    return bool(_SHOWN.match(title)) and _cause_in(known, 0) is not None


def is_shown_verdict(title: str) -> bool:
    """Whether a line is the first of the annotation that nothing could be judged, as GitHub's log shows it."""
    found = _SHOWN.match(title)
    return found is not None and title[found.end() :].strip() == OPEN


class CommandForm:
    """Reads commands, one line each."""

    def __init__(self) -> None:
        self.report = OwnReport(format="github")

    def take(self, number: int, line: str) -> Part:
        """Take a command; any other line is past them."""
        found = _COMMAND.match(line)
        if not found or not (is_annotation(line) or _MORE.match(_decoded(found[2]))):
            return Part.PAST
        title, text = _decoded(found[2]), _decoded(found[3]).split("\n")
        if title == "tfgpu-doctor":
            self._take_verdict(text)
        elif len(text) > 1 and (cause := _cause_in(text[1], number)):
            id_, _, cause.title = title.partition(": ")
            cause.id, cause.title, cause.severity = id_, text[0], severity_of(found[1])
            for each in text[2:]:
                _take_line(cause, number, each)
            self.report.causes.append(cause)
        return Part.OWN

    def close(self) -> None:
        """All that it states was read line by line."""

    def _take_verdict(self, text: list[str]) -> None:
        self.report.verdict = text[0]
        self.report.subject = next((each for each in text[1:] if not each.startswith((COMPUTES, FIT))), "")


class ShownForm:
    """Reads one annotation as GitHub's log shows it: the title, the cause, and lines about it."""

    def __init__(self) -> None:
        self.report = OwnReport(format="github")
        self._kind = self._title = ""
        self._has_fix = False

    def take(self, number: int, line: str) -> Part:
        """Take a line: the title first, then the cause, then what is said about it."""
        if not self._kind and (found := _SHOWN.match(line)):
            self._kind, self._title = (found[1] or found[2]).lower(), line[found.end() :]
        elif not self.report.causes and (cause := _cause_in(line, number)):
            cause.title, cause.severity = self._title, severity_of(self._kind)
            self.report.causes.append(cause)
        elif self.report.causes and line.startswith(_LINES) and not (self._has_fix and not line.startswith("    ")):
            self._has_fix |= line.startswith("Fix: ")
            _take_line(self.report.causes[0], number, line)
        else:
            return Part.PAST
        return Part.OWN

    def close(self) -> None:
        """All that it states was read line by line."""


class ShownVerdict:
    """Reads the annotation that nothing could be judged, as GitHub's log shows it: what was examined, and the reasons."""

    def __init__(self) -> None:
        self.report = OwnReport(format="github")

    def take(self, number: int, line: str) -> Part:  # noqa: ARG002 - the other forms keep it
        """Take a line: the verdict first, then the subject, then reasons."""
        if not self.report.verdict:
            self.report.verdict = OPEN
        elif not self.report.subject and line.startswith(SUBJECTS):
            self.report.subject = line
        elif not _REASON.match(line):
            return Part.PAST
        return Part.OWN

    def close(self) -> None:
        """All that it states was read line by line."""


def _cause_in(line: str, number: int) -> NamedCause | None:
    found = _KNOWN.match(line)
    return named(found[1], number) if found else None


def _take_line(cause: NamedCause, number: int, line: str) -> None:
    if line.startswith("- "):
        cause.add_evidence(number, line[2:])


def _decoded(text: str) -> str:
    """The text of a command as it was before it was escaped."""
    for escaped, char in (("%0A", "\n"), ("%0D", "\r"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escaped, char)
    return text
