"""Compare the nodes of a fleet by the folders that contain their reports."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

import tfgpu_doctor
from tfgpu_doctor.fleet.columns import NO_GPU, Columns, kind_of, numpy_of
from tfgpu_doctor.fleet.database import Database
from tfgpu_doctor.fleet.drift import drift
from tfgpu_doctor.fleet.fleet import (
    REPORTED,
    STATUSES,
    CauseGroup,
    CheckRow,
    Drift,
    Fleet,
    Kind,
    NotMeasured,
    Pattern,
    RefusedFile,
    Silence,
    Status,
    Varied,
)  # fmt: skip
from tfgpu_doctor.fleet.history_runs import EarlierRuns, chosen_of, no_points
from tfgpu_doctor.fleet.known import Known, KnownIssue, Recognized
from tfgpu_doctor.fleet.outliers import Measured, measured
from tfgpu_doctor.fleet.reports_read import SECOND_FOLDER, Heard, decode_settings, read_reports
from tfgpu_doctor.fleet.statuses import statuses, with_known
from tfgpu_doctor.fleet.store import Store
from tfgpu_doctor.fleet.store_runs import earlier_in_store
from tfgpu_doctor.fleet.thresholds import FEWEST_PEERS
from tfgpu_doctor.fleet.unjudged import unjudged_nodes
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.model.amounts import amount

_NO_FINDING: tuple[Status, ...] = ("good", "known", "not judged")
_FINDINGS, _NOT_JUDGED = 1, 3


@dataclass(frozen=True)
class Golden:
    """The reference node for the others."""

    name: str
    settings: dict[str, str]

    @property
    def kind(self) -> str:
        """The kind of nodes that it can be compared with."""
        return kind_of(self.settings.get("GPU models", "")) or NO_GPU


def golden_of(heard: Heard) -> Golden:
    """Return a node's report as the reference for the others. Raises msgspec.DecodeError."""
    return Golden(heard.node, decode_settings(bytes(heard.settings)))


def merge(
    folder: str,
    *,
    golden: str | Golden = "",
    expected: Iterable[str] | None = None,
    history: Sequence[str] = (),
    store: Store | None = None,
    issues: Iterable[KnownIssue] = (),
    today: dt.date | None = None,
) -> Fleet:
    """Return the comparison of the reports in a folder, and with earlier runs: in folders (`history`) or in a store.

    Raises OSError if a folder cannot be listed, and KeyError if the golden node did not report.
    """
    columns, files, notes = Columns(), list[RefusedFile](), list[str]()
    for file, heard in read_reports(folder, files):
        _add(columns, file, heard, files)
    _add_second(columns, os.path.join(folder, SECOND_FOLDER), files, notes)
    earlier = earlier_in_store(store, columns, notes) if store else _earlier(columns, history, notes)
    if columns.left_out:
        verb = "is" if columns.left_out == 1 else "are"
        notes.append(f"{amount(columns.left_out, 'value')} {verb} outside the range of any measurement and left out")
    reference = _golden(golden, columns) if golden else None
    database = Database(columns)
    try:
        found = measured(database, columns, earlier)
        differing, varied = drift(
            database, columns, reference.settings if reference else None, reference.kind if reference else ""
        )
        checks = _checks(database, columns)
        patterns = database.rows("select checks, list(node order by node) from node group by 1 ")
    finally:
        database.close()
    names = [node.name for node in columns.nodes]
    causes, unmet = columns.troubles.groups("cause", names), columns.troubles.groups("unmet", names)
    if reference and reference.kind not in columns.kind_names:
        notes.append(f"no node has the GPUs of the golden node ({reference.kind}): no node is compared with it")
    asked = None if expected is None else frozenset(expected)
    silent = _silent(columns, asked)
    known = Known(issues, today or dt.datetime.now().astimezone().date())
    by_node = statuses(columns, causes + unmet, silent, found.suspects, found.slow_groups, differing, known)
    causes, unmet = with_known(columns, causes, known), with_known(columns, unmet, known)
    notes += known.notes(columns.number_of)
    return _fleet(
        columns, by_node, reference, asked, known=known.recognized(), files=files, notes=notes, found=found,
        drift=differing, varied=varied, checks=checks, causes=causes, unmet=unmet, silent=silent,
        patterns=_patterns(columns, patterns, checks),
    )  # fmt: skip


def _add(columns: Columns, file: str, heard: Heard, files: list[RefusedFile]) -> None:
    try:
        columns.add(heard)
    except msgspec.DecodeError as error:
        files.append(RefusedFile(file=file, why=f"not a valid node report: {error}"))


def _add_second(columns: Columns, folder: str, files: list[RefusedFile], notes: list[str]) -> None:
    if not Files().exists(folder):
        return
    if Files().status(folder).kind != "folder":
        files.append(RefusedFile(file=SECOND_FOLDER, why="not a folder: it belongs to the retest"))
        return
    strange = []
    for _, heard in read_reports(folder, files, f"{SECOND_FOLDER}/"):
        if heard.outcome == REPORTED and not columns.look_again(heard):
            strange.append(heard.node)
    if strange:
        verb = "has" if len(strange) == 1 else "have"
        notes.append(
            f"{amount(len(strange), 'node')} {verb} a retest without a first report: {', '.join(sorted(strange)[:5])}"
        )


def _earlier(columns: Columns, folders: Sequence[str], notes: list[str]) -> EarlierRuns:
    """Return the medians of the earlier runs. Each is read and reduced on its own, so memory does not depend on their number."""
    chosen = chosen_of(folders, notes)
    runs = EarlierRuns(columns.measured_now(), len(chosen))
    for folder in chosen:
        refused, points = list[RefusedFile](), no_points()
        for _, heard in read_reports(folder, refused):
            columns.remember(heard, points)
        _, node, series, device, value = points
        runs.add(numpy_of(node), numpy_of(series), numpy_of(device), numpy_of(value))
        if faults := sum(each.fault for each in refused):
            notes.append(f"{amount(faults, 'file')} of the earlier run {folder} could not be read")
    return runs


def _golden(golden: str | Golden, columns: Columns) -> Golden:
    if isinstance(golden, Golden):
        return golden
    number = columns.number_of[golden]
    signature = columns.of_node[0][number]
    signatures, names, values = columns.settings.rows
    all_names, all_values = list(columns.settings.names), list(columns.settings.values)
    settings = {
        all_names[name]: all_values[value]
        for each, name, value in zip(signatures, names, values, strict=True)
        if each == signature
    }
    return Golden(golden, settings)


def _checks(database: Database, columns: Columns) -> tuple[CheckRow, ...]:
    names, values = list(columns.checks.names), list(columns.checks.values)
    counts: dict[str, dict[str, int]] = {}
    query = (
        "select name, value, count(*) from node n join outcome o on o.signature = n.checks group by 1, 2 order by 1, 2"
    )
    for name, value, count in database.rows(query):
        counts.setdefault(names[name], {})[values[value]] = count
    return tuple(CheckRow(id=id, counts=each) for id, each in counts.items())


def _patterns(
    columns: Columns, rows: Iterable[tuple[int, list[int]]], checks: Sequence[CheckRow]
) -> tuple[Pattern, ...]:
    """Group nodes by the outcomes of the checks that have another outcome than pass or skip on some node."""
    telling = {each.id for each in checks if not set(each.counts) <= {"pass", "skip"}}
    names, values = list(columns.checks.names), list(columns.checks.values)
    outcomes: dict[int, dict[str, str]] = {}
    for signature, name, value in zip(*columns.checks.rows, strict=True):
        if names[name] in telling:
            outcomes.setdefault(signature, {})[names[name]] = values[value]
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for signature, nodes in rows:
        reported = [columns.nodes[node].name for node in nodes if columns.nodes[node].outcome == REPORTED]
        if reported:
            alike.setdefault(tuple(sorted(outcomes.get(signature, {}).items())), []).extend(reported)
    found = [
        Pattern(nodes=tuple(sorted(nodes)), outcomes=dict(key))
        for key, nodes in alike.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda each: (-len(each.nodes), each.nodes)))


def _not_measured(columns: Columns) -> tuple[NotMeasured, ...]:
    reasons: dict[str, list[str]] = {}
    for node in columns.nodes:
        if node.outcome == REPORTED and node.reason:
            reasons.setdefault(node.reason, []).append(node.name)
    return tuple(
        NotMeasured(reason=reason, nodes=tuple(sorted(nodes)))
        for reason, nodes in sorted(reasons.items(), key=lambda each: -len(each[1]))
    )


def _silent(columns: Columns, asked: frozenset[str] | None) -> tuple[Silence, ...]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for node in columns.nodes:
        if node.outcome != REPORTED:
            reasons.setdefault((node.outcome, node.reason), []).append(node.name)
    if missing := sorted((asked or frozenset()) - columns.number_of.keys()):
        reasons["not heard of", ""] = missing
    return tuple(
        Silence(outcome=outcome, reason=reason, nodes=tuple(sorted(nodes)))
        for (outcome, reason), nodes in sorted(reasons.items(), key=lambda each: -len(each[1]))
    )


def _fleet(
    columns: Columns, by_node: dict[str, Status], golden: Golden | None, asked: frozenset[str] | None, *,
    files: list[RefusedFile], notes: list[str], found: Measured, drift: tuple[Drift, ...], varied: tuple[Varied, ...],
    checks: tuple[CheckRow, ...], causes: tuple[CauseGroup, ...], unmet: tuple[CauseGroup, ...],
    silent: tuple[Silence, ...], patterns: tuple[Pattern, ...], known: tuple[Recognized, ...],
) -> Fleet:  # fmt: skip
    by_status: dict[Status, list[str]] = {each: [] for each in STATUSES}
    for name in sorted(by_node):
        by_status[by_node[name]].append(name)
    heard = sum(node.outcome == REPORTED for node in columns.nodes)
    wrong = any(by_status[each] for each in STATUSES if each not in _NO_FINDING)
    wrong = wrong or bool(found.changes) or any(each.fault for each in files)
    kinds: dict[str, int] = {}
    for node in columns.nodes:
        if node.outcome == REPORTED:
            kinds[node.kind] = kinds.get(node.kind, 0) + 1
    return Fleet(
        doctor=tfgpu_doctor.__version__,
        exit_code=_NOT_JUDGED if not heard else _FINDINGS if wrong else _NOT_JUDGED if by_status["not judged"] else 0,
        heard=heard,
        expected=None if asked is None else len(asked),
        golden=golden.name if golden else "",
        statuses={each: tuple(nodes) for each, nodes in by_status.items()},
        causes=causes, unmet=unmet, silent=silent, not_judged=tuple(by_status["not judged"]),
        unjudged=unjudged_nodes(columns.nodes, silent, by_status["not judged"]),
        not_measured=_not_measured(columns), suspects=found.suspects,
        slow_groups=found.slow_groups, drift=drift, known=known, varied=varied,
        changes=found.changes, series=found.series, checks=checks,
        patterns=patterns, files=tuple(sorted(files, key=lambda each: (not each.fault, each.file))), notes=tuple(notes),
        kinds=tuple(
            Kind(name=name, nodes=count, compared=count >= FEWEST_PEERS)
            for name, count in sorted(kinds.items(), key=lambda each: -each[1])
        ),
        unexpected=() if asked is None else tuple(sorted(columns.number_of.keys() - asked)),
    )  # fmt: skip
