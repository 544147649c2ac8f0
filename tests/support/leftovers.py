"""What a run of tests left: processes that it started, wherever they went, and folders of the doctor's."""

from __future__ import annotations

import contextlib
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


@contextlib.contextmanager
def own_temporary_folder() -> Iterator[pathlib.Path]:
    """A temporary folder for these tests alone: what lies in it at their end, they left."""
    before, known = os.environ.get("TMPDIR"), tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="t-", ignore_cleanup_errors=True) as folder:  # short: sockets lie in it
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        try:
            yield pathlib.Path(folder)
        finally:
            tempfile.tempdir = known
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


def run_folders(parent: pathlib.Path) -> list[str]:
    """The doctor's folders in the temporary folder, what is in them, and when it changed: it tells which test left it."""
    return [
        f"{folder.name}, {time.strftime('%H:%M:%S', time.localtime(folder.stat().st_mtime))}: "
        + " ".join(sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))[:20])
        for folder in parent.glob("tfgpu-doctor-*")
    ]
