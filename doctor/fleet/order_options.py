"""The options that say how far each node of a fleet is examined: the same for one node, on Ray, and in an emitted job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from tfgpu_doctor.cli.output import refuse
from tfgpu_doctor.fleet.order import DEFAULT_BUDGET, NodeOrder
from tfgpu_doctor.model.facts.stress import LEVELS, Level
from tfgpu_doctor.perf_tests.budget import parse_budget

_Command = TypeVar("_Command", bound=Callable[..., int])
_OPTIONS = (
    click.option("--level", type=click.Choice(LEVELS), help="How far a node is examined.  [default: standard]"),
    click.option("--minutes", type=click.FloatRange(min=1), metavar="N", help="How long --level soak lasts."),
    click.option("--suite", "suites", metavar="SUITE", multiple=True, help="A perf suite to run as well; more than once."),
    click.option("--budget", metavar="TIME", default="", help=f"The time of a node's suites.  [default: {DEFAULT_BUDGET}]"),
    click.option("--profile", metavar="NAME|FILE", default="", help="Accept a node by a profile; it names level and suites."),
    click.option("--even-if-busy", is_flag=True, help="Load a GPU that others use, too."),
)  # fmt: skip


def order_options(command: _Command) -> _Command:
    """A command that takes these options; `order_of` understands what it is given."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def order_of(
    *, level: Level | None, minutes: float | None, suites: tuple[str, ...], budget: str, profile: str, even_if_busy: bool,
    usual: Level = "standard",
) -> NodeOrder:  # fmt: skip
    """What the options say together; what cannot be meant is refused before any node is asked."""
    from tfgpu_doctor.bench.run import suite_names

    if profile and (level or minutes or suites or budget):
        refuse("--profile names level and suites itself: it goes with none of --level, --minutes, --suite and --budget")
    if minutes is not None and level != "soak":
        refuse("--minutes says how long --level soak lasts")
    if unknown := sorted(set(suites) - set(suite_names())):
        refuse(f"there is no suite {unknown[0]!r}; there are {', '.join(suite_names())}")
    try:
        parse_budget(budget or DEFAULT_BUDGET)
    except ValueError as error:
        refuse(f"--budget: {error}")
    return NodeOrder(
        level=level or usual, minutes=minutes, suites=suites, budget=budget, profile=profile, even_if_busy=even_if_busy
    )


def reach_of(order: NodeOrder) -> NodeOrder:
    """The level and the suites that an order comes to: those of its profile, read here; the nodes read it as well."""
    if not order.profile:
        return order
    from tfgpu_doctor.accept.examine import profile_named

    found = profile_named(order.profile).profile
    return NodeOrder(level=found.level, minutes=found.minutes, suites=tuple(found.suites), budget=found.budget)
