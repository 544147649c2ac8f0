"""The advice: the newest release that works, the commands, why no newer one does, and the changes that allow a newer one."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.advise.alternatives import ABOUT_WSL, Alternative, alternatives
from tfgpu_doctor.advise.fitting import Obstacle, kernels_of, last_branch_of, obstacles, oldest_driver, spoken
from tfgpu_doctor.advise.installing import commands_for, notes_for, unsupported_in_wsl
from tfgpu_doctor.advise.target_spec import NEW_PYTHON, TargetSpec
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.compute_capability import Kernels
from tfgpu_doctor.knowledge.driver_branches import is_newer_than_branch
from tfgpu_doctor.knowledge.schema import CompatPackage, TensorFlowRelease

_LIFTABLE = ("driver", "compat", "python", "glibc", "windows")


@dataclass(frozen=True)
class Rejected:
    """A newer release, and the reasons why it does not work here."""

    release: str
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True)
class Lift:
    """A change to the machine that allows a newer release, and the commands that install it after the change."""

    change: str
    release: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """The result of `tfgpu-doctor advise`; `release` is None if no release works."""

    spec: TargetSpec
    release: TensorFlowRelease | None
    kernels: Kernels = "unknown"
    minimum_driver: str = ""
    last_branch: str = ""  # of the drivers that support the GPU; empty if current ones do
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    newer: tuple[Rejected, ...] = ()
    lifts: tuple[Lift, ...] = ()
    alternatives: tuple[Alternative, ...] = ()


def advise(spec: TargetSpec, knowledge: Knowledge) -> Advice:
    """Return the advice for one machine, from the tables alone."""
    newest_first = knowledge.tensorflow_releases[::-1]
    judged = [(release, obstacles(release, spec, knowledge)) for release in newest_first]
    chosen = next((release for release, found in judged if not found), None)
    newer = [
        Rejected(release.version, tuple(found)) for release, found in itertools.takewhile(lambda one: one[1], judged)
    ]
    lifts = tuple(_lifts(spec, chosen, knowledge))
    if chosen is None:
        ways = _alternatives(spec, judged, knowledge, told=any(ABOUT_WSL in lift.change for lift in lifts))
        return Advice(spec, None, newer=tuple(newer), lifts=lifts, alternatives=ways)
    wheels = chosen.wheels_for(spec.wheels_os, spec.architecture)
    assert wheels is not None
    kernels = kernels_of(wheels, spec)
    return Advice(
        spec,
        chosen,
        kernels=kernels,
        minimum_driver=oldest_driver(wheels, spec, knowledge),
        last_branch=last.value if (last := last_branch_of(spec, knowledge)) else "",
        commands=tuple(commands_for(chosen, wheels, spec, knowledge)),
        notes=(*_ptx_notes(kernels), *notes_for(chosen, spec, knowledge)),
        newer=tuple(newer),
        lifts=lifts,
    )


def _ptx_notes(kernels: Kernels) -> list[str]:
    if kernels != "ptx":
        return []
    return [
        "This release has no machine code for the GPU: the driver compiles it from PTX at the first start, which can take "
        "half an hour; `export CUDA_CACHE_MAXSIZE=4294967296` makes the cache large enough for the result."
    ]


def _alternatives(
    spec: TargetSpec, judged: Sequence[tuple[TensorFlowRelease, list[Obstacle]]], knowledge: Knowledge, *, told: bool
) -> tuple[Alternative, ...]:
    """Return the other ways; `told`: whether a change is to use WSL 2."""
    there = spec
    if spec.os == "windows":  # whose newer wheels have no code at all: what decides is WSL, the way out
        there = dataclasses.replace(spec, os="wsl")
        judged = [(release, obstacles(release, there, knowledge)) for release, _ in judged]
    no_code = all(any(each.kind == "gpu" for each in found) for _, found in judged)
    wheels = judged[0][0].wheels_for(there.wheels_os, spec.architecture)
    too_new = no_code and wheels is not None and kernels_of(wheels, there) == "ptx"
    too_old = no_code and not too_new
    no_cuda = all(any(each.kind == "system" for each in found) for _, found in judged)
    return tuple(alternatives(spec, knowledge, too_new=too_new, too_old=too_old, no_cuda=no_cuda, wsl_told=told))


def _lifts(spec: TargetSpec, chosen: TensorFlowRelease | None, knowledge: Knowledge) -> list[Lift]:
    """Return the smallest sets of changes that each allow a newer release; larger sets are left out."""
    for size in range(1, len(_LIFTABLE) + 1):
        found = [
            lift
            for names in itertools.combinations(_LIFTABLE, size)
            if not {"driver", "compat"} <= set(names)  # either one is enough
            if (lift := _lift(spec, names, chosen, knowledge))
        ]
        if found:
            return found
    return []


def _lift(
    spec: TargetSpec, names: Sequence[str], chosen: TensorFlowRelease | None, knowledge: Knowledge
) -> Lift | None:
    changed = _without_limits(spec, names)
    if changed is None:
        return None
    for release in reversed(knowledge.tensorflow_releases):
        if chosen and version(release.version) <= version(chosen.version):
            return None
        if obstacles(release, changed, knowledge):
            continue
        change = _change(release, spec, changed, names, knowledge)
        if change:
            wheels = release.wheels_for(changed.wheels_os, changed.architecture)
            assert wheels is not None
            return Lift(change, release.version, tuple(commands_for(release, wheels, changed, knowledge)))
    return None


def _without_limits(spec: TargetSpec, names: Sequence[str]) -> TargetSpec | None:
    """Return the target without these limits; None if one of them is not a limit there."""
    is_limit = {
        "driver": bool(spec.driver),
        "compat": bool(spec.driver and spec.gpu),
        "python": bool(spec.python),
        "glibc": bool(spec.glibc or spec.other_libc),
        "windows": spec.os == "windows" and spec.architecture == "x86_64",
    }
    if not all(is_limit[name] for name in names):
        return None
    gone: dict[str, dict[str, Any]] = {
        "driver": {"driver": "", "module": ""},
        "compat": {"driver": "", "module": ""},
        "python": {"python": "", **NEW_PYTHON},
        "glibc": {"glibc": "", "other_libc": False, **NEW_PYTHON},
        "windows": {"os": "wsl", **NEW_PYTHON},
    }
    return dataclasses.replace(spec, **{field: value for name in names for field, value in gone[name].items()})


def _change(
    release: TensorFlowRelease, spec: TargetSpec, changed: TargetSpec, names: Sequence[str], knowledge: Knowledge
) -> str:
    """Return the changes in words; empty if no driver that new exists for the GPU."""
    wheels = release.wheels_for(changed.wheels_os, changed.architecture)
    assert wheels is not None
    driver = oldest_driver(wheels, changed, knowledge)
    if "driver" in names and (not driver or not _exists_for(driver, spec, knowledge)):
        return ""
    package = _compat_package(wheels.cuda, spec, knowledge)
    if "compat" in names and package is None:
        return ""
    beside = spec.module or spec.driver
    words = {
        "driver": _in_words(driver, spec, knowledge),
        "compat": f"the package {package.package} in addition to driver {beside} (forward compatibility)"
        if package
        else "",
        "python": f"Python {spoken(wheels.pythons)}",
        "glibc": f"a system (or container) with glibc {wheels.glibc} or newer",
        "windows": f"WSL 2 instead of native Windows{unsupported_in_wsl(changed)} ({ABOUT_WSL})",
    }
    return " and ".join(words[name] for name in names)


def _compat_package(cuda: str, spec: TargetSpec, knowledge: Knowledge) -> CompatPackage | None:
    """Return the package that replaces a newer driver, if this GPU may use it."""
    if spec.os != "linux" or spec.gpu is None:
        return None
    return knowledge.compat_package(cuda, spec.module or spec.driver, [spec.gpu.name])


def _exists_for(driver: str, spec: TargetSpec, knowledge: Knowledge) -> bool:
    """Whether a driver of that branch exists for the GPU's generation."""
    last = last_branch_of(spec, knowledge)
    return last is None or not is_newer_than_branch(driver, last, spec.driver_os)


def _in_words(driver: str, spec: TargetSpec, knowledge: Knowledge) -> str:
    """Return the drivers to change to, up to the last branch that supports the GPU: the newest of all would not."""
    last = last_branch_of(spec, knowledge)
    return f"driver {driver} or newer" + (f", up to branch {last.value}" if last else "")
