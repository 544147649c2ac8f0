"""All checks: built-in checks, and those of other distributions (entry points of the group tfgpu_doctor.checks)."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import tfgpu_doctor.collect.workers
from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.engine import BrokenPlugin
from tfgpu_doctor.host import Files, Host
from tfgpu_doctor.host.json_text import read_json
from tfgpu_doctor.model import Check, in_order

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_TRY = os.path.join(os.path.dirname(os.path.abspath(tfgpu_doctor.collect.workers.__file__)), "try_plugin.py")
_TO_LOAD_S = 20.0
_METADATA = (".dist-info", ".egg-info")
GROUP = "tfgpu_doctor.checks"


@functools.cache
def load_checks() -> tuple[tuple[Check, ...], tuple[BrokenPlugin, ...]]:
    """Return every check, and the plugins whose checks could not be loaded: they are reported, never ignored."""
    if not _may_be_named():
        return merge(ALL_CHECKS, ())
    from importlib.metadata import entry_points

    return merge(ALL_CHECKS, entry_points(group=GROUP), _fault)


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
    own: Iterable[Check], points: Iterable[EntryPoint], fault: Callable[[EntryPoint], str] = lambda _: ""
) -> tuple[tuple[Check, ...], tuple[BrokenPlugin, ...]]:
    """Return `own` and the checks that the entry points name (each a Check or a sequence of them), in the order of stages.

    `fault` says why an entry point must not be loaded in this process.
    """
    checks, broken = in_order(own), []
    for point in points:
        if why := fault(point):
            broken.append(BrokenPlugin(point.name, why))
            continue
        try:
            with contextlib.redirect_stdout(sys.stderr):  # standard output is the document's
                loaded = point.load()
            found = [loaded] if isinstance(loaded, Check) else list(loaded)
            _refuse_strangers(found, {check.id for check in checks})
            together = in_order([*checks, *found])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin that fails is reported; the others continue
            broken.append(BrokenPlugin(point.name, f"{type(error).__name__}: {error}"))
        else:
            checks = together
    return checks, tuple(broken)


def _fault(point: EntryPoint) -> str:
    """Load a plugin in a child process first; return why it cannot be loaded here, empty if it can."""
    host = Host()
    done = host.run([sys.executable, _TRY, point.value], deadline_s=_TO_LOAD_S)
    if done.timed_out:
        return f"it was not loaded within {_TO_LOAD_S:.0f} s"
    try:
        error = read_json(done.stdout)
    except ValueError:
        return f"it ended the process that loaded it ({done.signal or f'exit code {done.exit_code}'})"
    return str(error or "")


def _refuse_strangers(found: list[Check], taken: set[str]) -> None:
    for each in found:
        if not isinstance(each, Check):
            raise TypeError(f"{each!r} is not a check: create it with the decorator tfgpu_doctor.model.check")
        if each.id in taken:
            raise ValueError(f"the id {each.id} is already in use: choose other letters")
