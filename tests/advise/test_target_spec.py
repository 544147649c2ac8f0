"""What of an examined machine the advice is for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from healthy import distribution, target
from locations import RECORDS

from tfgpu_doctor.advise.advise import advise
from tfgpu_doctor.advise.command import why_no_gpu
from tfgpu_doctor.advise.target_spec import spec_of
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import Facts, decode_facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Pci, PciDevice, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, CudaGpu, Driver, Libraries, Nvml, NvmlGpu

KNOWLEDGE = read_knowledge()
ANSWERED = decode_facts(RECORDS["workstation-healthy"].read_bytes()).target
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
    facts = decode_facts(RECORDS[name].read_bytes())
    advice = advise(spec_of(facts, KNOWLEDGE), KNOWLEDGE)
    assert (advice.release.version if advice.release else None) == release


def test_of_several_gpus_the_newest_counts() -> None:
    gpus = (NvmlGpu(0, "Quadro K620", compute_capability="5.0"), NvmlGpu(1, "NVIDIA L4", compute_capability="8.9"))
    found = spec_of(Facts(system=LINUX, nvml=Nvml(attempt(), driver_version="550.54.15", gpus=gpus)), KNOWLEDGE)
    assert found.gpu and found.gpu.name == "NVIDIA L4"
    assert found.lowest_capability == "5.0"
    assert found.driver == "550.54.15"


@pytest.mark.parametrize(("version", "supported", "code", "expected"), [
    ("470.57.02", "11.4", 0, "470.57.02"), ("470.57.02", "12.2", 0, "535.54.03"), ("", "11.4", 0, "470.42.01"),
    ("", "", 0, ""), ("550.54.15", "99.9", 0, "550.54.15"),
    # a compatibility library that the GPU or the module rejects is no newer driver
    ("470.57.02", "12.2", 804, "470.57.02"), ("470.57.02", "12.2", 803, "470.57.02"), ("470.57.02", "12.2", 999, "470.57.02"),
    ("470.57.02", "12.2", None, "470.57.02"), ("", "12.2", 804, ""), ("", "12.2", 803, ""),
    ("", "12.2", 999, "535.54.03"), ("", "12.2", None, "535.54.03"),
])  # fmt: skip
def test_the_cuda_that_libcuda_supports_counts_if_the_gpu_takes_it(
    version: str, supported: str, code: int | None, expected: str
) -> None:
    cuda = CudaDriver(attempt(), init_code=code, cuda_version=supported, gpus=(CudaGpu(0, "A100", "8.0"),))
    found = spec_of(Facts(system=LINUX, driver=Driver(version=version), cuda_driver=cuda), KNOWLEDGE)
    assert found.driver == expected
    assert found.gpu and found.gpu.compute_capability == "8.0"


def test_a_compatibility_library_that_the_gpu_rejects_is_no_newer_driver() -> None:
    facts = decode_facts(RECORDS["docker-cuda-compat-on-geforce"].read_bytes())
    assert facts.cuda_driver and facts.nvml
    newer = msgspec.structs.replace(facts.cuda_driver, cuda_version="12.8")
    older = msgspec.structs.replace(facts.nvml, driver_version="470.57.02")
    found = spec_of(msgspec.structs.replace(facts, cuda_driver=newer, nvml=older), KNOWLEDGE)
    assert (found.driver, found.module) == ("470.57.02", "")


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (["2204"], ("NVIDIA GeForce RTX 3090", "8.6")),
        (["1e30"], ("Quadro RTX 8000 or Quadro RTX 6000", "7.5")),
        (["1b06", "20b5"], ("NVIDIA A100 80GB PCIe", "8.0")),
        (["ffff"], None),
        ([], None),
    ],
)
def test_without_a_driver_the_pci_ids_tell_the_gpu(devices: list[str], expected: tuple[str, str] | None) -> None:
    found = [PciDevice(f"0000:0{n}:00.0", "10de", device, "030000") for n, device in enumerate(devices)]
    spec = spec_of(Facts(system=LINUX, pci=Pci(devices=tuple(found))), KNOWLEDGE)
    assert spec.driver == ""
    assert (spec.gpu.name, spec.gpu.compute_capability) == expected if spec.gpu else expected is None


def test_the_drivers_word_goes_before_the_pci_id() -> None:
    pci = Pci(devices=(PciDevice("0000:01:00.0", "10de", "2204", "030000"),))
    nvml = Nvml(attempt(), gpus=(NvmlGpu(0, "NVIDIA L4", compute_capability="8.9"),))
    found = spec_of(Facts(system=LINUX, pci=pci, nvml=nvml), KNOWLEDGE)
    assert found.gpu and found.gpu.name == "NVIDIA L4"


def test_a_newer_libcuda_does_not_hide_the_kernel_modules_version() -> None:
    gpus = (CudaGpu(0, "NVIDIA A100-SXM4-80GB", "8.0"),)
    cuda = CudaDriver(attempt(), init_code=0, cuda_version="12.2", gpus=gpus)
    found = spec_of(Facts(system=LINUX, driver=Driver(version="470.57.02"), cuda_driver=cuda), KNOWLEDGE)
    assert (found.driver, found.module) == ("535.54.03", "470.57.02")


def test_another_c_library_is_no_glibc() -> None:
    musl = System(os="Linux", release="6.1", architecture="x86_64", glibc="")
    advice = advise(spec_of(Facts(system=musl), KNOWLEDGE), KNOWLEDGE)
    assert advice.release is None
    assert advice.lifts[0].change == "a system (or container) with glibc 2.27 or newer"


def test_a_python_that_refuses_pip_makes_the_environment() -> None:
    found = target(executable="/usr/bin/python3", prefix="/usr", version="3.12.3", externally_managed=True)
    spec = spec_of(Facts(system=LINUX, target=found), KNOWLEDGE)
    assert (spec.python, spec.interpreter, spec.install, spec.base) == ("3.12", "", "", "/usr/bin/python3")
    assert advise(spec, KNOWLEDGE).commands[0] == "/usr/bin/python3 -m venv tensorflow-gpu"


def test_the_doctors_own_environment_is_none_to_install_into() -> None:
    mine = target(version="3.14.2", is_of_one_tool=True, distributions=(distribution("tfgpu-doctor", "1.0.0"),))
    spec = spec_of(Facts(system=LINUX, target=mine), KNOWLEDGE)
    assert (spec.python, spec.interpreter, spec.install, spec.base) == ("", "", "", "")
    advice = advise(spec, KNOWLEDGE)
    assert advice.release and advice.release.version == "2.21.0"
    assert advice.commands[:2] == (
        "uv venv --seed --python 3.13 tensorflow-gpu",
        "uv pip install --python tensorflow-gpu 'tensorflow[and-cuda]==2.21.0'",
    )


@pytest.mark.parametrize("changes", [{"free_threaded": True}, {"implementation": "pypy"}])
def test_a_python_of_another_kind_is_none_to_install_into(changes: dict[str, Any]) -> None:
    spec = spec_of(Facts(system=LINUX, target=target(version="3.13.1", **changes)), KNOWLEDGE)
    assert (spec.python, spec.interpreter, spec.install, spec.base) == ("", "", "", "")


def test_below_a_layer_of_uv_the_project_is_the_target() -> None:
    layer = target(
        executable="/cache/builds-v0/.tmpI/bin/python", prefix="/cache/builds-v0/.tmpI", extends="/p/.venv",
        distributions=(distribution("tfgpu-doctor", "1.0.0", installer="uv"),),
    )  # fmt: skip
    advice = advise(spec_of(Facts(system=LINUX, target=layer), KNOWLEDGE), KNOWLEDGE)
    assert advice.commands[0].startswith("uv pip install --python /p/.venv/bin/python3 'tensorflow[and-cuda]==")
    assert advice.commands[-1] == "tfgpu-doctor --python /p/.venv/bin/python3"


def test_where_pip_is_missing_the_advice_begins_with_it() -> None:
    bare = target(distributions=(distribution("wheel", "0.45.1", installer="conda"),))
    advice = advise(spec_of(Facts(system=LINUX, target=bare), KNOWLEDGE), KNOWLEDGE)
    python = "/home/user/venv/bin/python"
    assert advice.commands[0].startswith(f"{python} -m ensurepip && {python} -m pip install 'tensorflow[and-cuda]==")


def test_nothing_known_limits_nothing() -> None:
    found = spec_of(Facts(), KNOWLEDGE)
    assert (found.python, found.driver, found.gpu, found.interpreter) == ("", "", None, "")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("workstation-healthy", ""), ("ubuntu-driver-470", ""), ("jetson-wheel-from-pypi", ""), ("wsl2-healthy", ""),
        ("wsl2-libcuda-off-the-path", ""), ("windows-native-2.20", ""), ("mac-metal-healthy", ""),
        ("wsl1", "WSL 2"), ("colab-without-gpu", "--gpu"),
    ],
)  # fmt: skip
def test_whether_a_machine_has_a_gpu_to_advise_for(name: str, told: str) -> None:
    facts = decode_facts(RECORDS[name].read_bytes())
    why = why_no_gpu(facts, spec_of(facts, KNOWLEDGE))
    assert told in why
    assert bool(why) == bool(told)


def test_wsl_with_graphics_of_another_vendor_has_no_gpu_to_advise_for() -> None:
    facts = decode_facts(RECORDS["wsl2-libcuda-off-the-path"].read_bytes())
    facts = msgspec.structs.replace(facts, driver_libraries=Libraries())
    assert "no NVIDIA GPU is found" in why_no_gpu(facts, spec_of(facts, KNOWLEDGE))
