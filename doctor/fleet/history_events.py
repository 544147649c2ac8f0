"""Find what the nodes got, lost, and get and lose again: causes, unmet requirements, and the silence of a node.

A cause has gone only where the check that found it has judged the node again: a skipped or blocked check says nothing, nor
does one that judged only a part of the GPUs (the outcome `pass in part`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.fleet.fleet import UNJUDGED
from tfgpu_doctor.fleet.history import Event
from tfgpu_doctor.fleet.partly import JUDGED
from tfgpu_doctor.fleet.store import StoredRun, files, whole
from tfgpu_doctor.fleet.store_write import UNMET

FLAPPING_DAYS = 14
# There and gone and there again; two changes are a fault and its repair. Nagios calls a state flapping by the share of changes
# among the last 21 results (https://assets.nagios.com/downloads/nagioscore/docs/nagioscore/3/en/flapping.html).
FLAPPING_CHANGES = 3
SILENT = "no report"  # the label of a node without a report
_BETWEEN = "\x1f"  # of the devices of a key, in a text

# `look`: every node in every run, by the order of the runs. `had`: the keys that a node had. `state`: for each key of a node
# and each look, whether it was there; null if nobody can say. Requirements are judged where the profile is the same.
_STATES = f"""
create or replace temp table look as
select place, day, node, outcome = 'reported' reported, outcome in {UNJUDGED} unjudged, profile,
  case when outcome = 'reported' then '' else outcome || case when reason = '' then '' else ': ' || reason end end silence
from nodes join run_order using (run, day) where not retest;
create or replace temp table had as
select place, node, id, label, array_to_string(devices, '{_BETWEEN}') devices, severity, title
from causes join run_order using (run, day) where not retest
union all select place, node, '', '{SILENT}', '', 'error', silence from look where not reported and not unjudged;
create or replace temp table item as
select node, id, label, devices, arg_max(severity, place) severity, arg_max(title, place) title,
       arg_max(profile, place) profile
from had join look using (node, place) group by all;
create or replace temp table judged as
select node, id, place from checks join run_order using (run, day) semi join item using (node, id)
where outcome in {JUDGED};
create or replace temp table state as
select item.*, look.place, look.day, case
  when had.place is not null then true
  when look.unjudged then null
  when item.label = '{SILENT}' then false
  when not look.reported then null
  when item.label = '{UNMET}' then case when look.profile = item.profile then false end
  when judged.place is not null then false end present
from item join look using (node)
left join had on had.node = item.node and had.id = item.id and had.label = item.label and had.devices = item.devices
  and had.place = look.place
left join judged on judged.node = item.node and judged.id = item.id and judged.place = look.place
"""  # noqa: S608 - constants of ours
_EVENTS = """
with known as (select *, lag(present) over line is distinct from present as changed, row_number() over line as nth
               from state where present is not null
               window line as (partition by node, id, label, devices order by place)),
told as (select node, id, label, devices, any_value(severity) severity, any_value(title) title,
                arg_max(present, place) filter (day = $1) as current, arg_max(present, place) filter (day < $1) as earlier,
                max(day) filter (day < $1) as before, count(*) filter (changed and nth > 1) as changes
         from known group by node, id, label, devices)
select node, id, label, devices, severity, title, before, changes, current, earlier from told
where current is not null order by severity, id, label, node, devices
"""


@dataclass(frozen=True)
class Events:
    """What changed on the last day, and what changes all the time."""

    new: tuple[Event, ...]
    recovered: tuple[Event, ...]
    flapping: tuple[Event, ...]


def events_of(connection: Any, runs: Sequence[StoredRun], node: str | None = None) -> Events:
    """Compare the last day with what was known before, over the last days of the store."""
    last = runs[-1].day
    recent = [run for run in runs if run.day > last - dt.timedelta(days=FLAPPING_DAYS)]
    register(connection, recent)
    for statement in _STATES.split(";"):
        connection.execute(statement)
    new, recovered, flapping = [], [], []
    for *words, before, changes, current, earlier in connection.execute(_EVENTS, [last]).fetchall():
        event = _event(words, before, changes, current)
        if node not in (None, event.node):
            continue
        if changes >= FLAPPING_CHANGES:
            flapping.append(event)
        elif current and not earlier:
            new.append(event)
        elif earlier and not current:
            recovered.append(event)
    return Events(tuple(new), tuple(recovered), tuple(flapping))


def register(connection: Any, runs: Sequence[StoredRun]) -> None:
    """Make the tables of these runs available as views, and the order of the runs as `run_order`."""
    for name in ("runs", "nodes", "causes", "checks", "settings"):
        paths = [path for run in runs if whole(path := run.table(name))]
        connection.execute(f"create or replace temp view {name} as select * from {files(paths)}")  # noqa: S608 - ours
    connection.execute(
        "create or replace temp table run_order as "
        "select run, day, row_number() over (order by day, began nulls first, run) as place from runs"
    )


def _event(words: Sequence[Any], before: dt.date | None, changes: int, current: bool) -> Event:
    node, id, label, devices, severity, title = words
    return Event(
        node=node, id=id, label=label, devices=tuple(devices.split(_BETWEEN)) if devices else (), severity=severity,
        title=title, before=None if before is None else str(before), changes=changes, present=current,
    )  # fmt: skip
