"""All checks: built-in checks, and those of other distributions (entry points of the group tfgpu_doctor.checks)."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.engine import BrokenPlugin
from tfgpu_doctor.diagnose.plugin_checks import describe_plugin
from tfgpu_doctor.diagnose.selection import nearest
from tfgpu_doctor.host import Files
from tfgpu_doctor.model import Check, PluginError, in_order
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.tags import of_plugin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_METADATA = (".dist-info", ".egg-info")
GROUP = "tfgpu_doctor.checks"


@functools.cache
def load_checks() -> tuple[tuple[Check, ...], tuple[BrokenPlugin, ...]]:
    """Return every check, and the plugins whose checks could not be loaded: they are reported, never ignored."""
    if not _may_be_named():
        return merge(ALL_CHECKS, ())
    from importlib.metadata import entry_points

    return merge(ALL_CHECKS, entry_points(group=GROUP))


def _may_be_named() -> bool:
    """Return whether any distribution may use the group: importing importlib.metadata takes longer than this search."""
    files = Files()
    for folder in dict.fromkeys(sys.path):
        if os.path.isfile(folder):
            return True  # for example, a zip file
        for name in files.names_if_any(folder or "."):
            if name.endswith(_METADATA) and GROUP in files.text_if_any(f"{folder or '.'}/{name}/entry_points.txt"):
                return True
    return False


def merge(
    own: Iterable[Check], points: Iterable[EntryPoint], load: Callable[[str], list[Check]] = describe_plugin
) -> tuple[tuple[Check, ...], tuple[BrokenPlugin, ...]]:
    """Return `own` and the checks that the entry points name (each a Check or a sequence of them), in the order of stages.

    `load` gives the checks of the value of an entry point, or raises PluginError.
    """
    checks, broken = in_order(own), []
    for point in points:
        try:
            found = [dataclasses.replace(each, tags=(of_plugin(point.name), *each.tags)) for each in load(point.value)]
            _refuse_unknown_facts(found)
            _refuse_taken(found, {check.id for check in checks})
            checks = in_order([*checks, *found])
        except PluginError as error:
            broken.append(BrokenPlugin(point.name, str(error)))
        except ValueError as error:  # an id twice, or a ring of checks
            broken.append(BrokenPlugin(point.name, f"{type(error).__name__}: {error}"))
    return checks, tuple(broken)


def _refuse_taken(found: list[Check], taken: set[str]) -> None:
    for each in found:
        if each.id in taken:
            raise ValueError(f"the id {each.id} is already in use: choose other letters")


def _refuse_unknown_facts(found: list[Check]) -> None:
    """Refuse a check that could never run. A parameter with a default may name a fact that only another release has."""
    known = (*Facts.__struct_fields__, "knowledge")
    for each in found:
        for name in each.needs:
            if name not in known:
                raise PluginError(
                    f"{each.id} needs the fact {name!r}, which this doctor does not have (a parameter for a fact of another "
                    f"release needs a default){nearest(name, known)}"
                )
