"""The origin of a library: a pip wheel, conda, a CUDA toolkit, or the system."""

from __future__ import annotations

import os
import re
from functools import cached_property

from tfgpu_doctor.host import Files, Host
from tfgpu_doctor.model.facts.python import Target

_TOOLKIT = re.compile(r"^/usr/local/cuda(?:-[\d.]+)?(?=/)")
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")


class Owners:
    """The owners of libraries in one target and on the machine."""

    def __init__(self, host: Host, target: Target) -> None:
        self._host, self._target = host, target

    def of(self, path: str) -> tuple[str, str]:
        """The owner of the library at that path, in words, and its version; both empty if the owner is unknown."""
        path = os.path.normpath(path)
        if path in self._wheels:
            name, version = self._wheels[path]
            return f"pip: {name} {version}", version
        if self._is_conda and path.startswith(os.path.join(self._target.prefix, "")):
            return "conda", _version(path)
        if toolkit := _TOOLKIT.match(path):
            return f"toolkit: {toolkit.group()}", _version(path)
        if path.startswith("/usr/lib/wsl/"):
            return "Windows, for WSL", _version(path)
        return ("system" if path.startswith(_SYSTEM) else ""), _version(path)

    def wheel_with(self, name: str) -> str:
        """The wheel that lists a file of that name, as a requirement; empty if there is none. The file may be missing."""
        owners = (owner for path, owner in self._wheels.items() if os.path.basename(path) == name)
        return "==".join(next(owners, ()))

    @cached_property
    def _wheels(self) -> dict[str, tuple[str, str]]:
        """Map the path of each library that an NVIDIA wheel lists in its RECORD to the name and version of the wheel."""
        found: dict[str, tuple[str, str]] = {}
        files = self._host.target_files
        for each in self._target.distributions:
            if not each.name.startswith(("nvidia-", "tensorrt", "tensorflow", "torch")):
                continue
            for spelling in (each.name.replace("-", "_"), each.name):
                record = files.text_if_any(f"{each.folder}/{spelling}-{each.version}.dist-info/RECORD")
                for line in record.splitlines():
                    name = line.partition(",")[0]
                    if ".so" in name:
                        found[os.path.normpath(f"{each.folder}/{name}")] = (each.name, each.version)
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
