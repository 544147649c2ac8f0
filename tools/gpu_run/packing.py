"""Make a few small files of a folder: DIR/parts.tar.gz holds the folders of all parts."""

from __future__ import annotations

import lzma
import os
import pathlib
import re
import shutil
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

ARCHIVE = "parts.tar.gz"
MOST_BYTES = 16 << 20  # of one file that is carried
LARGE_BYTES = 12 << 20  # of one file in the archive
MOST_FILES = 8


def pack(folder: pathlib.Path, names: Sequence[str]) -> list[str]:
    """Pack the folders of those names and remove them; return the files that were too large, with their sizes."""
    files = [
        each
        for name in names
        for each in sorted((folder / name).rglob("*"))
        if each.is_file() and not each.is_symlink()
    ]
    left_out = [each for each in files if each.stat().st_size > LARGE_BYTES]
    packed = [each for each in files if each not in left_out]
    _write(folder, packed)
    while (folder / ARCHIVE).stat().st_size > MOST_BYTES:
        left_out.append(max(packed, key=lambda each: each.stat().st_size))
        packed.remove(left_out[-1])
        _write(folder, packed)
    told = [f"{each.relative_to(folder)} ({each.stat().st_size >> 20} MiB)" for each in left_out]
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
    return told


def _write(folder: pathlib.Path, files: Sequence[pathlib.Path]) -> None:
    new = folder / f"{ARCHIVE}.new"
    with tarfile.open(new, "w:gz") as archive:
        for each in files:
            archive.add(each, plain(str(each.relative_to(folder))), recursive=False)
    new.replace(folder / ARCHIVE)


def plain(name: str) -> str:
    """A name without odd characters."""
    return re.sub(r"[^A-Za-z0-9._/-]", "_", name)


def unpack(folder: pathlib.Path) -> None:
    """Put the parts of an earlier call back, so that the next archive holds them too."""
    if (folder / ARCHIVE).exists():
        with tarfile.open(folder / ARCHIVE) as archive:
            missing = [each for each in archive.getmembers() if not (folder / each.name).exists()]
            archive.extractall(folder, missing, filter="data")


def profile_bytes(folder: pathlib.Path) -> int:
    """The bytes of the profiles below a folder."""
    return sum(profile.stat().st_size for profile in folder.rglob("*.xplane.pb"))


def compress_profiles(folder: pathlib.Path) -> None:
    """Compress each profile below a folder, as many at once as there are CPUs."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(_compress, list(folder.rglob("*.xplane.pb"))))


def _compress(profile: pathlib.Path) -> None:
    (profile.parent / "profile.xplane.pb.xz").write_bytes(lzma.compress(profile.read_bytes(), preset=2))
    profile.unlink()
