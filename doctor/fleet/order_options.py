"""The options for the examination of each node of a fleet, shared by `fleet node`, `fleet run` and `fleet emit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from tfgpu_doctor.cli.configuration import Configuration
from tfgpu_doctor.cli.finite import FiniteRange
from tfgpu_doctor.cli.output import refuse
from tfgpu_doctor.fleet.order import DEFAULT_BUDGET, NodeOrder
from tfgpu_doctor.model.facts.stress import LEVELS, Level
from tfgpu_doctor.perf_tests.budget import parse_budget

_Command = TypeVar("_Command", bound=Callable[..., int])
_OPTIONS = (
    click.option("--level", type=click.Choice(LEVELS), help="The depth of the examination.  [default: standard]"),
    click.option("--minutes", type=FiniteRange(min=1), metavar="N", help="The duration of --level soak."),
    click.option("--suite", "suites", metavar="SUITE", multiple=True, help="A perf suite to run as well; repeatable."),
    click.option("--budget", metavar="TIME", default="", help=f"The time budget for the suites.  [default: {DEFAULT_BUDGET}]"),
    click.option("--profile", metavar="NAME|FILE", help="Accept a node by a profile that sets level and suites."),
    click.option("--select", metavar="IDS", multiple=True, help="Judge a node only by these checks (HLT002, or HLT for all)."),
    click.option("--ignore", metavar="IDS", multiple=True, help="Exclude these checks from the verdict on a node."),
    click.option("--even-if-busy", is_flag=True, help="Stress-test and measure GPUs that other processes use, too."),
)  # fmt: skip


def order_options(command: _Command) -> _Command:
    """Add these options to a command; pass their values to `order_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def order_of(
    *, level: Level | None, minutes: float | None, suites: tuple[str, ...], budget: str, profile: str | None, even_if_busy: bool,
    select: tuple[str, ...] = (), ignore: tuple[str, ...] = (), usual: Level = "standard",
) -> NodeOrder:  # fmt: skip
    """Return the order that the options describe; reject invalid combinations before any node is examined."""
    from tfgpu_doctor.bench import suite_names

    if profile == "":
        refuse("the name of the --profile is empty (an unset variable?)")
    if profile and (level or minutes or suites or budget or select or ignore):
        refuse(
            "--profile sets level and suites: it cannot be combined with --level, --minutes, --suite, --budget, --select or "
            "--ignore"
        )
    if minutes is not None and level != "soak":
        refuse("--minutes requires --level soak")
    if unknown := sorted(set(suites) - set(suite_names())):
        refuse(f"there is no suite {unknown[0]!r}; the suites are {', '.join(suite_names())}")
    try:
        parse_budget(budget or DEFAULT_BUDGET)
    except ValueError as error:
        refuse(f"--budget: {error}")
    chosen = Configuration().with_options(select=select, ignore=ignore)
    _validate(chosen)
    return NodeOrder(
        level=level or usual, minutes=minutes, suites=suites, budget=budget, profile=profile or "", even_if_busy=even_if_busy,
        select=chosen.select, ignore=chosen.ignore,
    )  # fmt: skip


def _validate(chosen: Configuration) -> None:
    """Reject a misspelled id before any node is examined."""
    if not chosen.selects:
        return
    from tfgpu_doctor.diagnose.plugins import load_checks
    from tfgpu_doctor.diagnose.selection import UnknownId

    checks, broken = load_checks()
    try:
        chosen.selection.validate([check.id for check in checks], complete=not broken)
    except UnknownId as error:
        refuse(str(error))


def reach_of(order: NodeOrder, *, across_nodes: bool) -> NodeOrder:
    """Return the order with its profile's level and suites; the profile is read here, and again by the nodes.

    `across_nodes`: the nodes are started together, so the suites that the profile wants of several nodes are due.
    """
    if not order.profile:
        return order
    from tfgpu_doctor.accept import profile_named

    found = profile_named(order.profile).profile
    suites = (*found.suites, *(found.suites_of_several_nodes if across_nodes else ()))
    return NodeOrder(level=found.level, minutes=found.minutes, suites=suites, budget=found.budget)
