"""The report as metrics of a node: its verdict, its root causes by their keys, and when it was looked at."""

from __future__ import annotations

import datetime as dt

from tfgpu_doctor.model.report import Report
from tfgpu_doctor.render.exposition import Family, exposition


def render_prometheus(report: Report, node: str = "") -> str:
    """Return the document. Labels hold no numbers that change from look to look: these are values of `node_figure`."""
    here = {"node": node}
    families: tuple[Family, ...] = (
        ("node_healthy", "1 if TensorFlow computes on the GPU and nothing is wrong.", [(here, report.healthy)]),
        ("node_judged", "1 if the question could be answered.", [(here, report.judged)]),
        ("node_computes", "1 if TensorFlow computes on a GPU; absent if it was not tried.", [(here, report.computes)]),
        ("node_fit", "1 if every GPU is fit for work; absent if that is not known.", [(here, report.fit)]),
        (
            "node_cause", "1 for each root cause.",
            [({**here, "id": each.id, "label": each.label, "severity": each.severity}, 1) for each in report.causes],
        ),
        (
            "node_cause_device", "1 for each GPU that has a root cause.",
            [
                ({**here, "id": each.id, "label": each.label, "device": device}, 1)
                for each in report.causes for device in each.devices
            ],
        ),
        (
            "node_figure", "A number that a root cause rests on.",
            [
                ({**here, "id": each.id, "device": figure.device, "name": figure.name, "unit": figure.unit}, figure.value)
                for each in report.causes for figure in each.figures
            ],
        ),
        (
            "node_checks", "Checks by outcome.",
            [({**here, "outcome": outcome}, count) for outcome, count in report.counts.items()],
        ),
        ("node_last_look_timestamp_seconds", "When the node was looked at.", [(here, _seconds(report.recorded))]),
    )  # fmt: skip
    return exposition("tfgpu_", families)


def _seconds(recorded: str) -> float | None:
    """Return the moment in seconds since 1970; None if it is unknown."""
    try:
        moment = dt.datetime.fromisoformat(recorded.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else moment.replace(tzinfo=dt.timezone.utc).timestamp()
