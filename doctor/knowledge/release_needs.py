"""What a release of TensorFlow needs on a system, from the tables of releases: 1.4 to 2.3, and 2.4 on."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from tfgpu_doctor.knowledge.reading import Knowledge
from tfgpu_doctor.knowledge.reading import version as comparable
from tfgpu_doctor.knowledge.schema import OlderBuild, OlderRelease, TensorFlowRelease, Wheels

if TYPE_CHECKING:
    from packaging.version import Version

# Folders of pip packages from which TensorFlow itself opens a library; other libraries are found through these.
_OPENED = ("cublas", "cuda_runtime", "cudnn", "cufft", "cusolver", "cusparse")
NEW_ENVIRONMENT = "tensorflow-gpu"  # the one that the doctor's commands create
_PACKAGES = ("tensorflow", "tensorflow-gpu")  # the first is preferred, if both are built with CUDA


@dataclass(frozen=True)
class ReleaseNeeds:
    """A release's needs on one system; every field about CUDA is empty or false if it has no GPU build there."""

    minor: str  # "2.13"
    cuda: str = ""  # "11.8"
    cudnn: str = ""  # "8"
    pythons: tuple[str, ...] = ()  # empty if it has no wheels for the system
    compute_capabilities: tuple[str, ...] = ()  # "sm_80", "compute_90"
    has_gpu_build: bool = False
    cuda_extra: bool = False  # pip can install tensorflow[and-cuda], which brings the libraries
    gpu_package: str = ""  # "tensorflow-gpu", "tensorflow"


def needs_of(knowledge: Knowledge, tensorflow: str, os: str, architecture: str = "x86_64") -> ReleaseNeeds | None:
    """The needs of a version ("2.13", "2.13.0", "2.13.0rc1") on "linux", "windows" or "macos".

    They are those of exactly this release if the tables have it, else those of its minor version: every Python that one of
    its releases has wheels for, and apart from that its last release. None if the text does not name a minor version that
    the tables know, or names somebody's own build ("1.15.5+nv22.12"), whose needs are not known.
    """
    wanted = _parse(tensorflow)
    if wanted is None:
        return None
    minor = f"{wanted.major}.{wanted.minor}"
    rows = _rows_of(knowledge, minor, wanted)
    return _merge([_needs(knowledge, row, minor, os, architecture) for row in rows]) if rows else None


def with_another_python(release: TensorFlowRelease, *more: str, cuda: bool) -> tuple[str, ...]:
    """Commands that create an environment with the newest Python that a release has wheels for, and install TensorFlow there.

    `more`: requirements to install beside it.
    """
    return new_environment(release.pythons[-1], "tensorflow[and-cuda]" if cuda else "tensorflow", *more)


def new_environment(python: str, *packages: str) -> tuple[str, ...]:
    """Commands that create an environment with that Python, and install packages there.

    uv downloads that Python if the machine does not have it (https://docs.astral.sh/uv/concepts/python-versions/).
    """
    return (
        f"uv venv --seed --python {python} {NEW_ENVIRONMENT}",
        f"uv pip install --python {NEW_ENVIRONMENT} {shlex.join(packages)}",
    )


def _parse(tensorflow: str) -> Version | None:
    from packaging.version import InvalidVersion, Version

    try:
        found = Version(tensorflow)
    except InvalidVersion:
        return None
    return found if len(found.release) > 1 and not found.epoch and not found.local else None


def _rows_of(knowledge: Knowledge, minor: str, wanted: Version) -> list[TensorFlowRelease | OlderRelease]:
    """The row of exactly this release, else all rows of the minor version, oldest first."""
    releases: list[TensorFlowRelease | OlderRelease] = [*knowledge.older_releases, *knowledge.tensorflow_releases]
    of_minor = [row for row in releases if row.version.startswith(f"{minor}.")]
    exact = [row for row in of_minor if len(wanted.release) > 2 and comparable(row.version) == wanted]
    return exact or of_minor


def _needs(
    knowledge: Knowledge, row: TensorFlowRelease | OlderRelease, minor: str, os: str, architecture: str
) -> ReleaseNeeds:
    if isinstance(row, OlderRelease):
        return _older_needs(minor, row.build_for(os, architecture))
    return _newer_needs(minor, row.wheels_for(os, architecture), has_working_extra(row, knowledge))


def has_working_extra(release: TensorFlowRelease, knowledge: Knowledge) -> bool:
    """Whether pip can install tensorflow[and-cuda] of a release."""
    first = knowledge.boundaries["first_release_with_working_cuda_extra"].value
    return bool(release.cuda_extra) and comparable(release.version) >= comparable(first)


def _older_needs(minor: str, build: OlderBuild | None) -> ReleaseNeeds:
    if build is None:
        return ReleaseNeeds(minor)
    return ReleaseNeeds(
        minor,
        build.cuda,
        build.cudnn,
        build.pythons,
        build.compute_capabilities,
        has_gpu_build=bool(build.cuda),
        gpu_package=next((each for each in _PACKAGES if each in build.packages), ""),
    )


def _newer_needs(minor: str, wheels: Wheels | None, extra: bool) -> ReleaseNeeds:
    if wheels is None:
        return ReleaseNeeds(minor)
    return ReleaseNeeds(
        minor,
        wheels.cuda,
        wheels.cudnn,
        wheels.pythons,
        wheels.compute_capabilities,
        has_gpu_build=bool(wheels.cuda),
        cuda_extra=extra and bool(wheels.cuda),
        gpu_package="tensorflow" if wheels.cuda else "",
    )


def _merge(releases: list[ReleaseNeeds]) -> ReleaseNeeds:
    """The last release that has wheels for the system, with the Pythons of all."""
    pythons = {python for each in releases for python in each.pythons}
    last = next((each for each in reversed(releases) if each.pythons), releases[-1])
    return replace(last, pythons=tuple(sorted(pythons, key=comparable)))


def folders_not_looked_in(release: TensorFlowRelease) -> list[str]:
    """Return the folders filled by [and-cuda] from which TensorFlow opens a library, but which its RUNPATH lacks."""
    names = [Requirement(each).name.split("-cu1")[0] for each in release.cuda_extra]
    brought = {name.removeprefix("nvidia-").replace("-", "_") for name in names}
    return [name for name in _OPENED if name in brought and release.runpath and name not in release.runpath]
