"""A lock on a file: held by one process at a time, and free when that process and its children with the lock end."""

from __future__ import annotations

import contextlib
import errno
import os
import time

_LOOK_EVERY_S = 0.05
# What flock says where the file system has none: Lustre without `-o flock`
# (https://github.com/torvalds/linux/blob/v4.17/drivers/staging/lustre/README.txt), NFS without its lock service
# (https://man7.org/linux/man-pages/man5/nfs.5.html), and others.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class Busy(Exception):
    """Another process holds the lock."""


class Unsupported(Exception):
    """The system or the file system does not support such locks."""


class Lock:
    """The lock; `descriptor` can be handed to a child, which then holds it as well."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    def release(self, *, remove: bool) -> None:
        """Release the lock, and remove its file if requested."""
        if remove:
            os.unlink(self.path)
        os.close(self.descriptor)


def acquire(path: str, *, patience_s: float) -> Lock:
    """Take the lock, and wait up to that long. Raises Busy, Unsupported, and OSError if the file cannot be created."""
    try:
        import fcntl
    except ImportError as error:
        raise Unsupported("this system does not support file locks") from error
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
        except OSError as error:
            os.close(descriptor)
            if error.errno not in _NO_LOCKS:
                raise
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise Unsupported(
                f"the file system of {path} does not lock files ({error.strerror}); mount it with locks (Lustre: -o flock, "
                "NFS: its lock service), or use a folder on another file system"
            ) from None
        os.close(descriptor)
        time.sleep(_LOOK_EVERY_S)


def _is_still(path: str, descriptor: int) -> bool:
    """Whether the path still names the locked file; the previous holder may have removed it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
