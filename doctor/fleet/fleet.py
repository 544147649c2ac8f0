"""The result of the comparison of a fleet's nodes; every output format renders it."""

from __future__ import annotations

from typing import Literal

import msgspec

from tfgpu_doctor.fleet.known import Recognized
from tfgpu_doctor.model import Severity

FLEET_SCHEMA = 2
# The status of a node, worst first. `bad`: it failed or was slow in test and retest; `silent`: it has no report; `known`:
# somebody looks after all that it has.
Status = Literal["bad", "fails", "suspect", "silent", "not judged", "differs", "known", "good"]
STATUSES: tuple[Status, ...] = ("bad", "fails", "suspect", "silent", "not judged", "differs", "known", "good")
REPORTED = "reported"  # the outcome of a node that delivered its own report
BUSY = "busy"  # the outcome of a node whose GPUs others use: it is not judged
NOT_GRANTED = "not granted"  # the outcome where the batch system hides the GPUs that the job did not ask for
UNJUDGED = (BUSY, NOT_GRANTED)
Against = Literal["peers", "own history"]


class CauseGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A root cause or an unmet requirement, with the nodes that have it."""

    label: str
    id: str  # of the check; of an unmet requirement, its key
    title: str
    severity: Severity
    nodes: tuple[str, ...]
    again: tuple[str, ...] = ()  # the nodes that had it in the retest as well, on the same GPUs
    known: tuple[str, ...] = ()  # the nodes where somebody looks after it, on every GPU that has it
    examples: tuple[str, ...] = ()  # what some of the nodes say, if they differ in their words
    fix: str = ""  # what to do if nothing more is known; each node's report has its own


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes without a report, for one reason."""

    outcome: str  # "died", "hung", ..., "not heard of"
    reason: str
    nodes: tuple[str, ...]


class NotMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that reported, but did not measure all that was asked for, for one reason."""

    reason: str  # begins with the suite, "stress test" or "GPUs"
    nodes: tuple[str, ...]


class Unjudged(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that were not judged, for one reason."""

    reason: str
    nodes: tuple[str, ...]
    fix: str = ""  # what to do next; empty if the reason says it


class RefusedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the folder that is not part of the comparison."""

    file: str
    why: str
    fault: bool = True  # false for a file that does not claim to be a report


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that differs from the other nodes. None: it is not set there."""

    setting: str
    value: str | None
    usual: str | None
    share: float  # of the nodes that have the usual value


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of one kind that differ from the others in the same way."""

    kind: str
    nodes: tuple[str, ...]
    differences: tuple[Difference, ...]


class ValueGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that have the same value of a setting."""

    value: str | None
    count: int
    nodes: tuple[str, ...]  # some of them


class Varied(msgspec.Struct, frozen=True, kw_only=True):
    """A setting without a single usual value: it has groups of nodes, or hardly any two nodes are alike."""

    kind: str
    setting: str
    nodes: int
    values: int
    groups: tuple[ValueGroup, ...]  # the largest; empty if hardly any two nodes are alike


class Second(msgspec.Struct, frozen=True, kw_only=True):
    """The same measurement in the retest."""

    value: float
    slow: bool


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is worse than noise explains. `change`: -0.1 is ten percent below the expected value."""

    node: str
    device: str
    measurement: str
    model: str
    unit: str
    value: float
    expected: float
    limit: float
    change: float
    z: float
    peers: int
    against: Against
    second: Second | None = None


class SlowGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Whole nodes that are slow together: too many to be exceptions. `value`: their median; `change`: from the expected value."""

    nodes: tuple[str, ...]
    measurement: str
    model: str
    unit: str
    value: float
    expected: float
    change: float
    others: int  # nodes
    against: Against


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement of one device model over the fleet. `bins`: the numbers of values between `low` and `high`."""

    measurement: str
    model: str
    unit: str
    better: Literal["higher", "lower"]
    nodes: int
    values: int
    median: float
    spread: float  # robust standard deviation, as a share of the median
    limit: float | None  # beyond it a value is suspected; None if it cannot be determined
    note: str = ""  # why it was not compared, or a reservation about the comparison
    low: float = 0.0
    high: float = 0.0
    bins: tuple[int, ...] = ()


class FleetChange(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement that changed on the whole fleet since the earlier runs."""

    measurement: str
    model: str
    change: float
    nodes: int


class CheckRow(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of a check over the fleet."""

    id: str
    counts: dict[str, int]


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with the same check outcomes; `outcomes`: of checks with another outcome than pass or skip on some node."""

    nodes: tuple[str, ...]
    outcomes: dict[str, str]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with the same models of GPUs."""

    name: str
    nodes: int
    compared: bool  # whether there are enough nodes to compare


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of all nodes; lists of nodes are sorted."""

    schema: int = FLEET_SCHEMA
    doctor: str
    exit_code: int
    heard: int  # nodes that reported
    expected: int | None = None  # None if unknown
    golden: str = ""
    statuses: dict[Status, tuple[str, ...]]
    causes: tuple[CauseGroup, ...] = ()
    unmet: tuple[CauseGroup, ...] = ()
    silent: tuple[Silence, ...] = ()
    not_judged: tuple[str, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()  # the nodes of `not_judged`, by the reason
    not_measured: tuple[NotMeasured, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    slow_groups: tuple[SlowGroup, ...] = ()
    drift: tuple[Drift, ...] = ()
    known: tuple[Recognized, ...] = ()
    varied: tuple[Varied, ...] = ()
    changes: tuple[FleetChange, ...] = ()
    series: tuple[Series, ...] = ()
    checks: tuple[CheckRow, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    kinds: tuple[Kind, ...] = ()
    unexpected: tuple[str, ...] = ()
    files: tuple[RefusedFile, ...] = ()
    notes: tuple[str, ...] = ()
