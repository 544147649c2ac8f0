"""The routes of copies: from the host to a GPU, back, and from one GPU to another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import TypeAlias

from tfgpu_doctor.checks.devices import device_of
from tfgpu_doctor.model.facts.stress import StressTest, Transfer

HOST = "host"
Route: TypeAlias = tuple[str, str]  # source and destination: "host", "GPU:0"
_NAMED = 3  # routes in a message; of the others, it tells the number


def routes_of(stress: StressTest) -> list[Route]:
    """Return the routes to copy over: those of each tested GPU with the host first, then those between the GPUs."""
    names = [f"GPU:{gpu.index}" for gpu in stress.tested]
    return [*(route for name in names for route in ((HOST, name), (name, HOST))), *permutations(names, 2)]


def is_between_gpus(route: Route) -> bool:
    """Return whether neither end is the host."""
    return HOST not in route


def route_of(each: Transfer) -> Route:
    """Return the route of a transfer."""
    return each.source, each.destination


def with_host(rows: Iterable[Transfer]) -> list[Transfer]:
    """Return the transfers from and to the host."""
    return [each for each in rows if not is_between_gpus(route_of(each))]


def across(rows: Iterable[Transfer]) -> list[Transfer]:
    """Return the transfers between GPUs."""
    return [each for each in rows if is_between_gpus(route_of(each))]


def devices_on(route: Route, stress: StressTest) -> tuple[str, ...]:
    """Return the GPUs at the ends of a route, the source first."""
    known = {f"GPU:{gpu.index}": device_of(gpu) for gpu in stress.gpus}
    return tuple(known.get(end, end) for end in route if end != HOST)


def _end(name: str) -> str:
    return "the host" if name == HOST else name.replace(":", " ")


def in_words(route: Route) -> str:
    """Return the name of a route for messages."""
    source, destination = map(_end, route)
    return f"{source} to {destination}"


def some_in_words(routes: Sequence[Route]) -> str:
    """Return the names of the first routes, and the number of the others."""
    more = len(routes) - _NAMED
    return ", ".join(map(in_words, routes[:_NAMED])) + (f" and {more} more" if more > 0 else "")
