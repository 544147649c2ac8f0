"""All checks: the doctor's own, and those of other distributions (entry points of the group tfgpu_doctor.checks)."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.engine import BrokenPlugin
from tfgpu_doctor.host import Files
from tfgpu_doctor.model import Check, in_order

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_METADATA = (".dist-info", ".egg-info")
GROUP = "tfgpu_doctor.checks"


@functools.cache
def load_checks() -> tuple[tuple[Check, ...], tuple[BrokenPlugin, ...]]:
    """Every check, and the plugins whose checks could not be loaded: those are shown, never dropped."""
    if not _may_be_named():
        return merge(ALL_CHECKS, ())
    from importlib.metadata import entry_points

    return merge(ALL_CHECKS, entry_points(group=GROUP))


def _may_be_named() -> bool:
    """Whether any distribution may name the group: importing importlib.metadata takes longer than looking for that."""
    files = Files()
    for folder in dict.fromkeys(sys.path):
        if os.path.isfile(folder):
            return True  # a zip file, say
        for name in files.names_if_any(folder or "."):
            if name.endswith(_METADATA) and GROUP in files.text_if_any(f"{folder or '.'}/{name}/entry_points.txt"):
                return True
    return False


def merge(own: Iterable[Check], points: Iterable[EntryPoint]) -> tuple[tuple[Check, ...], tuple[BrokenPlugin, ...]]:
    """The own checks and those that the entry points name, in the order of stages: each a Check, or a sequence of them."""
    checks, broken = in_order(own), []
    for point in points:
        try:
            loaded = point.load()
            found = [loaded] if isinstance(loaded, Check) else list(loaded)
            _refuse_strangers(found, {check.id for check in checks})
            together = in_order([*checks, *found])
        except Exception as error:  # noqa: BLE001 - a plugin that breaks is shown as such; the others go on
            broken.append(BrokenPlugin(point.name, f"{type(error).__name__}: {error}"))
        else:
            checks = together
    return checks, tuple(broken)


def _refuse_strangers(found: list[Check], taken: set[str]) -> None:
    for each in found:
        if not isinstance(each, Check):
            raise TypeError(f"{each!r} is no check: make it with the decorator tfgpu_doctor.model.check")
        if each.id in taken:
            raise ValueError(f"the id {each.id} is taken: choose letters of your own")
