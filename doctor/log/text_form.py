"""The report as text (render/text.py), with --verbose or without."""

from __future__ import annotations

import re

from tfgpu_doctor.log.own_report import COMPUTES, FIT, SUBJECTS, VERDICTS, NamedCause, OwnReport, Part, named
from tfgpu_doctor.render.words import NOTES_FAIL


def _as_read(mark: str, plain: str) -> tuple[str, ...]:
    """A mark, what stands for it where the encoding lacks it (cli/output.py), and what is left of it in UTF-16."""
    without_nul = [
        mark.encode(each).replace(b"\0", b"").decode("utf-8", "replace") for each in ("utf-16-le", "utf-16-be")
    ]
    return (mark, plain, *without_nul)


_ERROR, _WARNING = _as_read("✗", "x"), ("!",)
_OTHERS = (*_as_read("✓", "+"), *_as_read("☠", "X"), *_as_read("·", "."), "-")
_BULLETS = _as_read("•", "*")
_IDENTIFIED = re.compile(rf"  (\S+) (?:{'|'.join(map(re.escape, _as_read('·', '.')))}) (.+)")
_COUNTS = re.compile(
    r"\d+ (?:passed|with warnings|failed|blocked|skipped|crashed)\b|(?:   )?\d+\.\d s(?:   -v shows all)?$"
)
_FIX, _COSTS, _EXPLAINS = "  Fix  ", "  Costs  ", "  Explains "
_ANNOTATION = re.compile(r"(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?##\[\w+\]|(?:Error|Warning|Notice): ")  # of GitHub


def is_head(line: str) -> bool:
    """Whether a line stands before the two questions: the subject, or in an annotation of GitHub the verdict."""
    return _ANNOTATION.sub("", line, count=1).startswith((*SUBJECTS, *VERDICTS))


class TextForm:
    """Reads a report whose first lines are its subject and the two questions."""

    def __init__(self) -> None:
        self.report = OwnReport(format="text")
        self._title: list[str] = []
        self._is_warning = self._are_notes = self._is_asked = False
        self._cause: NamedCause | None = None
        self._half = ""  # of the line that identifies a cause
        self._open = ""  # what an indented line continues: "title", "evidence"

    def take(self, number: int, line: str) -> Part:
        """Take a line: it is empty, or indented, or begins with a mark, or has words of the report."""
        if line.startswith((COMPUTES, FIT)):
            self._is_asked = True
        elif not self._is_asked:
            self._take_head(line)
        elif not line:
            self._open = ""
        elif _COUNTS.match(line):
            return Part.LAST
        elif line.startswith("  "):
            self._take_indented(number, line)
        elif line.startswith(VERDICTS) and not self.report.causes:
            self.report.verdict = line
        elif line == NOTES_FAIL:
            self._are_notes = True
        elif (mark := line.split(" ", 1)[0]) in (*_ERROR, *_WARNING, *_OTHERS):
            self._title, self._is_warning = [line[len(mark) + 1 :]], mark in _WARNING
            self._open, self._cause = "title", None
        elif not self.report.subject and line.startswith(SUBJECTS):
            self.report.subject = line
        else:
            return Part.PAST
        return Part.OWN

    def close(self) -> None:
        """All that it states was read line by line."""

    def _take_head(self, line: str) -> None:
        text = _ANNOTATION.sub("", line, count=1).strip()
        if text.startswith(VERDICTS):
            self.report.verdict = text
        else:
            self.report.subject = f"{self.report.subject} {text}".strip()

    def _take_indented(self, number: int, line: str) -> None:
        text = line.strip()
        line, self._half = f"{self._half} {text}" if self._half else line, ""
        found = _IDENTIFIED.match(line) if self._title else None
        if found and (cause := named(found[2], number)):
            cause.id, cause.title = found[1], " ".join(self._title)
            cause.severity = "warning" if self._is_warning else "error"
            self._cause, self._title, self._open = cause, [], ""
            if not self._are_notes:
                self.report.causes.append(cause)
        elif found and line.endswith((",", ", confidence")):
            self._half = line  # a narrow terminal breaks it
        elif self._open == "title" and self._cause is None:
            self._title.append(text)
        elif self._cause is not None:
            self._take_part(self._cause, number, line)

    def _take_part(self, cause: NamedCause, number: int, line: str) -> None:
        """Take a line about a cause: its evidence, its costs, its fix, what it explains; or the rest of one of these."""
        text = line.strip()
        if line.startswith(tuple(f"  {bullet} " for bullet in _BULLETS)):
            is_kept = cause.add_evidence(number, text.split(" ", 1)[-1].strip())
            self._open = "evidence" if is_kept else ""
        elif line.startswith((_FIX, _COSTS, _EXPLAINS)):
            self._open = ""
        elif self._open == "evidence":
            first, before = cause.evidence[-1]
            cause.evidence[-1] = (first, f"{before} {text}")
