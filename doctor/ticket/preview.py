"""What would leave, shown before it does."""

from __future__ import annotations

from tabulate import tabulate

from tfgpu_doctor.render.text import clean
from tfgpu_doctor.ticket.contents import Ticket

_ABOUT = {
    "ticket.md": "the page to paste",
    "facts.json": "the recorded machine, for --facts",
    "report.json": "the diagnosis",
    "bench.json": "the last benchmark",
    "log.txt": "of the log that you gave",
}


def render_preview(ticket: Ticket, *, whole: bool) -> str:
    """The files with their sizes, what was replaced and left out; with `whole`, every file as it would leave."""
    files = [(name, f"{len(content):,}", _ABOUT[name]) for name, content in ticket.files.items()]
    replaced = [(f"<{each.kind}-N>", f"{each.values:,}", f"{each.times:,}") for each in ticket.replaced]
    parts = [
        "Nothing was written. This would leave:",
        tabulate(files, headers=("file", "bytes", ""), disable_numparse=True, colalign=("left", "right", "left")),
        "Replaced, the same value always by the same placeholder:" if replaced else "Nothing had to be replaced.",
    ]
    if replaced:
        heads = ("placeholder", "values", "places")
        parts.append(tabulate(replaced, headers=heads, disable_numparse=True, colalign=("left", "right", "right")))
    parts += [f"Left out: {count:,} {what}" for what, count in ticket.left_out.items() if count]
    if whole:
        parts += [f"==== {name} ====\n{_shown(content)}" for name, content in ticket.files.items()]
    else:
        parts.append("--dry-run --verbose shows each file as it would leave; -o FILE writes them.")
    return "\n\n".join(parts) + "\n"


def _shown(content: bytes) -> str:
    return "\n".join(clean(line) for line in content.decode().splitlines())
