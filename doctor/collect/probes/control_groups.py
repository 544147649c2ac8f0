"""The control groups of a process, version 1 and version 2."""

from __future__ import annotations

import os

from tfgpu_doctor.host import Host

_MOUNTS = "/sys/fs/cgroup"
_SECOND = "cgroup2"  # the name of version 2 in mountinfo


class ControlGroups:
    """The control groups of a process, this one by default, from /proc/PID/cgroup and /proc/self/mountinfo.

    The mounts are always those of this process: it opens the files, and both files name groups as it sees them.
    """

    def __init__(self, host: Host, pid: int | None = None) -> None:
        self._files = host.files
        self._paths = _paths(host.files.text_if_any(f"/proc/{'self' if pid is None else pid}/cgroup"))
        self._mounts = _mounts(host.files.text_if_any("/proc/self/mountinfo"))

    def version(self, controller: str) -> int:
        """The version that has a controller; 0 if neither lists it."""
        if controller in self._paths:
            return 1
        return 2 if "" in self._paths else 0

    def folders(self, controller: str) -> list[str]:
        """The group's folder and its parents, innermost first. The limits of all of them apply."""
        version = self.version(controller)
        if not version:
            return []
        name = controller if version == 1 else ""
        default = ("/", f"{_MOUNTS}/{controller}" if version == 1 else _MOUNTS)
        root, place = self._mounts.get(controller if version == 1 else _SECOND, default)
        inside = _below(self._paths[name], root)
        names = [part for part in inside.split("/") if part]
        return [os.path.join(place, *names[:count]) for count in range(len(names), -1, -1)]

    def readings(self, controller: str, file: str) -> list[tuple[str, str]]:
        """Folder and content of a file, for each of these folders that has it."""
        found = ((folder, self._files.text_if_any(f"{folder}/{file}").strip()) for folder in self.folders(controller))
        return [(folder, text) for folder, text in found if text]

    def read(self, folder: str, file: str) -> str:
        """The content of a file in one folder, empty if it cannot be read."""
        return self._files.text_if_any(f"{folder}/{file}").strip()


def _paths(text: str) -> dict[str, str]:
    """Map controller to path of the group, from lines like `4:memory:/a` and, for version 2 under the name "", `0::/a`."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and path.startswith("/") and (controllers or number == "0"):
            found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _mounts(mountinfo: str) -> dict[str, tuple[str, str]]:
    """Map controller (or "cgroup2") to the root of the mount and its mount point; proc(5) documents the fields."""
    found: dict[str, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if not dash or len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == _SECOND:
            found.setdefault(_SECOND, (fields[3], fields[4]))
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                found.setdefault(option, (fields[3], fields[4]))
    return found


def _below(path: str, root: str) -> str:
    """The path relative to the root of the mount; empty if it is outside of what is mounted."""
    if ".." in path.split("/"):
        return ""  # for a process that was moved out of the namespace's root
    if root == "/":
        return path
    return path[len(root) :] if path == root or path.startswith(root + "/") else ""
