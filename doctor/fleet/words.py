"""Describe the comparison of a fleet as sections of lines, causes first, for the text, Markdown and HTML pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.fleet.fleet import (
    STATUSES,
    UNJUDGED,
    CauseGroup,
    Drift,
    Fleet,
    NotMeasured,
    Silence,
    SlowGroup,
    Status,
    Suspect,
    Varied,
)  # fmt: skip
from tfgpu_doctor.fleet.known import Recognized
from tfgpu_doctor.fleet.node_sets import folded, is_node_name
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.render.words import number

FEW = 4  # node names on a line
_MOST_LINES = 40  # of a section; the JSON document has all lines
_LONGEST = 120  # characters of one name or value on a line
WORDS: dict[Status, str] = {
    "bad": "bad in test and retest",
    "fails": "with findings in their own report",
    "suspect": "suspect",
    "silent": "without a report",
    "not judged": "not judged",
    "differs": "configured differently",
    "known": "with known issues only",
    "good": "good",
}
TONES: dict[Status, str] = {
    "bad": "bad", "fails": "bad", "suspect": "poor", "silent": "bad", "not judged": "idle", "differs": "poor",
    "known": "idle", "good": "good",
}  # fmt: skip


@dataclass(frozen=True)
class Section:
    """A heading with its lines. `tone`: good, poor, bad or idle."""

    title: str
    tone: str
    lines: tuple[str, ...]


def headline(fleet: Fleet) -> str:
    """Return the verdict in one sentence."""
    if not fleet.heard:
        return "Not judged: no node reported."
    counts = [f"{len(fleet.statuses[each]):,} {WORDS[each]}" for each in STATUSES if fleet.statuses[each]]
    return f"{amount(sum(map(len, fleet.statuses.values())), 'node')}: {', '.join(counts)}."


def few(nodes: Sequence[str], total: int | None = None) -> str:
    """`12 nodes: n[01-10,14,17]`; if that is long or a name is odd, `12 nodes: n01, n02, n03, n04 and 8 more`."""
    total = len(nodes) if total is None else total
    if FEW < len(nodes) == total and all(map(is_node_name, nodes)) and len(whole := folded(nodes)) <= _LONGEST:
        return f"{amount(total, 'node')}: {whole}"
    shown = ", ".join(short(node) for node in nodes[:FEW])
    more = f" and {total - FEW:,} more" if total > FEW else ""
    return f"{amount(total, 'node')}: {shown}{more}" if shown else amount(total, "node")


def short(text: str) -> str:
    """Return a name or value, shortened to leave room for others."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def sections(fleet: Fleet) -> list[Section]:
    """Return the sections, most severe first; empty sections are left out."""
    causes = _unknown(fleet, fleet.causes)
    found = [
        section("Causes", _tone(causes), map(cause_line, causes)),
        section("Unmet requirements", "bad", map(cause_line, _unknown(fleet, fleet.unmet))),
        section("Nodes without a report", "bad", (_silence_line(each) for each in fleet.silent if each.outcome not in UNJUDGED)),
        section("Files that are not a node report", "bad", _file_lines(fleet, fault=True)),
        section("Bad: slow in test and retest", "bad", suspect_lines(fleet.suspects, bad=True)),
        section("Suspects: slow in one test", "poor", suspect_lines(fleet.suspects, bad=False)),
        section("Slow groups of nodes", "poor", map(slow_group_line, fleet.slow_groups)),
        section(
            "Slower than before across the whole fleet", "poor",
            (
                f"{short(each.measurement)} on {short(each.model)}: {each.change:+.1%} on {amount(each.nodes, 'node')}"
                for each in fleet.changes
            ),
        ),
        section("Configured differently", "poor", map(drift_line, fleet.drift)),
        section("Known issues", "idle", map(_known_line, fleet.known)),
        section("Not judged", "idle", _not_judged_lines(fleet)),
        section("Asked for, but not measured", "idle", map(_not_measured_line, fleet.not_measured)),
        section("Settings without a single usual value", "idle", map(varied_line, fleet.varied)),
        section("Not compared, or compared with reservations", "idle", uncompared(fleet)),
        section("Also", "idle", _also(fleet)),
    ]  # fmt: skip
    return [each for each in found if each.lines]


def _silence_line(silence: Silence) -> str:
    return f"{few(silence.nodes)}: {silence.outcome}{f', {short(silence.reason)}' if silence.reason else ''}"


def _unknown(fleet: Fleet, groups: Sequence[CauseGroup]) -> list[CauseGroup]:
    """Leave out what only nodes with known issues have: it stands under these."""
    known = set(fleet.statuses["known"])
    return [each for each in groups if not known.issuperset(each.nodes)]


def _known_line(known: Recognized) -> str:
    why = f": {short(known.why)}" if known.why else ""
    where = f" ({', '.join(map(short, known.devices))})" if known.devices else ""
    return f"{few(known.nodes)}: {short(known.cause)}{where}, {short(known.owner)} until {known.until}{why}"


def _not_measured_line(missed: NotMeasured) -> str:
    return f"{few(missed.nodes)}: {short(missed.reason)}"


def _not_judged_lines(fleet: Fleet) -> Iterator[str]:
    """Yield a line for each reason. A suite that measured nothing has its own section."""
    elsewhere = {missed.reason for missed in fleet.not_measured}
    for each in fleet.unjudged:
        if each.reason not in elsewhere:
            yield f"{few(each.nodes)}: {each.reason}{f'; next: {each.fix}' if each.fix else ''}"


def section(title: str, tone: str, lines: Iterable[str]) -> Section:
    """Return a section with as many lines as anybody reads."""
    all_lines = list(lines)
    shown = all_lines[:_MOST_LINES]
    if len(all_lines) > len(shown):
        shown.append(f"and {len(all_lines) - len(shown):,} more such lines; --format json has them all")
    return Section(title, tone, tuple(shown))


def _tone(causes: Sequence[CauseGroup]) -> str:
    return "bad" if any(each.severity == "error" for each in causes) else "poor"


def cause_line(cause: CauseGroup) -> str:
    """Return a cause with its nodes, and those that had it again in the retest."""
    named = f" ({cause.id}, {cause.label}, {cause.severity})" if cause.label else f" ({cause.id})"
    again = f"; again in the retest: {few(cause.again)}" if cause.again else ""
    examples = f"; for example: {'; '.join(map(short, cause.examples))}" if cause.examples else ""
    return f"{few(cause.nodes)}: {short(cause.title)}{named}{again}{examples}"


def suspect_lines(suspects: Iterable[Suspect], *, bad: bool) -> Iterator[str]:
    """Yield one line per node and measurement with all affected devices, and both values if there is a retest."""
    alike: dict[tuple[str, str, str, str], list[Suspect]] = {}
    for each in suspects:
        if bool(each.second and each.second.slow) == bad:
            alike.setdefault((each.node, each.measurement, each.model, each.against), []).append(each)
    for group in alike.values():
        yield suspect_line(group)


def suspect_line(group: Sequence[Suspect]) -> str:
    """Return the value of the node's worst device for a measurement, and all of its slow devices."""
    worst = max(group, key=lambda each: abs(each.change))
    devices = ", ".join(short(each.device) for each in group if each.device)
    whom = (
        amount(worst.peers, "peer")
        if worst.against == "peers"
        else "its own history, adjusted for the change of its peers"
    )
    second = f"; retest {number(worst.second.value)} {short(worst.unit)}" if worst.second else ""
    if worst.second and not worst.second.slow:
        second += ", as expected"
    elif worst.second:
        second += ", slow again"
    return (
        f"{short(worst.node)}{f' {devices}' if devices else ''}: {short(worst.measurement)} {number(worst.value)} "
        f"{short(worst.unit)}, {worst.change:+.1%} against {whom} ({number(worst.expected)}, z {worst.z:.0f}){second}"
    )


def slow_group_line(group: SlowGroup) -> str:
    """Return the median of a slow group for a measurement, and what to look for."""
    others = amount(group.others, "other node")
    whom = others if group.against == "peers" else f"their own history, adjusted for the change of {others}"
    return (
        f"{few(group.nodes)}: {short(group.measurement)} {number(group.value)} {short(group.unit)}, {group.change:+.1%} against "
        f"{whom} ({number(group.expected)}): look for what they share, such as a rack, its power or cooling, or a setting"
    )


def drift_line(drift: Drift) -> str:
    """Return nodes with the settings in which they differ."""
    words = (
        f"{short(each.setting)} {_value(each.value)} (others {_value(each.usual)})" for each in drift.differences[:FEW]
    )
    more = f" and {amount(len(drift.differences) - FEW, 'more setting')}" if len(drift.differences) > FEW else ""
    return f"{few(drift.nodes)}: {'; '.join(words)}{more}"


def varied_line(varied: Varied) -> str:
    """Return a setting with the groups of nodes that have the same value."""
    if not varied.groups:
        return f"{short(varied.setting)}: {varied.values:,} values on {amount(varied.nodes, 'node')} ({short(varied.kind)})"
    groups = "; ".join(f"{_value(each.value)} on {few(each.nodes, each.count)}" for each in varied.groups)
    return f"{short(varied.setting)} ({short(varied.kind)}): {groups}"


def uncompared(fleet: Fleet) -> Iterator[str]:
    """Yield the measurements that have too few values to compare, and those that scatter."""
    notes: dict[str, list[str]] = {}
    for each in fleet.series:
        if each.note:
            notes.setdefault(each.note, []).append(f"{short(each.measurement)} on {short(each.model or 'unknown')}")
    for note, names in notes.items():
        more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
        yield f"{', '.join(names[:FEW])}{more}: {note}"


def _file_lines(fleet: Fleet, *, fault: bool) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for each in fleet.files:
        if each.fault == fault:
            reasons.setdefault(each.why, []).append(each.file)
    for why, files in reasons.items():
        more = f" and {len(files) - FEW:,} more" if len(files) > FEW else ""
        yield f"{', '.join(map(short, files[:FEW]))}{more}: {short(why)}"


def _also(fleet: Fleet) -> Iterator[str]:
    yield from map(short, fleet.notes)
    if fleet.unexpected:
        yield f"reported, but not expected: {few(fleet.unexpected)}"
    yield from (f"other files in the folder: {line}" for line in _file_lines(fleet, fault=False))
    if len(fleet.kinds) > 1:
        yield "each node is compared within its kind: " + "; ".join(
            f"{short(each.name)} ({each.nodes:,})" for each in fleet.kinds[:8]
        )


def _value(value: str | None) -> str:
    return "not set" if value is None else short(value)
