"""The timeline of verdicts, compressed: stretches of one verdict, how long each verdict held in all, and a bar of slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tfgpu_doctor.watching.result import WatchReport
from tfgpu_doctor.watching.words import HANG


@dataclass(frozen=True)
class Stretch:
    """A piece of the run with one verdict; shares and steps are means over its time."""

    begin_s: float
    end_s: float
    verdict: str
    title: str
    share: float | None = None
    step_ms: float | None = None
    causes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.end_s - self.begin_s


@dataclass(frozen=True)
class Total:
    """A verdict over the whole run: in how many stretches, and for how long in all."""

    verdict: str
    title: str
    seconds: float
    times: int
    causes: tuple[str, ...]


def stretches(report: WatchReport) -> list[Stretch]:
    """Return the run as stretches, neighbours with one verdict joined; a hang is a stretch of its own."""
    found: list[Stretch] = []
    for each in _with_hang(list(_turns(report)), report):
        if each.seconds <= 0:
            continue
        if found and found[-1].verdict == each.verdict and found[-1].end_s >= each.begin_s:
            found[-1] = _joined(found[-1], each)
        else:
            found.append(each)
    return found


def _turns(report: WatchReport) -> Iterator[Stretch]:
    turns = sorted(report.timeline, key=lambda each: each.at_s)
    ends = [*(each.at_s for each in turns[1:]), report.seconds]
    for turn, end in zip(turns, ends, strict=False):
        yield Stretch(
            max(0.0, turn.at_s), min(end, report.seconds), turn.verdict, turn.title, turn.share, turn.step_ms, turn.causes
        )  # fmt: skip


def _with_hang(found: list[Stretch], report: WatchReport) -> list[Stretch]:
    """Put the hang in the place of what else is said of its time."""
    if report.hang is None:
        return found
    begin, end = report.hang.at_s, min(report.hang.at_s + report.hang.seconds, report.seconds)
    before = [replace(each, end_s=min(each.end_s, begin)) for each in found]
    after = [replace(each, begin_s=max(each.begin_s, end)) for each in found]
    return [*before, Stretch(begin, end, HANG, report.hang.title), *after]


def _joined(first: Stretch, second: Stretch) -> Stretch:
    causes = tuple(dict.fromkeys((*first.causes, *second.causes)))
    share, step_ms = (
        _mean(one, first.seconds, other, second.seconds)
        for one, other in ((first.share, second.share), (first.step_ms, second.step_ms))
    )
    return replace(first, end_s=second.end_s, share=share, step_ms=step_ms, causes=causes)


def _mean(one: float | None, weight: float, other: float | None, other_weight: float) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return (one * weight + other * other_weight) / (weight + other_weight)


def totals(found: Sequence[Stretch]) -> list[Total]:
    """Return each verdict once, the longest first."""
    rows: dict[str, list[Stretch]] = {}
    for each in found:
        rows.setdefault(each.verdict, []).append(each)
    made = [
        Total(
            verdict, max(parts, key=lambda each: each.seconds).title, sum(each.seconds for each in parts), len(parts),
            tuple(dict.fromkeys(cause for each in parts for cause in each.causes)),
        )
        for verdict, parts in rows.items()
    ]  # fmt: skip
    return sorted(made, key=lambda each: -each.seconds)


def in_slots(found: Sequence[Stretch], seconds: float, slots: int) -> list[str]:
    """Return the verdict that holds most of each slot, empty where nothing was known yet."""
    if seconds <= 0:
        return [""] * slots
    held: list[dict[str, float]] = [{} for _ in range(slots)]
    width = seconds / slots
    for each in found:
        for place in range(max(0, int(each.begin_s / width)), min(slots, int(each.end_s / width) + 1)):
            part = min(each.end_s, (place + 1) * width) - max(each.begin_s, place * width)
            if part > 0:
                held[place][each.verdict] = held[place].get(each.verdict, 0.0) + part
    return [max(slot, key=lambda name: slot[name]) if slot else "" for slot in held]
