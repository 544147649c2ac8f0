"""LIB: what the search that the loader would make adds to what TensorFlow's log says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from healthy import SITE, computation, pip_library, runtime, target, without_gpus

from tfgpu_doctor.checks.libraries.cudnn import cudnn_fits
from tfgpu_doctor.checks.libraries.library_loading import every_library_opens, pip_libraries_are_found
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import Libraries
from tfgpu_doctor.model.facts.python import LibraryLoad, Runtime
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

if TYPE_CHECKING:
    from checks.conftest import Judge

CUSOLVER = pip_library("libcusolver.so.11")
COPIES = Libraries(copies=(CUSOLVER,))
CUDNN_WHEEL = "nvidia-cudnn-cu12==9.3.0.75"


def resolved(soname: str, **changes: Any) -> ResolvedLibrary:
    known = {"found": False, "needed_by_tensorflow": True, "missing_chain": (soname,)}
    return ResolvedLibrary(**{"soname": soname, **known, **changes})


def found(soname: str, **changes: Any) -> ResolvedLibrary:
    return resolved(
        soname, **{"found": True, "missing_chain": (), "path": f"/x/{soname}", "origin": "system", **changes}
    )


def search(*libraries: ResolvedLibrary) -> Resolution:
    return Resolution(opener=f"{SITE}/tensorflow/libtensorflow_framework.so.2", libraries=libraries)


LOST_CUSOLVER = search(found("libcublas.so.12"), resolved("libcusolver.so.11", elsewhere=(CUSOLVER.path,)))


def test_without_running_tensorflow_the_lost_library_is_named(judge: Judge) -> None:
    finding = judge.finding(pip_libraries_are_found, cuda_libraries=COPIES, resolution=LOST_CUSOLVER, runtime=None)
    assert finding.cause == "pip_cuda_libs_not_found"
    assert finding.message == "pip installed libcusolver.so.11, but TensorFlow 2.20.0 does not find it"
    assert finding.evidence == (
        "TensorFlow opens libcusolver.so.11; the loader does not find libcusolver.so.11",
        f"pip's copy is {CUSOLVER.path}",
    )
    assert finding.fix is not None
    assert finding.fix.commands[0].startswith(f"export LD_LIBRARY_PATH={SITE}/nvidia/cusolver/lib$")


def test_the_log_and_the_search_make_one_finding(judge: Judge) -> None:
    run = without_gpus(LibraryLoad(soname="libcusolver.so.11", opened=False))
    finding = judge.finding(pip_libraries_are_found, cuda_libraries=COPIES, resolution=LOST_CUSOLVER, runtime=run)
    assert finding.evidence[0] == "TensorFlow could not load 'libcusolver.so.11'"


OPENED = runtime(gpus=(), libraries=(LibraryLoad(soname="libcusolver.so.11", opened=True),))


@pytest.mark.parametrize("run", [runtime(), OPENED], ids=["it computes", "it opened the library"])
@pytest.mark.parametrize("check", [pip_libraries_are_found, every_library_opens], ids=lambda check: check.id)
def test_what_tensorflow_did_counts_for_more_than_the_search(judge: Judge, check: Any, run: Runtime) -> None:
    assert judge.does_not_object(check, cuda_libraries=COPIES, resolution=LOST_CUSOLVER, runtime=run)


def test_a_tensorflow_that_lists_gpus_found_what_it_opens(judge: Judge) -> None:
    run = runtime(computations=(computation("matmul", error="odd"),))
    assert judge.does_not_object(pip_libraries_are_found, cuda_libraries=COPIES, resolution=LOST_CUSOLVER, runtime=run)


def test_without_running_tensorflow_what_is_found_is_the_evidence(judge: Judge) -> None:
    told = search(found("libcublas.so.12", origin="pip: nvidia-cublas-cu12 12.5.3.2"))
    for check in (pip_libraries_are_found, every_library_opens):
        evidence = judge.passes(check, resolution=told, runtime=None)
        assert evidence == "libcublas.so.12 from pip: nvidia-cublas-cu12 12.5.3.2"


@pytest.mark.parametrize("check", [pip_libraries_are_found, every_library_opens], ids=lambda check: check.id)
def test_where_neither_is_known_nothing_is_claimed(judge: Judge, check: Any) -> None:
    assert judge.skips(check, resolution=None, runtime=None) == "only a run of TensorFlow can show this"


GONE_PART = resolved("libcudnn_ops.so.9", asked_by="libcudnn.so.9", wheel=CUDNN_WHEEL)
LISTS = runtime(computations=())


@pytest.mark.parametrize("run", [None, LISTS], ids=["quick", "lists GPUs"])
def test_a_part_of_cudnn_that_is_gone(judge: Judge, run: Runtime | None) -> None:
    told = search(found("libcudnn.so.9"), GONE_PART)
    finding = judge.finding(every_library_opens, resolution=told, runtime=run)
    assert finding.cause == "gpu_libs_not_found"
    assert finding.message == f"libcudnn_ops.so.9, which {CUDNN_WHEEL} installed, is missing"
    assert finding.evidence == ("libcudnn.so.9 opens libcudnn_ops.so.9; the loader does not find libcudnn_ops.so.9",)
    assert finding.fix is not None
    assert finding.fix.commands == (f"{target().executable} -m pip install --force-reinstall --no-deps {CUDNN_WHEEL}",)


def test_a_part_that_this_cudnn_may_not_have_is_no_fault(judge: Judge) -> None:
    told = search(found("libcudnn.so.9"), resolved("libcudnn_ops.so.9", asked_by="libcudnn.so.9"))
    assert judge.does_not_object(every_library_opens, resolution=told, runtime=None)


def test_parts_of_a_cudnn_that_is_lost_itself_are_not_named_too(judge: Judge) -> None:
    told = search(resolved("libcudnn.so.9", wheel=CUDNN_WHEEL), GONE_PART)
    finding = judge.finding(every_library_opens, cuda_libraries=Libraries(), resolution=told, runtime=None)
    assert finding.message == f"libcudnn.so.9, which {CUDNN_WHEEL} installed, is missing"


def test_a_truncated_library(judge: Judge) -> None:
    error = f"{CUSOLVER.path}: it is truncated: 5,000 of at least 158,000,000 bytes are present"
    told = search(resolved("libcusolver.so.11", error=error, wheel="nvidia-cusolver-cu12==11.6.3.83"))
    for run in (None, without_gpus(LibraryLoad(soname="libcusolver.so.11", opened=False, error="file too short"))):
        assert judge.does_not_object(pip_libraries_are_found, cuda_libraries=COPIES, resolution=told, runtime=run)
        finding = judge.finding(every_library_opens, cuda_libraries=COPIES, resolution=told, runtime=run)
        assert finding.cause == "gpu_libs_not_found"
        assert "cannot be loaded" in finding.message
        assert "truncated" in finding.message
        assert finding.fix is not None
        assert "--force-reinstall --no-deps nvidia-cusolver-cu12==11.6.3.83" in finding.fix.commands[0]


def test_a_wheel_that_no_index_has_is_not_asked_of_one(judge: Judge) -> None:
    """PyTorch's own index has versions like 2.0.1+cu118; PyPI rejects local versions (PEP 440)."""
    told = search(resolved("libcudnn.so.9", error="it is truncated", wheel="torch==2.3.1+cu121"))
    finding = judge.finding(every_library_opens, cuda_libraries=Libraries(), resolution=told, runtime=None)
    assert finding.message == "libcudnn.so.9, which torch==2.3.1+cu121 installed, cannot be loaded: it is truncated"
    assert finding.fix is not None
    assert finding.fix.commands == ()
    assert "Reinstall torch==2.3.1+cu121" in finding.fix.text


def test_a_truncated_library_that_killed_tensorflow(judge: Judge) -> None:
    """Its mapping ends in SIGBUS before TensorFlow has said anything of it; what was opened before that is no proof."""
    run = runtime(
        gpus=(), gpus_listed=False, computations=(), libraries=(LibraryLoad(soname="libcublas.so.12", opened=True),)
    )
    told = search(found("libcublas.so.12"), resolved("libcusolver.so.11", error="it is truncated"))
    finding = judge.finding(every_library_opens, cuda_libraries=COPIES, resolution=told, runtime=run)
    assert (finding.cause, finding.message) == ("gpu_libs_not_found", "libcusolver.so.11 cannot be opened")


def test_a_cudnn_of_another_major_version_is_told_as_such(judge: Judge) -> None:
    older = msgspec.structs.replace(pip_library("libcudnn.so.9"), soname="libcudnn.so.8")
    told, copies = search(resolved("libcudnn.so.9")), Libraries(copies=(older,))
    finding = judge.finding(every_library_opens, cuda_libraries=copies, resolution=told, runtime=None)
    assert finding.cause == "cudnn_version_mismatch"
    assert finding.message == "libcudnn.so.9 is not installed; pip installed libcudnn.so.8"


def test_only_copies_of_cudnn_that_pip_installed_are_told_as_such(judge: Judge) -> None:
    of_pip = msgspec.structs.replace(pip_library("libcudnn.so.9"), soname="libcudnn.so.8")
    of_system = msgspec.structs.replace(of_pip, soname="libcudnn.so.7", found_in="ld.so.cache")
    told, copies = search(resolved("libcudnn.so.9")), Libraries(copies=(CUSOLVER, of_pip, of_system))
    finding = judge.finding(every_library_opens, cuda_libraries=copies, resolution=told, runtime=None)
    assert finding.message == "libcudnn.so.9 is not installed; pip installed libcudnn.so.8"


def test_a_library_of_a_wheel_is_not_missing_where_another_copy_is(judge: Judge) -> None:
    path = "/usr/local/cuda/lib64/libcusolver.so.11"
    copies = Libraries(copies=(pip_library("libcusolver.so.11", path=path, found_in="known place"),))
    told = search(resolved("libcusolver.so.11", wheel="nvidia-cusolver-cu12==11.6.3.83"))
    finding = judge.finding(every_library_opens, cuda_libraries=copies, resolution=told, runtime=None)
    assert finding.message == "libcusolver.so.11 is in /usr/local/cuda/lib64, where TensorFlow does not find it"


def test_one_missing_file_makes_one_finding(judge: Judge) -> None:
    names = ("libcusolver.so.11", "libcusparse.so.12")
    told = search(*(resolved(name, missing_chain=(name, "libnvJitLink.so.12")) for name in names))
    finding = judge.finding(every_library_opens, cuda_libraries=Libraries(), resolution=told, runtime=None)
    assert finding.cause == "cuda_minor_library_mix"
    assert finding.message == "libcusolver.so.11 and libcusparse.so.12 need libnvJitLink.so.12, which is missing"
    assert finding.evidence == (
        "TensorFlow opens libcusolver.so.11, which needs libnvJitLink.so.12; the loader does not find libnvJitLink.so.12 "
        "(and 1 more: libcusparse.so.12)",
    )


def test_what_ends_at_the_drivers_library_is_the_drivers_affair(judge: Judge) -> None:
    name = "libcudnn_engines_runtime_compiled.so.9"
    chain = (name, "libcuda.so.1")
    told = search(found("libcudnn.so.9"), resolved(name, asked_by="libcudnn.so.9", missing_chain=chain))
    assert judge.does_not_object(every_library_opens, resolution=told, runtime=None)


def older_cudnn(**changes: Any) -> Resolution:
    known = {
        "path": "/opt/old/lib/libcudnn.so.9", "version": "9.1.0", "origin": "", "found_by": "LD_LIBRARY_PATH",
        "shadowed": (f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9",),
    }  # fmt: skip
    return search(found("libcudnn.so.9", **{**known, **changes}))


ON_PATH = Environment(variables={"LD_LIBRARY_PATH": "/opt/old/lib:/opt/other"})


@pytest.mark.parametrize("run", [None, LISTS], ids=["quick", "lists GPUs"])
def test_an_older_cudnn_before_that_of_pip(judge: Judge, run: Runtime | None) -> None:
    finding = judge.finding(cudnn_fits, resolution=older_cudnn(), environment=ON_PATH, runtime=run)
    assert finding.cause == "ld_library_path_shadows_pip_libs"
    assert "the loader selects cuDNN 9.1.0 from /opt/old/lib/libcudnn.so.9" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == ("export LD_LIBRARY_PATH=/opt/other",)


def test_an_older_cudnn_of_the_system(judge: Judge) -> None:
    told = older_cudnn(found_by="ld.so.cache", shadowed=(), path="/usr/lib/libcudnn.so.9.1.0", origin="system")
    finding = judge.finding(cudnn_fits, resolution=told, runtime=None)
    assert finding.cause == "cudnn_version_mismatch"


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "9.3.0"}, {"version": "9.8.0"}, {"version": ""}, {"version": "9"},
        {"origin": "pip: nvidia-cudnn-cu12 9.1.0.70"},
    ],
    ids=str,
)  # fmt: skip
def test_a_cudnn_that_fits_or_is_not_known_is_left_in_peace(judge: Judge, changes: dict[str, Any]) -> None:
    assert judge.does_not_object(cudnn_fits, resolution=older_cudnn(**changes), environment=ON_PATH, runtime=None)


def test_a_cudnn_that_convolved_is_left_in_peace(judge: Judge) -> None:
    assert judge.does_not_object(cudnn_fits, resolution=older_cudnn(), environment=ON_PATH)
