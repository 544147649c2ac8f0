"""The process that a temporary folder belongs to, named in a file in it, so that a later one knows when nobody uses it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time

from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.janitor import start_time
from tfgpu_doctor.host.json_text import read_json

_FILE = ".owner"
_MOST_BYTES = 4096
# The owner may live on another machine that shares the folder: systemd-tmpfiles removes such files from /var/tmp after
# this time (https://github.com/systemd/systemd/blob/main/tmpfiles.d/tmp.conf).
_UNKNOWN_DAYS = 30
_AGAIN_S = 0.02
_UNSIGNED_S = 3600.0  # between the creation of a folder and its signature are milliseconds


def sign(folder: str) -> None:
    """Name this process as the owner of a folder. Raises OSError."""
    owner = {**_here(), "pid": os.getpid(), "started": start_time(os.getpid())}
    with open(os.path.join(folder, _FILE), "w", encoding="utf-8") as file:
        json.dump(owner, file)


def unsign(folder: str) -> None:
    """Remove the signature, for a folder that stays. Raises OSError."""
    os.unlink(os.path.join(folder, _FILE))


def is_abandoned(folder: str, *, named_by_us: bool = False) -> bool:
    """Whether a folder is this user's, and its owner is gone; in doubt it is not. Links are not followed.

    A folder without signature counts only where it is old, and empty unless nobody else chooses such a name there.
    """
    try:
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) or not hasattr(os, "getuid") or status.st_uid != os.getuid():
            return False
        owner = _read(folder)
        age_s = time.time() - status.st_mtime
        if owner is None:
            return age_s > _UNSIGNED_S and (named_by_us or not os.listdir(folder))
    except OSError:
        return False
    pid, started = owner.get("pid"), owner.get("started")
    known = all(owner.get(name) == value for name, value in _here().items())
    if not known or not started or not isinstance(pid, int):
        return age_s > _UNKNOWN_DAYS * 86400
    return start_time(pid) != started


def discard(folder: str, *, patience_s: float = 0.0) -> None:
    """Remove a folder with its content, the signature last: what remains of an interrupted removal is still signed.

    Programs that were just killed may still write into it: it is tried again for that time.
    """
    until = time.monotonic() + patience_s
    _discard(folder)
    while os.path.lexists(folder) and time.monotonic() < until:
        time.sleep(_AGAIN_S)
        _discard(folder)


def _discard(folder: str) -> None:
    try:
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            elif name != _FILE:
                os.unlink(path)
        if os.listdir(folder) == [_FILE]:
            unsign(folder)
        os.rmdir(folder)
    except OSError:
        pass  # another process removes it as well, or still writes to it


def _here() -> dict[str, str]:
    """What the number of a process is unique in: the machine, since its last start, in its namespace of processes."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    boot = Files().text_if_any("/proc/sys/kernel/random/boot_id").strip()
    return {"host": os.uname().nodename if hasattr(os, "uname") else "", "boot": boot, "namespace": namespace}


def _read(folder: str) -> dict[str, object] | None:
    """What is said of the owner; None without a signature."""
    try:
        content = Files().read_bytes(os.path.join(folder, _FILE), _MOST_BYTES)
    except FileNotFoundError:
        return None
    try:
        owner = read_json(content)
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}
