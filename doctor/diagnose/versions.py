"""The versions that were found, and those that TensorFlow needs. Checks judge them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.requirements import Requirement, requirements_on
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import VersionRow
from tfgpu_doctor.model.tags import NO_DRIVER, version_of

_JUDGED_BY_NAME = ("numpy", "protobuf")


Judges = Callable[[str], str]  # from a tag to the id of the check that has it; empty if none does


def list_versions(facts: Facts, checks: Iterable[Check]) -> tuple[VersionRow, ...]:
    """List Python, TensorFlow, driver, CUDA, the C library, and the packages that TensorFlow depends on."""
    if facts.target is None:
        return ()
    by_tag = {tag: check.id for check in checks for tag in check.tags}

    def judges(tag: str) -> str:
        return by_tag.get(tag, "")

    rows = (*_system(facts, judges), *_driver(facts, judges), *_packages(facts, judges))
    return tuple(row for row in rows if row.found or row.needed)


def _system(facts: Facts, judges: Judges) -> Iterator[VersionRow]:
    wheel, system = facts.tensorflow, facts.system
    release = next(
        (row for row in read_knowledge().tensorflow_releases if wheel and row.version == wheel.version), None
    )
    wheels = release.wheels_for(system.os.lower(), system.architecture) if release and system else None
    by = f"TensorFlow {wheel.version}" if wheel else ""
    built = (
        f"CUDA {wheel.cuda_version or '?'}, cuDNN {wheel.cudnn_version or '?'}"
        if wheel and wheel.built_with_cuda
        else "no CUDA"
    )
    yield VersionRow(
        component="TensorFlow", found=f"{wheel.version}, built with {built}" if wheel else "",
        needed="a build with CUDA", check=judges(version_of("tensorflow" if wheel else "python")),
    )  # fmt: skip
    yield VersionRow(
        component="Python", found=facts.target.version if facts.target else "",
        needed=", ".join(wheels.pythons) if wheels else "", needed_by=by if wheels else "", check=judges(version_of("python")),
    )  # fmt: skip
    if system and system.glibc:
        yield VersionRow(
            component="C library (glibc)", found=system.glibc, check=judges(version_of("glibc")),
            needed=f"{wheels.glibc} or newer" if wheels and wheels.glibc else "",
            needed_by=by if wheels and wheels.glibc else "",
        )  # fmt: skip


def _driver(facts: Facts, judges: Judges) -> Iterator[VersionRow]:
    """Yield the driver, the CUDA version that it supports, and the compute capability of the GPUs."""
    wheel, system = facts.tensorflow, facts.system
    built_with = wheel.cuda_version if wheel else ""
    os = "Windows" if system and (system.wsl or system.os == "Windows") else "Linux"
    minimum = read_knowledge().minimum_driver(built_with, os) if built_with else None
    by = f"CUDA {built_with}" if built_with else ""
    found = (facts.driver.version if facts.driver else "") or (facts.nvml.driver_version if facts.nvml else "")
    yield VersionRow(
        component="NVIDIA driver", found=found, needed=f"{minimum.driver(os)} or newer" if minimum else "",
        needed_by=by if minimum else "", check=judges(version_of("driver") if found else NO_DRIVER),
    )  # fmt: skip
    if facts.cuda_driver and facts.cuda_driver.cuda_version:
        yield VersionRow(
            component="CUDA that the driver supports", found=facts.cuda_driver.cuda_version,
            needed=f"{minimum.cuda} or newer" if minimum else "",
            needed_by=f"TensorFlow {wheel.version}" if wheel and minimum else "", check=judges(version_of("driver")),
        )  # fmt: skip
    gpus = (facts.cuda_driver.gpus if facts.cuda_driver else ()) or (facts.nvml.gpus if facts.nvml else ())
    if capabilities := dict.fromkeys(gpu.compute_capability for gpu in gpus if gpu.compute_capability):
        built_for = ", ".join(wheel.compute_capabilities) if wheel else ""
        yield VersionRow(
            component="Compute capability of the GPUs", found=", ".join(capabilities), needed=built_for,
            needed_by=f"TensorFlow {wheel.version}" if wheel and built_for else "",
            check=judges(version_of("compute-capability")),
        )  # fmt: skip


def _packages(facts: Facts, judges: Judges) -> Iterator[VersionRow]:
    """Yield the packages that TensorFlow's metadata requires, with the installed versions."""
    target, wheel = facts.target, facts.tensorflow
    if target is None or wheel is None:
        return
    asked = [each for name in ("numpy", "protobuf", "keras") for each in _exactly(facts, name)]
    wheels = [each for each in requirements_on(target, wheel.distribution, "nvidia-") if each.extra == "and-cuda"]
    for each in (*asked, *wheels):
        found = target.find(each.name)
        if found is None:
            continue
        by_name = each.name in _JUDGED_BY_NAME
        tag = version_of(each.name) if by_name else version_of("cuda-wheels") if each in wheels else ""
        yield VersionRow(
            component=each.name, found=found.version, needed=each.specifier or "any",
            needed_by=f"{wheel.distribution} {wheel.version}", check=judges(tag),
            fits=each.allows(found.version) if not by_name else None,
        )  # fmt: skip


def _exactly(facts: Facts, name: str) -> list[Requirement]:
    assert facts.target and facts.tensorflow
    found = requirements_on(facts.target, facts.tensorflow.distribution, name)
    return [each for each in found if each.name == name and not each.extra][:1]
