"""Get wheels through pip, whose configuration decides the index."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from packaging.utils import parse_wheel_filename

_PYTHONS = ("3.11", "3.9", "3.8")  # the newest that a release has a wheel for; the texts are the same in all of them
_PLATFORMS = ("manylinux2010", "manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28")


class NoWheel(Exception):
    """pip found no wheel; the message contains pip's last line."""


@contextmanager
def downloaded(requirement: str) -> Iterator[pathlib.Path]:
    """Download a wheel for Linux on x86-64, and delete it afterwards. Raises NoWheel."""
    with TemporaryDirectory(prefix="read_messages.") as folder:
        last = ""
        for python in _PYTHONS:
            last = _download(requirement, python, folder)
            if found := next(pathlib.Path(folder).glob("*.whl"), None):
                yield found
                return
        raise NoWheel(f"{requirement}: {last}")


def _download(requirement: str, python: str, folder: str) -> str:
    """Run pip, and return its last line."""
    tags = [part for platform in _PLATFORMS for part in ("--platform", f"{platform}_x86_64")]
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--python-version", python, "-d", folder, "-q"]
    command = [sys.executable, "-m", "pip", "download", *options, *tags, requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr.strip().splitlines() or [""])[-1]


def project_and_version(wheel: pathlib.Path) -> tuple[str, str]:
    """Return the name and the version of a wheel: ("tensorflow", "2.16.2")."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    return name, str(version)
