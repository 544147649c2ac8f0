"""XLA: what it compiles kernels with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from every import every
from healthy import SITE, cuda_gpu, distribution, nvml_gpu, target

from tfgpu_doctor.checks.tensorflow.xla_compiler import ptxas_knows_gpu, xla_finds_libdevice
from tfgpu_doctor.model.facts.xla import XlaTools

if TYPE_CHECKING:
    from checks.conftest import Judge

NVCC = f"{SITE}/nvidia/cuda_nvcc"
WHOLE = XlaTools(
    libdevice=f"{NVCC}/nvvm/libdevice/libdevice.10.bc",
    ptxas=f"{NVCC}/bin/ptxas",
    ptxas_version="12.5",
    searched=(NVCC,),
)
NOTHING = XlaTools(searched=(NVCC, "/usr/local/cuda"))


# XLA001


def test_a_libdevice_that_is_there_passes(judge: Judge) -> None:
    assert judge.passes(xla_finds_libdevice, xla_tools=WHOLE) == WHOLE.libdevice


def test_a_libdevice_that_is_not_there(judge: Judge) -> None:
    finding = judge.finding(xla_finds_libdevice, xla_tools=NOTHING)
    assert (finding.cause, finding.severity) == ("libdevice_or_ptxas_missing", "warning")
    assert finding.evidence == (f"not found in nvvm/libdevice below {NVCC}, /usr/local/cuda",)
    assert finding.fix
    assert finding.fix.commands == ()  # this TensorFlow asks for no wheel that would bring it


def test_the_wheel_that_brings_it_is_named(judge: Judge) -> None:
    tensorflow = distribution(
        "tensorflow", "2.20.0", requires=('nvidia-cuda-nvcc-cu12<13.0,>=12.5.82; extra == "and-cuda"',)
    )
    finding = judge.finding(xla_finds_libdevice, xla_tools=NOTHING, target=target(distributions=(tensorflow,)))
    assert finding.fix
    assert "'nvidia-cuda-nvcc-cu12<13.0,>=12.5.82'" in finding.fix.commands[0]


@pytest.mark.parametrize("changes", [{"tensorflow": {"built_with_cuda": False}}, {"system": {"os": "Windows"}}])
def test_a_tensorflow_without_cuda_needs_none(judge: Judge, changes: dict[str, Any]) -> None:
    assert "does not compile" in judge.skips(xla_finds_libdevice, xla_tools=NOTHING, **changes)


# Arch, Gentoo, nixpkgs and EasyBuild compile in the folder of their own toolkit, as `configure.py` asks for it
# (https://github.com/easybuilders/easybuild-easyconfigs/pull/22921).
@every(
    "tensorflow",
    [
        {"wheel_tag": "cp312-cp312-linux_x86_64"},
        {"version": "2.17.0+computecanada"},
        {"folder": "/nix/store/def-python3-3.12/lib/python3.12/site-packages/tensorflow"},
    ],
)
def test_the_folder_that_was_compiled_into_a_build_from_elsewhere_is_not_known(
    judge: Judge, tensorflow: dict[str, str]
) -> None:
    assert "is not known" in judge.skips(xla_finds_libdevice, xla_tools=NOTHING, tensorflow=tensorflow)
    assert judge.passes(xla_finds_libdevice, xla_tools=WHOLE, tensorflow=tensorflow) == WHOLE.libdevice


@pytest.mark.parametrize("installer", ["conda", "uv-pixi"])
def test_condas_and_pixis_build_searches_its_environment(judge: Judge, installer: str) -> None:
    build = target(distributions=(distribution("tensorflow", "2.20.0", installer=installer),))
    assert judge.finding(xla_finds_libdevice, xla_tools=NOTHING, target=build)


# XLA002


def ptxas(version: str) -> XlaTools:
    return XlaTools(ptxas="/usr/bin/ptxas", ptxas_version=version)


@pytest.mark.parametrize(
    ("version", "capability"),
    [
        ("12.5", "8.6"),
        ("11.8", "9.0"),
        ("12.8", "12.0"),
        ("9.0", "7.0"),
        ("12.9.86", "7.0"),
        ("13.0", "7.5"),
        ("11.8", "5.2"),
    ],
)
def test_a_ptxas_that_knows_the_gpu_passes(judge: Judge, version: str, capability: str) -> None:
    gpu = cuda_gpu(compute_capability=capability)
    assert version in judge.passes(ptxas_knows_gpu, xla_tools=ptxas(version), cuda_driver={"gpus": (gpu,)})


@pytest.mark.parametrize(
    ("version", "capability", "first"), [("11.7", "8.9", "11.8"), ("12.5", "12.0", "12.8"), ("9.2", "7.5", "10.0")]
)
def test_a_ptxas_that_is_older_than_the_gpu(judge: Judge, version: str, capability: str, first: str) -> None:
    gpu = cuda_gpu(compute_capability=capability)
    finding = judge.finding(ptxas_knows_gpu, xla_tools=ptxas(version), cuda_driver={"gpus": (gpu,)})
    assert (finding.cause, finding.severity) == ("ptxas_too_old_for_gpu", "warning")
    assert f"/usr/bin/ptxas is from CUDA {version}" in finding.message
    assert f"needs {first}" in finding.message


@pytest.mark.parametrize(
    ("version", "capability", "last"), [("13.0", "7.0", "12.9"), ("13.5", "6.1", "12.9"), ("12.2", "3.7", "11.8")]
)
def test_a_ptxas_that_no_longer_knows_the_gpu(judge: Judge, version: str, capability: str, last: str) -> None:
    gpu = cuda_gpu(compute_capability=capability)
    finding = judge.finding(ptxas_knows_gpu, xla_tools=ptxas(version), cuda_driver={"gpus": (gpu,)})
    assert (finding.cause, finding.severity) == ("ptxas_too_new_for_gpu", "warning")
    assert f"from CUDA {version}, which no longer supports GPU 0" in finding.message
    assert finding.evidence == (f"CUDA {last} is the last that supports compute capability {capability}",)


def test_nvml_tells_of_the_gpu_too(judge: Judge) -> None:
    nvml = {"gpus": (nvml_gpu(compute_capability="9.0"),)}
    assert judge.finding(ptxas_knows_gpu, xla_tools=ptxas("11.7"), cuda_driver=None, nvml=nvml)


def test_a_gpu_newer_than_the_table_is_no_fault(judge: Judge) -> None:
    gpu = cuda_gpu(compute_capability="99.0")
    assert "not in the doctor's tables" in judge.skips(
        ptxas_knows_gpu, xla_tools=ptxas("12.5"), cuda_driver={"gpus": (gpu,)}
    )


@pytest.mark.parametrize("tools", [NOTHING, XlaTools(ptxas="/usr/bin/ptxas")], ids=["no ptxas", "it does not answer"])
def test_an_unknown_ptxas_is_not_judged(judge: Judge, tools: XlaTools) -> None:
    assert "is unknown" in judge.skips(ptxas_knows_gpu, xla_tools=tools)
