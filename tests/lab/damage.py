"""Damage to a copy of a target, as disks, people and pip do it."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

from lab import targets
from lab.place import Change, Place

_TORCH = pathlib.Path(__file__).with_name("torch-2.4.1.METADATA")
_GROWTH = pathlib.Path(__file__).with_name("first_gpu_growth.py")


def deleted(pattern: str) -> Change:
    """Files or folders of site-packages that are gone."""

    def change(place: Place) -> None:
        for path in _matching(place, pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def truncated(pattern: str, length: int = 4096) -> Change:
    """Libraries of which the disk held no more than the beginning."""

    def change(place: Place) -> None:
        for path in _matching(place, pattern):
            with path.open("rb") as file:
                head = file.read(length)
            path.unlink()
            path.write_bytes(head)

    return change


def uninstalled(*names: str) -> Change:
    """Distributions that were uninstalled, by pip or, which takes a tenth of the time, by uv; a name may be a pattern."""

    def change(place: Place) -> None:
        found = [info.name.partition("-")[0] for name in names for info in place.site.glob(f"{name}-*.dist-info")]
        if found:
            python = str(place.copy / "bin/python")
            by_uv = [*targets.uv(), "uninstall", "-q", "--python", python]
            command = by_uv if targets.uv() else [python, "-m", "pip", "uninstall", "-q", "-y"]
            subprocess.run([*command, *found], check=True, capture_output=True)

    return change


def installed(*parts: str) -> Change:
    """Spare parts, in the place of the distributions of the same name, as pip puts them there."""

    def change(place: Place) -> None:
        for name in parts:
            part = targets.part(place.targets, name)
            (info,) = part.glob("*.dist-info")
            uninstalled(info.name.partition("-")[0])(place)
            _lay_over(part, place.site)

    return change


def from_other_target(release: str, distribution: str, package: str) -> Change:
    """One nvidia wheel as another release of TensorFlow brings it."""

    def change(place: Place) -> None:
        there = targets.site_packages(place.of_release(release))
        uninstalled(distribution)(place)
        (info,) = there.glob(f"{distribution}-*.dist-info")
        _lay_over(info, place.site / info.name)
        _lay_over(there / "nvidia" / package, place.site / "nvidia" / package)

    return change


def moved_to_toolkit(folder: str) -> Change:
    """pip's CUDA libraries uninstalled, and the same files in one folder of the root, as a toolkit keeps them."""

    def change(place: Place) -> None:
        libraries, toolkit = place.root / folder, (place.root / folder).parent
        libraries.mkdir(parents=True)
        for path in place.site.glob("nvidia/*/lib/*.so.*"):
            os.link(path, libraries / path.name)
        _lay_over(place.site / "nvidia/cuda_nvcc", toolkit)
        uninstalled("nvidia_*")(place)

    return change


def with_toolkit_11(place: Place) -> None:
    """A toolkit of CUDA 11 in the root, and no other CUDA. Its runtime is real; of cuBLAS only the name is looked at."""
    (runtime,) = targets.part(place.targets, "cudart-11").glob("nvidia/cuda_runtime/lib/libcudart.so.11.0")
    toolkit = place.root / "usr/local/cuda-11.8/lib64"
    toolkit.mkdir(parents=True)
    for name in ("libcudart.so.11.0", "libcublas.so.11"):
        os.link(runtime, toolkit / name)
    uninstalled("nvidia_*")(place)


def with_torch(place: Place) -> None:
    """The metadata of a real torch, whose pins are what pip acts on; its own 800 MB would change nothing here."""
    info = place.site / "torch-2.4.1.dist-info"
    info.mkdir()
    shutil.copy(_TORCH, info / "METADATA")
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text("torch-2.4.1.dist-info/METADATA,,\n")


def with_cpu_build(place: Place) -> None:
    """What `pip install tensorflow-cpu` leaves after tensorflow: a second owner, and a build without CUDA."""
    (own,) = place.site.glob("tensorflow-*.dist-info")
    other = own.with_name(own.name.replace("tensorflow-", "tensorflow_cpu-"))
    shutil.copytree(own, other)
    _rewrite(other / "METADATA", "Name: tensorflow\n", "Name: tensorflow-cpu\n")
    build = place.site / "tensorflow/python/platform/build_info.py"
    _rewrite(build, "('is_cuda_build', True)", "('is_cuda_build', False)")


def started_with(line: str) -> Change:
    """A line of Python that every start of the interpreter runs, as a .pth file in site-packages."""

    def change(place: Place) -> None:
        (place.site / "company.pth").write_text(line + "\n")

    return change


def activated_with_cusolver(place: Place) -> None:
    """A line in bin/activate that names cuSOLVER's folder; it helps only what is started from such a shell."""
    script = place.copy / "bin/activate"
    folder = place.site.relative_to(place.copy) / "nvidia/cusolver/lib"
    text = script.read_text()
    script.unlink()
    script.write_text(f'{text}export LD_LIBRARY_PATH="$VIRTUAL_ENV/{folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"\n')


def with_growth_on_first_gpu(place: Place) -> None:
    """A module of the administrator's that sets memory growth, for one GPU alone."""
    shutil.copy(_GROWTH, place.site)
    started_with(f"import {_GROWTH.stem}")(place)


def _rewrite(file: pathlib.Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text, f"{file} does not say {old!r}"
    file.unlink()
    file.write_text(text.replace(old, new))


def _matching(place: Place, pattern: str) -> list[pathlib.Path]:
    found = list(place.site.glob(pattern))
    assert found, f"{pattern} is not in {place.site}: there is nothing to damage"
    return found


def _lay_over(source: pathlib.Path, place: pathlib.Path) -> None:
    """Hard links to all files of a folder; what is there already of the same name is replaced."""
    for path in source.rglob("*"):
        new = place / path.relative_to(source)
        if path.is_dir():
            new.mkdir(parents=True, exist_ok=True)
        else:
            new.parent.mkdir(parents=True, exist_ok=True)
            new.unlink(missing_ok=True)
            os.link(path, new)
