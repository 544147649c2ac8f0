"""What a release of TensorFlow needs, and the table of the releases before 2.4."""

from __future__ import annotations

import itertools
import re

import pytest
from every import every
from packaging.version import Version

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.compute_capability import kernels_for
from tfgpu_doctor.knowledge.release_needs import ReleaseNeeds, needs_of
from tfgpu_doctor.knowledge.schema import OlderBuild, OlderRelease

KNOWLEDGE = read_knowledge()
OLDER = KNOWLEDGE.older_releases
BUILDS = [(release, build) for release in OLDER for build in release.platforms]
MINORS = [*(f"1.{minor}" for minor in range(4, 16)), *(f"2.{minor}" for minor in range(4))]
TESTED = {  # CUDA and cuDNN of TensorFlow's table of tested builds
    **dict.fromkeys(["1.4"], ("8.0", "6")),
    **dict.fromkeys([f"1.{minor}" for minor in range(5, 13)], ("9.0", "7")),
    **dict.fromkeys(["1.13", "1.14", "1.15", "2.0"], ("10.0", "7")),
    **dict.fromkeys(["2.1", "2.2", "2.3"], ("10.1", "7")),
}
each_build = every("release, build", BUILDS, key=lambda release, build: f"{release.version} {build.os}")


def needs(tensorflow: str, os: str = "linux", architecture: str = "x86_64") -> ReleaseNeeds:
    found = needs_of(KNOWLEDGE, tensorflow, os, architecture)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("tensorflow", "os", "cuda", "cudnn", "package"),
    [
        ("1.4", "linux", "8.0", "6", "tensorflow-gpu"), ("1.5", "linux", "9.0", "7", "tensorflow-gpu"),
        ("1.4", "windows", "8.0", "6", "tensorflow-gpu"), ("1.10", "windows", "9.0", "7", "tensorflow-gpu"),
        ("1.12", "linux", "9.0", "7", "tensorflow-gpu"), ("1.12.0", "windows", "9.0", "7", "tensorflow-gpu"),
        ("1.13.1", "linux", "10.0", "7", "tensorflow-gpu"), ("1.14", "linux", "10.0", "7", "tensorflow-gpu"),
        ("1.15", "linux", "10.0", "7", "tensorflow-gpu"), ("2.0", "windows", "10.0", "7", "tensorflow-gpu"),
        ("2.3", "linux", "10.1", "7", "tensorflow"), ("2.3.4", "windows", "10.1", "7", "tensorflow"),
        ("2.4", "linux", "11.0", "8", "tensorflow"), ("2.10", "windows", "11.2", "8", "tensorflow"),
        ("2.13.0rc1", "linux", "11.8", "8", "tensorflow"), ("2.18", "linux", "12.5.1", "9", "tensorflow"),
    ],
)  # fmt: skip
def test_a_release_with_a_build_for_gpus(tensorflow: str, os: str, cuda: str, cudnn: str, package: str) -> None:
    found = needs(tensorflow, os)
    assert found.has_gpu_build
    assert (found.cuda, found.cudnn, found.gpu_package) == (cuda, cudnn, package)
    assert found.minor == ".".join(re.findall(r"\d+", tensorflow)[:2])
    assert found.compute_capabilities
    assert found.pythons


@pytest.mark.parametrize(
    ("tensorflow", "os", "architecture"),
    [
        ("2.11", "windows", "x86_64"), ("2.21.0", "windows", "x86_64"), ("1.14", "macos", "x86_64"),
        ("2.13", "macos", "arm64"), ("2.12", "linux", "aarch64"), ("2.19", "linux", "aarch64"),
    ],
)  # fmt: skip
def test_wheels_without_cuda_need_none(tensorflow: str, os: str, architecture: str) -> None:
    found = needs(tensorflow, os, architecture)
    assert found.pythons
    assert found == ReleaseNeeds(found.minor, pythons=found.pythons)


@pytest.mark.parametrize(
    ("tensorflow", "os", "architecture"), [("2.4", "linux", "aarch64"), ("1.12", "macos", "arm64")]
)
def test_a_release_without_wheels_for_the_system(tensorflow: str, os: str, architecture: str) -> None:
    assert needs(tensorflow, os, architecture) == ReleaseNeeds(tensorflow)


@pytest.mark.parametrize(
    "tensorflow",
    ["", "1.x", "1", "2", "1.3", "2.99", "99.1", "nonsense", "latest", ">=2.4", "1.15.5+nv22.12", "1!2.13"],
)
def test_what_is_no_known_minor_version(tensorflow: str) -> None:
    assert needs_of(KNOWLEDGE, tensorflow, "linux") is None


@pytest.mark.parametrize("tensorflow", ["2.13", "2.13.0", "2.13.1", "2.13.0rc1", "2.13.7"])
def test_every_way_to_write_a_version(tensorflow: str) -> None:
    assert needs(tensorflow).cuda == "11.8"


@pytest.mark.parametrize(
    ("tensorflow", "extra"),
    [
        ("1.15", False), ("2.13", False), ("2.14", False), ("2.14.1", False), ("2.15.0", False), ("2.15", True),
        ("2.15.1", True), ("2.16", True), ("2.21.0", True),
    ],
)  # fmt: skip
def test_the_extra_that_installs_cuda(tensorflow: str, extra: bool) -> None:
    assert needs(tensorflow).cuda_extra == extra
    assert not needs(tensorflow, "windows").cuda_extra


def test_a_minor_version_has_the_pythons_of_all_its_releases() -> None:
    assert needs("1.15").pythons == ("2.7", "3.5", "3.6", "3.7")
    assert needs("1.15.5").pythons == ("3.6", "3.7")
    assert needs("2.5").pythons == ("3.6", "3.7", "3.8", "3.9")
    assert needs("2.5.3").pythons == ("3.7", "3.8", "3.9")


def test_releases_of_one_minor_version_that_differ() -> None:
    assert kernels_for("3.5", needs("1.12.0").compute_capabilities) == "native"
    assert kernels_for("3.5", needs("1.12.3").compute_capabilities) == "never"
    assert needs("1.12").compute_capabilities == needs("1.12.3").compute_capabilities
    both = {release.version: release.build_for("linux", "x86_64") for release in OLDER if release.minor == "1.15"}
    assert {version: build.packages for version, build in both.items() if build} == {
        "1.15.0": ("tensorflow-gpu", "tensorflow"),
        "1.15.5": ("tensorflow-gpu",),
    }


def test_a_system_that_the_last_release_has_no_wheels_for() -> None:
    assert needs("1.10.1", "windows") == ReleaseNeeds("1.10")
    assert needs("1.10", "windows") == needs("1.10.0", "windows")


def test_every_minor_version_before_the_other_table_is_there() -> None:
    versions = [release.version for release in OLDER]
    assert versions == sorted(set(versions), key=Version)
    assert [minor for minor, _ in itertools.groupby(OLDER, key=lambda release: release.minor)] == MINORS
    assert all(release.version.startswith(f"{release.minor}.") for release in OLDER)
    assert Version(OLDER[-1].version) < Version(KNOWLEDGE.tensorflow_releases[0].version)


@each_build
def test_every_row_is_complete(release: OlderRelease, build: OlderBuild) -> None:
    assert build.architecture == "x86_64"
    assert build.pythons
    assert list(build.pythons) == sorted(build.pythons, key=Version)
    assert build.tags
    assert (build.os == "linux") == bool(re.fullmatch(r"2\.\d+", build.glibc))
    if build.os == "macos":
        assert not build.cuda
        return
    assert build.packages
    assert set(build.packages) <= {"tensorflow-gpu", "tensorflow"}
    assert build.capabilities_from == "wheel"
    assert kernels_for(build.minimum_capability, build.compute_capabilities) == "native"
    assert kernels_for("9.0", build.compute_capabilities) == "ptx"


@each_build
def test_cuda_is_that_of_tensorflows_own_table(release: OlderRelease, build: OlderBuild) -> None:
    assert (build.cuda, build.cudnn) == (("", "") if build.os == "macos" else TESTED[release.minor])


@every("release", OLDER, key=lambda release: release.version)
def test_linux_comes_first(release: OlderRelease) -> None:
    assert [build.os for build in release.platforms] in (["linux", "windows", "macos"], ["linux", "macos"])
