"""The result of `fleet history`: what changed on the nodes over time; every output format renders it."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.model import Severity

HISTORY_SCHEMA = 1


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement of one device of one node over time. `change`: -0.1 is a tenth less in the last third of the points than
    in the first third, apart from the change of all peers; null: too few points.
    """

    node: str
    device: str
    measurement: str
    model: str
    unit: str
    baseline: float  # the median of the first third of the points, as measured
    now: float  # of the last third
    change: float | None
    per_month: float | None  # the slope of Theil and Sen, in 30 days, apart from the peers
    days: int  # from its first to its last point
    points: int
    ratio: float  # the change in standard deviations of its own points; positive: worse
    limit: float | None  # a change beyond it is worse than the changes of the peers explain; null: not compared
    window_days: int


class FleetTrend(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement that gets worse on all nodes of a device model."""

    measurement: str
    model: str
    unit: str
    change: float
    days: int
    nodes: int


class Scattered(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement that is not compared, or with a reservation."""

    measurement: str
    model: str
    days: int
    note: str


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A cause that one node got or lost. Its key is `id`, `label` and `devices`; without an id, the node has no report."""

    node: str
    id: str
    label: str
    devices: tuple[str, ...]
    severity: Severity
    title: str
    before: str | None  # the last day before, on which the node was judged for it; null: never
    changes: int  # within the days of `flapping_days`
    present: bool  # now


class CauseCount(msgspec.Struct, frozen=True, kw_only=True):
    """A cause on two days: the nodes that have it, and which of those that reported on both days got or lost it."""

    id: str
    label: str
    title: str
    before: int
    after: int
    got: tuple[str, ...]
    lost: tuple[str, ...]


class SettingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that changed between two days in the same way on these nodes; null: not set."""

    setting: str
    before: str | None
    after: str | None
    nodes: tuple[str, ...]


class Between(msgspec.Struct, frozen=True, kw_only=True):
    """Two days, compared by the last run of each node on each."""

    before: str
    after: str
    nodes: int  # that reported on both
    causes: tuple[CauseCount, ...]
    settings: tuple[SettingChange, ...]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What a store tells. `lines`: of the node that was asked for."""

    schema: int = HISTORY_SCHEMA
    doctor: str
    exit_code: int
    first: str  # day
    last: str
    runs: int
    nodes: int  # on the last day
    node: str = ""  # the only node that was asked for
    slower: tuple[Line, ...] = ()
    fleet: tuple[FleetTrend, ...] = ()
    new: tuple[Event, ...] = ()
    recovered: tuple[Event, ...] = ()
    flapping: tuple[Event, ...] = ()
    flapping_days: int = 0
    between: Between | None = None
    lines: tuple[Line, ...] = ()
    compared: int = 0  # lines with a slope
    too_short: int = 0  # lines without one
    scattered: tuple[Scattered, ...] = ()
    notes: tuple[str, ...] = ()
