"""The user's cache folder, and folders in it that are created completely or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping

_NAME = "tfgpu-doctor"
_PART = ".part-"
_ABANDONED_S = 3600.0  # a partial folder this old is no longer in use


def cache_folder(environment: Mapping[str, str]) -> str:
    """The doctor's folder for data that it can recreate: below XDG_CACHE_HOME, else where the platform keeps caches."""
    import platformdirs

    wanted = environment.get("XDG_CACHE_HOME") or ""
    if os.path.isabs(wanted):
        return os.path.join(wanted, _NAME)
    if wanted:  # XDG Base Directory Specification 0.8: a relative path is invalid and is ignored
        return os.path.join(os.path.expanduser("~"), ".cache", _NAME)
    return platformdirs.user_cache_dir(_NAME, appauthor=False)


def make_folder(place: str, fill: Callable[[str], None]) -> None:
    """Let `fill` write a new folder, and rename it when it is complete; if another process was faster, its folder stays.

    Raises OSError, and whatever `fill` raises; then nothing remains.
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
