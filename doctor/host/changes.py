"""The only code that changes a target environment; it changes nothing outside of it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence

from tfgpu_doctor.host.entries import Entry, look
from tfgpu_doctor.host.files import write_whole

_STAGED = ".tfgpu-doctor-part"  # a file that is being written; the next one in that folder takes its place
# Files that pip rewrites in place (pip/_internal/req/req_uninstall.py, UninstallPthEntries): all others it replaces.
_REWRITTEN = (".pth", ".egg-link")


class OutsideTarget(OSError):
    """A requested change outside of the folders that may be changed."""


class Changes:
    """Changes within some folders; each is checked to be in one of them, with links in its path followed."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [os.path.realpath(folder) for folder in folders]
        self._checked: dict[str, bool] = {}

    def make_folder(self, path: str) -> None:
        """Create a folder that only this user can access, unless it exists."""
        self._check(path)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def write(self, path: str, content: bytes) -> None:
        """Write a file; when this returns, it is complete and on disk."""
        self._check(path)
        write_whole(path, content)
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def touch(self, path: str) -> None:
        """Set the time of a file to now."""
        self._check(path)
        os.utime(path)

    def keep(self, path: str, place: str) -> bool:
        """Keep a file as a hard link, if that is safe and possible. Returns whether it is; if not, it is to be copied."""
        self._check(place)
        if path.endswith(_REWRITTEN):
            return False
        try:
            os.link(path, place)
        except OSError:
            return False  # another file system, one without hard links, another user's file
        return True

    def copy(self, path: str, place: str) -> None:
        """Keep a real copy of a file."""
        self._check(place)
        shutil.copy2(path, place)

    def put_back(self, kept: str, path: str) -> None:
        """Put a kept file back to a path, atomically: a reader sees the old file or the new one."""
        self._check(path)
        staged = self._staged(path)
        try:
            os.link(kept, staged)
        except OSError:
            shutil.copy2(kept, staged)
        os.replace(staged, path)
        self._staged(path)  # rename(2) does nothing for a second name of the same file

    def make_link(self, path: str, target: str, *, replace: bool = False) -> None:
        """Create a symbolic link with that target, unchanged. Raises FileExistsError unless it may replace."""
        self._check(path)
        if not replace:
            os.symlink(target, path)
            return
        staged = self._staged(path)
        os.symlink(target, staged)
        os.replace(staged, path)

    def remove(self, path: str, entry: Entry) -> bool:
        """Remove the entry at a path. A folder that is not empty stays, and the result is False."""
        self._check(path)
        if entry.kind != "folder":
            os.unlink(path)
            return True
        try:
            os.rmdir(path)
        except OSError:
            if os.listdir(path):
                return False
            raise
        return True

    def forget(self, path: str) -> None:
        """Remove one of the doctor's own files, if it exists."""
        self._check(path)
        if look(path):
            os.unlink(path)

    def set_mode(self, path: str, mode: int) -> None:
        """Set permission bits where they differ: another user's file that has them already needs no change."""
        self._check(path)
        if stat.S_IMODE(os.stat(path).st_mode) != mode:
            os.chmod(path, mode)

    def rename(self, path: str, new: str) -> None:
        """Rename one of the doctor's own folders, atomically."""
        self._check(path)
        self._check(new)
        os.rename(path, new)

    def discard(self, folder: str) -> None:
        """Remove one of the doctor's own folders with its content."""
        self._check(folder)
        shutil.rmtree(folder)

    def discard_empty(self, folder: str) -> None:
        """Remove one of the doctor's own folders if it is empty."""
        self._check(folder)
        try:
            os.rmdir(folder)
        except OSError:
            pass

    def _staged(self, path: str) -> str:
        """The temporary name of a file in its folder, which is free afterwards."""
        staged = os.path.join(os.path.dirname(path), _STAGED)
        if look(staged) is not None:
            os.unlink(staged)
        return staged

    def _check(self, path: str) -> None:
        above, name = os.path.split(path)
        if above not in self._checked:
            self._checked[above] = self._holds(os.path.realpath(above))
        if not (self._checked[above] and name not in ("", ".", "..")) and os.path.realpath(path) not in self._folders:
            raise OutsideTarget(1, "it is outside of the target environment", path)

    def _holds(self, real_path: str) -> bool:
        return any(os.path.join(real_path, "").startswith(os.path.join(folder, "")) for folder in self._folders)
