"""Render the page of a ticket: the Markdown block to paste into an issue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from tabulate import tabulate

from tfgpu_doctor.bench import make_result, render_bench
from tfgpu_doctor.log import LogReport
from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.model.report import GpuCard, LibraryCopy, Report, VersionRow
from tfgpu_doctor.render.markdown_page import escape, render_markdown
from tfgpu_doctor.ticket.excerpt import Excerpt
from tfgpu_doctor.ticket.scrub import Replaced

_MOST_CHARACTERS = 60_000  # GitHub allows 65,536 in one comment
_SHOWN_LINES = 60  # lines of a log; all are in the bundle
_GIB = 1 << 30


@dataclass(frozen=True)
class LogPart:
    """A log from the user: its scrubbed excerpt, and the causes found in it."""

    excerpt: Excerpt
    told: LogReport


@dataclass(frozen=True)
class Page:
    """The scrubbed content of the page."""

    report: Report
    facts: Facts
    bench: Bench | None
    log: LogPart | None
    replaced: Sequence[Replaced]
    fail_level: Severity = "error"


def render_ticket(page: Page) -> str:
    """Return the verdict, cause and evidence, then the rest, up to the maximum length of a comment."""
    done = f"{render_markdown(page.report, page.fail_level).rstrip()}\n\n"
    if len(done) > _MOST_CHARACTERS:
        done = f"{done[:_MOST_CHARACTERS]}\n\nThe rest is too long for a comment; it is in the bundle.\n\n"
    end = "\n".join(_closing(page))
    for title, body in _sections(page):
        section = f"<details><summary>{title}</summary>\n\n{body}\n\n</details>\n\n"
        if len(done) + len(section) + len(end) > _MOST_CHARACTERS:
            section = f"{title}: too long for a comment; it is in the bundle.\n\n"
        done += section
    return done + end


def _sections(page: Page) -> Iterator[tuple[str, str]]:
    """Return the title and body of the collapsed sections that are not empty."""
    report, runtime, kernel_log = page.report, page.facts.runtime, page.facts.kernel_log
    sections = (
        ("Versions", _table(("", "found", "needed", "by", "check"), map(_version, report.versions))),
        ("GPUs", _table(("", "name", "memory", "temperature", "link", "processes"), map(_gpu, report.gpus))),
        ("Libraries", _table(("library", "version", "found", "installed by"), map(_library, report.libraries))),
        ("TensorFlow's log", _fenced(runtime.log if runtime else ())),
        ("The kernel's messages", _fenced([each.text for each in kernel_log.messages] if kernel_log else ())),
        ("The last benchmark", _bench(page)),
        ("The log", _log(page.log) if page.log else ""),
    )
    return ((title, body) for title, body in sections if body)


def _closing(page: Page) -> Iterator[str]:
    counts = ", ".join(f"`<{each.kind}-N>` ({each.values})" for each in page.replaced)
    yield f"Placeholders (the same value always has the same one): {counts or 'none'}."
    yield ""
    yield "To reproduce this diagnosis from the bundle that `tfgpu-doctor ticket -o ticket.zip` writes:"
    yield from ("", "```sh", "tfgpu-doctor --facts ticket.zip", "```", "")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    safe = [[escape(cell) for cell in row] for row in rows]
    return tabulate(safe, headers=heads, tablefmt="github", disable_numparse=True) if safe else ""


def _version(row: VersionRow) -> tuple[str, ...]:
    return row.component, row.found, row.needed, row.needed_by, row.check


def _gpu(card: GpuCard) -> tuple[str, ...]:
    free, total, heat = card.memory_free_bytes, card.memory_total_bytes, card.temperature_c
    whole = f"{total / _GIB:.1f} GiB" if total else ""
    memory = f"{free / _GIB:.1f} of {whole} free" if whole and free is not None else whole
    link = f"PCIe {card.pcie_generation} x{card.pcie_width}" if card.pcie_generation else ""
    users = ", ".join(f"{each.name} ({each.user})" if each.user else each.name for each in card.users)
    return str(card.index), card.trouble or card.name, memory, f"{heat} °C" if heat is not None else "", link, users


def _library(copy: LibraryCopy) -> tuple[str, ...]:
    missing = " needs ".join(copy.missing_chain) if len(copy.missing_chain) > 1 else "not found"
    found = {True: copy.path, False: copy.error or missing, None: "unknown"}
    return copy.soname, copy.version, found[copy.found], copy.origin


def _bench(page: Page) -> str:
    if page.bench is None:
        return ""
    result = msgspec.structs.replace(make_result(page.report, page.bench, seconds=page.bench.seconds), causes=())
    return render_bench(result, "markdown").rstrip()


def _log(log: LogPart) -> str:
    told = [f"- `{cause.label}`, confidence {cause.confidence}: {escape(cause.title)}" for cause in log.told.causes]
    lines = list(dict.fromkeys(line for cause in log.told.causes for line in cause.evidence))
    kept = f"The bundle has {log.excerpt.kept:,} of its {amount(log.excerpt.lines, 'line')}, as `log.txt`."
    return "\n".join([*(told or ["The log shows no known cause."]), "", kept, "", _fenced(lines)]).rstrip()


def _fenced(lines: Sequence[str]) -> str:
    """Return lines in a code block that none of them can end; of too many lines, only the first and the last."""
    if len(lines) > _SHOWN_LINES:
        half = _SHOWN_LINES // 2
        lines = [*lines[:half], f"... {amount(len(lines) - 2 * half, 'more line')} ...", *lines[-half:]]
    text = "\n".join(clean(" ".join(line.split())) for line in lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}" if text else ""
