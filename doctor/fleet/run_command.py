"""`tfgpu-doctor fleet run`: examine every node of a Ray cluster."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tfgpu_doctor import _project
from tfgpu_doctor.cli.configuration import Configuration, ConfigurationError
from tfgpu_doctor.cli.finite import FiniteRange
from tfgpu_doctor.cli.output import deliver, note, refuse
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.fleet.folder import FleetFolder
from tfgpu_doctor.fleet.node import NodeReport
from tfgpu_doctor.fleet.on_ray import NodeTask, OnRay, RayError
from tfgpu_doctor.fleet.order import NodeOrder
from tfgpu_doctor.fleet.order_options import order_of, order_options, reach_of
from tfgpu_doctor.fleet.reporting import in_a_line, missing_node
from tfgpu_doctor.fleet.reports_read import SECOND_FOLDER
from tfgpu_doctor.fleet.retest import chosen_again
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.model.amounts import amount

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.fleet import Fleet

_INTERRUPTED = 130


@click.command("run")
@click.option("--out", metavar="DIR", required=True, help="The folder for the reports; rerun to resume.")
@click.option(
    "--ray", metavar="ADDRESS", default="auto", show_default=True,
    help="The cluster; auto joins a running one, or examines this machine alone.",
)  # fmt: skip
@order_options
@click.option("--python", metavar="PATH", help="The Python to examine on every node.")
@click.option("--deadline", type=FiniteRange(min=1), metavar="SECONDS", help="The time limit per node.")
@click.option(
    "--install",
    metavar="SPEC",
    default="",
    help="Have Ray install the doctor first: the path of its wheel, or another pip requirement.",
)
@click.option(
    "--retest/--no-retest", default=True, show_default=True,
    help="Retest nodes that are slow or fail under stress, together with a good peer.",
)  # fmt: skip
def run(
    *,
    out: str,
    ray: str,
    python: str | None,
    deadline: float | None,
    install: str,
    retest: bool,
    **asked: Any,
) -> int:
    """Examine all live nodes of a Ray cluster in parallel, and write each report to disk as soon as it arrives.

    Prints the comparison of all nodes, as `fleet report DIR` does at any later time. Exit code: 0 every node is healthy
    and none differs or is slower, as far as they can be compared, 1 findings, 2 wrong usage, 3 no node reported, or one was
    not judged, 130 interrupted (reports that have arrived are kept).
    """
    try:
        Configuration().with_options(python=python)
    except ConfigurationError as error:
        refuse(str(error))
    if lacking := [name for name in ("ray", "duckdb", "numpy") if importlib.util.find_spec(name) is None]:
        refuse(f"{', '.join(lacking)} cannot be imported here: {_project.install('fleet')}")
    task = _task(order_of(**asked), deadline, python, install)
    try:
        return _Run(ray, FleetFolder(out), task, retest).run()
    except RayError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{error.filename or out} cannot be written: {error.strerror or error}")


def _task(order: NodeOrder, deadline_s: float | None, python: str | None, install: str) -> NodeTask:
    """Return the task of each node. The file of a profile is copied to the nodes; an unusable one is rejected."""
    reach = reach_of(order, across_nodes=True)
    order, files = _with_profile(order) if order.profile else (order, {})
    return NodeTask(
        order=order, deadline_s=deadline_s or reach.limit_s, takes_gpus=reach.takes_gpus, files=files,
        together=reach.spans, extra=["--python", python] if python else [], install=install,
    )  # fmt: skip


def _with_profile(order: NodeOrder) -> tuple[NodeOrder, dict[str, bytes]]:
    """Return the order, and the profile's file to copy to each node; built-in profiles are used by name."""
    from tfgpu_doctor.accept import file_of, profile_named, shipped_profiles

    path, resolved = file_of(order.profile), profile_named(order.profile)
    order = msgspec.structs.replace(order, profile_digest=resolved.digest)
    if path is None:
        return order, {}
    if others := [name for name in resolved.chain[1:] if name not in shipped_profiles()]:
        refuse(
            f"{order.profile} extends {others[0]}, but only one file is copied to the nodes: merge both into one file"
        )
    name = os.path.basename(path)
    return msgspec.structs.replace(order, profile=name), {name: Files().read_bytes(path)}


@dataclass
class _Run:
    """A run on all nodes that have not reported yet, then a retest of the nodes in doubt."""

    address: str
    folder: FleetFolder
    task: NodeTask
    retest: bool

    def run(self) -> int:
        """Run, and return the exit code."""
        self._refuse_another_order()
        try:
            self._round(self.folder)
            fleet = self._compared()
            if self.retest and (again := self._in_doubt(fleet)):
                note(f"retesting {amount(len(again), 'node')}, good peers included")
                self._round(self._second, again)
                fleet = self._compared()
        except KeyboardInterrupt:
            note(f"interrupted; the reports so far are in {self.folder.path}; rerun to resume")
            return _INTERRUPTED
        from tfgpu_doctor.fleet.page import render_fleet
        from tfgpu_doctor.render import look_of_text

        width, colour = look_of_text(to_terminal=True)
        deliver(render_fleet(fleet, "text", width=width, colour=colour), None)
        return fleet.exit_code

    @property
    def _second(self) -> FleetFolder:
        return FleetFolder(os.path.join(self.folder.path, SECOND_FOLDER))

    def _round(self, folder: FleetFolder, only: Sequence[str] | None = None) -> None:
        reported = [done.node for done in folder.all_done() if done.outcome == "reported"]
        started = time.monotonic()
        with Waiting() as waiting:
            on_ray = OnRay(
                self.address, self.task,
                self._joined if only is None else lambda _local, _names: None,
                lambda names: waiting.show([_out(names)], time.monotonic() - started),
            )  # fmt: skip
            for report in on_ray.reports(reported, only):
                self._keep(folder, report)

    def _compared(self) -> Fleet:
        from tfgpu_doctor.fleet.merge import merge

        return merge(self.folder.path, expected=self.folder.expected())

    def _in_doubt(self, fleet: Fleet) -> tuple[str, ...]:
        kinds = {done.node: done.settings.get("GPU models", "") for done in self.folder.all_done()}
        seen = {done.node for done in self._second.all_done() if done.outcome == "reported"}
        return chosen_again(fleet, kinds, seen, failures=self.task.takes_gpus)

    def _joined(self, local: bool, names: Sequence[str]) -> None:
        """Record the expected nodes, and report at once nodes that were expected before and are gone."""
        if local:
            note("no Ray cluster is running here: only this machine is examined")
        note(amount(len(names), "node"))
        gone = sorted(set(self.folder.expected()) - set(names))
        self.folder.expect(set(names))
        for name in gone:
            done = self.folder.done(name)
            if done is None or done.outcome != "reported":
                self._keep(self.folder, missing_node(name, "disappeared", "it is no longer a node of the cluster"))

    def _keep(self, folder: FleetFolder, report: NodeReport) -> None:
        folder.keep(report.node, msgspec.structs.replace(report, order=self.task.order.words))
        note(f"{report.node}: {in_a_line(report)}")

    def _refuse_another_order(self) -> None:
        words = self.task.order.words
        other = next(
            (done for done in self.folder.all_done() if done.outcome == "reported" and done.order != words), None
        )
        if other:
            refuse(
                f"{self.folder.path} contains reports of {other.order or 'another order'}, and this is {words}: set another "
                "folder with --out"
            )


def _out(names: Sequence[str]) -> str:
    return f"{amount(len(names), 'node')}: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
