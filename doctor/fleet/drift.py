"""Find differences: compare every setting with the majority of the nodes of a kind, or with a golden node."""

from __future__ import annotations

import re

from tfgpu_doctor.fleet.columns import Columns, Numbers
from tfgpu_doctor.fleet.database import Database
from tfgpu_doctor.fleet.fleet import Difference, Drift, ValueGroup, Varied
from tfgpu_doctor.fleet.lost_gpus import Counted, lost
from tfgpu_doctor.fleet.settings import GPU_COUNTS
from tfgpu_doctor.fleet.thresholds import BATCH_NODES, BATCH_SHARE, COVERED, GROUP_SHARE, SAME_MEMORY, SAME_MEMORY_GIB

_NOT_SET = -1
_MOST_GROUPS = 8
_FEW = 10
_MOST_SIZES = 100
_SIZE = re.compile(r"(\d{1,9}) GiB")
_MOST_DIGITS = 9
_LEAST_NODES = 3  # of two nodes that differ, the odd one cannot be determined

_SIZES = """
select n.kind, s.value from node n join setting s on s.signature = n.settings where s.name = {name}
group by all order by count(*) desc, s.value limit {most}
"""
_TAKE_AS = """
update setting set value = {usual} where name = {name} and value = {value}
and signature in (select settings from node where kind = {kind})
"""
# Every value of every setting by kind. An environment variable that only other nodes have counts as "not set"; any
# other setting that could not be read is not compared. `usual`: enough nodes have the value that it is not drift.
_VALUES = f"""
create or replace table value as
with told as (
  select n.kind, s.name, s.value, count(*) c from node n join setting s on s.signature = n.settings group by all),
sizes as (select kind, count(*) size from node where settings in (select signature from setting) group by 1),
all_told as (
  select * from told
  union all
  select kind, name, {_NOT_SET}, any_value(size) - coalesce(sum(c), 0) from variable cross join sizes
  left join told using (kind, name) group by kind, name having any_value(size) > coalesce(sum(c), 0)),
weighed as (
  select *, sum(c) over same total,
         c >= 2 and (c >= {GROUP_SHARE} * sum(c) over same
                     or (c >= {BATCH_NODES} and c >= {BATCH_SHARE} * sum(c) over same)) usual
  from all_told window same as (partition by kind, name))
select *, false lost, sum(case when usual then c else 0 end) over same / total covered,
       first_value(value) over ordered most_usual, first_value(c) over ordered / total most_share
from weighed
window same as (partition by kind, name), ordered as (partition by kind, name order by c desc, value)
"""  # noqa: S608 - numbers of ours
_ODD = f"""
create or replace table odd as
select kind, name, value, most_usual, most_share from value
where not usual and covered >= {COVERED} and total >= {_LEAST_NODES}
"""  # noqa: S608 - numbers of ours
_COUNTS = f"""
select kind, name, value, c, usual from value
where name in {{names}} and (usual or covered < {COVERED} or total < {_LEAST_NODES})
"""  # noqa: S608 - numbers of ours
_LOST = """
insert into odd select kind, name, value, {whole}, {nodes} / total from value
where kind = {kind} and name = {name} and value = {value};
update value set lost = true, usual = usual and value != {value} where kind = {kind} and name = {name}
"""
_AGAINST_GOLDEN = """
create or replace table odd as
select v.kind, v.name, v.value, g.value most_usual, coalesce(m.c, 0) / v.total most_share
from value v join golden g using (name)
left join value m on m.kind = v.kind and m.name = v.name and m.value = g.value
where v.value != g.value and v.kind = {kind}
"""
# The nodes that have an odd value, then the sets of nodes with all odd values that each set shares.
_DRIFT = f"""
with one as (
  select o.kind, o.name, o.value, any_value(o.most_usual) usual, any_value(o.most_share) as part,
    list(n.node order by n.node) nodes
  from odd o join node n on n.kind = o.kind
  left join setting s on s.signature = n.settings and s.name = o.name
  where coalesce(s.value, {_NOT_SET}) = o.value and n.settings in (select signature from setting) group by 1, 2, 3)
select kind, nodes, list([name, value, usual] order by name), list(part order by name) from one group by 1, 2
order by len(nodes), nodes, kind
"""  # noqa: S608 - numbers of ours
_VARIED = f"""
select kind, name, any_value(total), count(*), any_value(covered), list(value order by c desc, value)[:{_MOST_GROUPS}],
       list(c order by c desc, value)[:{_MOST_GROUPS}], list(usual order by c desc, value)[:{_MOST_GROUPS}]
from value where kind is distinct from {{golden_kind}}
group by 1, 2 having count(*) > 1 and (
  sum(usual::int) > 1 or (not bool_or(lost) and (any_value(covered) < {COVERED} or any_value(total) < {_LEAST_NODES})))
order by 2, 1
"""  # noqa: S608 - numbers of ours
_SOME_NODES = f"""
select n.kind, s.name, s.value, list(n.node order by n.node)[:{_FEW}] from node n join setting s on s.signature = n.settings
join value v on v.kind = n.kind and v.name = s.name and v.value = s.value where v.usual and v.c < v.total group by all
"""  # noqa: S608 - numbers of ours


def drift(
    database: Database, columns: Columns, golden: dict[str, str] | None, golden_kind: str
) -> tuple[tuple[Drift, ...], tuple[Varied, ...]]:
    """Return the nodes that differ, grouped by their differences, and the settings that have no usual value."""
    import numpy as np

    names, values = columns.settings.names, columns.settings.values
    for name in golden or ():
        names[name]
    variables = [number for name, number in names.items() if name.startswith("$")]
    database.add("variable", {"name": np.array(variables, dtype="int32")})
    _unify_memory(database, columns, golden or {})
    database.run(_VALUES)
    kind = columns.kind_names.get(golden_kind, -1) if golden is not None else None
    database.run(_ODD)
    _add_lost_gpus(database, names, list(values))
    if golden is not None:
        _add_golden(database, golden, names, values)
        database.run(f"create or replace table others as select * from odd where kind != {kind}")  # noqa: S608 - a number
        database.run(_AGAINST_GOLDEN.format(kind=kind))
        database.run("insert into odd select * from others")
    return _drift(database, columns), _varied(database, columns, kind)


def _add_lost_gpus(database: Database, names: Numbers[str], values: list[str]) -> None:
    """Add the numbers of GPUs that only nodes have that lost one, where the other nodes do not show it."""
    counting = [names[each] for each in GPU_COUNTS if each in names]
    rows = database.rows(_COUNTS.format(names=(*counting, _NOT_SET)))
    counts = [
        Counted(kind, name, value, int(values[value]), nodes, usual)
        for kind, name, value, nodes, usual in rows if values[value].isdecimal() and len(values[value]) < _MOST_DIGITS
    ]  # fmt: skip
    for short, whole in lost(counts):
        database.run(
            _LOST.format(kind=short.kind, name=short.name, value=short.value, whole=whole.value, nodes=whole.nodes)
        )


def _unify_memory(database: Database, columns: Columns, golden: dict[str, str]) -> None:
    """Take a size of the memory that is nearly a usual one of the kind, or that of the golden node, for that one."""
    name, numbers = columns.settings.names.get("memory"), columns.settings.values
    if name is None:
        return
    first = [numbers[golden["memory"]]] if "memory" in golden else []
    words, usual = list(numbers), dict[int, list[int]]()
    for kind, value in database.rows(_SIZES.format(name=name, most=_MOST_SIZES)):
        sizes = usual.setdefault(kind, [*first])
        near = next((each for each in sizes if _is_same_memory(words[each], words[value])), None)
        if near is None:
            sizes.append(value)
        elif near != value:
            database.run(_TAKE_AS.format(usual=near, name=name, value=value, kind=kind))


def _is_same_memory(one: str, other: str) -> bool:
    found, compared = _SIZE.fullmatch(one), _SIZE.fullmatch(other)
    if not found or not compared:
        return one == other
    sizes = sorted((int(found[1]), int(compared[1])))
    return sizes[1] - sizes[0] <= max(SAME_MEMORY_GIB, SAME_MEMORY * sizes[1])


def _add_golden(database: Database, golden: dict[str, str], names: Numbers[str], values: Numbers[str]) -> None:
    """Add the settings of the golden node; an environment variable that it lacks counts as "not set"."""
    import numpy as np

    has = {names[name]: values[value] for name, value in golden.items()}
    lacks = {number: _NOT_SET for name, number in names.items() if name.startswith("$") and number not in has}
    both = {**has, **lacks}
    table = {"name": list(both), "value": list(both.values())}
    database.add("golden", {column: np.array(each, dtype="int32") for column, each in table.items()})


def _drift(database: Database, columns: Columns) -> tuple[Drift, ...]:
    kinds, names, values = list(columns.kind_names), list(columns.settings.names), list(columns.settings.values)
    return tuple(
        Drift(
            kind=kinds[kind],
            nodes=tuple(sorted(columns.nodes[node].name for node in nodes)),
            differences=tuple(
                Difference(
                    setting=names[name], value=_word(values, value), usual=_word(values, usual), share=round(share, 4)
                )
                for (name, value, usual), share in zip(settings, shares, strict=True)
            ),
        )
        for kind, nodes, settings, shares in database.rows(_DRIFT)
    )


def _varied(database: Database, columns: Columns, golden_kind: int | None) -> tuple[Varied, ...]:
    """Return the settings without a usual value, for kinds that have no golden node as reference."""
    kinds, names, values = list(columns.kind_names), list(columns.settings.names), list(columns.settings.values)
    some = {tuple(row[:3]): row[3] for row in database.rows(_SOME_NODES)}
    found = []
    for kind, name, total, count, _, each, counts, usual in database.rows(
        _VARIED.format(golden_kind="null" if golden_kind is None else golden_kind)
    ):
        groups = tuple(
            ValueGroup(
                value=_word(values, value), count=size,
                nodes=tuple(sorted(columns.nodes[node].name for node in some.get((kind, name, value), ()))),
            )
            for value, size, legitimate in zip(each, counts, usual, strict=True) if legitimate
        )  # fmt: skip
        found.append(Varied(kind=kinds[kind], setting=names[name], nodes=int(total), values=count, groups=groups))
    return tuple(found)


def _word(values: list[str], number: int) -> str | None:
    return None if number == _NOT_SET else values[number]
