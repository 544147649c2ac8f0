"""The user's cache folder, and folders in it that are created completely or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping

from tfgpu_doctor.host.owner import discard, is_abandoned, sign, unsign

_NAME = "tfgpu-doctor"
_PART = ".part-"
_PATIENCE_S = 1.0  # for a program that was just killed, and may still write


def cache_folder(environment: Mapping[str, str]) -> str:
    """The doctor's folder for data that it can recreate: below XDG_CACHE_HOME, else where the platform keeps caches."""
    import platformdirs

    wanted = environment.get("XDG_CACHE_HOME") or ""
    if os.path.isabs(wanted):
        return os.path.join(wanted, _NAME)
    place = ""
    if not wanted:  # XDG Base Directory Specification 0.8: a relative path is invalid and is ignored
        with contextlib.suppress(RuntimeError):  # newer versions raise it where there is no home
            place = platformdirs.user_cache_dir(_NAME, appauthor=False)
    if os.path.isabs(place):
        return place
    home = os.path.expanduser("~")
    # With neither HOME nor an entry in the user database, the home is /, as in a container.
    return os.path.join(home if os.path.isabs(home) else os.sep, ".cache", _NAME)


def make_folder(place: str, fill: Callable[[str], None]) -> None:
    """Let `fill` write a new folder, and rename it when it is complete; if another process was faster, its folder stays.

    Raises OSError, and whatever `fill` raises; then nothing remains.
    """
    parent, name = os.path.split(place)
    os.makedirs(parent, exist_ok=True)
    part = tempfile.mkdtemp(prefix=name + _PART, dir=parent)
    try:
        sign(part)
        fill(part)
        unsign(part)
        try:
            os.rename(part, place)
        except OSError:
            if not os.path.isdir(place):
                raise
    finally:
        discard(part, patience_s=_PATIENCE_S)


def remove_abandoned(parent: str) -> None:
    """Remove what killed processes left of their folders in there, and nothing else."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _PART in entry.name and is_abandoned(entry.path, named_by_us=True):
                discard(entry.path)


def discard_folder(place: str) -> None:
    """Remove a folder that is not whole; nobody sees a part of it. Raises OSError."""
    parent, name = os.path.split(place)
    part = tempfile.mkdtemp(prefix=name + _PART, dir=parent)
    try:
        with contextlib.suppress(FileNotFoundError):  # another process has discarded it
            os.rename(place, os.path.join(part, name))
    finally:
        discard(part)
