"""The comparison of a fleet as metrics, for the node exporter's textfile collector or a Pushgateway."""

from __future__ import annotations

from tfgpu_doctor.fleet.fleet import STATUSES, Fleet
from tfgpu_doctor.render.exposition import Family, Sample, exposition


def render_prometheus(fleet: Fleet) -> str:
    """Return the document, with one metric family per kind of result."""
    families: tuple[Family, ...] = (
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
    return exposition("tfgpu_doctor_fleet_", [*families, _of_nodes(fleet)])


def _of_nodes(fleet: Fleet) -> Family:
    """The causes of each node; `check --format prometheus` gives them on the node itself by another name."""
    samples: list[Sample] = [
        ({"node": node, "id": each.id, "label": each.label, "severity": each.severity}, 1)
        for each in fleet.causes
        for node in each.nodes
    ]
    return "node_cause", "1 for each root cause.", samples


def _drift(fleet: Fleet) -> list[Sample]:
    counts: dict[tuple[str, str, str], int] = {}
    for each in fleet.drift:
        for differs in each.differences:
            key = each.kind, differs.setting, differs.value or ""
            counts[key] = counts.get(key, 0) + len(each.nodes)
    return [
        ({"kind": kind, "setting": setting, "value": value}, count) for (kind, setting, value), count in counts.items()
    ]
