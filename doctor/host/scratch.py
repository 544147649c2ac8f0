"""The temporary folder of this process: everything that the doctor and its children write temporarily is in it.

It is created when it is first needed, and removed at the end of the process. What a killed process left is removed when
the next one creates its own. It is never in the working folder, where Python would put it if no other folder can be written to.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping

from tfgpu_doctor.host.cache import cache_folder, remove_abandoned
from tfgpu_doctor.host.owner import discard, is_abandoned, sign

_PREFIX = "tfgpu-doctor-"
_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_PLACES = ("/tmp", "/var/tmp", "/usr/tmp")  # where Python looks after these variables, and before the working folder
_CHILDREN = "tmp"
_LISTED_BYTES = 1 << 20  # ext4 needs about 32 bytes for an entry, tmpfs 20: a list of these names takes few ms
_LONGEST_SWEEP_S = 0.004  # to look for what was left where there are more
_PATIENCE_S = 1.0  # for children that were just killed, and may still write; for a thread that creates the folder


class _Run:
    """The folder of the process with that number; a fork gets one of its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.folder, self.pid, self.is_over = "", 0, False


_RUN = _Run()


class NoTemporaryFolder(OSError):
    """No folder for temporary files can be written to."""

    def __init__(self) -> None:
        named = [f"{name}={value}" for name in _VARIABLES if (value := os.environ.get(name))]
        places = ", ".join([*(named or ["TMPDIR is not set"]), *_PLACES])
        why = f"no folder for temporary files can be written to ({places}): set TMPDIR to one that can be, or mount one at /tmp"
        super().__init__(errno.ENOENT, why)


def choose_parent() -> None:
    """Choose the folder for temporary files: Python writes a file to try it, which an interrupt would leave there."""
    with contextlib.suppress(OSError):
        _parent()


def _parent() -> str:
    """The folder for temporary files. Raises NoTemporaryFolder where Python would take the working folder, or finds none."""
    if os.name == "nt":
        return tempfile.gettempdir()
    usual = [*(os.path.abspath(value) for name in _VARIABLES if (value := os.environ.get(name))), *_PLACES]
    if tempfile.tempdir is None and not any(os.access(place, os.W_OK | os.X_OK) for place in usual):
        raise NoTemporaryFolder  # Python would try the working folder, and leave a file there for a moment
    try:
        chosen = tempfile.gettempdir()
    except FileNotFoundError:
        raise NoTemporaryFolder from None
    if chosen not in usual and chosen == _working_folder():
        raise NoTemporaryFolder
    return chosen


def _working_folder() -> str:
    try:
        return os.path.abspath(os.getcwd())
    except OSError:  # it was removed
        return ""


def run_folder() -> str:
    """The folder, which only this user can access. Raises OSError if none can be created, or if the process ends."""
    parent = _parent()
    if not _existing():
        # Outside of the lock, because it may take long: `end_run` waits for the lock only for a moment.
        _sweep(parent)
        remove_abandoned(cache_folder(os.environ))
    with _RUN.lock:
        if _RUN.is_over:
            raise OSError("the run is over")
        if there := _existing():
            return there
        # It is known before it exists: an interrupt at any moment leaves a name, never a folder.
        folder = os.path.join(parent, _PREFIX + secrets.token_hex(5))
        _RUN.folder, _RUN.pid = folder, os.getpid()
        atexit.unregister(remove_run_folder)
        atexit.register(remove_run_folder)
        os.mkdir(folder, 0o700)
        sign(folder)  # not `_RUN.folder`: an end that waited in vain has removed it, and forgotten its name
        return folder


def _existing() -> str:
    """The folder of this process if it is there, else an empty text. Its name is read once: the end may forget it meanwhile."""
    folder = _RUN.folder
    return folder if _RUN.pid == os.getpid() and os.path.isdir(folder) else ""


def children_folder() -> str:
    """The folder for temporary files of the doctor's own children. Raises OSError."""
    folder = os.path.join(run_folder(), _CHILDREN)
    # Not `makedirs`: where the process ends, the run's own folder may be gone by now, and stays so.
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    return folder


def remove_run_folder() -> None:
    """Remove the folder of this process; a later need creates another one. Never raises."""
    folder = _RUN.folder
    if _RUN.pid != os.getpid() or not folder:
        return
    discard(folder, patience_s=_PATIENCE_S)
    _RUN.folder = ""


def end_run() -> None:
    """Remove the folder, and create none any more: the process ends now."""
    _RUN.is_over = True  # first: threads that wait for the lock as well create none
    held = _RUN.lock.acquire(timeout=_PATIENCE_S)  # a thread may be creating it, which takes long on a busy disk
    if held:
        _RUN.lock.release()
    remove_run_folder()


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder that is removed afterwards. Raises OSError if none can be created."""
    with tempfile.TemporaryDirectory(dir=run_folder(), ignore_cleanup_errors=True) as folder:
        yield folder


def make_links(folder: str, targets: Mapping[str, str]) -> None:
    """Create a folder with links of these names. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    for name, target in targets.items():
        os.symlink(target, os.path.join(folder, name))


def _sweep(parent: str) -> None:
    """Remove the folders of processes that are gone."""
    try:
        found = _own_names(parent)
    except OSError:
        return
    for folder in (os.path.join(parent, name) for name in found):
        if is_abandoned(folder):
            discard(folder)


def _own_names(parent: str) -> list[str]:
    """The names of the doctor's folders; of a folder with very many entries, those that are found within the time."""
    if os.stat(parent).st_size < _LISTED_BYTES:
        return [name for name in os.listdir(parent) if name.startswith(_PREFIX)]
    until, found = time.monotonic() + _LONGEST_SWEEP_S, []
    with os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                found.append(entry.name)
            if time.monotonic() > until:
                break
    return found
