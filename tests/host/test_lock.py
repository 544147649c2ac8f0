"""Locks on files, and file systems that have none."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest

from tfgpu_doctor.host.lock import Busy, Unsupported, acquire

fcntl = pytest.importorskip("fcntl", reason="this system has no such locks")


def test_a_lock_is_held_by_one_and_free_again(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "lock")
    lock = acquire(path, patience_s=0)
    with pytest.raises(Busy):
        acquire(path, patience_s=0)
    lock.release(remove=True)
    acquire(path, patience_s=0).release(remove=True)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "raised"),
    [
        (errno.ENOSYS, Unsupported),
        (errno.ENOLCK, Unsupported),
        (errno.EOPNOTSUPP, Unsupported),
        (errno.EIO, OSError),
    ],
)
def test_a_file_system_without_locks_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int, raised: type[Exception]
) -> None:
    """Lustre without `-o flock`, NFS without its lock service: none can be mounted here."""
    used = []

    def flock(descriptor: int, _: int) -> None:
        used.append(descriptor)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(raised, match=os.strerror(number)):
        acquire(str(tmp_path / "lock"), patience_s=0)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(used[0])
    assert os.listdir(tmp_path) == ([] if raised is Unsupported else ["lock"])
