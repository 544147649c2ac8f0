"""Which limit of this process an error is about, and its present value: for when not even the doctor can go on.

It stands before everything else, like `cli.interrupts`: nothing that is slow to import, and no library, may be imported
here.
"""

from __future__ import annotations

import errno
import sys

_FEW_FILES = 128  # the doctor opens about 7 for each child, and examines with a dozen of them at once
# A thread reserves 8 MiB for its stack and 128 MiB for its heap, and Python waits for ever for one that gets less in between.
_FEW_ADDRESSES_BYTES = 4 << 30
_NO_ROOM_BYTES = 64 << 20
_NO_MEMORY = ("failed to map segment", "Cannot allocate memory", "cannot allocate memory")
# What is short, the option of `ulimit`, the name of the limit, and the unit of that option in bytes.
_SHORT = {
    "files": ("n", "RLIMIT_NOFILE", 1),
    "tasks": ("u", "RLIMIT_NPROC", 1),
    "addresses": ("v", "RLIMIT_AS", 1024),
    "data": ("d", "RLIMIT_DATA", 1024),
    "file size": ("f", "RLIMIT_FSIZE", 1024),
}
_ABOUT = {
    errno.EMFILE: ("it cannot open another file", ("files",)),
    errno.ENOMEM: ("it gets no memory", ("addresses", "data")),
    errno.EAGAIN: ("it cannot start another process", ("tasks",)),
    errno.EFBIG: ("it may not write so much into a file", ("file size",)),
}


def exhausted(error: BaseException) -> str:
    """What the doctor lacks, which limit may be the reason, and what to do; empty if the error is about something else."""
    what, kinds = _about(error)
    if not what:
        return ""
    limits = [found for kind in kinds if (found := _limit(*_SHORT[kind]))]
    if not limits and "tasks" in kinds:
        return f"{what}, though no limit of this process is set: look for one of its control group (pids.max)"
    if not limits:
        return ""
    return f"{what}: {' and '.join(limits)}; raise the limit in this shell or where the job is defined, and run the doctor again"


def may_work_at_once() -> bool:
    """Whether the limits leave enough for probes that run at the same time, each on a thread."""
    files = _soft("RLIMIT_NOFILE")
    memory = [limit for name in ("RLIMIT_AS", "RLIMIT_DATA") if (limit := _soft(name)) is not None]
    return (files is None or files >= _FEW_FILES) and all(limit >= _FEW_ADDRESSES_BYTES for limit in memory)


def _about(error: BaseException) -> tuple[str, tuple[str, ...]]:
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "it cannot start a thread", ("tasks", "addresses", "data")
    if isinstance(error, (MemoryError, SystemError)) or (
        isinstance(error, ImportError) and (any(each in str(error) for each in _NO_MEMORY) or _has_no_room())
    ):
        return _ABOUT[errno.ENOMEM]
    if isinstance(error, OSError) and error.errno is not None:
        return _ABOUT.get(error.errno, ("", ()))
    return "", ()


def _has_no_room() -> bool:
    """Whether there are fewer addresses than the doctor's own modules need: the error of an import may then say anything."""
    try:
        addresses = _soft("RLIMIT_AS")
    except (ImportError, MemoryError):
        return True
    return addresses is not None and addresses < _NO_ROOM_BYTES


def _limit(option: str, name: str, unit_bytes: int) -> str:
    try:
        value = _soft(name)
    except (ImportError, MemoryError):
        return f"ulimit -{option} may be too low"
    return "" if value is None else f"ulimit -{option} is {value // unit_bytes}"


def _soft(name: str) -> int | None:
    """A limit of this process; None if there is none. Raises ImportError or MemoryError where nothing can be imported."""
    if sys.platform == "win32":
        return None
    import resource

    value = resource.getrlimit(getattr(resource, name))[0]
    return None if value == resource.RLIM_INFINITY else value
