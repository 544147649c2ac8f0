"""Records of schema 1 under the names of schema 2.

Schema 2 renamed `load` to `stress`, the `duels` and `figures` of `bench` to `comparisons` and `metrics`, and the
`challenger` of a comparison to `candidate`.
"""

from __future__ import annotations

from typing import Any


def facts_renamed(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a record; values that do not belong in a record stay, and the reader rejects them."""
    found = _renamed(document, {"load": "stress"})
    if isinstance(found.get("unknown"), dict):
        found["unknown"] = _renamed(found["unknown"], {"load": "stress"})
    if isinstance(found.get("bench"), dict):
        found["bench"] = bench_renamed(found["bench"])
    return found


def bench_renamed(document: dict[str, Any]) -> dict[str, Any]:
    """The document of one run of the perf suites."""
    found = _renamed(document, {"duels": "comparisons", "figures": "metrics"})
    rows = found.get("comparisons")
    if isinstance(rows, list):
        found["comparisons"] = [
            _renamed(row, {"challenger": "candidate"}) if isinstance(row, dict) else row for row in rows
        ]
    return found


def _renamed(document: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in document.items()}
