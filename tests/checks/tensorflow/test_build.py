"""TFB: was this TensorFlow built with CUDA?"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest
from built_machines import conda
from healthy import runtime, target

from tfgpu_doctor.checks.tensorflow.build import built_with_cuda
from tfgpu_doctor.model.facts.hosting import Hosting

if TYPE_CHECKING:
    from checks.conftest import Judge

PYTHON = "/home/user/venv/bin/python"
WITHOUT_CUDA: dict[str, Any] = {
    "built_with_cuda": False,
    "cuda_version": "",
    "cudnn_version": "",
    "compute_capabilities": (),
}
UNUSED = runtime(gpus=(), computations=())


def test_a_build_with_cuda_passes(judge: Judge) -> None:
    assert judge.passes(built_with_cuda) == "built with CUDA 12.5.1, cuDNN 9 (its build_info.py)"


def test_a_build_of_unknown_cuda_passes(judge: Judge) -> None:
    tensorflow = {"cuda_version": "", "cudnn_version": ""}
    said = judge.passes(built_with_cuda, tensorflow=tensorflow)
    assert said == "built with CUDA of unknown version, cuDNN of unknown version (its build_info.py)"


def test_a_build_that_does_not_say_is_not_judged(judge: Judge) -> None:
    assert "does not report" in judge.skips(built_with_cuda, tensorflow={"built_with_cuda": None})


def test_on_a_mac_no_cuda_is_missed(judge: Judge) -> None:
    assert "Metal" in judge.skips(built_with_cuda, system={"os": "Darwin"}, tensorflow=WITHOUT_CUDA)


@pytest.mark.parametrize("name", ["tensorflow-cpu", "intel-tensorflow", "tensorflow"])
def test_a_build_without_cuda_is_to_be_replaced(judge: Judge, name: str) -> None:
    finding = judge.finding(built_with_cuda, tensorflow={**WITHOUT_CUDA, "distribution": name}, runtime=UNUSED)
    assert (finding.cause, finding.severity) == ("cpu_package_shadows_gpu_package", "error")
    assert finding.message == f"{name} 2.20.0 is built without CUDA"
    assert finding.evidence == (f"build_info.py of {name} 2.20.0 says is_cuda_build: False",)
    assert finding.fix and finding.fix.commands == (
        f"{PYTHON} -m pip uninstall -y {name}",
        f"{PYTHON} -m pip install 'tensorflow[and-cuda]==2.20.0'",
    )


@pytest.mark.parametrize(
    ("jetpack", "words"), [("6.1+b123", "Jetson Linux 36.4.0, JetPack 6.1+b123;"), ("", "Jetson Linux 36.4.0;")]
)
def test_a_jetson_is_told_with_its_versions(judge: Judge, jetpack: str, words: str) -> None:
    board = {"system": {"architecture": "aarch64"}, "hosting": Hosting(l4t="36.4.0", jetpack=jetpack)}
    finding = judge.finding(built_with_cuda, **board, tensorflow=WITHOUT_CUDA, runtime=UNUSED)
    assert finding.evidence[-1] == f"{words} NVIDIA's wheel must match it"


@pytest.mark.parametrize("board", ["", "NVIDIA Jetson AGX Orin Developer Kit", "Raspberry Pi 5"])
def test_the_wheel_for_arm_has_no_cuda(judge: Judge, board: str) -> None:
    system = {"architecture": "aarch64", "board": board}
    finding = judge.finding(built_with_cuda, tensorflow=WITHOUT_CUDA, system=system, runtime=UNUSED)
    assert (finding.cause, finding.severity) == ("aarch64_wheel_without_cuda", "error")
    assert (board in str(finding.evidence)) or not board
    assert finding.fix and "nvcr.io/nvidia/tensorflow" in finding.fix.text
    assert finding.fix.commands == ()


def test_nvidias_own_wheel_for_arm_passes(judge: Judge) -> None:
    assert judge.passes(built_with_cuda, system={"architecture": "aarch64"}, tensorflow={"version": "2.16.1+nv24.8"})


@pytest.mark.parametrize("build", ["cpu_py312_0", "eigen_py312h1", "mkl_py312h2"])
def test_conda_may_have_chosen_a_build_without_cuda(judge: Judge, build: str) -> None:
    finding = judge.finding(built_with_cuda, tensorflow=WITHOUT_CUDA, target=conda(build), runtime=UNUSED)
    assert (finding.cause, finding.severity) == ("conda_cpu_build_selected", "error")
    assert f"conda-meta lists tensorflow 2.17.0 {build}" in finding.evidence
    assert finding.fix and "CONDA_OVERRIDE_CUDA" in finding.fix.text


@pytest.mark.parametrize("packages", [{}, {"cudatoolkit": "11.8 h1"}])
def test_condas_cuda_alone_chose_no_build(judge: Judge, packages: dict[str, str]) -> None:
    there = target(conda_packages=packages)
    finding = judge.finding(built_with_cuda, tensorflow=WITHOUT_CUDA, target=there, runtime=UNUSED)
    assert finding.cause == "cpu_package_shadows_gpu_package"


def test_a_library_of_conda_for_tensorflow_chose_no_build(judge: Judge) -> None:
    there = target(conda_packages={"tensorflow-datasets": "4.9.7 pyhd8ed1ab_0"})
    finding = judge.finding(built_with_cuda, tensorflow=WITHOUT_CUDA, target=there, runtime=UNUSED)
    assert finding.cause == "cpu_package_shadows_gpu_package"


def test_a_build_that_computes_on_a_gpu_by_a_plugin_is_no_fault(judge: Judge) -> None:
    # tensorflow-cpu with tensorflow-directml-plugin, in Windows or WSL
    plugged = {**WITHOUT_CUDA, "distribution": "tensorflow-cpu", "version": "2.10.0"}
    assert judge.does_not_object(built_with_cuda, tensorflow=plugged)


def test_the_commands_survive_a_blank_in_the_path(judge: Judge) -> None:
    there = target(executable="/home/jane doe/venv/bin/python")
    finding = judge.finding(built_with_cuda, tensorflow=WITHOUT_CUDA, target=there, runtime=UNUSED)
    assert finding.fix
    assert {shlex.split(command)[0] for command in finding.fix.commands} == {"/home/jane doe/venv/bin/python"}
