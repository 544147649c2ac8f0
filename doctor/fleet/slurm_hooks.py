"""The scripts that slurmd starts on a node by itself: before a job, after a job, or periodically."""

from __future__ import annotations

from typing import Literal

import msgspec

from tfgpu_doctor.fleet.draining import MOST_PER_HOUR
from tfgpu_doctor.fleet.emitting import Emission, NotEmittable, render

HookKind = Literal["prolog", "epilog", "healthcheck"]
HOOK_KINDS: tuple[HookKind, ...] = ("prolog", "epilog", "healthcheck")
_SPARE_S = 30  # for everything in the script but the examination: the sum of the other time limits
_ENDING_S = 9  # for the doctor on a node to start, to end its children, and to judge
_HEALTHCHECK_S = 60  # https://slurm.schedmd.com/slurm.conf.html: a HealthCheckProgram that takes longer is killed


class Drainage(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes may leave service within an hour; a dry run only writes what it would do to the system log."""

    most: int = MOST_PER_HOUR
    dry_run: bool = False


def drainage_of(most: int | None, *, dry_run: bool) -> Drainage | None:
    """Return what the options ask for; None if they are not given."""
    return None if most is None and not dry_run else Drainage(most=most or MOST_PER_HOUR, dry_run=dry_run)


class _Hook(msgspec.Struct, frozen=True, kw_only=True):
    """The words and exit codes in which the scripts differ."""

    setting: str
    when: str
    limit: str
    drained: int  # the exit code of a script whose node is drained
    undrained: int = 1  # the exit code if scontrol fails: that of a Prolog or Epilog drains the node
    spare_s: int = _SPARE_S
    deadline_s: int | None = None  # of each question that the doctor asks; None: its own

    @property
    def requeues(self) -> bool:
        """Whether Slurm requeues the job if the script drains its node."""
        return self.drained != 0


# What Slurm does with the exit codes: https://slurm.schedmd.com/prolog_epilog.html
_LATER = "PrologEpilogTimeout in slurm.conf should be longer"
_HOOKS: dict[HookKind, _Hook] = {
    "prolog": _Hook(
        setting="Prolog", when="on each node of a job before it starts", limit=_LATER, drained=1
    ),
    "epilog": _Hook(
        setting="Epilog", when="on each node of a job after it has ended", limit=_LATER, drained=0
    ),
    "healthcheck": _Hook(
        setting="HealthCheckProgram", when="on each node every HealthCheckInterval",
        limit=f"Slurm kills a HealthCheckProgram after {_HEALTHCHECK_S} s", drained=0, undrained=0,
    ),
}  # fmt: skip


def hook(job: Emission, kind: HookKind, drainage: Drainage) -> str:
    """Return the script. Raises NotEmittable."""
    if job.nodes or job.gpus is not None:
        raise NotEmittable(f"--kind {kind} runs where Slurm starts it: it cannot be combined with --nodes or --gpus")
    if kind == "healthcheck":
        if job.loads or job.order.profile or job.order.level != "quick":
            raise NotEmittable(
                "--kind healthcheck runs beside the jobs of the node, for less than a minute: it requires --level quick"
            )
        job = msgspec.structs.replace(job, limit_s=min(job.limit_s, _HEALTHCHECK_S - _SPARE_S - 1))
    words = _HOOKS[kind]
    if kind == "healthcheck":  # the other scripts have time for a driver that starts many GPUs
        words = msgspec.structs.replace(words, deadline_s=job.limit_s - _ENDING_S)
    if drainage.dry_run:
        words = msgspec.structs.replace(words, drained=0)
    return render("slurm_hook.sh.jinja", job=job, hook=words, most_drained=drainage.most, dry_run=drainage.dry_run)
