"""The report on a watched training as an HTML page: the verdict, a step's time, the run as a bar, GPUs, the machine, rules."""

from __future__ import annotations

from dataclasses import dataclass

from tfgpu_doctor.render.layout import render_page
from tfgpu_doctor.tracing import NAMES
from tfgpu_doctor.watching import units, words
from tfgpu_doctor.watching.result import WatchReport
from tfgpu_doctor.watching.stretches import Stretch, Total, in_slots, stretches, totals

_VERDICTS = {True: ("Healthy", "good"), False: ("Bottleneck", "bad"), None: ("Inconclusive", "poor")}
_RULES = {True: ("broken", "bad"), False: ("not broken", "good"), None: ("not known", "idle")}
_SLOTS = 300  # pieces of the bar, at most
_MOST_ROWS = 60  # of the table of all changes
_FULL, _LEAST_FULL = 1.0, 0.35
# The colours of the bar are those of the parts of a step; of verdicts with one hue, the later ones are paler.
_COLOURS = {
    words.HANG: "bad", "compute_bound": "part-compute", "fp32": "part-compute", "collectives": "part-collectives",
    "copies": "part-copies", "retracing": "part-compile", "compile": "part-compile", "eager": "part-launch",
    "launch_bound": "part-launch", "host_callback": "part-host", "host_python": "part-host", "uneven_steps": "part-host",
    "epoch_end": "part-host", "new_iterators": "part-host",
}  # fmt: skip
_HUES = {
    "bad": "red", "part-input": "red", "part-host": "red", "part-compile": "yellow", "part-launch": "yellow",
    "part-collectives": "violet", "part-copies": "violet",
}  # fmt: skip


@dataclass(frozen=True)
class _Row:
    """A verdict in the legend of the bar."""

    total: Total
    colour: str
    full: float
    share: str

    @property
    def tall(self) -> bool:
        """A hang is a taller piece: no other verdict has its shape."""
        return self.total.verdict == words.HANG


def render_watch_html(report: WatchReport) -> str:
    """Return the whole page; its size does not grow with the time of the run."""
    report = words.cleaned(report)
    head = words.headline(report)
    word, tone = ("Hang", "bad") if report.hang else _VERDICTS[head.healthy]
    found = stretches(report)
    legend = _legend(found, report.seconds)
    return render_page(
        "watch.html.jinja",
        report=report,
        head=head,
        verdict_word=word,
        verdict_tone=tone,
        subject=words.subject(report),
        best=words.at_best(report),
        also=words.other_causes(report),
        shares=[(part, NAMES[part], share) for part, _, share in words.shares(report)],
        legend=legend,
        pieces=_pieces(found, legend, report.seconds),
        ticks=[(25 * place, units.clock(report.seconds * place / 4)) for place in range(5)],
        changes=[(units.clock(each.begin_s), units.duration(each.seconds), each) for each in found[:_MOST_ROWS]],
        more_changes=max(0, len(found) - _MOST_ROWS),
        machine=[(words.machine_line(cause), cause) for cause in words.machine_beside(report)],
        host=words.host_line(report.host) if report.host else "",
        rules=[(rule, *_RULES[rule.broken], words.rule_line(rule)) for rule in report.rules],
        notes=words.notes(report),
        words=words,
        units=units,
    )


def _legend(found: list[Stretch], seconds: float) -> list[_Row]:
    """Each verdict with its colour, the longest first."""
    rows: list[_Row] = []
    found_hues = ["red"] if any(each.verdict == words.HANG for each in found) else []
    for total in totals(found):
        colour = _COLOURS.get(total.verdict, "part-input" if total.verdict.startswith("input_") else "part-idle")
        hue = _HUES.get(colour, colour)
        paler = 0 if total.verdict == words.HANG else found_hues.count(hue)
        found_hues.append(hue)
        share = units.percent(total.seconds / seconds) if seconds > 0 else ""
        rows.append(_Row(total, colour, max(_LEAST_FULL, round(_FULL - 0.3 * paler, 2)), share))
    return rows


def _pieces(found: list[Stretch], legend: list[_Row], seconds: float) -> list[tuple[float, float, _Row]]:
    """Begin and width of each piece in per cent, and its verdict. Of more than can be seen, the longest of each slot."""
    rows = {row.total.verdict: row for row in legend}
    if seconds <= 0:
        return []
    if len(found) > _SLOTS:
        found = _thinned(found, seconds)
    return [
        (round(100 * each.begin_s / seconds, 3), round(max(0.05, 100 * each.seconds / seconds), 3), rows[each.verdict])
        for each in found
    ]


def _thinned(found: list[Stretch], seconds: float) -> list[Stretch]:
    width = seconds / _SLOTS
    verdicts = in_slots(found, seconds, _SLOTS)
    return [
        Stretch(place * width, (place + 1) * width, verdict, "") for place, verdict in enumerate(verdicts) if verdict
    ]
