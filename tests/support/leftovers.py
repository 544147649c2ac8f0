"""What a run of tests left: processes that it started, wherever they went, folders of the doctor's, sockets and locks.

A lock is held by processes alone; what can stay is its file.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from tfgpu_doctor.host.cache import cache_folder
from tfgpu_doctor.host.owner import is_abandoned

_MARK = "LEFT_BY_TESTS"
_SETTLES_S = 120.0  # for programs that end because their parent did


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
def places_of_all(
    sockets: pathlib.Path = pathlib.Path("/tmp"), cache: pathlib.Path | None = None
) -> Iterator[Callable[[], list[str]]]:
    """Look at the places that these tests share with others; gives what returns what is new there and nobody's.

    These are the folders of sockets whose name would be too long in the temporary folder (`host.listening`), and locks and
    half folders in the user's cache folder.
    """
    cache = cache or pathlib.Path(cache_folder(os.environ))

    def found() -> set[str]:
        folders = (each for each in sockets.glob("tfgpu-*") if not each.name.startswith("tfgpu-doctor-"))
        return {str(each) for each in (*folders, *cache.glob("*.lock"), *cache.glob("*.part-*"))}

    before = found()

    def left() -> list[str]:
        until = time.monotonic() + _SETTLES_S
        while (new := {each for each in found() - before if not _is_used(each)}) and time.monotonic() < until:
            time.sleep(0.2)
        return sorted(new)

    yield left


def _is_used(place: str) -> bool:
    """Whether a process listens at a socket in there, or works on what it will be: another doctor, in whose way these are not."""
    listening = pathlib.Path("/proc/net/unix")
    if listening.exists() and f" {place}/" in listening.read_text():
        return True
    return os.path.isdir(place) and ".part-" in place and not is_abandoned(place, named_by_us=True)


@contextlib.contextmanager
def own_temporary_folder() -> Iterator[RunFolders]:
    """A temporary folder for these tests alone: what lies in it at their end, they left."""
    before, known = os.environ.get("TMPDIR"), tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="t-", ignore_cleanup_errors=True) as folder:  # short: sockets lie in it
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        try:
            yield RunFolders(pathlib.Path(folder))
        finally:
            tempfile.tempdir = known
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


class RunFolders:
    """The doctor's folders in a temporary folder, and after which file of tests each was seen first."""

    def __init__(self, parent: pathlib.Path) -> None:
        self.parent = parent
        self.seen: dict[str, str] = {}

    def look(self, after: str) -> None:
        for folder in self.parent.glob("tfgpu-doctor-*"):
            self.seen.setdefault(folder.name, after)

    def sockets_and_locks(self) -> list[str]:
        """Sockets and files of locks that are left anywhere in the temporary folder; Ray keeps those of its sessions."""
        found = [path for path in self.parent.rglob("*") if path.suffix == ".lock" or path.is_socket()]
        names = sorted(str(path.relative_to(self.parent)) for path in found)
        return [name for name in names if not name.startswith("ray/session_")]

    def left(self) -> list[str]:
        """Those that are there, with what is in them."""
        self.look("the last file")
        return [
            f"{name}, seen after {after}: "
            + " ".join(
                sorted(str(path.relative_to(self.parent / name)) for path in (self.parent / name).rglob("*"))[:20]
            )
            for name, after in self.seen.items()
            if (self.parent / name).exists()
        ]
