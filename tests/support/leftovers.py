"""What a run of tests left: processes that it started, wherever they went, and folders of the doctor's."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

_MARK = "LEFT_BY_TESTS"
_SETTLES_S = 20.0  # for programs that end because their parent did


@contextlib.contextmanager
def marked_processes() -> Iterator[Callable[[], list[str]]]:
    """Mark all processes that are started from now on; gives what returns those that still run, by command line."""
    mark = secrets.token_hex(8)
    os.environ[_MARK] = mark
    wanted = f"{_MARK}={mark}".encode()

    def running() -> list[str]:
        until = time.monotonic() + _SETTLES_S
        while (found := list(_with(wanted))) and time.monotonic() < until:
            time.sleep(0.2)
        return found

    try:
        yield running
    finally:
        del os.environ[_MARK]


def _with(variable: bytes) -> Iterator[str]:
    for folder in pathlib.Path("/proc").glob("[0-9]*") if sys.platform == "linux" else ():
        try:
            if variable in (folder / "environ").read_bytes().split(b"\0"):
                yield f"{folder.name}: {(folder / 'cmdline').read_bytes().replace(bytes(1), b' ').decode(errors='replace')}"
        except OSError:
            continue  # it ended, or belongs to another user


def run_folders() -> Iterator[str]:
    """The doctor's folders in the temporary folder whose owner does not run."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob("tfgpu-doctor-*"):
        try:
            pid = json.loads((folder / ".owner").read_text())["pid"]
        except (OSError, ValueError, KeyError):
            yield folder.name
            continue
        if not pathlib.Path(f"/proc/{pid}").exists():
            yield folder.name


def content(name: str) -> str:
    """What lies in such a folder, with the time of its last change: it tells which test left it."""
    folder = pathlib.Path(tempfile.gettempdir()) / name
    inside = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    changed = time.strftime("%H:%M:%S", time.localtime(folder.stat().st_mtime)) if folder.exists() else "gone"
    return f"{name}, {changed}: {' '.join(sorted(inside)[:20])}"
