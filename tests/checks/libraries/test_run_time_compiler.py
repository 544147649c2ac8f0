"""LIB010: cuDNN, and the compiler that it opens while the program runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from healthy import SITE, cuda_gpu

from tfgpu_doctor.checks.libraries.run_time_compiler import cudnn_finds_its_compiler
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

if TYPE_CHECKING:
    from checks.conftest import Judge

COPY = f"{SITE}/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"


def resolution(*, cudnn: bool = True, **changes: Any) -> Resolution:
    graph = ResolvedLibrary(
        soname="libcudnn_graph.so.9", found=cudnn, needed_by_tensorflow=True, origin="pip: nvidia-cudnn-cu12 9.3.0.75"
    )
    known = {"found": False, "needed_by_tensorflow": False, "asked_by": graph.soname, "elsewhere": (COPY,)}
    return Resolution(libraries=(graph, ResolvedLibrary(**{"soname": "libnvrtc.so.12", **known, **changes})))


def test_the_compiler_that_is_not_found_is_named_with_its_folder(judge: Judge) -> None:
    finding = judge.finding(cudnn_finds_its_compiler, resolution=resolution(), tensorflow={"version": "2.21.0"})
    assert finding.cause == "cudnn_nvrtc_not_found"
    assert finding.message.startswith("cuDNN does not find libnvrtc.so.12: convolutions that XLA fuses")
    assert finding.evidence == (
        "libcudnn_graph.so.9 (pip: nvidia-cudnn-cu12 9.3.0.75) opens libnvrtc.so.12; the loader does not find libnvrtc.so.12",
        f"a copy is at {COPY}",
        "with TensorFlow 2.21.0 on two H200 four of four such programs ended in their first step; others report the same error on "
        "a T4, an A10G and an L4, until cuDNN was newer. With the compiler found a network of Keras made its steps on the H200; "
        "beside seven other programs the first took 62 s (6.5 s with 2.20.0)",
    )
    assert finding.fix is not None
    assert finding.fix.commands[0].startswith(f"export LD_LIBRARY_PATH={SITE}/nvidia/cuda_nvrtc/lib$")


@pytest.mark.parametrize("release", ["2.18.1", "2.19.1", "2.20.0"])
def test_a_release_that_is_not_known_to_need_it_is_not_judged(judge: Judge, release: str) -> None:
    reason = judge.skips(cudnn_finds_its_compiler, resolution=resolution(), tensorflow={"version": release})
    assert reason.startswith(f"cuDNN does not find libnvrtc.so.12; TensorFlow {release} is not known to need it")
    assert reason.endswith("only where TF_CUDNN_USE_RUNTIME_FUSION is set")


@pytest.mark.parametrize("release", ["2.21.0", "2.22.0rc0"])
def test_it_is_an_error_where_a_gpu_showed_that_it_ends_programs(judge: Judge, release: str) -> None:
    finding = judge.finding(cudnn_finds_its_compiler, resolution=resolution(), tensorflow={"version": release})
    assert (finding.severity, finding.blocks) == ("error", False)
    assert finding.fix
    assert "`tfgpu-doctor fix`" in finding.fix.text
    assert "jit_compile=False" in finding.fix.text


def test_where_no_copy_is_installed_the_fix_is_to_install_one(judge: Judge) -> None:
    finding = judge.finding(
        cudnn_finds_its_compiler, resolution=resolution(elsewhere=()), tensorflow={"version": "2.21.0"}
    )
    assert finding.fix is not None
    assert finding.fix.commands == ()
    assert "cuda-nvrtc" in finding.fix.text


@pytest.mark.parametrize("elsewhere", [(), (COPY,)])
@pytest.mark.parametrize(("capability", "told"), [("7.0", False), ("6.1", False), ("7.5", True), ("", True)])
def test_a_newer_cudnn_is_no_way_out_for_a_gpu_before_turing(
    judge: Judge, capability: str, told: bool, elsewhere: tuple[str, ...]
) -> None:
    finding = judge.finding(
        cudnn_finds_its_compiler,
        resolution=resolution(elsewhere=elsewhere),
        tensorflow={"version": "2.21.0"},
        cuda_driver={"gpus": (cuda_gpu(), cuda_gpu(1, compute_capability=capability))},
    )
    assert finding.fix
    assert ("from 9.11 on" in finding.fix.text) is told


def test_what_is_found_is_the_evidence(judge: Judge) -> None:
    there = resolution(found=True, path=COPY)
    assert judge.passes(cudnn_finds_its_compiler, resolution=there) == f"libcudnn_graph.so.9 opens {COPY}"


def test_without_cudnn_the_compiler_is_not_accused(judge: Judge) -> None:
    lost = resolution(cudnn=False)
    assert lost.lost_later == ()
    assert "was not found itself" in judge.skips(cudnn_finds_its_compiler, resolution=lost)


def test_a_cudnn_that_opens_no_compiler_is_not_judged(judge: Judge) -> None:
    assert judge.skips(cudnn_finds_its_compiler, resolution=Resolution())
