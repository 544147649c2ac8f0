"""Releases before the table that the advice is made from: the last way out for a driver or a Python that stays old."""

from __future__ import annotations

from tfgpu_doctor.advise.fitting import kernels_of, needed_driver, obstacles
from tfgpu_doctor.advise.target_spec import TargetSpec
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.schema import OlderBuild, OlderRelease, TensorFlowRelease, Wheels


def newest_older(spec: TargetSpec, knowledge: Knowledge) -> tuple[TensorFlowRelease, Wheels] | None:
    """Return the newest older release that works on this machine without a change, and its wheels; None if none does.

    Only machine code counts: the libraries of that time have none for a newer GPU, whatever the driver makes of PTX.
    """
    for row in reversed(knowledge.older_releases):
        build = row.build_for(spec.wheels_os, spec.architecture)
        if build is None or not build.cuda:
            continue
        release = _as_release(row, build)
        wheels = release.wheels[0]
        if needed_driver(wheels, spec, knowledge) is None or kernels_of(wheels, spec) not in ("native", "unknown"):
            continue
        if not obstacles(release, spec, knowledge):
            return release, wheels
    return None


def _as_release(row: OlderRelease, build: OlderBuild) -> TensorFlowRelease:
    package = next((each for each in ("tensorflow", "tensorflow-gpu") if each in build.packages), "")
    wheels = Wheels(
        os=build.os,
        architecture=build.architecture,
        pythons=build.pythons,
        tags=build.tags,
        glibc=build.glibc,
        cuda=build.cuda,
        cudnn=build.cudnn,
        compute_capabilities=build.compute_capabilities,
        stands_for=package if package != "tensorflow" else "",
    )
    return TensorFlowRelease(
        version=row.version,
        wheels=(wheels,),
        requires_python="",
        requires=(),
        cuda_extra=(),
        runpath=(),
        source=row.source,
        checked=row.checked,
    )
