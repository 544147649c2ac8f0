"""What of an examined machine the advice is for."""

from __future__ import annotations

import pathlib

import pytest

from tfgpu_doctor.advice.advise import advise
from tfgpu_doctor.advice.situation import situation_of
from tfgpu_doctor.facts import CudaDriver, CudaGpu, Driver, Facts, Nvml, NvmlGpu, System, decode_facts
from tfgpu_doctor.facts.attempt import Attempt
from tfgpu_doctor.knowledge import read_knowledge

KNOWLEDGE = read_knowledge()
MACHINES = pathlib.Path(__file__).parent.parent / "machines"
ANSWERED = decode_facts((MACHINES / "workstation-healthy/facts.json").read_bytes()).target
LINUX = System(os="Linux", release="6.1", architecture="x86_64", glibc="2.36")


def attempt() -> Attempt:
    assert ANSWERED
    return ANSWERED.attempt


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("workstation-healthy", "2.21.0"), ("ubuntu-driver-470", None), ("maxwell-too-old", "2.16.2"),
        ("blackwell-too-new", None), ("jetson-wheel-from-pypi", None), ("windows-native-2.20", None),
        ("wsl2-healthy", "2.21.0"), ("mac-metal-healthy", None), ("python-3.14", None), ("centos-7-glibc", "2.20.0"),
    ],
)  # fmt: skip
def test_advice_for_a_recorded_machine(name: str, release: str | None) -> None:
    facts = decode_facts((MACHINES / name / "facts.json").read_bytes())
    advice = advise(situation_of(facts, KNOWLEDGE), KNOWLEDGE)
    assert (advice.release.version if advice.release else None) == release


def test_of_several_gpus_the_newest_counts() -> None:
    gpus = (NvmlGpu(0, "Quadro K620", compute_capability="5.0"), NvmlGpu(1, "NVIDIA L4", compute_capability="8.9"))
    found = situation_of(Facts(system=LINUX, nvml=Nvml(attempt(), driver_version="550.54.15", gpus=gpus)), KNOWLEDGE)
    assert found.gpu and found.gpu.name == "NVIDIA L4"
    assert found.driver == "550.54.15"


@pytest.mark.parametrize(("version", "supported", "expected"), [
    ("470.57.02", "11.4", "470.57.02"), ("470.57.02", "12.2", "535.54.03"), ("", "11.4", "470.42.01"), ("", "", ""),
    ("550.54.15", "99.9", "550.54.15"),
])  # fmt: skip
def test_the_cuda_that_libcuda_supports_counts(version: str, supported: str, expected: str) -> None:
    cuda = CudaDriver(attempt(), cuda_version=supported, gpus=(CudaGpu(0, "A100", "8.0"),))
    found = situation_of(Facts(system=LINUX, driver=Driver(version=version), cuda_driver=cuda), KNOWLEDGE)
    assert found.driver == expected
    assert found.gpu and found.gpu.compute_capability == "8.0"


def test_another_c_library_is_no_glibc() -> None:
    musl = System(os="Linux", release="6.1", architecture="x86_64", glibc="")
    advice = advise(situation_of(Facts(system=musl), KNOWLEDGE), KNOWLEDGE)
    assert advice.release is None
    assert advice.lifts[0].change == "a system (or container) with glibc 2.27 or newer"


def test_nothing_known_limits_nothing() -> None:
    found = situation_of(Facts(), KNOWLEDGE)
    assert (found.python, found.driver, found.gpu, found.interpreter) == ("", "", None, "")
