"""All checks: the doctor's own, and those of other distributions (entry points of the group tfgpu_doctor.checks)."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnosis import BrokenPlugin
from tfgpu_doctor.model import Check

GROUP = "tfgpu_doctor.checks"


@functools.cache
def load_checks() -> tuple[tuple[Check, ...], tuple[BrokenPlugin, ...]]:
    """Every check, and the plugins whose checks could not be loaded: those are shown, never dropped."""
    return merge(ALL_CHECKS, entry_points(group=GROUP))


def merge(own: Iterable[Check], points: Iterable[EntryPoint]) -> tuple[tuple[Check, ...], tuple[BrokenPlugin, ...]]:
    """The own checks and those that the entry points name: each a Check, or a sequence of them."""
    checks, broken = list(own), []
    for point in points:
        try:
            loaded = point.load()
            found = [loaded] if isinstance(loaded, Check) else list(loaded)
            _refuse_strangers(found, {check.id for check in checks})
        except Exception as error:  # noqa: BLE001 - a plugin that breaks is shown as such; the others go on
            broken.append(BrokenPlugin(point.name, f"{type(error).__name__}: {error}"))
        else:
            checks += found
    return tuple(checks), tuple(broken)


def _refuse_strangers(found: list[Check], taken: set[str]) -> None:
    for each in found:
        if not isinstance(each, Check):
            raise TypeError(f"{each!r} is no check: make it with the decorator tfgpu_doctor.model.check")
        if each.id in taken:
            raise ValueError(f"the id {each.id} is taken: choose letters of your own")
