"""Validate requirements in units and shares of references: names, limits and their units."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tfgpu_doctor.accept.amounts import PERCENT, amount_of
from tfgpu_doctor.accept.quantities import QUANTITIES
from tfgpu_doctor.accept.terms import Profile
from tfgpu_doctor.accept.vocabulary import ProfileError, Vocabulary, refuse_unknown, suite_metric, suite_units

_WITH_REFERENCE = tuple(name for name, quantity in QUANTITIES.items() if quantity.reference)


def validate_units(raw: Mapping[str, Any], vocabulary: Vocabulary, own: Collection[str]) -> None:
    """Reject unknown names, and limits that are none or have another unit. Raises ProfileError."""
    for name in raw.get("reference-fractions", {}):
        refuse_unknown(name, _WITH_REFERENCE, "reference-fractions", "quantity with references")
    for name, text in raw.get("metrics", {}).items():
        unit = _unit_of(name, vocabulary, own)
        example = ">= 100 rows/s" if unit is None else f">= 24 {unit}".rstrip()
        _validate_amount(f'metrics."{name}"', text, unit, example)
    for name, text in raw.get("spreads", {}).items():
        refuse_unknown(name, tuple(QUANTITIES), "spreads", "quantity of the stress test")
        if _validate_amount(f'spreads."{name}"', text, PERCENT, "<= 5 %") == ">=":
            raise ProfileError(f'spreads."{name}": a spread has an upper limit: write "<= 5 %"')


def _unit_of(name: str, vocabulary: Vocabulary, own: Collection[str]) -> str | None:
    """Return the unit of a metric; None for one of a user's own suite, which nobody knows before it runs."""
    units = {**{key: quantity.unit for key, quantity in QUANTITIES.items()}, **suite_units()}
    suite, _, metric = name.partition("/")
    if suite in own and metric:
        return None
    refuse_unknown(name, tuple(units), "metrics", "metric with a unit")
    if name not in QUANTITIES and suite_metric(name)[0] not in vocabulary.suites:
        raise ProfileError(f"metrics: the suite of {name!r} is not available")
    return units[name]


def _validate_amount(place: str, text: str, unit: str | None, example: str) -> str:
    """Reject a text that is no limit, or has another unit; return its comparison."""
    amount = amount_of(text)
    if amount is None:
        raise ProfileError(f'{place}: {text!r} is not a limit with a unit; write "{example}"')
    if unit is not None and amount.unit != unit:
        raise ProfileError(f'{place}: it is measured in {unit}, not in {amount.unit}; write "{example}"')
    return "<=" if amount.most else ">="


def stress_tables(profile: Profile) -> Iterator[str]:
    """Yield the tables of a profile that need the stress test."""
    if profile.peak_fractions:
        yield "peak-fractions"
    if profile.reference_fractions:
        yield "reference-fractions"
    if any(name in QUANTITIES for name in profile.metrics):
        yield "metrics"
    if profile.spreads:
        yield "spreads"


def measured_by_suites(profile: Profile) -> list[str]:
    """Return the requirements in units that a suite measures."""
    return [name for name in profile.metrics if name not in QUANTITIES]
