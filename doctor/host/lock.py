"""A lock on a file: held by one process at a time, and free as soon as that and the children given it have ended."""

from __future__ import annotations

import os
import time

_LOOK_EVERY_S = 0.05


class Busy(Exception):
    """Somebody else holds the lock."""


class Unsupported(Exception):
    """There are no such locks on this system."""


class Lock:
    """The lock; `descriptor` can be handed to a child, which then holds it as well."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    def release(self, *, remove: bool) -> None:
        """Let go of it, and remove its file if asked to."""
        if remove:
            os.unlink(self.path)
        os.close(self.descriptor)


def acquire(path: str, *, patience_s: float) -> Lock:
    """Take the lock, waiting that long. Raises Busy, Unsupported, and OSError where the file cannot be made."""
    try:
        import fcntl
    except ImportError as error:
        raise Unsupported("this system has no locks on files") from error
    until = time.monotonic() + patience_s
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, descriptor):
                return Lock(path, descriptor)
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(descriptor)
                raise Busy(path) from None
        os.close(descriptor)
        time.sleep(_LOOK_EVERY_S)


def _is_still(path: str, descriptor: int) -> bool:
    """Whether the path still names the file that was locked; the holder before may have removed it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
