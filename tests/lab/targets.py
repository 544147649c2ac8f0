"""The lab's targets: virtual environments with a real `tensorflow[and-cuda]`, made once and never changed.

`python tests/lab/targets.py` makes those that are not there yet, and the spare parts: real wheels that a machine of the
lab gets in place of its own. They stay in the user's cache, each in a folder that is named after all that it holds, or in
the folder that $LAB_TARGETS names. uv, where it is installed, shares equal files among them by hard links.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

from packaging.version import Version

# 2.21.0 misses libcusolver alone, 2.16.1 misses all that pip brought, 2.18.1 finds everything. Another release, or a
# candidate for one, stands in the place of the newest where LAB_NEWEST names it.
NEWEST = os.environ.get("LAB_NEWEST") or "2.21.0"
RELEASES = (NEWEST, "2.16.1", "2.18.1")
PYTHONS = ((3, 10), (3, 12))  # the oldest and the newest for which all of them have wheels
# What torch 2.4.1 pins, as far as it is needed to break something; and parts of CUDA 11.
PARTS = {
    "cudnn-9.1": "nvidia-cudnn-cu12==9.1.0.70",
    "cudart-12.1": "nvidia-cuda-runtime-cu12==12.1.105",
    "nvrtc-12.1": "nvidia-cuda-nvrtc-cu12==12.1.105",
    "cudart-11": "nvidia-cuda-runtime-cu11==11.8.89",
    "nvcc-11": "nvidia-cuda-nvcc-cu11==11.7.99",
}
FOLDER = "LAB_TARGETS"
# Bytes an environment, with its share of the parts. Measured: 4.9 to 6.7 GB and 1.1 GB of parts for all, and 2.4 to
# 3.4 GB that pip downloads for an environment and keeps until it is done.
_INSTALLED, _DOWNLOADED = 6e9, 3e9
_DONE = "complete"  # a file that an environment has when everything is installed


def folder() -> pathlib.Path:
    """Where the targets are: the folder that $LAB_TARGETS names, else one in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get(FOLDER) or pathlib.Path(cache) / "tfgpu-doctor-tests/lab").resolve()


def site_packages(environment: pathlib.Path) -> pathlib.Path:
    """The site-packages folder of a virtual environment."""
    (found,) = environment.glob("lib/python3*/site-packages")
    return found


def find_targets(among: pathlib.Path) -> dict[str, pathlib.Path]:
    """Release to environment, of those that are installed as a whole."""
    places = {release: among / _keyed(release, _requirement(release)) for release in RELEASES}
    return {release: place.resolve() for release, place in places.items() if (place / _DONE).is_file()}


def part(among: pathlib.Path, name: str) -> pathlib.Path:
    """The folder of a spare part, laid out as site-packages is."""
    return among / _keyed("parts", str(sorted(PARTS.items()))) / name


def _requirement(release: str) -> str:
    return f"tensorflow[and-cuda]=={release}"


def _keyed(name: str, requirement: str) -> str:
    """A folder's name that changes with what it holds: the requirement, and the Python that it is for."""
    held = f"{requirement} {sys.implementation.cache_tag} {sys.base_prefix} {platform.machine()}"
    return f"{name}-{hashlib.sha256(held.encode()).hexdigest()[:8]}"


def why_not() -> str:
    """Why this Python can make no targets; empty where it can."""
    lowest, highest = PYTHONS
    if lowest <= sys.version_info[:2] <= highest:
        return ""
    return "the lab's releases of TensorFlow have wheels for Python %d.%d to %d.%d" % (*lowest, *highest)


def make(among: pathlib.Path) -> None:
    """Install what is not there yet, all of it at the same time: each waits for the network most of the time.

    What could not be installed is tried once more, on its own. Where the disk is too small, nothing is installed and the
    lab's tests are skipped, as tox skips the tests for a Python that is missing.
    """
    among.mkdir(parents=True, exist_ok=True)
    if lacking := why_not() or _lacking_space(among):
        print(f"The lab is skipped: {lacking}")
        return
    if _install_missing(among) and _install_missing(among):
        sys.exit("not every target of the lab could be installed; what the installer said is above")


def _lacking_space(among: pathlib.Path) -> str:
    """What to say where the targets that are missing do not fit the disk, with what is downloaded for them."""
    missing = len(set(RELEASES) - set(find_targets(among)))
    temporary = pathlib.Path(tempfile.gettempdir())
    needed = {among: missing * _INSTALLED, temporary: missing * _DOWNLOADED}
    if among.stat().st_dev == temporary.stat().st_dev:
        needed = {among: sum(needed.values())}
    for place, size in needed.items():
        free = shutil.disk_usage(place).free
        if free < size:
            return (
                f"its targets need {size / 1e9:.0f} GB in {place}, {free / 1e9:.0f} GB are free. "
                f"Make room, or name another disk in {FOLDER} and TMPDIR."
            )
    return ""


def _install_missing(among: pathlib.Path) -> bool:
    """Install what is not there yet; true where something could not be installed."""
    there = find_targets(among)
    lacking = [release for release in RELEASES if release not in there]
    installing = {release: _install(among / _keyed(release, _requirement(release)), release) for release in lacking}
    fetching = {
        name: _fetch(part(among, name), wheel) for name, wheel in PARTS.items() if not part(among, name).is_dir()
    }
    codes = []
    for release, process in installing.items():
        codes.append(process.wait())
        if codes[-1] == 0:
            (among / _keyed(release, _requirement(release)) / _DONE).touch()
    for name, process in fetching.items():
        codes.append(process.wait())
        if codes[-1] == 0:
            _unfinished(part(among, name)).rename(part(among, name))
    return any(codes)


def _install(environment: pathlib.Path, release: str) -> subprocess.Popen[bytes]:
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin/python")
    if uv():
        options = ["--python", python, "--compile-bytecode"]  # else each machine of the lab compiles its own copy
        options += ["--prerelease=allow"] * Version(release).is_prerelease
        return subprocess.Popen([*uv(), "install", "-q", *options, _requirement(release)])
    pre = ["--pre"] * Version(release).is_prerelease
    return subprocess.Popen([python, "-m", "pip", "install", "-q", *pre, _requirement(release)])


def _fetch(place: pathlib.Path, wheel: str) -> subprocess.Popen[bytes]:
    """The installer's own unpacking of one wheel into a folder, which bears its name only when it is whole."""
    unfinished = _unfinished(place)
    shutil.rmtree(unfinished, ignore_errors=True)
    tool = uv() or [sys.executable, "-m", "pip"]
    return subprocess.Popen([*tool, "install", "-q", "--no-deps", "--target", str(unfinished), wheel])


def uv() -> list[str]:
    """The start of a command of uv's; empty where uv is not installed beside the tests."""
    return [sys.executable, "-m", "uv", "pip"] if importlib.util.find_spec("uv") else []


def _unfinished(place: pathlib.Path) -> pathlib.Path:
    return place.with_name(place.name + ".part")


if __name__ == "__main__":
    make(folder())
