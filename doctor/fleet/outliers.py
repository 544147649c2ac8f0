"""Find slow nodes: compare every measurement with the peers and with the node's own earlier runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tfgpu_doctor.fleet.columns import FIRST, SECOND, Columns
from tfgpu_doctor.fleet.database import Database
from tfgpu_doctor.fleet.fleet import Against, FleetChange, Second, Series, SlowGroup, Suspect
from tfgpu_doctor.fleet.history_runs import EarlierRuns
from tfgpu_doctor.fleet.slow_groups import NodeLevel, median_of, only_slow_node, slow_nodes
from tfgpu_doctor.fleet.thresholds import (
    A_FEW,
    FALSE_SUSPECTS,
    FEWEST_PEERS,
    FLEET_CHANGE,
    LEAST_EFFECT,
    LEAST_SPREAD,
    MAD_TO_SIGMA,
    MIRROR,
    MIRROR_SHARE,
    MOST_SUSPECTS,
    POOLED_FROM,
    TAIL_FROM,
    TAIL_SHARE,
    WORSE_FROM,
    least_z,
    reach_of_tail,
    reach_of_worse,
)  # fmt: skip
from tfgpu_doctor.model.amounts import amount

_BINS = 48
_FURTHEST = 700.0  # of a logarithm: beyond it, the value overflows a float
_LONGEST = 200
_Name = tuple[str, str, str, str]  # measurement, model, unit, what is better
_PEERS, _HISTORY = 0, 1
_AGAINST: tuple[Against, Against] = ("peers", "own history")

# Logarithms with the sign set so that more is worse: of the values, and of the changes since the median of earlier runs.
_TURNED = f"""
create or replace table turned as
with before as (select series, node, device, turn * y own from earlier join turn using (series))
select {_PEERS}::tinyint against, series, node, device, turn * ln(value) x, 0.0::double own
from point join turn using (series) where look = {FIRST}
union all
select {_HISTORY}::tinyint, series, node, device, turn * ln(value) - own, own
from point join turn using (series) join before using (series, node, device) where look = {FIRST}
"""  # noqa: S608 - numbers of ours
_DEVIATIONS = """
create or replace table middle as select against, series, median(x) middle, count(*) n from turned group by 1, 2;
create or replace table deviation as
select against, series, node, device, x - middle dev, own from turned join middle using (against, series);
drop table turned
"""
_SCALES = f"""
create or replace table scale as
with spread as (
  select against, series, count(distinct node) nodes, median(abs(dev)) mad,
         quantile_cont(dev, [{MIRROR_SHARE}, {TAIL_SHARE}, {1 - TAIL_SHARE}, {1 - WORSE_FROM}]) ends
  from deviation group by 1, 2)
select against, series, n, nodes, middle, greatest({MAD_TO_SIGMA} * mad, {LEAST_SPREAD}) sigma, -ends[1] mirror,
       -ends[2] better, ends[3] worse, ends[4] worse_from
from spread join middle using (against, series)
"""  # noqa: S608 - numbers of ours
# Both sides of each series, and (series -1) of all small series pooled, each scaled by its own standard deviation; for
# each side, the last part with the moments of the excesses over its start.
_TAILS = f"""
with small as (
  select against, dev / sigma z from deviation join scale using (against, series)
  where n between {POOLED_FROM} and {TAIL_FROM - 1}),
pool as (
  select against, count(*) n, quantile_cont(z, [{TAIL_SHARE}, {1 - TAIL_SHARE}, {1 - WORSE_FROM}]) ends from small group by 1),
starts as (
  select against, series, better, worse, worse_from from scale where n >= {TAIL_FROM}
  union all select against, -1, -ends[1], ends[2], ends[3] from pool where n >= {TAIL_FROM}),
excess as (
  select against, series, 'better' side, -dev - better e from deviation join starts using (against, series) where -dev > better
  union all
  select against, series, 'worse', dev - worse from deviation join starts using (against, series) where dev > worse
  union all
  select against, -1, 'better', -z - better from small join (from starts where series = -1) using (against) where -z > better
  union all
  select against, -1, 'worse', z - worse from small join (from starts where series = -1) using (against) where z > worse),
ranked as (
  select *, row_number() over (partition by against, series, side order by e) - 1 place,
         count(*) over (partition by against, series, side) m from excess)
select against, series, side, any_value(case side when 'better' then better else worse end), avg(e),
       avg(e * (m - 1 - place) / greatest(m - 1, 1)), any_value(m), any_value(worse_from)
from ranked join starts using (against, series) group by 1, 2, 3
"""  # noqa: S608 - numbers of ours
_LIMITED = "select against, series, n, nodes, middle, sigma, mirror from scale order by against, series"
# How far whole nodes are beyond the limit.
_LEVELS = """
select against, series, node, count(*), count(*) filter (dev > most), median(dev), median(own)
from deviation join bound using (against, series) where series in {series} group by 1, 2, 3 order by 1, 2, 3
"""
_POOL = -1


@dataclass(frozen=True)
class Spread:
    """The distribution of a measurement over the peers, in logarithms where more is worse; `limit`: the largest deviation."""

    against: int
    series: int
    count: int
    nodes: int
    middle: float
    sigma: float
    onwards: float = 0.0  # the reach of the worse side, estimated from the part that contains no exceptions
    by_worse: float = (
        math.inf
    )  # estimated from the whole worse side, for when there are too many outliers to be exceptions
    limit: float = math.inf
    note: str = ""
    slow: tuple[NodeLevel, ...] = ()  # the nodes of a slow group
    others: int = 0  # the nodes beside it


@dataclass(frozen=True)
class Measured:
    """The results from all measurements."""

    series: tuple[Series, ...]
    suspects: tuple[Suspect, ...]
    slow_groups: tuple[SlowGroup, ...]
    changes: tuple[FleetChange, ...]


def measured(database: Database, columns: Columns, earlier: EarlierRuns) -> Measured:
    """Return the slow nodes by measurement, and the spread of all measurements."""
    import numpy as np

    turns = np.array([1 if better == "lower" else -1 for _, _, _, better in columns.series], dtype="int32")
    database.add("turn", {"series": np.arange(len(turns), dtype="int32"), "turn": turns})
    database.add("earlier", earlier.table())
    database.run(_TURNED)
    spreads = limits(database)
    names = list(columns.series)
    return Measured(
        tuple(sorted(_series(database, spreads, names), key=lambda each: (each.model, each.measurement))),
        tuple(_suspects(database, columns, spreads, names)),
        tuple(_slow_group(columns, each, names[each.series]) for each in spreads if each.slow),
        tuple(_changes(spreads, names)),
    )


def limits(database: Database) -> list[Spread]:
    """Return the limits for the values of the table `turned`, and write them to the table `bound`, beside `deviation`."""
    database.run(_DEVIATIONS)
    database.run(_SCALES)
    spreads = _limited(database, _spreads(database))
    _write_limits(database, spreads)
    return spreads


def _chance(database: Database) -> float:
    """Return the chance at which a single healthy value may be suspected, from the limit of false suspects per node."""
    ((points, nodes),) = database.rows("select count(*), count(distinct node) from deviation")
    per_node = float(points) / max(1, nodes)
    return float(FALSE_SUSPECTS / max(1.0, per_node))


def _spreads(database: Database) -> list[Spread]:
    chance = _chance(database)
    tails = {}
    for against, series, side, start, mean, weighted, count, before in database.rows(_TAILS):
        tails[against, series, side] = reach_of_tail(start, mean, weighted, count, chance)
        if side == "worse":
            tails[against, series, "onwards"] = reach_of_worse(before, start, chance)
    return [_spread(row, tails) for row in database.rows(_LIMITED)]


def _spread(row: tuple[Any, ...], tails: dict[tuple[int, int, str], float]) -> Spread:
    """Return the distribution of one measurement, with the limit beyond which a value is too bad to be noise."""
    against, series, count, nodes, middle, sigma, mirror = row
    if count < FEWEST_PEERS:
        there = f"there {'is' if count == 1 else 'are'} {amount(count, 'value')}"
        note = f"not compared: {there}, and a comparison requires {FEWEST_PEERS}"
        return Spread(against, series, count, nodes, middle, sigma, note=note)
    key, times = (series, 1.0) if count >= TAIL_FROM else (_POOL, sigma)
    pooled = count >= POOLED_FROM and (against, key, "better") in tails
    better = times * tails[against, key, "better"] if pooled else min(MIRROR * mirror, 2 * least_z(count) * sigma)
    return Spread(
        against, series, count, nodes, middle, sigma,
        limit=max(least_z(count) * sigma, -math.log(1 - LEAST_EFFECT), better),
        onwards=times * tails[against, key, "onwards"] if pooled else 0.0,
        by_worse=times * tails[against, key, "worse"] if pooled else math.inf,
    )  # fmt: skip


def _limited(database: Database, spreads: list[Spread]) -> list[Spread]:
    """Widen the limits to the reach of the worse sides. If too many values are beyond, use the whole worse side and add a
    note; if still too many are, set no limit.
    """
    wider = [
        _widened(each, many, levels) if many else replace(each, limit=max(each.limit, each.onwards))
        for each, many, levels in _too_many_beyond(database, spreads)
    ]
    return [replace(each, limit=math.inf) if many else each for each, many, _ in _too_many_beyond(database, wider)]


def _widened(spread: Spread, many: int, levels: list[NodeLevel]) -> Spread:
    slow = slow_nodes(levels, spread.limit)
    return replace(
        spread, limit=max(spread.limit, spread.onwards, spread.by_worse), slow=tuple(slow), others=len(levels) - len(slow),
        note=_scattered(spread, many, len(slow)),
    )  # fmt: skip


def _too_many_beyond(database: Database, spreads: list[Spread]) -> list[tuple[Spread, int, list[NodeLevel]]]:
    """Return each spread with the number of values beyond its limit, and by node; 0 if they may be exceptions."""
    _write_limits(database, spreads)
    query = "select against, series, count(*) from deviation join bound using (against, series) where dev > most group by 1, 2"
    beyond = {(against, series): count for against, series, count in database.rows(query)}
    many = [each for each in spreads if beyond.get((each.against, each.series), 0) > _exceptions(each)]
    by_node = _levels(database, many)
    found = []
    for each in spreads:
        key = each.against, each.series
        levels = by_node.get(key, [])
        alone = only_slow_node(levels)  # one exception, however many devices it has
        count = beyond.get(key, 0) - (alone.beyond - 1 if alone else 0)
        found.append((each, beyond[key] if count > _exceptions(each) else 0, levels))
    return found


def _exceptions(spread: Spread) -> float:
    """Return the number of values beyond the limit that may be exceptions."""
    return max(A_FEW, MOST_SUSPECTS * spread.count)


def _levels(database: Database, spreads: list[Spread]) -> dict[tuple[int, int], list[NodeLevel]]:
    """Return how far the nodes are beyond the limit in some measurements."""
    found: dict[tuple[int, int], list[NodeLevel]] = {(each.against, each.series): [] for each in spreads}
    series = (*(each.series for each in spreads), -1)
    for against, number, *level in database.rows(_LEVELS.format(series=series)) if spreads else ():
        if (against, number) in found:
            found[against, number].append(NodeLevel(*level))
    return found


def _scattered(spread: Spread, many: int, slow: int) -> str:
    least = 1 - math.exp(-spread.limit)
    what = (
        f"they are a slow group of {slow:,} nodes" if slow
        else "they are a separate group, or the measurement is unstable"
    )  # fmt: skip
    return (
        f"{many:,} of {spread.count:,} values are more than {least:.0%} worse than the median: too many to be exceptions, so "
        f"{what}; only values beyond them are suspected"
    )


def _write_limits(database: Database, spreads: list[Spread]) -> None:
    import numpy as np

    table = {
        "against": np.array([each.against for each in spreads], dtype="int32"),
        "series": np.array([each.series for each in spreads], dtype="int32"),
        "most": np.array([each.limit for each in spreads], dtype="float64"),
    }
    database.add("bound", table)


def _suspects(database: Database, columns: Columns, spreads: list[Spread], names: list[_Name]) -> list[Suspect]:
    known = {(each.against, each.series): each for each in spreads}
    devices = list(columns.devices)
    rows = database.rows(
        f"""
        with again as (select series, node, device, median(turn * ln(value)) x2 from point join turn using (series)
                       where look = {SECOND} group by all)
        select against, series, node, device, own + middle + dev, dev, x2
        from deviation join bound using (against, series) join middle using (against, series)
        left join again using (series, node, device) where dev > most order by against, dev desc, node, device
        """  # noqa: S608 - numbers of ours
    )
    return [
        _suspect(known[against, series], names[series], columns.nodes[node].name, devices[device], x, dev, again)
        for against, series, node, device, x, dev, again in rows
    ]


def _suspect(spread: Spread, name: _Name, node: str, device: str, x: float, dev: float, again: float | None) -> Suspect:
    measurement, model, unit, _ = name
    expected = x - dev
    return Suspect(
        node=node, device=device[:_LONGEST], measurement=measurement[:_LONGEST], model=model[:_LONGEST],
        unit=unit[:_LONGEST], value=_value(x, name), expected=_value(expected, name),
        limit=_value(expected + spread.limit, name), change=_value(x, name) / _value(expected, name) - 1,
        z=dev / spread.sigma, peers=spread.count - 1,
        against=_AGAINST[spread.against],
        second=None if again is None else Second(value=_value(again, name), slow=again - expected > spread.limit),
    )  # fmt: skip


def _slow_group(columns: Columns, spread: Spread, name: _Name) -> SlowGroup:
    measurement, model, unit, _ = name
    deviation, own = median_of(spread.slow)
    value, usual = _value(own + spread.middle + deviation, name), _value(own + spread.middle, name)
    return SlowGroup(
        nodes=tuple(sorted(columns.nodes[each.node].name for each in spread.slow)), measurement=measurement[:_LONGEST],
        model=model[:_LONGEST], unit=unit[:_LONGEST], value=value, expected=usual, change=value / usual - 1, others=spread.others,
        against=_AGAINST[spread.against],
    )  # fmt: skip


def _value(x: float, name: _Name) -> float:
    return math.exp(max(-_FURTHEST, min(_FURTHEST, x if name[3] == "lower" else -x)))


def _series(database: Database, spreads: list[Spread], names: list[_Name]) -> list[Series]:
    """Return every measurement with its histogram, in logarithmic bins from the smallest to the largest value."""
    rows = database.rows(
        f"""
        with now as (select series, ln(value) y from point where look = {FIRST}),
        ends as (select series, min(y) low, greatest(max(y), min(y) + 1e-9) high from now group by 1)
        select series, exp(any_value(low)), exp(any_value(high)), list(bin), list(c) from (
          select series, any_value(low) low, any_value(high) high,
                 least({_BINS - 1}, floor({_BINS} * (y - low) / (high - low)))::int bin, count(*) c
          from now join ends using (series) group by series, bin)
        group by series
        """  # noqa: S608 - numbers of ours
    )
    histograms = {series: (low, high, dict(zip(bins, counts, strict=True))) for series, low, high, bins, counts in rows}
    found = []
    for spread in spreads:
        if spread.against == _PEERS:
            low, high, counts = histograms[spread.series]
            found.append(_one_series(spread, names[spread.series], low, high, counts))
    return found


def _one_series(spread: Spread, name: _Name, low: float, high: float, counts: dict[int, int]) -> Series:
    measurement, model, unit, better = name
    known = math.isfinite(spread.limit)
    return Series(
        measurement=measurement[:_LONGEST], model=model[:_LONGEST], unit=unit[:_LONGEST],
        better="lower" if better == "lower" else "higher", nodes=spread.nodes, values=spread.count,
        median=_value(spread.middle, name), spread=spread.sigma, note=spread.note, low=low, high=high,
        limit=_value(spread.middle + spread.limit, name) if known else None,
        bins=tuple(counts.get(place, 0) for place in range(_BINS)),
    )  # fmt: skip


def _changes(spreads: list[Spread], names: list[_Name]) -> list[FleetChange]:
    """Return the measurements that got worse on the whole fleet since the earlier runs."""
    return [
        FleetChange(
            measurement=names[each.series][0][:_LONGEST], model=names[each.series][1][:_LONGEST], nodes=each.nodes,
            change=_value(each.middle, names[each.series]) - 1,
        )
        for each in spreads
        if each.against == _HISTORY and each.middle > -math.log(1 - FLEET_CHANGE)
    ]  # fmt: skip
