"""The keys of a profile as Markdown tables, for docs/profiles.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tfgpu_doctor.accept.quantities import QUANTITIES
from tfgpu_doctor.accept.terms import Allowed, Checks, Profile, Resolved
from tfgpu_doctor.accept.vocabulary import measured_names, suite_metric, suite_units

_MARKED = re.compile(
    r"(<!-- (keys|shipped|quantities|comparisons): made by tools/write_generated.py -->\n).*?(<!-- end -->)", re.DOTALL
)
_TABLES: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "checks": ("[checks]", Checks),
    "allowed": ("[[allowed]]", Allowed),
}


def filled_page(page: str, profiles: dict[str, Resolved]) -> str:
    """Return the page with the text between its markers generated again; `profiles` are the shipped profiles by name."""
    made = {
        "keys": keys_table(),
        "shipped": _shipped_table(profiles),
        "quantities": _quantities_table(),
        "comparisons": _comparisons_table(),
    }
    return _MARKED.sub(lambda found: f"{found[1]}{made[found[2]]}{found[3]}", page)


def keys_table() -> str:
    """Return a table of every key with its meaning, its default and an example."""
    rows = [row for field in msgspec.structs.fields(Profile) for row in _rows(field)]
    return _table(("key", "meaning", "default", "example"), rows)


def _rows(field: Any) -> Iterator[tuple[str, ...]]:
    if field.encode_name not in _TABLES:
        yield _row(field, "")
        return
    title, kind = _TABLES[field.encode_name]
    for each in msgspec.structs.fields(kind):
        yield _row(each, f"{title} ")


def _row(field: Any, place: str) -> tuple[str, ...]:
    meta = field.type.__metadata__[0]
    example = (meta.examples or [""])[0]
    default = "required" if field.required else _toml(msgspec.to_builtins(_default(field)))
    return f"`{place}{field.encode_name}`", meta.description, default, f"`{_toml(example)}`"


def _default(field: Any) -> Any:
    return field.default_factory() if field.default is msgspec.NODEFAULT else field.default


def _toml(value: Any) -> str:
    """Format a value as TOML; an empty value gives an empty text."""
    if isinstance(value, dict):
        return ", ".join(f'"{key}" = {json.dumps(each)}' for key, each in value.items())
    return json.dumps(value) if value or value == 0 else ""


def _shipped_table(profiles: dict[str, Resolved]) -> str:
    rows = [(f"`{name}`", resolved.profile.about) for name, resolved in profiles.items()]
    return _table(("profile", "purpose"), rows)


def _quantities_table() -> str:
    rows = [
        (f"`{name}`", quantity.unit, quantity.title, "yes" if quantity.reference else "")
        for name, quantity in QUANTITIES.items()
    ]
    return _table(("name", "unit", "the stress test measures", "has references"), rows)


def _comparisons_table() -> str:
    comparisons, metrics = measured_names()
    units: dict[str, list[str]] = {suite: [] for suite in comparisons}
    for key, unit in suite_units().items():
        suite, name = suite_metric(key)
        units[suite].append(f"`{name}` ({unit})")
    rows = [
        (
            f"`{suite}`",
            ", ".join(f"`{name}`" for name in names),
            ", ".join(f"`{name}`" for name in metrics.get(suite, ())),
            ", ".join(units[suite]),
        )
        for suite, names in comparisons.items()
        if names or units[suite]
    ]
    heads = ("suite", "comparisons for `[speed-ups]`", "metrics for `[metric-fractions]`", "metrics for `[metrics]`")
    return _table(heads, rows)


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
