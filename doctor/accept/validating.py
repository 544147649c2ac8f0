"""Validate the file of one profile. Each error names the place and suggests a correction."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from tfgpu_doctor.accept.terms import (
    PRECISIONS,
    Allowed,
    Checks,
    Factor,
    Limit,
    Profile,
    Share,
    Spread,
    bytes_of,
    gpu_range,
)
from tfgpu_doctor.accept.validating_units import measured_by_suites, stress_tables, validate_units
from tfgpu_doctor.accept.vocabulary import ProfileError, Vocabulary, nearest, refuse_unknown, suite_metric
from tfgpu_doctor.bench import is_own, suite_of
from tfgpu_doctor.model import SEVERITIES
from tfgpu_doctor.model.facts.stress import LEVELS, STRESS_LEVELS
from tfgpu_doctor.perf_tests.budget import parse_budget

_WHERE = re.compile(r" - at `.*`$")
_CHOICES: Mapping[str, Sequence[str]] = {"level": LEVELS, "fail-level": SEVERITIES}
_VALUES: Mapping[str, Any] = {
    "speed-ups": Factor, "peak-fractions": Share, "metric-fractions": Share, "reference-fractions": Share,
    "metrics": Limit, "spreads": Spread,
}  # fmt: skip
_RANGES = {"gpus": ">=2, or >=2,<4", "driver": ">=550, or >=550,<600", "tensorflow": ">=2.16, or >=2.16,<2.22"}


def validate(raw: Mapping[str, Any], vocabulary: Vocabulary) -> None:
    """Reject unknown keys, wrong types and unknown names in one file. Raises ProfileError."""
    kinds = {field.encode_name: field.type for field in msgspec.structs.fields(Profile)}
    for key, value in raw.items():
        if key not in kinds:
            raise ProfileError(f"there is no key {key!r}; {nearest(key, tuple(kinds))}")
        if key in _CHOICES and isinstance(value, str):
            refuse_unknown(value, _CHOICES[key], key, key)
        if key in _VALUES:
            _validate_values(key, value)
        elif key == "checks":
            _validate_table(key, value, Checks)
        elif key == "allowed":
            _validate_allowed(value, vocabulary)
        else:
            _convert(value, kinds[key], key)
    _validate_ranges(raw)
    _validate_names(raw, vocabulary)


def _validate_values(key: str, value: Any) -> None:
    for name, number in _as_table(value, key).items():
        _convert(number, _VALUES[key], f'{key}."{name}"')


def _validate_table(place: str, value: Any, kind: type[msgspec.Struct]) -> None:
    """Validate each key of a table separately, so that the error can name it."""
    kinds = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, each in _as_table(value, place).items():
        if key not in kinds:
            raise ProfileError(f"{place}: there is no key {key!r}; {nearest(key, tuple(kinds))}")
        _convert(each, kinds[key].type, f"{place}: {key}")
    for key, field in kinds.items():
        if field.required and key not in value:
            raise ProfileError(f"{place}: {key} is missing; {_example(field.type)}")


def _as_table(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProfileError(f"{place}: a table is required here, not {type(value).__name__}")
    return value


def _validate_allowed(value: Any, vocabulary: Vocabulary) -> None:
    if not isinstance(value, list):
        raise ProfileError("allowed: must be a list of tables, each written as [[allowed]]")
    for number, each in enumerate(value, 1):
        place = f"allowed, number {number}"
        _validate_table(place, each, Allowed)
        vocabulary.refuse_unknown_check(each["check"], f"{place}: check")
        if each.get("cause"):
            vocabulary.refuse_unknown_cause(each["cause"], f"{place}: cause")
        if not each["reason"].strip():
            raise ProfileError(f"{place}: reason is empty: say why the finding is allowed")


def _convert(value: Any, kind: Any, place: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ProfileError(f"{place}: {value} is not a finite number")
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ProfileError(f"{place}: {_WHERE.sub('', str(error))}; {_example(kind)}") from error


def _example(kind: Any) -> str:
    """Return an example of a value, as TOML."""
    examples = [example for meta in getattr(kind, "__metadata__", ()) for example in meta.examples or ()]
    return f"write {' or '.join(map(json.dumps, examples))}"


def _validate_ranges(raw: Mapping[str, Any]) -> None:
    for key in _RANGES:
        if key in raw:
            _validate_range(key, raw[key])
    if raw.get("gpu-memory") and bytes_of(raw["gpu-memory"]) is None:
        raise ProfileError(f"gpu-memory: {raw['gpu-memory']!r} is not a size; write 16 GiB, or 80 GB")
    if "budget" in raw:
        try:
            parse_budget(raw["budget"])
        except ValueError as error:
            raise ProfileError(f"budget: {error}") from error


def _validate_range(key: str, value: int | str) -> None:
    text = gpu_range(value)
    try:
        found = SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ProfileError(f"{key}: {value!r} is not a range; write {_RANGES[key]}") from error
    if key == "gpus" and text != "==0" and (not text or found.contains("0")):
        raise ProfileError("gpus: require at least one GPU, or 0 for a machine that computes on its CPU")


def _validate_names(raw: Mapping[str, Any], vocabulary: Vocabulary) -> None:
    checks = raw.get("checks", {})
    for key in ("select", "ignore"):
        vocabulary.refuse_unknown_checks(checks.get(key, ()), f"checks.{key}")
    for id in checks.get("require", ()):
        vocabulary.refuse_unknown_check(id, "checks.require")
    for key in ("suites", "suites-of-several-gpus", "suites-of-several-nodes"):
        for suite in raw.get(key, ()):
            vocabulary.refuse_unknown_suite(suite, key)
    own = {suite_of(suite) for suite in raw.get("suites", ()) if is_own(suite)}
    for key in raw.get("speed-ups", {}):
        vocabulary.refuse_unknown_comparison(key, "speed-ups", own)
    for key in raw.get("metric-fractions", {}):
        vocabulary.refuse_unknown_metric(key, "metric-fractions")
    for key in raw.get("peak-fractions", {}):
        refuse_unknown(key, PRECISIONS, "peak-fractions", "precision")
    validate_units(raw, vocabulary, own)


def validate_whole(profile: Profile) -> None:
    """Reject combinations of keys that contradict each other. Raises ProfileError."""
    for place in stress_tables(profile) if profile.level not in STRESS_LEVELS else ():
        raise ProfileError(
            f"{place}: the stress test measures them, but level is {profile.level!r}: deep or soak is required"
        )
    if profile.without_gpu and profile.level != "standard":
        raise ProfileError(f"level: {profile.level!r} is for machines with GPUs, but gpus is 0: standard is required")
    if profile.all_suites and profile.level == "quick":
        raise ProfileError("suites: level quick does not run TensorFlow; at least standard is required")
    for place, keys in (
        ("speed-ups", profile.speed_ups), ("metric-fractions", profile.metric_fractions),
        ("metrics", measured_by_suites(profile)),
    ):  # fmt: skip
        for key in keys:
            if (suite := suite_metric(key)[0]) not in map(suite_of, profile.all_suites):
                raise ProfileError(f"{place}: {key!r} is measured by the suite {suite!r}: add it to `suites`")
    for id in profile.checks.require:
        if id in profile.checks.ignore or id.rstrip("0123456789") in profile.checks.ignore:
            raise ProfileError(f"checks: {id} is both required and ignored; remove one of them")
