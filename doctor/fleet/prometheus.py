"""The comparison of a fleet in Prometheus' text format, for the textfile collector of the node exporter or a gateway.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfgpu_doctor.fleet.fleet import STATUSES, Fleet
from tfgpu_doctor.render.text import clean

_LONGEST = 400
_Sample = tuple[dict[str, str], float]


def render_prometheus(fleet: Fleet) -> str:
    """One family of samples a question."""
    families: tuple[tuple[str, str, list[_Sample]], ...] = (
        ("nodes", "Nodes by status.", [({"status": each}, len(fleet.statuses[each])) for each in STATUSES]),
        ("nodes_reported", "Nodes that reported.", [({}, fleet.heard)]),
        ("nodes_expected", "Nodes that were to report.", [({}, fleet.expected)] if fleet.expected is not None else []),
        (
            "node_status", "1 for each node that is not good, with its status.",
            [({"node": node, "status": each}, 1) for each in STATUSES if each != "good" for node in fleet.statuses[each]],
        ),
        (
            "cause_nodes", "Nodes with a root cause.",
            [
                ({"id": each.id, "label": each.label, "severity": each.severity, "title": each.title}, len(each.nodes))
                for each in fleet.causes
            ],
        ),
        ("drift_nodes", "Nodes whose setting is not the usual one.", _drift(fleet)),
        (
            "suspect_ratio", "Value of a suspected measurement, as a share of what was to expect.",
            [
                (
                    {
                        "node": each.node, "device": each.device, "measurement": each.measurement, "model": each.model,
                        "against": each.against,
                    },
                    1 + each.change,
                )
                for each in fleet.suspects
            ],
        ),
        (
            "measurement_median", "Median of a measurement over the fleet.",
            [({"measurement": each.measurement, "model": each.model, "unit": each.unit}, each.median) for each in fleet.series],
        ),
        (
            "measurement_spread_ratio", "Robust standard deviation of a measurement, as a share of its median.",
            [({"measurement": each.measurement, "model": each.model, "unit": each.unit}, each.spread) for each in fleet.series],
        ),
        ("files_refused", "Files that are no node's report.", [({}, sum(each.fault for each in fleet.files))]),
        ("exit_code", "Exit code of the comparison.", [({}, fleet.exit_code)]),
    )  # fmt: skip
    return "".join(line + "\n" for name, about, samples in families for line in _family(name, about, samples))


def _drift(fleet: Fleet) -> list[_Sample]:
    counts: dict[tuple[str, str, str], int] = {}
    for each in fleet.drift:
        for differs in each.differences:
            key = each.kind, differs.setting, differs.value or ""
            counts[key] = counts.get(key, 0) + len(each.nodes)
    return [
        ({"kind": kind, "setting": setting, "value": value}, count) for (kind, setting, value), count in counts.items()
    ]


def _family(name: str, about: str, samples: Iterable[_Sample]) -> Iterator[str]:
    """Lines of a metric; of two samples whose labels are the same once they are made harmless the first stays."""
    name, seen = f"tfgpu_doctor_fleet_{name}", set[str]()
    for place, (labels, value) in enumerate(samples):
        if place == 0:
            yield f"# HELP {name} {about}"
            yield f"# TYPE {name} gauge"
        words = ",".join(f'{key}="{_escaped(word)}"' for key, word in labels.items())
        if words not in seen:
            seen.add(words)
            yield f"{name}{{{words}}} {value:.10g}" if words else f"{name} {value:.10g}"


def _escaped(word: str) -> str:
    word = clean(" ".join(word.split()))[:_LONGEST]
    return word.replace("\\", "\\\\").replace('"', '\\"')
