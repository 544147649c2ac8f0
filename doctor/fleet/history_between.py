"""Compare two days of a store: the nodes with each cause, and the settings that changed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from tfgpu_doctor.fleet.history import Between, CauseCount, SettingChange
from tfgpu_doctor.fleet.history_events import register
from tfgpu_doctor.fleet.store import StoredRun

_LAST_LOOKS = """
create or replace temp table last_look as
select day, node, arg_max(run, place) as run from nodes join run_order using (run, day)
where not retest and outcome = 'reported' group by day, node
"""
_BOTH = "select count(*) from (select node from last_look group by node having count(distinct day) = 2)"
_CAUSES = """
with had as (select distinct day, node, id, label, title from causes join last_look using (day, run, node) where not retest),
both_days as (select node from last_look group by node having count(distinct day) = 2)
select id, label, arg_max(title, day), count(distinct node) filter (day = $1), count(distinct node) filter (day = $2),
       list(distinct node) filter (day = $1), list(distinct node) filter (day = $2), (select list(node) from both_days)
from had group by id, label
"""
# A variable that is missing was not set. Any other setting that is missing could not be read, and is not compared.
_SETTINGS = """
with of_day as (select day, node, setting, value from settings join last_look using (day, run, node)),
both_days as (select node from last_look group by node having count(distinct day) = 2),
pairs as (select coalesce(b.node, a.node) node, coalesce(b.setting, a.setting) setting, b.value as before, a.value as after
          from (from of_day where day = $1) b full join (from of_day where day = $2) a using (node, setting))
select setting, before, after, list(node order by node) from pairs semi join both_days using (node)
where before is distinct from after and (setting like '$%' or (before is not null and after is not null))
group by all order by count(*) desc, setting, before, after
"""


def between(
    connection: Any, runs: Sequence[StoredRun], before: dt.date, after: dt.date, node: str | None = None
) -> Between:
    """Return the differences of two days, of all nodes or of one, by the last run of each node on each."""
    register(connection, [run for run in runs if run.day in (before, after)])
    connection.execute(_LAST_LOOKS)
    if node is not None:
        connection.execute("delete from last_look where node <> $1", [node])
    ((nodes,),) = connection.execute(_BOTH).fetchall()
    causes = [_count(row) for row in connection.execute(_CAUSES, [before, after]).fetchall()]
    return Between(
        before=str(before), after=str(after), nodes=nodes,
        causes=tuple(sorted(causes, key=lambda each: (-abs(each.after - each.before), -each.after, each.id, each.label))),
        settings=tuple(
            SettingChange(setting=setting, before=old, after=new, nodes=tuple(names))
            for setting, old, new, names in connection.execute(_SETTINGS, [before, after]).fetchall()
        ),
    )  # fmt: skip


def _count(row: tuple[Any, ...]) -> CauseCount:
    id, label, title, count_before, count_after, nodes_before, nodes_after, both_days = row
    had, has, compared = set(nodes_before or ()), set(nodes_after or ()), set(both_days or ())
    return CauseCount(
        id=id, label=label, title=title, before=count_before, after=count_after,
        got=tuple(sorted((has - had) & compared)), lost=tuple(sorted((had - has) & compared)),
    )  # fmt: skip
