"""The contents of a ticket, made from scrubbed facts only."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log import Context, LogReport, Scanner, classify
from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.bundle import FACTS
from tfgpu_doctor.model.facts import Facts, encode_facts
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.render.json_document import as_json
from tfgpu_doctor.ticket.excerpt import Excerpt, excerpt_of
from tfgpu_doctor.ticket.identity import Identity
from tfgpu_doctor.ticket.scrub import Replaced, Scrub
from tfgpu_doctor.ticket.ticket_page import LogPart, Page, render_ticket

PAGE = "ticket.md"


@dataclass(frozen=True)
class Source:
    """The unscrubbed input of a ticket; none of it is shared unchanged."""

    facts: Facts
    identity: Identity
    bench: Bench | None = None  # the last one, if the facts contain none
    log: bytes | None = None
    interrupted: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class Ticket:
    """The files of the bundle by name, the Markdown page first; the report; and what was replaced and left out."""

    report: Report
    files: dict[str, bytes]
    replaced: list[Replaced]
    left_out: dict[str, int]

    @property
    def page(self) -> str:
        """The Markdown block to paste."""
        return self.files[PAGE].decode()


def make_ticket(source: Source, fail_level: Severity = "error") -> Ticket:
    """Scrub first, then diagnose and render: what is not in the scrubbed facts cannot be in the ticket.

    Only the doctor's own checks run, because the texts of plug-ins cannot be guaranteed to be safe to share.
    """
    scrub = Scrub(source.facts, source.identity)
    bench = scrub.facts.bench or (scrub.fact(source.bench) if source.bench else None)
    report = diagnose(scrub.facts, interrupted=source.interrupted, seconds=source.seconds)
    log = _log(source.log, scrub) if source.log is not None else None
    page = render_ticket(Page(report, scrub.facts, bench, log, scrub.replaced, fail_level))
    files = {PAGE: page.encode(), **dict(_files(scrub.facts, report, bench, log))}
    return Ticket(report, files, scrub.replaced, dict(scrub.left_out))


def _files(facts: Facts, report: Report, bench: Bench | None, log: LogPart | None) -> Iterator[tuple[str, bytes]]:
    yield FACTS, encode_facts(facts)
    yield "report.json", as_json(report).encode()
    if bench:
        yield "bench.json", msgspec.json.format(msgspec.json.encode(bench), indent=1) + b"\n"
    if log:
        yield "log.txt", f"{log.excerpt.text}\n".encode()


def _log(log: bytes, scrub: Scrub) -> LogPart:
    """Return the scrubbed excerpt and its causes: they are derived only from what the ticket shows."""
    found = excerpt_of(log)
    scrubbed = scrub.text(found.text)
    scrub.left_out["lines of the log"] += found.lines - found.kept
    return LogPart(Excerpt(scrubbed, found.kept, found.lines), _told_by(scrubbed))


def _told_by(text: str) -> LogReport:
    scanner = Scanner(read_knowledge().log_signatures)
    scanner.scan(io.BytesIO(text.encode()))
    return classify(scanner.found, Context({}), read_knowledge(), scanner.lines, scanner.kept.texts(), scanner.reports)
