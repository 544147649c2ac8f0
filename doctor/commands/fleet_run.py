"""`tfgpu-doctor fleet run`: examine every node of a Ray cluster."""

from __future__ import annotations

import importlib.util
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass

import click
import msgspec

from tfgpu_doctor.commands.fleet_folder import FleetFolder
from tfgpu_doctor.commands.on_ray import NodeTask, OnRay, RayError
from tfgpu_doctor.commands.output import note, refuse
from tfgpu_doctor.commands.waiting import Waiting
from tfgpu_doctor.facts import Level
from tfgpu_doctor.facts.load import LEVELS, LOADING
from tfgpu_doctor.fleet.node import NodeReport
from tfgpu_doctor.fleet.order import NodeOrder
from tfgpu_doctor.fleet.reporting import in_a_line, missing_node
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.perf_tests.budget import parse_budget

# Seconds that a node may take: several times what a slow one was seen to need.
_DEADLINES: dict[Level, float] = {"quick": 120.0, "standard": 600.0, "deep": 1200.0, "soak": 1200.0}
_SOAK_MINUTES = 10.0
_LONGEST_SUITES_S = 3600.0  # where their budget is `full`
_NOTHING_JUDGED, _INTERRUPTED = 3, 130


@click.command("run")
@click.option(
    "--out", metavar="DIR", required=True, help="The folder for the reports; a second run does what is missing."
)
@click.option(
    "--ray", metavar="ADDRESS", default="auto", show_default=True,
    help="The cluster; auto joins the one that runs, or looks at this machine alone.",
)  # fmt: skip
@click.option("--level", type=click.Choice(LEVELS), help="How far each node is examined.  [default: standard]")
@click.option("--minutes", type=click.FloatRange(min=1), metavar="N", help="How long --level soak lasts.")
@click.option("--suite", "suites", metavar="SUITE", multiple=True, help="A perf suite to run as well; more than once.")
@click.option("--budget", metavar="TIME", default="", help="The time that a node's suites have.  [default: 60s]")
@click.option("--profile", metavar="NAME|FILE", help="Accept each node by a profile, which names level and suites.")
@click.option("--even-if-busy", is_flag=True, help="Load a GPU that others use, too.")
@click.option("--python", metavar="PATH", help="The Python to examine, on every node.")
@click.option("--deadline", type=click.FloatRange(min=1), metavar="SECONDS", help="How long one node may take.")
@click.option("--install", metavar="SPEC", default="", help="Have Ray install the doctor first: tfgpu-doctor[bench].")
def run(
    *,
    out: str,
    ray: str,
    level: Level | None,
    minutes: float | None,
    suites: tuple[str, ...],
    budget: str,
    profile: str | None,
    even_if_busy: bool,
    python: str | None,
    deadline: float | None,
    install: str,
) -> int:
    """Examine every living node of a Ray cluster at once, each report on disk the moment it arrives.

    Exit code: 0 every node reported and is as it should be, 1 one is not, or did not report, 2 wrong usage, 3 nothing was
    judged, 130 interrupted (what has arrived is kept).
    """
    if profile and (level or minutes or suites or budget):
        refuse("--profile names level and suites itself: it goes with none of --level, --minutes, --suite and --budget")
    if importlib.util.find_spec("ray") is None:
        refuse("Ray cannot be imported here: pip install 'tfgpu-doctor[fleet]'")
    order = NodeOrder(
        level=level or "standard", minutes=minutes, suites=suites, budget=budget, profile=profile or "",
        even_if_busy=even_if_busy,
    )  # fmt: skip
    task = _task(order, deadline, python, install)
    try:
        return _Round(ray, FleetFolder(out), task).run()
    except RayError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{error.filename or out} cannot be written: {error.strerror or error}")


def _task(order: NodeOrder, deadline_s: float | None, python: str | None, install: str) -> NodeTask:
    """What each node is to do. A profile's file travels to the nodes; refuses one that cannot be used."""
    from tfgpu_doctor.commands.accepting import profile_named

    level, minutes, suites, budget = order.level, order.minutes, order.suites, order.budget
    files: dict[str, bytes] = {}
    if order.profile:
        resolved = profile_named(order.profile)
        level, minutes, suites = resolved.profile.level, resolved.profile.minutes, resolved.profile.suites
        budget = resolved.profile.budget
        order, files = _with_profile(order, resolved.chain)
    try:
        suites_s = parse_budget(budget or "60s") if suites else 0.0
    except ValueError as error:
        refuse(str(error))
    longest = _DEADLINES[level] + (60 * (minutes or _SOAK_MINUTES) if level == "soak" else 0.0)
    longest += _LONGEST_SUITES_S if suites_s is None else suites_s
    return NodeTask(
        order=order, deadline_s=deadline_s or longest, takes_gpus=level in LOADING or bool(suites), files=files,
        extra=["--python", python] if python else [], install=install,
    )  # fmt: skip


def _with_profile(order: NodeOrder, chain: Sequence[str]) -> tuple[NodeOrder, dict[str, bytes]]:
    """The order with the profile's file beside it on each node; shipped ones are there by name."""
    from tfgpu_doctor.acceptance.reading import file_of, shipped_profiles

    path = file_of(order.profile)
    if path is None:
        return order, {}
    if others := [name for name in chain[1:] if name not in shipped_profiles()]:
        refuse(f"{order.profile} extends {others[0]}, and one file travels to the nodes: put both into one")
    name = os.path.basename(path)
    return msgspec.structs.replace(order, profile=name), {name: Files().read_bytes(path)}


@dataclass
class _Round:
    """One round over the nodes that have not reported yet."""

    address: str
    folder: FleetFolder
    task: NodeTask
    names: tuple[str, ...] = ()

    def run(self) -> int:
        """The exit code."""
        reported = [done.node for done in self.folder.all_done() if done.outcome == "reported"]
        self._refuse_another_order()
        try:
            with Waiting() as waiting:
                started = time.monotonic()
                on_ray = OnRay(
                    self.address, self.task, self._joined,
                    lambda names: waiting.show([_out(names)], time.monotonic() - started),
                )  # fmt: skip
                for report in on_ray.reports(reported):
                    self._keep(report)
        except KeyboardInterrupt:
            note(f"interrupted; what has arrived is in {self.folder.path}, and the same command does the rest")
            return _INTERRUPTED
        return self._told()

    def _joined(self, local: bool, names: Sequence[str]) -> None:
        """Write down who is asked; who was asked before and is gone is told at once."""
        if local:
            note("no Ray cluster runs here: this machine alone is examined")
        note(f"{len(names)} nodes")
        gone = sorted(set(self.folder.expected()) - set(names))
        self.names = (*names, *gone)
        self.folder.expect(set(names))
        for name in gone:
            done = self.folder.done(name)
            if done is None or done.outcome != "reported":
                self._keep(missing_node(name, "disappeared", "it is no node of the cluster now"))

    def _keep(self, report: NodeReport) -> None:
        self.folder.keep(report.node, msgspec.structs.replace(report, order=self.task.order.words))
        note(f"{report.node}: {in_a_line(report)}")

    def _refuse_another_order(self) -> None:
        words = self.task.order.words
        other = next(
            (done for done in self.folder.all_done() if done.outcome == "reported" and done.order != words), None
        )
        if other:
            refuse(
                f"{self.folder.path} holds reports of {other.order or 'another order'}, and this is {words}: take another "
                "folder with --out"
            )

    def _told(self) -> int:
        """1 where a node has findings, or gave no report; 3 where nothing was judged."""
        found = [self.folder.done(name) for name in self.names]
        reported = [each for each in found if each and each.outcome == "reported"]
        note(
            f"{len(reported)} of {len(found)} nodes reported: tfgpu-doctor fleet report {shlex.quote(self.folder.path)}"
        )
        if not reported:
            return _NOTHING_JUDGED
        codes = {each.exit_code for each in reported}
        return 1 if len(reported) < len(found) or codes - {0, _NOTHING_JUDGED} else max(code or 0 for code in codes)


def _out(names: Sequence[str]) -> str:
    return f"{len(names)} nodes: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
