"""Storage is read from the storage, or not measured."""

from __future__ import annotations

import os
import pathlib
import tempfile

import pytest

from tfgpu_doctor.perf_tests.storage import BLOCK, Cached, file_system_of, read_past_cache, write_file


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="this system has no file system in memory")
def test_what_lies_in_memory_is_no_storage() -> None:
    """Linux 6.6 and later accept direct reads of tmpfs; earlier ones refuse them."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = pathlib.Path(folder, "stored")
        write_file(file, BLOCK)
        with pytest.raises(Cached, match="tmpfs reads from memory"):
            read_past_cache(file)


def test_the_file_system_of_a_file(tmp_path: pathlib.Path) -> None:
    device, mounts = tmp_path.stat().st_dev, tmp_path / "mountinfo"
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts.write_bytes(
        b"22 1 0:999 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        b"30 22 %s / /caf\xe9 rw,relatime shared:9 master:1 - zfs tank/tmp rw,xattr\n" % number.encode()
    )
    assert file_system_of(tmp_path, mounts) == "zfs"
    mounts.write_text("22 1 0:999 / / rw,relatime - ext4 /dev/vda rw\n")
    assert file_system_of(tmp_path, mounts) == ""
    assert file_system_of(tmp_path, tmp_path / "missing") == ""
