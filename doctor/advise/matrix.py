"""The matrix of releases: the build versions and requirements of each release that fits the target."""

from __future__ import annotations

from dataclasses import dataclass

from tfgpu_doctor.advise.fitting import Kind, kernels_of, obstacles, oldest_driver
from tfgpu_doctor.advise.installing import cuda_extra_works
from tfgpu_doctor.advise.target_spec import TargetSpec
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.compute_capability import Kernels
from tfgpu_doctor.knowledge.schema import TensorFlowRelease, Wheels

_DECIDES: tuple[Kind, ...] = ("python", "glibc", "gpu", "driver")


@dataclass(frozen=True)
class MatrixRow:
    """A release's wheels for one system; `kernels`: how the target's GPU runs them."""

    release: TensorFlowRelease
    wheels: Wheels
    minimum_driver: str  # empty without CUDA
    kernels: Kernels
    cuda_extra_works: bool


def matrix(spec: TargetSpec, knowledge: Knowledge) -> list[MatrixRow]:
    """Return the releases with wheels for the target's system that no known property rules out, newest first.

    Wheels without CUDA are included if the target names neither a GPU nor a driver.
    """
    rows = []
    for release in reversed(knowledge.tensorflow_releases):
        wheels = release.wheels_for(spec.wheels_os, spec.architecture)
        if wheels is None or not _fits(release, wheels, spec, knowledge):
            continue
        driver = oldest_driver(wheels, spec, knowledge) if wheels.cuda else ""
        rows.append(
            MatrixRow(
                release,
                wheels,
                driver,
                kernels_of(wheels, spec) if wheels.cuda else "never",
                bool(wheels.cuda) and cuda_extra_works(release) and spec.wheels_os == "linux",
            )
        )
    return rows


def _fits(release: TensorFlowRelease, wheels: Wheels, spec: TargetSpec, knowledge: Knowledge) -> bool:
    if not wheels.cuda:
        asked = spec.gpu or spec.driver
        return not asked and (not spec.python or spec.python in wheels.pythons)
    return not any(each.kind in _DECIDES for each in obstacles(release, spec, knowledge))
