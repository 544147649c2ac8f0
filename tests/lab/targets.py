"""The lab's targets: virtual environments with a real `tensorflow[and-cuda]`, made once by pip and never changed.

`python tests/lab/targets.py FOLDER` makes those that FOLDER does not hold yet, and the spare parts: real wheels that a
machine of the lab gets in place of its own.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# 2.21.0 misses libcusolver alone, 2.16.1 misses all that pip brought, 2.18.1 finds everything.
RELEASES = ("2.21.0", "2.16.1", "2.18.1")
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


def site_packages(environment: pathlib.Path) -> pathlib.Path:
    """The site-packages folder of a virtual environment."""
    (folder,) = environment.glob("lib/python3*/site-packages")
    return folder


def find_targets(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Release to environment: those below a folder that hold a TensorFlow of the lab with its CUDA libraries.

    pip installs what TensorFlow needs before TensorFlow itself, so an install that was cut short does not count.
    """
    found: dict[str, pathlib.Path] = {}
    for metadata in sorted(folder.glob("*/lib/python3*/site-packages/tensorflow-*.dist-info/METADATA")):
        site = metadata.parent.parent
        release = metadata.parent.name.removeprefix("tensorflow-").removesuffix(".dist-info")
        if (site / "nvidia/cudnn/lib").is_dir():
            found.setdefault(release, site.parents[2].resolve())
    return found


def part(folder: pathlib.Path, name: str) -> pathlib.Path:
    """The folder of a spare part, laid out as site-packages is."""
    return folder / "parts" / name


def make(folder: pathlib.Path) -> None:
    """Install what is not there yet, all of it at the same time: each waits for the network most of the time.

    What pip could not install is tried once more, on its own. Where the disk is too small, nothing is installed and the
    lab's tests are skipped, as tox skips the tests for a Python that is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if lacking := _lacking_space(folder):
        print(lacking)
        return
    if _install_missing(folder) and _install_missing(folder):
        sys.exit("pip could not install every target of the lab; its messages are above")


def _lacking_space(folder: pathlib.Path) -> str:
    """What to say where the targets that are missing do not fit the disk, with what pip downloads for them."""
    missing = len(set(RELEASES) - set(find_targets(folder)))
    temporary = pathlib.Path(tempfile.gettempdir())
    needed = {folder: missing * _INSTALLED, temporary: missing * _DOWNLOADED}
    if folder.stat().st_dev == temporary.stat().st_dev:
        needed = {folder: sum(needed.values())}
    for place, size in needed.items():
        free = shutil.disk_usage(place).free
        if free < size:
            return (
                f"The lab is skipped: its targets need {size / 1e9:.0f} GB in {place}, {free / 1e9:.0f} GB are free. "
                f"Make room, or name another disk in {FOLDER} and TMPDIR."
            )
    return ""


def _install_missing(folder: pathlib.Path) -> bool:
    """Install what is not there yet; true where pip failed."""
    there = find_targets(folder)
    running = [_install(folder / release, release) for release in RELEASES if release not in there]
    fetched = {
        name: _fetch(part(folder, name), wheel) for name, wheel in PARTS.items() if not part(folder, name).is_dir()
    }
    codes = [process.wait() for process in running]
    for name, process in fetched.items():
        codes.append(process.wait())
        if codes[-1] == 0:
            _unfinished(part(folder, name)).rename(part(folder, name))
    return any(codes)


def _install(environment: pathlib.Path, release: str) -> subprocess.Popen[bytes]:
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin/python")
    return subprocess.Popen([python, "-m", "pip", "install", "-q", f"tensorflow[and-cuda]=={release}"])


def _fetch(place: pathlib.Path, wheel: str) -> subprocess.Popen[bytes]:
    """pip's own unpacking of one wheel into a folder, which bears its name only when it is whole."""
    unfinished = _unfinished(place)
    shutil.rmtree(unfinished, ignore_errors=True)
    return subprocess.Popen(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(unfinished), wheel]
    )


def _unfinished(place: pathlib.Path) -> pathlib.Path:
    return place.with_name(place.name + ".part")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else os.environ[FOLDER]))
