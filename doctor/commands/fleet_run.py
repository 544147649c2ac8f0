"""`tfgpu-doctor fleet run`: examine every node of a Ray cluster."""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import click
import msgspec

from tfgpu_doctor.commands.fleet_folder import FleetFolder
from tfgpu_doctor.commands.on_ray import NodeTask, RayCluster, RayError, RayNode
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
    task = _task(order, deadline, python)
    try:
        folder = FleetFolder(out)
        with RayCluster(ray, install) as cluster:
            if cluster.is_local:
                note("no Ray cluster runs here: this machine alone is examined")
            return _Round(cluster, folder, task).run()
    except RayError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{error.filename or out} cannot be written: {error.strerror or error}")


def _task(order: NodeOrder, deadline_s: float | None, python: str | None) -> NodeTask:
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
        extra=["--python", python] if python else [],
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


@dataclass(frozen=True)
class _Round:
    """One round over the nodes that have not reported yet."""

    cluster: RayCluster
    folder: FleetFolder
    task: NodeTask

    def run(self) -> int:
        """The exit code."""
        living = self.cluster.nodes()
        self._refuse_another_order(living)
        gone = set(self.folder.expected()) - {node.name for node in living}
        self.folder.expect({node.name for node in living})
        for name in sorted(gone):
            if not self._has_reported(name):
                self.folder.keep(
                    name, self._marked(missing_node(name, "disappeared", "it is no node of the cluster now"))
                )
        missing = [node for node in living if not self._has_reported(node.name)]
        note(f"{len(living)} nodes, {len(living) - len(missing)} of which have reported before" if len(missing) < len(living)
             else f"{len(living)} nodes")  # fmt: skip
        try:
            self._examine(missing)
        except KeyboardInterrupt:
            note(f"interrupted; what has arrived is in {self.folder.path}, and the same command does the rest")
            return _INTERRUPTED
        return self._told([*(node.name for node in living), *gone])

    def _examine(self, nodes: Sequence[RayNode]) -> None:
        with Waiting() as waiting:
            for name, found in self.cluster.examine(nodes, self.task, lambda out, s: waiting.show([_out(out)], s)):
                report = self._marked(found if isinstance(found, NodeReport) else _decoded(name, found))
                self.folder.keep(name, report)
                note(f"{name}: {in_a_line(report)}")

    def _marked(self, report: NodeReport) -> NodeReport:
        return msgspec.structs.replace(report, order=self.task.order.words)

    def _has_reported(self, name: str) -> bool:
        done = self.folder.done(name)
        return done is not None and done.outcome == "reported"

    def _refuse_another_order(self, nodes: Sequence[RayNode]) -> None:
        for node in nodes:
            done = self.folder.done(node.name)
            if done and done.outcome == "reported" and done.order != self.task.order.words:
                refuse(
                    f"{self.folder.path} holds reports of {done.order or 'another order'}, and this is "
                    f"{self.task.order.words}: take another folder with --out"
                )

    def _told(self, names: Sequence[str]) -> int:
        """1 where a node has findings, or gave no report; 3 where nothing was judged."""
        found = [self.folder.done(name) for name in names]
        reported = [each for each in found if each and each.outcome == "reported"]
        note(
            f"{len(reported)} of {len(names)} nodes reported: tfgpu-doctor fleet report {shlex.quote(self.folder.path)}"
        )
        if not reported:
            return _NOTHING_JUDGED
        codes = {each.exit_code for each in reported}
        return 1 if len(reported) < len(names) or codes - {0, _NOTHING_JUDGED} else max(code or 0 for code in codes)


def _out(names: Sequence[str]) -> str:
    return f"{len(names)} nodes: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"


def _decoded(name: str, document: bytes) -> NodeReport:
    """The node's own report, under the name that it is known by here."""
    try:
        return msgspec.structs.replace(msgspec.json.decode(document, type=NodeReport), node=name)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return missing_node(name, "died", f"its report is damaged, or of another version of the doctor: {error}")
