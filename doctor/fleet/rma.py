"""The case of a node for its vendor: which boards, what was found twice, the driver's codes, and what to do about each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.fleet.fleet import Fleet, Suspect
from tfgpu_doctor.fleet.node import Board, Cause, NodeReport
from tfgpu_doctor.fleet.words import suspect_line
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.render.markdown_page import escape
from tfgpu_doctor.render.words import number

_UNKNOWN = "unknown"
_NOT_MEASURED = ("", "not measured")
_NONE = "No board is listed: nothing was found that a vendor would take back."
_SPEEDS = ("metric-fractions.", "metrics.", "peak-fractions.", "reference-fractions.", "speed-ups.", "spreads.")
_IDENTITY = re.compile(
    r"GPU-\S+|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
)  # others count differently each time


@dataclass(frozen=True)
class Case:
    """A node's first look, its retest if there was one, and its measurements that are worse than noise explains.

    `errors`: those of both looks that lie in a board itself (the column `returns` of causes.json).
    """

    first: NodeReport
    second: NodeReport | None
    suspects: tuple[Suspect, ...]
    errors: tuple[Cause, ...]

    @property
    def is_one(self) -> bool:
        """Whether anything was found that a vendor would take back: an error of a board, or a speed that is too low."""
        missed = [each for look in self._looks for each in look.unmet if each.key.startswith(_SPEEDS)]
        return bool(self.errors or self.suspects or any(each.measured not in _NOT_MEASURED for each in missed))

    @property
    def boards(self) -> tuple[Board, ...]:
        """The boards that an error names, as the latest look that read them has them; all where it is not known which."""
        if not self.is_one:
            return ()
        if self._named and all(each in self._read or _IDENTITY.fullmatch(each) for each in self._named):
            found = [self._read[each] for each in self._named if each in self._read]
            return tuple({board.device: board for board in found}.values())
        return (self.second or self.first).boards or self.first.boards

    @property
    def unread(self) -> tuple[str, ...]:
        """The devices that an error names and that no look could read, such as a GPU that fell off the bus."""
        return tuple(each for each in self._named if each not in self._read and _IDENTITY.fullmatch(each))

    @property
    def _named(self) -> tuple[str, ...]:
        """The devices that errors name, each once."""
        return tuple(dict.fromkeys(device for cause in self.errors for device in cause.devices))

    @property
    def _read(self) -> dict[str, Board]:
        """The boards that a look could read, by their UUID and by their PCI address."""
        boards = [board for look in self._looks for board in look.boards]
        return {name: board for board in boards for name in (board.device, board.pci_address) if name}

    @property
    def _looks(self) -> tuple[NodeReport, ...]:
        return (self.first, self.second) if self.second else (self.first,)


def case_of(fleet: Fleet, first: NodeReport, second: NodeReport | None, knowledge: Knowledge) -> Case:
    """Return the case of a node."""
    looks = (first, second) if second else (first,)
    return Case(
        first,
        second,
        suspects=tuple(each for each in fleet.suspects if each.node == first.node),
        errors=tuple(cause for look in looks for cause in look.causes if _is_of_a_board(cause, knowledge)),
    )


def _is_of_a_board(cause: Cause, knowledge: Knowledge) -> bool:
    row = knowledge.causes.get(cause.label)
    return cause.severity == "error" and row is not None and row.returns


def as_markdown(case: Case, knowledge: Knowledge) -> str:
    """Return the document that goes with the two reports."""
    first = case.first
    models = first.settings.get("GPU models", "") or _UNKNOWN
    lines = [
        f"# {escape(first.node)}: {'GPUs to return' if case.is_one else 'no GPU to return'}", "",
        f"Driver {escape(first.driver) or _UNKNOWN}; GPUs of the node: {escape(models)}; tfgpu-doctor {escape(first.doctor)}.",
        "", "## Boards", "", *(_boards(case.boards, case.unread) if case.is_one else [_NONE]),
        "", "## What was found", "", *_look("First examination", first),
        *(_look("Retest", case.second) if case.second else ["", "There was no retest.", ""]),
    ]  # fmt: skip
    if case.suspects:
        lines += ["## Slower than its peers", "", *(f"- {escape(suspect_line([each]))}" for each in case.suspects), ""]
    codes = list(_codes(case, knowledge))
    lines += ["## Codes of the driver since the last boot", ""]
    lines += codes or ["None in what could be read of the kernel log."]
    return "\n".join([*lines, ""])


def _boards(boards: Sequence[Board], unread: Sequence[str]) -> list[str]:
    lost = [f"- {escape(each)}: NVML could not read it: take its serial number from the board." for each in unread]
    if not boards and lost:
        return lost
    if not boards:
        return ["NVML read no GPU of this node: take the serial numbers from the boards."]
    rows = (
        (each.name, each.serial, each.part_number, each.uuid, each.vbios, each.pci_address, str(each.index))
        for each in boards
    )
    head = [
        "| board | serial number | part number | UUID | VBIOS | PCI address | index |",
        "|---|---|---|---|---|---|---|",
    ]
    table = head + [f"| {' | '.join(escape(word) or _UNKNOWN for word in row)} |" for row in rows]
    return [*table, "", *lost] if lost else table


def _look(title: str, look: NodeReport) -> list[str]:
    lines = [f"### {title}, {escape(look.began) or 'at an unknown time'} ({escape(look.order) or 'as usual'})", ""]
    if look.outcome != "reported":
        lines += [f"- {escape(look.outcome)}: {escape(look.reason)}"]
    for cause in look.causes:
        devices = f"; {', '.join(map(escape, cause.devices))}" if cause.devices else ""
        lines += [f"- **{escape(cause.title)}** ({escape(cause.id)}, {escape(cause.label)}, {cause.severity}{devices})"]
        lines += [f"  - {line}" for line in _figures(cause)]
    lines += [f"- not met: {escape(each.words)}" for each in look.unmet]
    return [*(lines if len(lines) > 2 else [*lines, "- nothing"]), ""]


def _figures(cause: Cause) -> Iterator[str]:
    for each in cause.figures:
        device = f" of {escape(each.device)}" if each.device else ""
        yield f"{escape(each.name)}{device}: {number(each.value)} {escape(each.unit)}".rstrip()


def _codes(case: Case, knowledge: Knowledge) -> Iterable[str]:
    latest = case.second if case.second and case.second.outcome == "reported" else case.first
    for each in latest.driver_codes:
        row = knowledge.xids.get((each.kind, each.code))
        name = {"xid": "Xid", "sxid": "SXid"}.get(each.kind, each.kind)
        where = f" at {escape(each.pci_address)}" if each.pci_address else ""
        yield f"- **{escape(name)} {each.code}**{f', {each.count} times' if each.count > 1 else ''}{where}: {escape(each.text)}"
        if row:
            yield f"  - meaning: {escape(row.meaning)} ({row.source})"
            yield f"  - what to do: {escape(row.action)}"
