"""The origin of a library: a pip wheel, conda, a CUDA toolkit, or the system."""

from __future__ import annotations

import os
import re
from functools import cached_property

from tfgpu_doctor.host import Files, Host
from tfgpu_doctor.model.facts.python import Target

_TOOLKIT = re.compile(r"^/usr/local/cuda(?:-[\d.]+)?(?=/)")
_FOR_TENSORFLOW = ("nvidia-", "tensorrt", "tensorflow")
_WITH_CUDA = (*_FOR_TENSORFLOW, "torch")  # PyTorch's wheels have copies in folders that PyTorch alone looks in
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")


class Owners:
    """The owners of libraries in one target and on the machine."""

    def __init__(self, host: Host, target: Target) -> None:
        self._host, self._target = host, target

    def of(self, path: str) -> tuple[str, str]:
        """The owner of the library at that path, in words, and its version; both empty if the owner is unknown."""
        path = os.path.normpath(path)
        if wheel := self._wheel_of(path):
            return f"pip: {' '.join(wheel)}", wheel[1]
        if self._is_conda and path.startswith(self._inside_prefix):
            return "conda", _version(path)
        if toolkit := _TOOLKIT.match(path):
            return f"toolkit: {toolkit.group()}", _version(path)
        if path.startswith("/usr/lib/wsl/"):
            return "Windows, for WSL", _version(path)
        return ("system" if path.startswith(_SYSTEM) else ""), _version(path)

    def wheel_with(self, name: str) -> str:
        """The wheel that lists a file of that name where TensorFlow may look, as a requirement; empty if there is none.

        The file may be missing.
        """
        rows = [row for row in self._wheels.get(name, ()) if row[1].startswith(_FOR_TENSORFLOW)]
        return "==".join(rows[0][1:]) if rows else ""

    def wheel_of(self, path: str) -> str:
        """The wheel that installed the file at that path, as a requirement; empty if none did."""
        return "==".join(self._wheel_of(os.path.normpath(path)))

    def _wheel_of(self, path: str) -> tuple[str, ...]:
        """The name and the version of the wheel that lists a path."""
        for listed, name, version in reversed(self._wheels.get(os.path.basename(path), ())):
            if path in self._spellings(listed):
                return name, version
        return ()

    def _spellings(self, path: str) -> tuple[str, ...]:
        """A path as it is written, and with every link followed: the environment may lie behind a link."""
        try:
            return os.path.normpath(path), self._host.target_files.real_path(path)
        except OSError:  # links that form a loop
            return (os.path.normpath(path),)

    @cached_property
    def _inside_prefix(self) -> tuple[str, ...]:
        return tuple(os.path.join(each, "") for each in self._spellings(self._target.prefix))

    @cached_property
    def _wheels(self) -> dict[str, list[tuple[str, str, str]]]:
        """Map the name of each library in the RECORD of such a wheel to its path, and the wheel's name and version."""
        found: dict[str, list[tuple[str, str, str]]] = {}
        files = self._host.target_files
        for each in self._target.distributions:
            if not each.name.startswith(_WITH_CUDA):
                continue
            for spelling in (each.name.replace("-", "_"), each.name):
                record = files.text_if_any(f"{each.folder}/{spelling}-{each.version}.dist-info/RECORD")
                for line in record.splitlines():
                    name = line.partition(",")[0]
                    if ".so" in name:
                        row = (f"{each.folder}/{name}", each.name, each.version)
                        found.setdefault(os.path.basename(name), []).append(row)
        return found

    @cached_property
    def _is_conda(self) -> bool:
        return bool(self._target.conda_packages) or self._host.target_files.exists(f"{self._target.prefix}/conda-meta")


def header_version(files: Files, library: str) -> str:
    """The version of cuDNN from the header next to a library's folder ("9.3.0"); empty if there is no header."""
    header = os.path.join(os.path.dirname(os.path.dirname(library)), "include/cudnn_version.h")
    numbers = dict(
        re.findall(r"^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) (\d+)", files.text_if_any(header), re.MULTILINE)
    )
    return ".".join(numbers.values()) if len(numbers) == len(("MAJOR", "MINOR", "PATCHLEVEL")) else ""


def _version(path: str) -> str:
    """The part of the file name after the soname: libcublas.so.12.4.5.8 gives 12.4.5.8; a bare soname gives nothing."""
    found = re.search(r"\.so\.(\d+(?:\.\d+)+)$", path)
    return found.group(1) if found else ""
