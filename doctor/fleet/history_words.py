"""Describe what changed over time as sections of lines, for the text, Markdown and HTML pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tfgpu_doctor.fleet.history import Between, CauseCount, Event, FleetTrend, History, Line
from tfgpu_doctor.fleet.troubles import common_title
from tfgpu_doctor.fleet.words import FEW, Section, few, section, short
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.render.words import number


def history_headline(history: History) -> str:
    """Return the result in one sentence."""
    if not history.runs:
        return "Nothing to compare: the store is empty."
    counts = [
        f"{len({each.node for each in events}):,} {words}"
        for events, words in (
            (history.new, "with something new"), (history.flapping, "with something that comes and goes"),
            (history.recovered, "with something that has gone"), (history.slower, "getting slower"),
        )
        if events
    ]  # fmt: skip
    if not history.nodes and not counts:
        return (
            f"Not judged: {f'{history.node} did not report' if history.node else 'no node reported'} on {history.last}."
        )
    what = ", ".join(counts) if counts else "nothing is new, and nothing is getting slower"
    return f"{history.node or amount(history.nodes, 'node')} on {history.last}: {what}."


def history_sections(history: History) -> list[Section]:
    """Return the sections, most severe first; empty sections are left out."""
    found = [
        section("New since the day before", "bad", event_lines(history.new)),
        section(
            f"Comes and goes (within {history.flapping_days} days)", "bad",
            event_lines(history.flapping, changes=True),
        ),
        section("Getting slower", "poor", slower_lines(history.slower)),
        section("Getting slower across the whole fleet", "poor", map(fleet_line, history.fleet)),
        section("Gone since the day before", "good", event_lines(history.recovered)),
        *(_between(history.between) if history.between else ()),
        section(f"Measurements of {short(history.node)}", "idle", map(line_line, history.lines)),
        section("Not compared, or compared with reservations", "idle", _scattered(history)),
        section("Also", "idle", _also(history)),
    ]  # fmt: skip
    return [each for each in found if each.lines]


def event_lines(events: Iterable[Event], *, changes: bool = False) -> Iterator[str]:
    """Yield one line per cause, with its nodes."""
    alike: dict[tuple[str, str, str, str], list[Event]] = {}
    for each in events:  # silence has no check: its words are the reason
        alike.setdefault((each.id, each.label, each.severity, "" if each.id else each.title), []).append(each)
    for (id, label, severity, _), group in sorted(alike.items(), key=lambda each: -len(each[1])):
        nodes = sorted({each.node for each in group})
        title = common_title(label, [each.title for each in group])
        named = f" ({short(id)}, {short(label)}, {severity})" if id else ""
        often = f"; up to {amount(max(each.changes for each in group), 'change')}" if changes else ""
        devices = sorted({device for each in group for device in each.devices}) if len(nodes) == 1 else []
        on = f" on {', '.join(map(short, devices[:FEW]))}" if devices else ""
        yield f"{few(nodes)}{on}: {short(title)}{named}{often}"


def slower_lines(lines: Iterable[Line]) -> Iterator[str]:
    """Yield one line per node and measurement, with all of its devices."""
    alike: dict[tuple[str, str, str], list[Line]] = {}
    for each in lines:
        alike.setdefault((each.node, each.measurement, each.model), []).append(each)
    for group in alike.values():
        worst = max(group, key=lambda each: abs(each.change or 0))
        yield line_line(worst, devices=[each.device for each in group], named=True)


def line_line(line: Line, *, devices: Sequence[str] = (), named: bool = False) -> str:
    """Return a measurement with its baseline, its value now, its change and its slope."""
    where = " ".join([*([line.node] if named else []), ", ".join(devices or [line.device])]).strip()
    head = f"{short(where)}: {short(line.measurement)}" if where else short(line.measurement)
    values = f"{number(line.baseline)} to {number(line.now)} {short(line.unit)}"
    if line.change is None or line.per_month is None:
        return f"{head} {values}; too few runs for a slope"
    return (
        f"{head} {values}: {line.change:+.1%} in {amount(line.days, 'day')}, {line.per_month:+.1%} a month "
        f"({amount(line.points, 'point')})"
    )


def fleet_line(trend: FleetTrend) -> str:
    """Return a measurement that gets worse on all nodes."""
    return (
        f"{short(trend.measurement)} on {short(trend.model)}: {trend.change:+.1%} in {amount(trend.days, 'day')} on "
        f"{amount(trend.nodes, 'node')}"
    )


def _between(between: Between) -> tuple[Section, Section]:
    causes = (_count_line(each) for each in between.causes if each.got or each.lost or each.before != each.after)
    settings = (
        f"{few(each.nodes)}: {short(each.setting)} {_set(each.before)} to {_set(each.after)}"
        for each in between.settings
    )
    days = f"between {between.before} and {between.after} ({amount(between.nodes, 'node')} reported on both)"
    return section(f"Causes {days}", "idle", causes), section(f"Settings {days}", "poor", settings)


def _count_line(cause: CauseCount) -> str:
    named = f" ({short(cause.id)}, {short(cause.label)})" if cause.id else ""
    got = f"; got it: {few(cause.got)}" if cause.got else ""
    lost = f"; lost it: {few(cause.lost)}" if cause.lost else ""
    return f"{short(cause.title)}{named}: {cause.before:,} to {amount(cause.after, 'node')}{got}{lost}"


def _set(value: str | None) -> str:
    return "not set" if value is None else short(value)


def _scattered(history: History) -> Iterator[str]:
    notes: dict[tuple[str, int], list[str]] = {}
    for each in history.scattered:
        notes.setdefault((each.note, each.days), []).append(
            f"{short(each.measurement)} on {short(each.model or 'unknown')}"
        )
    for (note, days), names in notes.items():
        more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
        yield f"{', '.join(names[:FEW])}{more}, {amount(days, 'day')}: {note}"


def _also(history: History) -> Iterator[str]:
    if history.compared:
        short_ones = f"; {history.too_short:,} have too few runs" if history.too_short else ""
        yield (
            f"{amount(history.compared, 'measurement')} of devices {'has' if history.compared == 1 else 'have'} a slope"
            f"{short_ones}; the store has {amount(history.runs, 'run')} from {history.first} to {history.last}"
        )
    yield from map(short, history.notes)
