"""What an undo could not do: it is reported at the end, and holds up nothing else."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from tfgpu_doctor.fix.bounds import NotRestored

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Failures:
    """The paths that could not be restored."""

    def __init__(self) -> None:
        self._found: dict[str, OSError] = {}

    @contextmanager
    def collected(self, path: str) -> Iterator[None]:
        """Collect the error of what is done to a path, instead of raising it."""
        try:
            yield
        except OSError as error:
            self._found.setdefault(path, error)

    def tell(self) -> None:
        """Raise NotRestored if there are any."""
        for path, error in self._found.items():
            more = f" (and {len(self._found) - 1} more)" if len(self._found) > 1 else ""
            raise not_restored(f"{path}{more}", error, "cannot be restored") from error


def not_restored(path: str, error: OSError, what: str) -> NotRestored:
    """Return the error of an undo of which a part remains; the record is still there."""
    remedy = "free space" if error.errno in _FULL else "remove the cause of that error"
    return NotRestored(
        f"{path} {what}: {error.strerror or error}. The environment is not fully restored: {remedy}, then run "
        "`tfgpu-doctor fix --undo`"
    )
