"""LIB: the CUDA libraries that TensorFlow opens at run time."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest
from built_machines import packages
from every import every
from healthy import (
    CUDA_WHEELS,
    SITE,
    broken,
    distribution,
    healthy,
    lost_library,
    pip_library,
    runtime,
    target,
    without_gpus,
)

from tfgpu_doctor.checks.libraries.cuda_libraries import cuda_libraries_are_installed
from tfgpu_doctor.checks.libraries.library_loading import every_library_opens, pip_libraries_are_found
from tfgpu_doctor.checks.libraries.lost_libraries import failed_loads
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts.nvidia import Libraries, LibraryFile
from tfgpu_doctor.model.facts.python import LibraryLoad, Runtime
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

if TYPE_CHECKING:
    from checks.conftest import Judge

PYTHON = "/home/user/venv/bin/python"
INSTALL = f"{PYTHON} -m pip install 'tensorflow[and-cuda]==2.20.0'"
REST = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
NOWHERE = Libraries()
LOST = tuple(lost_library(name) for name in CUDA_WHEELS)
NO_LIST = runtime(gpus=(), computations=(), libraries=())


def toolkit(*sonames: str, folder: str = "/usr/local/cuda-11.8/lib64", found_in: str = "ld.so.cache") -> Libraries:
    copies = (
        LibraryFile(soname=name, path=f"{folder}/{name}", real_path=f"{folder}/{name}", size_bytes=1, found_in=found_in)
        for name in sonames
    )
    return Libraries(copies=tuple(copies))


def from_pip(*sonames: str) -> Libraries:
    return Libraries(copies=tuple(pip_library(name) for name in sonames))


# failed_loads


def test_only_cudas_own_libraries_count_as_failed() -> None:
    names = (
        *CUDA_WHEELS,
        "libcudart.so.11.0",
        "libcusolver.so.10",
        "libcudnn_ops.so.9",
        "libcublasLt.so.12",
        "libcuda.so.1",
        "libnvidia-ml.so.1",
        "libnvinfer.so.8",
        "libcupti.so.12",
        "libcudart.so",
    )
    run = runtime(libraries=tuple(lost_library(name) for name in names))
    assert [load.soname for load in failed_loads(run)] == [*CUDA_WHEELS, *names[7:11]]


# LIB004


@pytest.mark.parametrize("libraries", [healthy().cuda_libraries, NOWHERE])
def test_a_tensorflow_that_lists_gpus_has_its_libraries(judge: Judge, libraries: Libraries) -> None:
    evidence = judge.passes(cuda_libraries_are_installed, cuda_libraries=libraries)
    assert evidence == "TensorFlow lists 1 GPU"


@pytest.mark.parametrize("run", [None, NO_LIST])
def test_libraries_that_lie_on_disk_pass(judge: Judge, run: Runtime | None) -> None:
    evidence = judge.passes(cuda_libraries_are_installed, runtime=run)
    assert evidence == "found on disk: libcudart.so.12, libcudnn.so.9"


@pytest.mark.parametrize("found_in", ["ld.so.cache", "LD_LIBRARY_PATH", "known place", "conda"])
def test_it_does_not_matter_who_brought_them(judge: Judge, found_in: str) -> None:
    libraries = toolkit("libcudart.so.12", "libcudnn.so.9", found_in=found_in)
    assert judge.passes(cuda_libraries_are_installed, cuda_libraries=libraries, runtime=None)


@pytest.mark.parametrize(
    ("cuda", "soname"),
    [
        ("10.0", "libcudart.so.10.0"),
        ("10.1", "libcudart.so.10.1"),
        ("10.1.243", "libcudart.so.10.1"),
        ("11.2", "libcudart.so.11.0"),
        ("11.8", "libcudart.so.11.0"),
        ("12.3", "libcudart.so.12"),
        ("12.5.1", "libcudart.so.12"),
        ("13.0.1", "libcudart.so.13"),
    ],
)
def test_the_build_tells_the_name_of_its_runtime(judge: Judge, cuda: str, soname: str) -> None:
    sections: dict[str, Any] = {"tensorflow": {"cuda_version": cuda, "cudnn_version": "8"}, "runtime": None}
    evidence = judge.passes(cuda_libraries_are_installed, cuda_libraries=toolkit(soname, "libcudnn.so.8"), **sections)
    assert evidence == f"found on disk: {soname}, libcudnn.so.8"
    finding = judge.finding(cuda_libraries_are_installed, cuda_libraries=NOWHERE, **sections)
    assert f"not found: {soname}, libcudnn.so.8" in finding.evidence


@pytest.mark.parametrize("run", [None, NO_LIST])
def test_a_tensorflow_without_its_extra_lacks_them(judge: Judge, run: Runtime | None) -> None:
    finding = judge.finding(cuda_libraries_are_installed, cuda_libraries=NOWHERE, runtime=run)
    assert (finding.cause, finding.severity) == ("pip_without_and_cuda_extra", "error")
    assert finding.message == "TensorFlow was installed without the CUDA 12.5.1 libraries that it opens"
    assert finding.evidence == (
        "TensorFlow 2.20.0 was built with CUDA 12.5.1, cuDNN 9",
        "not found: libcudart.so.12, libcudnn.so.9",
    )
    assert finding.fix and finding.fix.commands == (INSTALL,)


def test_what_tensorflow_says_of_them_is_evidence(judge: Judge) -> None:
    finding = judge.finding(cuda_libraries_are_installed, cuda_libraries=NOWHERE, runtime=without_gpus(*LOST))
    assert finding.cause == "pip_without_and_cuda_extra"
    assert f"not found: {', '.join(name for name in CUDA_WHEELS)}" in finding.evidence
    assert "TensorFlow could not load 'libcublas.so.12': libcublas.so.12: cannot open" in str(finding.evidence)
    assert len(finding.evidence) == 4


@pytest.mark.parametrize("run", [None, without_gpus(*LOST)])
def test_a_toolkit_of_another_major_version_is_named(judge: Judge, run: Runtime | None) -> None:
    finding = judge.finding(
        cuda_libraries_are_installed, cuda_libraries=toolkit("libcudart.so.11.0", "libcublas.so.11"), runtime=run
    )
    assert (finding.cause, finding.severity) == ("cuda_toolkit_wrong_major", "error")
    assert finding.message == "libcudart.so.12 is not installed; only libcudart.so.11.0 is installed"
    assert finding.fix and finding.fix.commands == (INSTALL,)


@pytest.mark.parametrize(
    "libraries",
    [
        toolkit("libcudart.so.11.0"),  # some program's own, and nobody's attempt at a toolkit
        toolkit("libcudart.so.11.0", "libcublas.so.11", found_in="known place"),
        toolkit("libcudart.so.11.0", "libcublas.so.11", found_in="conda"),
    ],
)
def test_a_runtime_that_is_no_toolkit_on_the_path_is_not_named(judge: Judge, libraries: Libraries) -> None:
    finding = judge.finding(cuda_libraries_are_installed, cuda_libraries=libraries, runtime=None)
    assert finding.cause == "pip_without_and_cuda_extra"


@pytest.mark.parametrize("cuda", ["", None])
def test_a_build_that_names_no_cuda_is_not_judged(judge: Judge, cuda: str | None) -> None:
    reason = judge.skips(cuda_libraries_are_installed, tensorflow={"cuda_version": cuda or ""}, cuda_libraries=NOWHERE)
    assert reason == "this TensorFlow does not report which CUDA it was built with"


def test_a_build_that_names_no_cudnn_is_judged_by_its_runtime(judge: Judge) -> None:
    sections: dict[str, Any] = {"tensorflow": {"cudnn_version": ""}, "runtime": None}
    libraries = from_pip("libcudart.so.12")
    evidence = judge.passes(cuda_libraries_are_installed, cuda_libraries=libraries, **sections)
    assert evidence == "found on disk: libcudart.so.12"


def test_a_single_library_that_is_missing_is_judged_elsewhere(judge: Judge) -> None:
    present = Libraries(copies=tuple(pip_library(name) for name in CUDA_WHEELS if name != "libcusolver.so.11"))
    run = without_gpus(lost_library("libcusolver.so.11"))
    assert "libcudart.so.12" in judge.passes(cuda_libraries_are_installed, cuda_libraries=present, runtime=run)


@pytest.mark.parametrize(("cuda", "cudnn"), [("64_112", "64_8"), ("11.2", "8")])
def test_on_windows_no_soname_is_missed(judge: Judge, cuda: str, cudnn: str) -> None:
    tag = "cp310-cp310-win_amd64"
    tensorflow = {"version": "2.10.1", "cuda_version": cuda, "cudnn_version": cudnn, "wheel_tag": tag}
    machine = broken(system={"os": "Windows", "architecture": "AMD64"}, tensorflow=tensorflow, runtime=None)
    assert judge.does_not_object(cuda_libraries_are_installed, machine, cuda_libraries=NOWHERE)


def test_a_runtime_that_tensorflow_opened_is_installed(judge: Judge) -> None:
    # NixOS: the libraries lie where only TensorFlow's own RUNPATH leads
    run = without_gpus(lost_library("libcudnn.so.9"))
    assert judge.does_not_object(cuda_libraries_are_installed, cuda_libraries=NOWHERE, runtime=run)


# RPATHs in place of LD_LIBRARY_PATH: EasyBuild, EESSI, Spack, and wheels that a site builds
# (https://github.com/EESSI/software-layer, https://docs.alliancecan.ca/wiki/Python)
BY_RPATH = Resolution(
    libraries=tuple(
        ResolvedLibrary(soname=name, found=True, needed_by_tensorflow=True, found_by="RPATH") for name in CUDA_WHEELS
    )
)
NOT_FOUND = Resolution(
    libraries=tuple(ResolvedLibrary(soname=name, found=False, needed_by_tensorflow=True) for name in CUDA_WHEELS)
)


def test_a_library_that_tensorflows_own_path_leads_to_is_installed(judge: Judge) -> None:
    evidence = judge.passes(cuda_libraries_are_installed, cuda_libraries=NOWHERE, resolution=BY_RPATH, runtime=None)
    assert evidence == "found on disk: libcudart.so.12, libcudnn.so.9"


@every("resolution, run", [(NOT_FOUND, None), (NOT_FOUND, without_gpus(*LOST)), (BY_RPATH, without_gpus(*LOST))])
def test_a_library_that_it_does_not_find_is_not(judge: Judge, resolution: Resolution, run: Runtime | None) -> None:
    finding = judge.finding(cuda_libraries_are_installed, cuda_libraries=NOWHERE, resolution=resolution, runtime=run)
    assert finding.cause == "pip_without_and_cuda_extra"


BY_CONDA = target(distributions=(distribution("tensorflow", "2.20.0", installer="conda"),))
BY_PIXI = target(distributions=(distribution("tensorflow", "2.20.0", installer="uv-pixi"),))
BY_POETRY = target(distributions=(distribution("tensorflow", "2.20.0", installer="Poetry 1.8.2"),))


@every(
    "sections",
    [
        {"tensorflow": {"version": "2.17.0+computecanada"}},
        {"tensorflow": {"wheel_tag": "cp312-cp312-linux_x86_64"}},
        {"tensorflow": {"folder": "/nix/store/def-python3-3.12/lib/python3.12/site-packages/tensorflow"}},
        {"target": BY_CONDA},
    ],
)
def test_of_a_build_from_elsewhere_only_a_run_tells(judge: Judge, sections: dict[str, Any]) -> None:
    assert "only a run shows" in judge.skips(
        cuda_libraries_are_installed, cuda_libraries=NOWHERE, runtime=None, **sections
    )
    tried = judge.finding(cuda_libraries_are_installed, cuda_libraries=NOWHERE, runtime=NO_LIST, **sections)
    assert tried.cause == "pip_without_and_cuda_extra"


@every("sections", [{}, {"tensorflow": {"wheel_tag": ""}}, {"target": BY_POETRY}, {"target": BY_PIXI}])
def test_of_the_indexs_wheel_it_is_known_where_it_looks(judge: Judge, sections: dict[str, Any]) -> None:
    assert judge.finding(cuda_libraries_are_installed, cuda_libraries=NOWHERE, runtime=None, **sections)


def test_a_minor_version_of_cuda_10_counts_as_a_major(judge: Judge) -> None:
    finding = judge.finding(
        cuda_libraries_are_installed,
        tensorflow={"version": "2.3.4", "cuda_version": "10.1", "cudnn_version": "7"},
        cuda_libraries=toolkit("libcudart.so.10.0", "libcublas.so.10.0"),
        runtime=None,
    )
    assert finding.cause == "cuda_toolkit_wrong_major"


# The extra came with 2.14; what 2.14 and 2.15.0 ask for under it (tensorrt-libs==8.6.1) is not on PyPI.
@pytest.mark.parametrize("version", ["2.10.1", "2.13.1", "2.14.1", "2.15.0"])
def test_a_release_without_a_working_extra_is_not_told_to_install_it(judge: Judge, version: str) -> None:
    finding = judge.finding(
        cuda_libraries_are_installed,
        tensorflow={"version": version, "cuda_version": "11.8", "cudnn_version": "8"},
        target=packages(("tensorflow", version)),
        cuda_libraries=NOWHERE,
        runtime=None,
    )
    assert finding.fix
    assert f"{PYTHON} -m pip install 'tensorflow[and-cuda]=={version}'" not in finding.fix.commands


# LIB003


def test_libraries_that_tensorflow_opened_are_found(judge: Judge) -> None:
    assert judge.passes(pip_libraries_are_found) == f"TensorFlow opened {', '.join(CUDA_WHEELS)}"


@pytest.mark.parametrize("libraries", [(), (LibraryLoad(soname="libcuda.so.1", opened=True),)])
def test_a_tensorflow_that_opened_nothing_is_not_judged(judge: Judge, libraries: tuple[LibraryLoad, ...]) -> None:
    run = runtime(gpus=(), computations=(), libraries=libraries)
    assert judge.skips(pip_libraries_are_found, runtime=run) == "TensorFlow opened no CUDA library"


@pytest.mark.parametrize("error", ["", "libcusolver.so.11: cannot open shared object file: No such file or directory"])
def test_a_library_of_pip_that_tensorflow_misses_is_named(judge: Judge, error: str) -> None:
    lost = LibraryLoad(soname="libcusolver.so.11", opened=False, error=error)
    finding = judge.finding(pip_libraries_are_found, runtime=without_gpus(lost))
    assert (finding.cause, finding.severity) == ("pip_cuda_libs_not_found", "error")
    assert finding.message == "pip installed libcusolver.so.11, but TensorFlow 2.20.0 does not find it"
    assert "'libcusolver.so.11'" in finding.evidence[0]
    assert finding.evidence[1] == f"pip's copy is {SITE}/nvidia/cusolver/lib/libcusolver.so.11"
    assert finding.fix and finding.fix.commands == (f"export LD_LIBRARY_PATH={SITE}/nvidia/cusolver/lib{REST}",)


def test_every_folder_is_named_once(judge: Judge) -> None:
    finding = judge.finding(pip_libraries_are_found, runtime=without_gpus(*LOST))
    folders = dict.fromkeys(f"{SITE}/nvidia/{folder}/lib" for _, _, folder in CUDA_WHEELS.values())
    assert "does not find them" in finding.message
    assert finding.fix and finding.fix.commands == (f"export LD_LIBRARY_PATH={':'.join(folders)}{REST}",)


def test_a_folder_with_a_blank_is_quoted(judge: Judge) -> None:
    copy = pip_library("libcudnn.so.9", path="/home/jane doe/venv/nvidia/cudnn/lib/libcudnn.so.9")
    finding = judge.finding(
        pip_libraries_are_found,
        cuda_libraries=Libraries(copies=(copy,)),
        runtime=without_gpus(lost_library("libcudnn.so.9")),
    )
    assert finding.fix
    assert finding.fix.commands == (f"export LD_LIBRARY_PATH='/home/jane doe/venv/nvidia/cudnn/lib'{REST}",)


@pytest.mark.parametrize(
    ("libraries", "error"),
    [
        (toolkit("libcusolver.so.11"), ""),  # not pip's
        (NOWHERE, ""),
        (None, "libnvJitLink.so.12: cannot open shared object file: No such file or directory"),  # it needs another
        (None, "libcusolver.so.11: file too short"),  # it is found, and broken
    ],
)
def test_a_library_that_pip_did_not_bring_or_that_is_broken_is_judged_elsewhere(
    judge: Judge, libraries: Libraries | None, error: str
) -> None:
    lost = LibraryLoad(soname="libcusolver.so.11", opened=False, error=error)
    sections = {"cuda_libraries": libraries} if libraries else {}
    evidence = judge.passes(pip_libraries_are_found, runtime=without_gpus(lost), **sections)
    assert "libcublas.so.12" in evidence
    assert "libcusolver.so.11" not in evidence


# LIB006


def test_libraries_that_all_open_pass(judge: Judge) -> None:
    assert judge.passes(every_library_opens) == f"TensorFlow opened {', '.join(CUDA_WHEELS)}"


def test_a_tensorflow_that_opened_none_is_not_judged(judge: Judge) -> None:
    assert judge.skips(every_library_opens, runtime=NO_LIST) == "TensorFlow opened no CUDA library"


def test_a_library_that_needs_another_one_is_named_with_it(judge: Judge) -> None:
    error = "libnvJitLink.so.12: cannot open shared object file: No such file or directory"
    finding = judge.finding(every_library_opens, runtime=without_gpus(lost_library("libcusolver.so.11", error)))
    assert (finding.cause, finding.severity) == ("cuda_minor_library_mix", "error")
    assert finding.message == "libcusolver.so.11 needs libnvJitLink.so.12, which is missing"
    assert finding.evidence[0] == f"TensorFlow could not load 'libcusolver.so.11': {error}"
    assert finding.fix and finding.fix.commands == (INSTALL,)


@pytest.mark.parametrize("found_in", ["known place", "conda"])
def test_a_library_beside_the_path_is_put_on_it(judge: Judge, found_in: str) -> None:
    folder = "/usr/local/cuda-12.5/lib64"
    finding = judge.finding(
        every_library_opens,
        cuda_libraries=toolkit("libcudnn.so.9", folder=folder, found_in=found_in),
        runtime=without_gpus(lost_library("libcudnn.so.9")),
    )
    assert (finding.cause, finding.severity) == ("gpu_libs_not_found", "error")
    assert finding.message == f"libcudnn.so.9 is in {folder}, where TensorFlow does not find it"
    assert f"a copy is at {folder}/libcudnn.so.9" in finding.evidence
    assert finding.fix and finding.fix.commands == (f"export LD_LIBRARY_PATH={folder}{REST}",)


@pytest.mark.parametrize("error", ["", "libcudnn.so.9: cannot open shared object file: No such file or directory"])
def test_a_library_that_is_nowhere_is_to_be_installed(judge: Judge, error: str) -> None:
    lost = LibraryLoad(soname="libcudnn.so.9", opened=False, error=error)
    finding = judge.finding(every_library_opens, cuda_libraries=NOWHERE, runtime=without_gpus(lost))
    assert (finding.cause, finding.severity) == ("gpu_libs_not_found", "error")
    assert finding.message == "libcudnn.so.9 cannot be opened"
    assert finding.fix and finding.fix.commands == (INSTALL,)


@pytest.mark.parametrize("error", ["libcudnn.so.9: file too short", "/lib64/libc.so.6: version `GLIBC_2.34' not found"])
def test_a_library_that_is_broken_is_told_with_the_loaders_words(judge: Judge, error: str) -> None:
    finding = judge.finding(every_library_opens, runtime=without_gpus(lost_library("libcudnn.so.9", error)))
    assert finding.message == "libcudnn.so.9 cannot be opened"
    assert error in finding.evidence[0]


def test_a_stub_is_no_copy(judge: Judge) -> None:
    stub = pip_library("libcudnn.so.9", kind="stub")
    finding = judge.finding(
        every_library_opens,
        cuda_libraries=Libraries(copies=(stub,)),
        runtime=without_gpus(lost_library("libcudnn.so.9")),
    )
    assert finding.message == "libcudnn.so.9 cannot be opened"


def test_each_library_is_a_finding_of_its_own(judge: Judge) -> None:
    found = judge.findings(every_library_opens, cuda_libraries=NOWHERE, runtime=without_gpus(*LOST))
    assert [finding.message.split()[0] for finding in found] == list(CUDA_WHEELS)


@pytest.mark.parametrize("check", [pip_libraries_are_found, every_library_opens])
def test_a_library_that_tensorflow_does_without_is_no_error(judge: Judge, check: Check) -> None:
    run = runtime(libraries=(*runtime().libraries[1:], lost_library("libcusolver.so.11")))
    assert judge.does_not_object(check, runtime=run)


def test_a_toolkit_of_another_minor_version_is_told_as_such(judge: Judge) -> None:
    # TensorFlow 2.4 opens libcusolver.so.10, as CUDA 11.0 has it; from 11.1 on it is libcusolver.so.11
    finding = judge.finding(
        every_library_opens,
        tensorflow={"version": "2.4.4", "cuda_version": "11.0", "cudnn_version": "8"},
        cuda_libraries=toolkit("libcudart.so.11.0", "libcublas.so.11", "libcusolver.so.11"),
        runtime=without_gpus(lost_library("libcusolver.so.10")),
    )
    assert finding.cause == "cuda_toolkit_wrong_minor"


@pytest.mark.parametrize("check", [cuda_libraries_are_installed, every_library_opens])
@pytest.mark.parametrize("folder", ["/home/jane doe", "/home/user/it's"])
def test_the_command_survives_a_blank_or_a_quote_in_the_path(judge: Judge, check: Check, folder: str) -> None:
    python = f"{folder}/venv/bin/python"
    finding = judge.finding(
        check,
        target={"executable": python},
        cuda_libraries=NOWHERE,
        runtime=without_gpus(lost_library("libcudart.so.12")),
    )
    assert finding.fix
    [command] = finding.fix.commands
    assert shlex.split(command)[:4] == [python, "-m", "pip", "install"]


@pytest.mark.parametrize("check", [cuda_libraries_are_installed, every_library_opens])
def test_a_nightly_build_is_not_told_to_install_what_does_not_exist(judge: Judge, check: Check) -> None:
    finding = judge.finding(
        check,
        tensorflow={"distribution": "tf-nightly", "version": "2.22.0.dev20261101"},
        cuda_libraries=NOWHERE,
        runtime=without_gpus(lost_library("libcudart.so.12")),
    )
    assert finding.fix
    assert not any("tensorflow[and-cuda]==2.22.0.dev20261101" in command for command in finding.fix.commands)
