"""Take the doctor's own reports out of a log, block by block: their lines become empty, so that all numbers stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tfgpu_doctor.log.line_framing import Framing
from tfgpu_doctor.log.own_report import Form, OwnReport, Part
from tfgpu_doctor.log.report_beginnings import NEEDLES, begun_at

_MOST_REPORTS = 100  # whose statements are kept
_MOST_LINES = 20_000  # of one report
_MOST_FOREIGN = 20  # lines of other programs in a row, within a report
_MOST_BEFORE = 4  # lines: a subject in a narrow terminal
_LONGEST = 1 << 18  # bytes of a line that may begin a report, more than a report on one line has
_NEAR = 2  # lines between two annotations of one report
_NEEDLES = tuple(each.encode() for each in NEEDLES)


@dataclass
class _Reading:
    """A report of which the next line is to be read."""

    form: Form
    framing: Framing
    lines: int = 0
    foreign: int = 0

    def take(self, number: int, line: str) -> Part:
        """Say what a line is to the report."""
        self.lines += 1
        bare = self.framing.bare(line)
        if bare is None:
            self.foreign += 1
            return Part.QUOTED if self.foreign <= _MOST_FOREIGN else Part.PAST
        self.foreign = 0
        return self.form.take(number, bare) if self.lines <= _MOST_LINES else Part.PAST


@dataclass
class WithoutReports:
    """The reports found so far, and what is left of each block without them."""

    _found: list[OwnReport] = field(default_factory=list)
    _reading: _Reading | None = None
    _lines: int = 0  # before the current block
    _end: int = 0  # the line after the last report

    @property
    def reports(self) -> list[OwnReport]:
        """The reports in the log, in its order, with one that is still being read."""
        if self._reading:
            self._close(self._lines + 1)
        return self._found

    def without(self, block: bytes) -> bytes:
        """Return a block of whole lines in which those of reports are empty."""
        kept: list[bytes] = []
        done, number = 0, self._lines + 1  # how far the block is copied, and the number of the line there
        if self._reading:
            done, number = self._read(block, done, number, kept)
        looked = done  # of a line with several needles the first is enough
        for at in _places(block):
            if at < max(done, looked):
                continue
            looked = block.find(b"\n", at) + 1 or len(block)
            start = block.rfind(b"\n", done, at) + 1 or done
            begin = self._begin(block, done, start)
            if begin is None:
                continue
            number += block.count(b"\n", done, begin)
            kept.append(block[done:begin])
            assert self._reading is not None
            self._reading.form.report.line = number
            done, number = self._read(block, begin, number, kept)
        self._lines += block.count(b"\n")
        return b"".join((*kept, block[done:])) if kept else block

    def _begin(self, block: bytes, done: int, start: int) -> int | None:
        """Open the report that the line at `start` shows; return where it begins."""
        line = _line(block, start)
        starts, earlier = [start], list[str]()
        while len(earlier) < _MOST_BEFORE and starts[-1] > done:
            starts.append(block.rfind(b"\n", done, starts[-1] - 1) + 1 or done)
            earlier.append(_line(block, starts[-1]))
        end = block.find(b"\n", start)
        begun = begun_at(line, earlier, _line(block, end + 1) if 0 < end < len(block) - 1 else "")
        if begun is None:
            return None
        begin = starts[begun.before]
        self._reading = _Reading(begun.form, begun.framing)
        return begin

    def _read(self, block: bytes, place: int, number: int, kept: list[bytes]) -> tuple[int, int]:
        """Give the open report its lines; return where it ends in this block, and the number of the line there."""
        reading = self._reading
        assert reading is not None
        while place < len(block):
            end = block.find(b"\n", place)
            end = len(block) if end < 0 else end + 1
            part = reading.take(number, _decoded(block[place:end]))
            if part is Part.PAST:
                self._close(number)
                break
            kept.append(block[place:end] if part is Part.QUOTED else b"\n" * block.count(b"\n", place, end))
            place, number = end, number + 1
            if part is Part.LAST:
                self._close(number)
                break
        return place, number

    def _close(self, number: int) -> None:
        """Keep what the open report states; annotations next to each other are one report."""
        reading, self._reading = self._reading, None
        assert reading is not None
        reading.form.close()
        report = reading.form.report
        if not (report.causes or report.verdict or report.subject):  # it states nothing
            return
        last = self._found[-1] if self._found else None
        if last and last.format == report.format == "github" and report.line - self._end <= _NEAR:
            last.causes += report.causes
            last.verdict, last.subject = last.verdict or report.verdict, last.subject or report.subject
        elif len(self._found) < _MOST_REPORTS:
            self._found.append(report)
        self._end = number


def _line(block: bytes, start: int) -> str:
    end = block.find(b"\n", start)
    return _decoded(block[start : min(end if end >= 0 else len(block), start + _LONGEST)])


def _decoded(line: bytes) -> str:
    """A line as text, without the mark of UTF-8 or UTF-16 before the first one."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    return text.removeprefix("\ufeff").removeprefix("\ufffd\ufffd")


def _places(block: bytes) -> Iterator[int]:
    """Yield where needles stand in a block, in its order."""
    places = {needle: block.find(needle) for needle in _NEEDLES}
    while left := [place for place in places.values() if place >= 0]:
        nearest = min(left)
        yield nearest
        for needle, place in places.items():
            if place == nearest:
                places[needle] = block.find(needle, place + 1)
