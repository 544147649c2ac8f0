"""The comparison of a fleet in the Prometheus text format, for the node exporter's textfile collector or a Pushgateway.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tfgpu_doctor.fleet.fleet import STATUSES, Fleet
from tfgpu_doctor.model.plain_text import clean

_LONGEST = 400
_Sample = tuple[dict[str, str], float]


def render_prometheus(fleet: Fleet) -> str:
    """Return the document, with one metric family per kind of result."""
    families: tuple[tuple[str, str, list[_Sample]], ...] = (
        ("nodes", "Nodes by status.", [({"status": each}, len(fleet.statuses[each])) for each in STATUSES]),
        ("nodes_reported", "Nodes that reported.", [({}, fleet.heard)]),
        ("nodes_expected", "Nodes that are expected to report.", [({}, fleet.expected)] if fleet.expected is not None else []),
        (
            "node_status", "1 for each node that is not good, with its status.",
            [({"node": node, "status": each}, 1) for each in STATUSES if each != "good" for node in fleet.statuses[each]],
        ),
        (
            "cause_nodes", "Nodes with a root cause.",
            [
                ({"id": each.id, "label": each.label, "severity": each.severity}, len(each.nodes))
                for each in fleet.causes
            ],
        ),
        ("drift_nodes", "Nodes whose setting differs from the usual value.", _drift(fleet)),
        (
            "suspect_ratio", "Value of a suspected measurement, as a share of the expected value.",
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
        ("files_refused", "Files that are not a node report.", [({}, sum(each.fault for each in fleet.files))]),
        ("exit_code", "Exit code of the comparison.", [({}, fleet.exit_code)]),
    )  # fmt: skip
    registry = CollectorRegistry()
    registry.register(_Collected([_family(name, about, samples) for name, about, samples in families if samples]))
    return generate_latest(registry).decode()


class _Collected(Collector):
    """Metric families that are ready."""

    def __init__(self, families: list[GaugeMetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All of them."""
        yield from self._families


def _drift(fleet: Fleet) -> list[_Sample]:
    counts: dict[tuple[str, str, str], int] = {}
    for each in fleet.drift:
        for differs in each.differences:
            key = each.kind, differs.setting, differs.value or ""
            counts[key] = counts.get(key, 0) + len(each.nodes)
    return [
        ({"kind": kind, "setting": setting, "value": value}, count) for (kind, setting, value), count in counts.items()
    ]


def _family(name: str, about: str, samples: Sequence[_Sample]) -> GaugeMetricFamily:
    """The metric; of two samples with the same labels after shortening, only the first is kept."""
    family, seen = (
        GaugeMetricFamily(f"tfgpu_doctor_fleet_{name}", about, labels=list(samples[0][0])),
        set[tuple[str, ...]](),
    )
    for labels, value in samples:
        words = tuple(clean(" ".join(word.split()))[:_LONGEST] for word in labels.values())
        if words not in seen:
            seen.add(words)
            family.add_metric(words, value)
    return family
