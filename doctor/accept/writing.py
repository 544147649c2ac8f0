"""Write a learned profile as TOML, each bound with the runs that it comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tfgpu_doctor.accept.bounds import Bound
from tfgpu_doctor.accept.learning import Learnt
from tfgpu_doctor.accept.learning_units import UNITS
from tfgpu_doctor.knowledge import version

_MIB = 1 << 20
_MOST_RUNS = 20  # that are listed one by one
_RULE = (
    "# An equal machine meets all bounds with 95 %, also on another day: they come from the spread of these runs, and from",
    "# 1.5 % between days. See docs/profiles.md for details.",
)


def profile_text(learnt: Learnt, base: str, about: str) -> str:
    """Return the content of the file. `base` is the profile that it extends."""
    lines = [
        f"about = {_quoted(about)}",
        f"extends = {_quoted(base)}",
        f"gpus = {learnt.gpus}",
    ]
    if learnt.models:
        lines.append(f"models = [{', '.join(map(_quoted, learnt.models))}]")
    if learnt.gpu_memory_bytes:
        lines.append(f'gpu-memory = "{learnt.gpu_memory_bytes // _MIB} MiB"')
    if learnt.driver:
        lines.append(f"driver = {_quoted(f'>={learnt.driver}')}")
    if learnt.tensorflow:
        lines.append(f'tensorflow = "=={".".join(map(str, version(learnt.tensorflow).release[:2]))}.*"')
    tables = (
        ("speed-ups", learnt.speed_ups), ("peak-fractions", learnt.peak_fractions),
        ("metric-fractions", learnt.metric_fractions), ("metrics", learnt.metrics),
    )  # fmt: skip
    for name, bounds in tables:
        lines += _table(name, bounds)
    return "\n".join(lines) + "\n"


def _table(name: str, bounds: Mapping[str, Bound]) -> Iterator[str]:
    if bounds:
        yield from ("", *_RULE, f"[{name}]")
    for key, bound in sorted(bounds.items()):
        yield f"{_quoted(key)} = {_limit(name, key, bound)}  # {_seen(bound)}"


def _seen(bound: Bound) -> str:
    """Return the runs that a bound comes from."""
    if len(bound.runs) <= _MOST_RUNS:
        return ", ".join(f"{each:.3g}" for each in bound.runs)
    return f"{min(bound.runs):.3g} to {max(bound.runs):.3g} in {len(bound.runs)} runs"


def _limit(table: str, key: str, bound: Bound) -> str:
    """Return a bound as its table has it: a number, or a limit with its unit."""
    return (
        _quoted(f">= {bound.value:f}".rstrip("0").rstrip(".") + f" {UNITS[key]}")
        if table == "metrics"
        else repr(bound.value)
    )


def _quoted(text: str) -> str:
    """Return a TOML basic string: a JSON string without the control character that JSON does not escape."""
    text = text.encode("utf-8", "replace").decode()  # invalid characters become question marks
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
