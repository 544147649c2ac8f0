"""`tfgpu-doctor fleet node`: examine this node and write its report into the folder of the fleet."""

from __future__ import annotations

import datetime as dt
import os
import platform
import time
from typing import Any

import click
import msgspec

from tfgpu_doctor.cli.finite import FiniteRange
from tfgpu_doctor.cli.output import WRONG_USAGE, deliver, note, refuse, refuse_unwritable, saved
from tfgpu_doctor.fleet.node import NodeReport, Unmet, encode_node, file_name
from tfgpu_doctor.fleet.order import DEFAULT_BUDGET, SOAK_MINUTES, NodeOrder
from tfgpu_doctor.fleet.order_options import order_of, order_options
from tfgpu_doctor.fleet.reporting import in_a_line, missing_node, node_report
from tfgpu_doctor.fleet.unjudged import not_examined
from tfgpu_doctor.host.files import Files, append_whole
from tfgpu_doctor.model.plain_text import one_line

_LONGEST_MESSAGE = 4096  # bytes; Kubernetes reads no more


@click.command("node")
@click.option("--out", metavar="DIR", required=True, help="The folder for the reports of all nodes; it must exist.")
@click.option("--name", metavar="NODE", help="The name of the node.  [default: its host name]")
@order_options
@click.option("--python", metavar="PATH", help="The Python to examine.")
@click.option("--deadline", type=FiniteRange(min=1), metavar="SECONDS", help="The time limit for TensorFlow.")
@click.option("--message", metavar="FILE", help="Also append the outcome to this file: /dev/termination-log in a pod.")
def node(
    *,
    out: str,
    name: str | None,
    python: str | None,
    deadline: float | None,
    message: str | None,
    **asked: Any,
) -> int:
    """Examine this node and write its report into the folder of the fleet. The exit code is that of `check` or `accept`."""
    if not Files().exists(out):
        refuse(f"there is no folder {out}: create it before the nodes start")
    order = order_of(**asked)
    called = name or platform.node() or "node"
    path = os.path.join(out, file_name(called))
    refuse_unwritable(path)
    report = examine_node(called, order, python, deadline)
    if not saved(path, encode_node(report), costly=True):
        raise SystemExit(WRONG_USAGE)
    line = one_line(f"{called}: {in_a_line(report)}") + "\n"
    if message is not None:
        _leave_message(message, line)
    deliver(line, None)
    return 3 if report.exit_code is None else report.exit_code


def _leave_message(path: str, line: str) -> None:
    """Append a line to a file in place: Kubernetes mounts it, so it cannot be replaced. A failure changes no verdict."""
    try:
        append_whole(path, line.encode()[:_LONGEST_MESSAGE], _LONGEST_MESSAGE)
    except OSError as error:
        note(f"{path} cannot be written: {error.strerror or error}")


def examine_node(name: str, order: NodeOrder, python: str | None, deadline_s: float | None) -> NodeReport:
    """Return the report of this machine; of one where the suites cannot run, why that is so."""
    from tfgpu_doctor.accept import Examiner, Profile, certify, not_measured, profile_named, settings_of
    from tfgpu_doctor.diagnose.engine import diagnose
    from tfgpu_doctor.diagnose.plugins import load_checks
    from tfgpu_doctor.diagnose.selection import Selection

    settings = settings_of(python, deadline_s)
    resolved = profile_named(order.profile) if order.profile else None
    profile = resolved.profile if resolved else Profile(
        level=order.level, minutes=order.minutes or SOAK_MINUTES, suites=order.suites,
        budget=order.budget or DEFAULT_BUDGET,
    )  # fmt: skip
    began, started = _now(), time.monotonic()
    examiner = Examiner(profile, even_if_busy=order.even_if_busy, settings=settings)
    if why := examiner.why_unusable():
        return msgspec.structs.replace(missing_node(name, "not started", why), began=began, order=order.words)
    examined = examiner.examine()
    checks, broken = load_checks()
    report = diagnose(
        examined.facts, checks=checks, selection=Selection(order.select, order.ignore), broken=broken,
        interrupted=examined.interrupted, seconds=examined.seconds,
    )  # fmt: skip
    certificate = certify(examined, resolved, name) if resolved else None
    return node_report(
        name, examined.facts, report, began=began, seconds=time.monotonic() - started, order=order.words,
        exit_code=certificate.exit_code if certificate else report.exit_code(settings.fail_level),
        profile=resolved.name if resolved else "", fail_level="error" if resolved else settings.fail_level,
        unmet=[
            Unmet(key=row.key, title=row.title, required=row.required, measured=row.measured or row.outcome)
            for row in (certificate.requirements if certificate else ()) if not row.holds and row.outcome != "explained"
        ],
        not_measured={} if resolved else {
            **not_examined(examined.facts, report), **not_measured(examined.facts.bench, order.suites)
        },
    )  # fmt: skip


def _now() -> str:
    return dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
