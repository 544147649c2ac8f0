"""The table of releases: every row well-formed, in order, and true to what is known of the wheels."""

from __future__ import annotations

import re

import pytest
from every import every
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.advise.installing import cuda_extra_works
from tfgpu_doctor.knowledge import read_knowledge, version
from tfgpu_doctor.knowledge.compute_capability import kernels_for
from tfgpu_doctor.knowledge.release_needs import folders_not_looked_in
from tfgpu_doctor.knowledge.schema import TensorFlowRelease, Wheels

KNOWLEDGE = read_knowledge()
RELEASES = KNOWLEDGE.tensorflow_releases
WHEELS = [(release, wheels) for release in RELEASES for wheels in release.wheels]
each_release = every("release", RELEASES, key=lambda release: release.version)
each_wheels = every(
    "release, wheels", WHEELS, key=lambda *pair: f"{pair[0].version} {pair[1].os}-{pair[1].architecture}"
)


def test_every_release_from_2_4_on_is_there() -> None:
    assert {".".join(release.version.split(".")[:2]) for release in RELEASES} >= {
        f"2.{minor}" for minor in range(4, 22)
    }
    assert len(RELEASES) >= 52


@each_release
def test_linux_on_x86_64_comes_first_and_has_cuda(release: TensorFlowRelease) -> None:
    first = release.wheels[0]
    assert (first.os, first.architecture) == ("linux", "x86_64")
    assert first.cuda
    assert first.cudnn
    systems = [(wheels.os, wheels.architecture) for wheels in release.wheels]
    assert len(systems) == len(set(systems))


@each_release
def test_bounds_are_requirements(release: TensorFlowRelease) -> None:
    assert {Requirement(each).name for each in release.requires} >= {"numpy", "protobuf"}
    assert all(Requirement(each).name.startswith(("nvidia-", "tensorrt")) for each in release.cuda_extra)
    assert all(Requirement(each).specifier for each in release.cuda_extra)
    supported = SpecifierSet(release.requires_python)
    assert all(supported.contains(f"{python}.0") or supported.contains(f"{python}.99") for python in release.pythons)


@each_release
def test_the_extra_is_of_the_releases_own_cuda(release: TensorFlowRelease) -> None:
    major = release.wheels[0].cuda.partition(".")[0]
    pins = [Requirement(each) for each in release.cuda_extra if each.startswith("nvidia-")]
    assert all(pin.name.endswith(f"-cu{major}") for pin in pins)
    assert bool(pins) == (version(release.version) >= version("2.14"))
    for pin in pins:
        if pin.name.startswith("nvidia-cudnn"):
            (lowest,) = [bound.version for bound in pin.specifier if bound.operator in ("==", ">=")]
            assert lowest.split(".")[0] == release.wheels[0].cudnn.split(".")[0]


@each_release
def test_a_runpath_goes_with_an_extra(release: TensorFlowRelease) -> None:
    assert bool(release.runpath) == bool(release.cuda_extra)
    assert all(re.fullmatch(r"[a-z_]+", folder) for folder in release.runpath)


def test_releases_that_do_not_look_where_pip_puts_their_libraries() -> None:
    lost = {release.version: folders_not_looked_in(release) for release in RELEASES}
    assert {name: folders for name, folders in lost.items() if folders} == {
        "2.16.1": ["cublas", "cudnn", "cufft", "cusolver", "cusparse"],
        "2.21.0": ["cusolver"],
    }


def test_extras_that_pip_cannot_install() -> None:
    broken = [release.version for release in RELEASES if release.cuda_extra and not cuda_extra_works(release)]
    assert broken == ["2.14.0", "2.14.1", "2.15.0"]
    first = KNOWLEDGE.boundaries["first_release_with_working_cuda_extra"].value
    assert all(version(each) < version(first) for each in broken)


@each_wheels
def test_wheels_are_well_formed(release: TensorFlowRelease, wheels: Wheels) -> None:
    assert wheels.os in ("linux", "windows", "macos")
    assert list(wheels.pythons) == sorted(wheels.pythons, key=Version)
    assert len(wheels.tags) in (1, 2)
    assert bool(wheels.cuda) == bool(wheels.cudnn) == bool(wheels.compute_capabilities)
    assert not (wheels.cuda and wheels.stands_for)
    assert (wheels.os == "linux") == bool(re.fullmatch(r"2\.\d+", wheels.glibc))
    if wheels.os == "linux" and (found := re.fullmatch(r"manylinux_(\d+)_(\d+)_\w+", wheels.tags[-1])):
        assert wheels.glibc == ".".join(found.groups())


@each_wheels
def test_what_has_cuda_is_known_to_the_other_tables(release: TensorFlowRelease, wheels: Wheels) -> None:
    if not wheels.cuda:
        return
    os = "Windows" if wheels.os == "windows" else "Linux"
    minimum, own = KNOWLEDGE.minimum_driver(wheels.cuda, os), KNOWLEDGE.ptx_driver(wheels.cuda, os)
    assert minimum
    assert own or "." not in wheels.cuda  # from 2.22 on a wheel names the major version alone
    opened = KNOWLEDGE.opened_libraries(release.version, wheels.cuda, wheels.cudnn)
    assert any(row.cuda for row in opened)
    assert any(row.cudnn for row in opened)


@each_wheels
def test_native_code_and_ptx(release: TensorFlowRelease, wheels: Wheels) -> None:
    if not wheels.cuda:
        return
    targets = wheels.compute_capabilities
    assert all(re.fullmatch(r"(sm|compute)_\d{2,3}", target) for target in targets)
    assert [target for target in targets if target.startswith("compute_")] == [targets[-1]], (
        "PTX is for the newest alone"
    )
    numbers = [int(target.partition("_")[2]) for target in targets]
    assert numbers == sorted(numbers)
    lowest, highest = f"{numbers[0] // 10}.{numbers[0] % 10}", f"{numbers[-1] // 10}.{numbers[-1] % 10}"
    assert kernels_for(lowest, targets) == kernels_for(highest, targets) == "native"
    assert kernels_for("2.1", targets) == "never"
    assert kernels_for("99.0", targets) == "ptx"


@pytest.mark.parametrize(
    ("tensorflow", "capability", "kernels"),
    [
        ("2.4.0", "3.5", "native"), ("2.4.0", "3.0", "never"), ("2.4.0", "8.6", "native"), ("2.4.0", "9.0", "ptx"),
        ("2.14.1", "3.7", "native"), ("2.15.1", "3.7", "never"), ("2.15.1", "5.2", "native"), ("2.15.1", "9.0", "ptx"),
        ("2.16.2", "5.2", "native"), ("2.17.0", "5.2", "never"), ("2.17.0", "7.5", "native"), ("2.21.0", "6.1", "native"),
        ("2.21.0", "8.6", "native"), ("2.21.0", "9.0", "native"), ("2.21.0", "10.0", "ptx"), ("2.21.0", "12.0", "ptx"),
    ],
)  # fmt: skip
def test_how_a_gpu_runs_a_release(tensorflow: str, capability: str, kernels: str) -> None:
    release = next(release for release in RELEASES if release.version == tensorflow)
    assert kernels_for(capability, release.wheels[0].compute_capabilities) == kernels


def test_windows_had_cuda_until_2_10() -> None:
    last = KNOWLEDGE.boundaries["last_release_for_windows_gpu"].value
    for release in RELEASES:
        windows = release.wheels_for("windows", "x86_64")
        assert windows is None or bool(windows.cuda) == (Version(release.version).release[:2] <= Version(last).release)
    assert not any(wheels.cuda for _, wheels in WHEELS if wheels.os == "macos" or wheels.architecture != "x86_64")


@pytest.mark.parametrize(
    "name", ["first_release_for_numpy_2", "first_release_for_protobuf_4", "last_release_for_metal"]
)
def test_a_boundary_is_a_release_of_the_table(name: str) -> None:
    minor = KNOWLEDGE.boundaries[name].value
    assert any(release.version.startswith(f"{minor}.") for release in RELEASES)
