"""The user's cache folder, and folders in it that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping

_PART = ".part-"
_ABANDONED_S = 3600.0  # a part this old belongs to nobody who still works at it


def cache_folder(environment: Mapping[str, str]) -> str:
    """Where this user's programs keep what they can make again (XDG Base Directory Specification 0.8)."""
    wanted = environment.get("XDG_CACHE_HOME") or ""
    home = environment.get("HOME") or os.path.expanduser("~")
    return wanted if os.path.isabs(wanted) else os.path.join(home, ".cache")


def make_folder(place: str, fill: Callable[[str], None]) -> None:
    """Have a new folder filled, and give it its name when it is whole; if somebody was faster, theirs stays.

    Raises OSError, and what `fill` raises; then nothing is left.
    """
    parent, name = os.path.split(place)
    os.makedirs(parent, exist_ok=True)
    _remove_abandoned(parent)
    part = tempfile.mkdtemp(prefix=name + _PART, dir=parent)
    try:
        fill(part)
        try:
            os.rename(part, place)
        except OSError:
            if not os.path.isdir(place):
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove_abandoned(parent: str) -> None:
    for entry in os.scandir(parent):
        if _PART in entry.name and time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_S:
            shutil.rmtree(entry.path, ignore_errors=True)
