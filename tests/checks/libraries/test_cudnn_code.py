"""LIB007: a cuDNN from 9.11 on has no code for GPUs before Turing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_machines import packages
from healthy import SITE, computation, cuda_gpu, distribution, gpu, pip_library, runtime

from tfgpu_doctor.checks.libraries.cudnn import cudnn_fits
from tfgpu_doctor.model.facts.nvidia import CudaGpu, Libraries
from tfgpu_doctor.model.facts.python import Runtime, Target
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

if TYPE_CHECKING:
    from checks.conftest import Judge

BUILT = {"compute_capabilities": ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")}
V100: dict[str, Any] = {"name": "Tesla V100-SXM2-16GB", "compute_capability": "7.0", "multiprocessors": 80}
BROKE = "InternalError: CUDNN_STATUS_EXECUTION_FAILED_CUDART"


def holding(installed: str, specifier: str = "<10.0,>=9.3.0.75") -> Target:
    """An environment with that cuDNN wheel, beside a TensorFlow that requires some."""
    base = packages(("nvidia-cudnn-cu12", installed), without=("tensorflow",))
    requires = (f'nvidia-cudnn-cu12{specifier}; extra == "and-cuda"',)
    tensorflow = distribution("tensorflow", "2.20.0", requires=requires)
    return msgspec.structs.replace(base, distributions=(*base.distributions, tensorflow))


def machine(*gpus: CudaGpu, installed: str = "9.27.0.42", **sections: Any) -> dict[str, Any]:
    return {
        "tensorflow": BUILT,
        "cuda_driver": {"gpus": gpus or (cuda_gpu(**V100),)},
        "target": holding(installed),
        "runtime": None,
        **sections,
    }


def tried(*convolutions: Any, log: tuple[str, ...] = (), capabilities: tuple[str, ...] = ("7.0",)) -> Runtime:
    listed = [gpu(index, description="some GPU", compute_capability=each) for index, each in enumerate(capabilities)]
    return runtime(gpus=tuple(listed), computations=convolutions, log=log)


def failed(index: int = 0) -> Any:
    return computation("convolution", index, largest_error=None, error=BROKE)


@pytest.mark.parametrize(
    "fields", [V100, {**V100, "name": "Tesla P100-PCIE-16GB", "compute_capability": "6.0"}], ids=["V100", "P100"]
)
@pytest.mark.parametrize("installed", ["9.11.0.98", "9.27.0.42"])
def test_a_newer_cudnn_has_no_code_for_an_old_gpu(judge: Judge, installed: str, fields: dict[str, Any]) -> None:
    finding = judge.finding(cudnn_fits, **machine(cuda_gpu(**fields), installed=installed))
    assert (finding.cause, finding.severity) == ("cudnn_version_mismatch", "error")
    assert finding.message == (
        f"cuDNN {installed} has no code for compute capability {fields['compute_capability']}, that of GPU 0 "
        f"({fields['name']}); releases before 9.11 have it"
    )
    assert finding.evidence[0] == f"nvidia-cudnn-cu12 {installed} in {SITE}"
    assert finding.fix
    assert finding.fix.commands == ("/home/user/venv/bin/python -m pip install 'nvidia-cudnn-cu12<9.11'",)


def test_where_tensorflow_pins_an_older_cudnn_that_one_is_installed(judge: Judge) -> None:
    finding = judge.finding(cudnn_fits, **machine(target=holding("9.27.0.42", "==9.3.0.75")))
    assert finding.fix and finding.fix.commands[0].endswith(" -m pip install nvidia-cudnn-cu12==9.3.0.75")


@pytest.mark.parametrize("installed", ["9.3.0.75", "9.10.2.21", "nine"])
def test_an_older_or_unknown_cudnn_is_no_fault(judge: Judge, installed: str) -> None:
    assert judge.does_not_object(cudnn_fits, **machine(installed=installed))


@pytest.mark.parametrize("capability", ["7.5", "8.6", "12.0", "", "seven"])
def test_a_gpu_from_turing_on_or_an_unknown_one_is_no_fault(judge: Judge, capability: str) -> None:
    there = cuda_gpu(name="some GPU", compute_capability=capability)
    assert judge.does_not_object(cudnn_fits, **machine(there))


@pytest.mark.parametrize("built", [(), ("sm_80", "compute_90"), ("gfx90a",)])
def test_a_gpu_that_tensorflow_is_not_known_to_use_is_not_judged(judge: Judge, built: tuple[str, ...]) -> None:
    assert judge.does_not_object(cudnn_fits, **machine(tensorflow={"compute_capabilities": built}))


@pytest.mark.parametrize("gpus", [None, {"gpus": ()}])
def test_without_a_known_gpu_there_is_no_verdict(judge: Judge, gpus: Any) -> None:
    assert judge.does_not_object(cudnn_fits, **machine(cuda_driver=gpus))


def test_a_small_old_gpu_that_tensorflow_ignores_is_no_fault(judge: Judge) -> None:
    small = cuda_gpu(1, name="NVIDIA GeForce GT 1030", compute_capability="6.1", multiprocessors=3)
    assert judge.does_not_object(cudnn_fits, **machine(cuda_gpu(), small))


def test_beside_a_gpu_that_works_it_is_a_warning_until_tensorflow_tries_it(judge: Judge) -> None:
    both = machine(cuda_gpu(), cuda_gpu(1, **V100))
    finding = judge.finding(cudnn_fits, **both)
    assert (finding.severity, finding.devices) == ("warning", ("0000:02:00.0",))
    ran = tried(computation("convolution"), failed(1), capabilities=("8.6", "7.0"))
    finding = judge.finding(cudnn_fits, **{**both, "runtime": ran})
    assert (finding.severity, finding.devices) == ("error", ("/GPU:1",))
    assert finding.evidence[-1] == f"convolution on /GPU:1: {BROKE}"


def test_several_old_gpus_are_one_finding(judge: Judge) -> None:
    finding = judge.finding(cudnn_fits, **machine(*(cuda_gpu(index, **V100) for index in range(4))))
    assert "that of GPU 0 (Tesla V100-SXM2-16GB) and 3 more;" in finding.message
    assert len(finding.devices) == 4


def test_a_convolution_that_was_right_on_it_outweighs_the_versions(judge: Judge) -> None:
    assert judge.passes(cudnn_fits, **machine(runtime=tried(computation("convolution"))))


def test_a_run_that_died_in_its_convolution_is_explained(judge: Judge) -> None:
    died = tried(computation("matmul"), log=("I cuda_dnn.cc:529] Loaded cuDNN version 92700",))
    finding = judge.finding(cudnn_fits, **machine(runtime=died))
    assert finding.message.startswith("cuDNN 9.27.0 has no code for compute capability 7.0")
    assert finding.fix and finding.fix.commands[0].endswith("'nvidia-cudnn-cu12<9.11'")


@pytest.mark.parametrize("number", ["91002", "8907"])
def test_the_version_that_tensorflow_loaded_outweighs_the_installed_one(judge: Judge, number: str) -> None:
    log = (f"I cuda_dnn.cc:529] Loaded cuDNN version {number}",)
    assert judge.does_not_object(cudnn_fits, **machine(runtime=tried(failed(), log=log)))


def selected(**fields: Any) -> Resolution:
    known = {"found": True, "needed_by_tensorflow": True, "path": "/opt/cudnn/lib/libcudnn.so.9"}
    return Resolution(libraries=(ResolvedLibrary(**{"soname": "libcudnn.so.9", **known, **fields}),))


def test_a_copy_from_elsewhere_that_the_loader_selects_counts(judge: Judge) -> None:
    taken = selected(version="9.20.0", found_by="LD_LIBRARY_PATH", origin="system")
    finding = judge.finding(cudnn_fits, **machine(installed="9.10.2.21", resolution=taken))
    assert finding.message.startswith("cuDNN 9.20.0 has no code for compute capability 7.0")
    assert finding.evidence[0] == "the loader selects /opt/cudnn/lib/libcudnn.so.9, found through LD_LIBRARY_PATH"
    assert finding.fix and finding.fix.commands == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"version": "9.10.2", "origin": "system"},
        {"version": "9", "origin": "system"},
        {"version": "", "origin": ""},
        {"found": False, "path": ""},
    ],
    ids=["older", "major alone", "unknown", "not found"],
)
def test_a_newer_wheel_that_is_not_known_to_be_loaded_is_no_fault(judge: Judge, fields: dict[str, Any]) -> None:
    assert judge.does_not_object(cudnn_fits, **machine(resolution=selected(**fields)))


def test_without_a_resolution_a_copy_on_the_library_path_may_come_first(judge: Judge) -> None:
    first = msgspec.structs.replace(pip_library("libcudnn.so.9"), found_in="LD_LIBRARY_PATH")
    libraries = Libraries(copies=(first, pip_library("libcudnn.so.9")))
    assert judge.does_not_object(cudnn_fits, **machine(cuda_libraries=libraries, resolution=None))


def test_another_major_version_is_told_as_such(judge: Judge) -> None:
    finding = judge.finding(cudnn_fits, **machine(target=holding("9.27.0.42", "==8.9.7.29")))
    assert "is installed, but TensorFlow 2.20.0 requires ==8.9.7.29" in finding.message
