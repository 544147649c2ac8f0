"""What changed over time as metrics, for the node exporter's textfile collector or a Pushgateway."""

from __future__ import annotations

from tfgpu_doctor.fleet.history import Event, History
from tfgpu_doctor.render.exposition import Family, Sample, exposition


def history_metrics(history: History) -> str:
    """Return the document, with one metric family per kind of result."""
    families: tuple[Family, ...] = (
        ("runs", "Runs in the store.", [({}, history.runs)]),
        ("nodes", "Nodes that reported on the last day.", [({}, history.nodes)]),
        ("new", "1 for each cause that a node has since the last day.", _events(history.new)),
        ("recovered", "1 for each cause that a node has no longer.", _events(history.recovered)),
        ("flapping", "Changes of a cause that comes and goes, by node.", _events(history.flapping, count=True)),
        (
            "slower_ratio", "Value of a measurement that is getting slower, as a share of the one at the beginning.",
            [
                (
                    {"node": each.node, "device": each.device, "measurement": each.measurement, "model": each.model},
                    1 + (each.change or 0),
                )
                for each in history.slower
            ],
        ),
        (
            "fleet_ratio", "Value of a measurement that gets worse on all nodes, as a share of the one at the beginning.",
            [
                ({"measurement": each.measurement, "model": each.model, "days": str(each.days)}, 1 + each.change)
                for each in history.fleet
            ],
        ),
        ("exit_code", "Exit code of the history.", [({}, history.exit_code)]),
    )  # fmt: skip
    return exposition("tfgpu_doctor_fleet_history_", families)


def _events(events: tuple[Event, ...], *, count: bool = False) -> list[Sample]:
    return [
        (
            {
                "node": each.node, "id": each.id, "label": each.label, "severity": each.severity,
                "devices": ",".join(each.devices),
            },
            each.changes if count else 1,
        )
        for each in events
    ]  # fmt: skip
