"""Metrics in the Prometheus text format, for the node exporter's textfile collector or a Pushgateway.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format. It is written here and not by
prometheus-client, which a machine that is examined does not need to have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tfgpu_doctor.model.plain_text import clean

_LONGEST = 400  # characters of a label
Sample = tuple[dict[str, str], float | None]
Family = tuple[str, str, Iterable[Sample]]  # name, meaning, samples by their labels


def exposition(prefix: str, families: Iterable[Family]) -> str:
    """Return the document: gauges named `prefix` and the family's name; a family of which nothing is known is left out."""
    return "".join(_family(prefix + name, about, samples) for name, about, samples in families)


def _family(name: str, about: str, samples: Iterable[Sample]) -> str:
    """The metric; of two samples with the same labels after shortening only the first is kept, and none without a value."""
    rows: dict[str, str] = {}
    for labels, value in samples:
        if value is not None and math.isfinite(value):
            named = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            rows.setdefault(f"{{{named}}}" if named else "", f"{float(value)}")
    lines = [f"# HELP {name} {about}", f"# TYPE {name} gauge", *(f"{name}{key} {value}" for key, value in rows.items())]
    return "\n".join(lines) + "\n" if rows else ""


def _escaped(text: str) -> str:
    line = " ".join(clean(text.encode("utf-8", "replace").decode()).split())
    return line[:_LONGEST].replace("\\", "\\\\").replace('"', '\\"')
