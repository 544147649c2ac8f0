"""Preview what a ticket would share."""

from __future__ import annotations

from tabulate import tabulate

from tfgpu_doctor.model.plain_text import one_line
from tfgpu_doctor.ticket.contents import Ticket

_ABOUT = {
    "ticket.md": "the page to paste",
    "facts.json": "the recorded machine, for --facts",
    "report.json": "the diagnosis",
    "bench.json": "the last benchmark",
    "log.txt": "the excerpt of your log",
}


def render_preview(ticket: Ticket, *, whole: bool) -> str:
    """Return the files with their sizes, and what was replaced and left out; with `whole`, also every file's content."""
    files = [(name, f"{len(content):,}", _ABOUT[name]) for name, content in ticket.files.items()]
    replaced = [(f"<{each.kind}-N>", f"{each.values:,}", f"{each.times:,}") for each in ticket.replaced]
    parts = [
        "Nothing was written. These files would be shared:",
        tabulate(files, headers=("file", "bytes", ""), disable_numparse=True, colalign=("left", "right", "left")),
        "Replaced (a value always has the same placeholder):" if replaced else "Nothing had to be replaced.",
    ]
    if replaced:
        heads = ("placeholder", "values", "places")
        parts.append(tabulate(replaced, headers=heads, disable_numparse=True, colalign=("left", "right", "right")))
    parts += [f"Left out: {count:,} {what}" for what, count in ticket.left_out.items() if count]
    if whole:
        parts += [f"==== {name} ====\n{_shown(content)}" for name, content in ticket.files.items()]
    else:
        parts.append("--dry-run --verbose shows the full content of each file; -o FILE writes the bundle.")
    return "\n\n".join(parts) + "\n"


def _shown(content: bytes) -> str:
    """Indent the lines: none of them can pass for the name of a file."""
    return "\n".join(f"  {one_line(line)}".rstrip() for line in content.decode().splitlines())
