"""Where a report begins: the fixed words that each format has, and what must stand around them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tfgpu_doctor.log.github_form import (
    CommandForm,
    ShownForm,
    ShownVerdict,
    is_annotation,
    is_shown_annotation,
    is_shown_verdict,
)
from tfgpu_doctor.log.json_form import BEGIN, JsonForm
from tfgpu_doctor.log.line_framing import Framing
from tfgpu_doctor.log.markdown_form import HEADING, MarkdownForm
from tfgpu_doctor.log.own_report import COMPUTES, FIT, UNKNOWN, Form
from tfgpu_doctor.log.text_form import TextForm, is_head
from tfgpu_doctor.render.words import OPEN

_ANSWER = re.compile(rf"{COMPUTES}: (?:yes|no|not judged|not tried \(--quick\))")
_COMMAND = re.compile(r"::(?:error|warning|notice) title=")
_KNOWN = re.compile(rf"\((?:\w+, confidence \w+|{UNKNOWN})\)\s*$")
_LONGEST = 4000  # characters of a line to look at before a report
# What every format has near its begin, and nothing else in a log has often.
NEEDLES = (f"{COMPUTES}: ", HEADING, " title=", '"healthy":', ", confidence ", f"({UNKNOWN})", OPEN)


@dataclass
class Begun:
    """A report that begins: how many lines before the current one, how its lines are framed, and what reads them."""

    before: int
    framing: Framing
    form: Form


def begun_at(line: str, earlier: list[str], following: str) -> Begun | None:
    """Return the report that has this line at its begin; `earlier` are the lines before it, the nearest first."""
    return (
        _command(line)
        or _json(line, earlier)
        or _markdown(line)
        or _text(line, earlier, following)
        or _shown(line, earlier)
        or _shown_verdict(line)
    )


def _text(line: str, earlier: list[str], following: str) -> Begun | None:
    found = _ANSWER.search(line)
    if not found or (following and FIT not in following):
        return None
    framing = Framing.of(line[: found.start()], line[found.end() :].rstrip())
    bare = [framing.bare(each[:_LONGEST]) or "" for each in earlier]
    before = next((place for place, each in enumerate(bare, 1) if is_head(each) and all(bare[:place])), 0)
    return Begun(before, framing, TextForm())


def _markdown(line: str) -> Begun | None:
    before, heading, behind = line.partition(HEADING)
    if not heading or behind.strip():
        return None
    return Begun(0, Framing.of(before), MarkdownForm())


def _command(line: str) -> Begun | None:
    found = _COMMAND.search(line)
    if not found or not is_annotation(line[found.start() :].rstrip()):
        return None
    return Begun(0, Framing.of(line[: found.start()]), CommandForm())


def _json(line: str, earlier: list[str]) -> Begun | None:
    if '"healthy":' not in line:
        return None
    for before in range(min(3, len(earlier) + 1)):
        first = line if before == 0 else earlier[before - 1]
        place = first.find("{")
        if place < 0:
            continue
        start = first[:place].rstrip()
        framing = Framing.of(start)
        lines = [framing.bare(each) or "" for each in (*earlier[:before][::-1], line)]
        if found := BEGIN.match("\n".join(lines)):
            return Begun(before, framing, JsonForm(found[1]))
    return None


def _shown(line: str, earlier: list[str]) -> Begun | None:
    found = _KNOWN.search(line)
    if not found or not earlier:
        return None
    title = earlier[0].rstrip()
    mark = title.find("##[")
    start = title[: max(mark, 0)]
    framing = Framing.of(start, is_optional=True)
    bare = framing.bare(title) or ""
    if not is_shown_annotation(bare, framing.bare(line) or ""):
        return None
    return Begun(1, framing, ShownForm())


def _shown_verdict(line: str) -> Begun | None:
    framing = Framing.of(line[: max(line.find("##["), 0)], is_optional=True)
    return Begun(0, framing, ShownVerdict()) if is_shown_verdict(framing.bare(line) or "") else None
