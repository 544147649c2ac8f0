"""LIB: cuDNN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_machines import packages, variables
from healthy import SITE, broken, computation, distribution, pip_library, runtime, target

from tfgpu_doctor.checks.libraries.cudnn import cudnn_fits
from tfgpu_doctor.model.facts.copies import Copy
from tfgpu_doctor.model.facts.nvidia import Libraries, LibraryFile
from tfgpu_doctor.model.facts.python import Runtime, Target
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

if TYPE_CHECKING:
    from checks.conftest import Judge

INSTALL = "/home/user/venv/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0'"
COMPLAINT = (
    "E cuda_dnn.cc:522] Loaded runtime CuDNN library: 9.0.0 but source was compiled with: 9.3.0.  CuDNN library needs "
    "to have matching major version and equal or higher minor version."
)
PIPS = pip_library("libcudnn.so.9")


def on_library_path(soname: str = "libcudnn.so.9", folder: str = "/opt/cudnn-9.0/lib") -> LibraryFile:
    path = f"{folder}/{soname}"
    return LibraryFile(soname=soname, path=path, real_path=path, size_bytes=1 << 20, found_in="LD_LIBRARY_PATH")


def convolved(*log: str, error: str = "UnimplementedError: DNN library is not found.") -> Runtime:
    broken = computation("convolution", largest_error=None, error=error)
    return runtime(computations=(computation("matmul"), broken), log=log)


def asking(specifier: str, installed: str, name: str = "nvidia-cudnn-cu12") -> Target:
    """An environment whose TensorFlow asks for some cuDNN, and has some other."""
    base = packages((name, installed), without=("tensorflow",))
    tensorflow = distribution("tensorflow", "2.20.0", requires=(f'{name}{specifier}; extra == "and-cuda"',))
    return msgspec.structs.replace(base, distributions=(*base.distributions, tensorflow))


def test_a_convolution_that_is_right_passes(judge: Judge) -> None:
    assert judge.passes(cudnn_fits) == "a convolution on /GPU:0 gave the same result as the CPU"


def test_a_convolution_that_is_right_outweighs_any_version(judge: Judge) -> None:
    assert judge.passes(cudnn_fits, target=asking("<10.0,>=9.3.0.75", "8.9.7.29"))


@pytest.mark.parametrize("installed", ["9.3.0.75", "9.3.0.76", "9.10.2.21", "9.99"])
def test_a_wheel_that_tensorflow_asks_for_passes(judge: Judge, installed: str) -> None:
    evidence = judge.passes(cudnn_fits, target=asking("<10.0,>=9.3.0.75", installed), runtime=None)
    assert evidence.startswith(f"nvidia-cudnn-cu12 {installed} meets TensorFlow's requirement")


@pytest.mark.parametrize("installed", ["9.3.0.74", "9.1.0.70", "8.9.7.29", "10.0"])
def test_a_wheel_that_tensorflow_does_not_ask_for_does_not_fit(judge: Judge, installed: str) -> None:
    there = asking("<10.0,>=9.3.0.75", installed)
    finding = judge.finding(cudnn_fits, target=there, runtime=None, cuda_libraries=None)
    assert (finding.cause, finding.severity) == ("cudnn_version_mismatch", "error")
    assert f"cuDNN {installed} is installed, but TensorFlow 2.20.0 requires" in finding.message
    assert ">=9.3.0.75" in finding.message
    assert finding.evidence == (f"nvidia-cudnn-cu12 {installed} in {SITE}",)
    assert finding.fix and finding.fix.commands == (INSTALL,)


@pytest.mark.parametrize(
    ("line", "loaded", "built"),
    [
        (COMPLAINT, "9.0.0", "9.3.0"),
        ("E cuda_dnn.cc:1] Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.6.0.", "8.0.5", "8.6.0"),
        (
            "E cuda_dnn.cc:1] Loaded runtime CuDNN library: 7.1.2 (compat) but source was compiled with: 7.6.0. CuDNN",
            "7.1.2",
            "7.6.0",
        ),
    ],
)
def test_tensorflows_own_complaint_counts(judge: Judge, line: str, loaded: str, built: str) -> None:
    finding = judge.finding(cudnn_fits, runtime=convolved(line))
    assert (finding.cause, finding.severity) == ("cudnn_version_mismatch", "error")
    assert finding.message == f"cuDNN {loaded} is loaded, but TensorFlow was built with {built}"
    assert finding.evidence == (line, f"{PIPS.path} (found in pip)")
    assert finding.fix and finding.fix.commands == (INSTALL,)


def test_an_older_copy_on_the_library_path_shadows_pips(judge: Judge) -> None:
    finding = judge.finding(
        cudnn_fits,
        runtime=convolved(COMPLAINT),
        cuda_libraries=Libraries(copies=(on_library_path(), PIPS)),
        environment=variables(LD_LIBRARY_PATH="/opt/cudnn-9.0/lib"),
    )
    assert (finding.cause, finding.severity) == ("ld_library_path_shadows_pip_libs", "error")
    assert "/opt/cudnn-9.0/lib/libcudnn.so.9 before pip's copy" in finding.message
    assert finding.evidence == (
        COMPLAINT,
        "/opt/cudnn-9.0/lib/libcudnn.so.9 (found in LD_LIBRARY_PATH)",
        f"{PIPS.path} (found in pip)",
    )
    assert finding.fix and "Remove that folder from LD_LIBRARY_PATH" in finding.fix.text


@pytest.mark.parametrize("copies", [(on_library_path(),), (PIPS,), ()])
def test_one_copy_shadows_nothing(judge: Judge, copies: tuple[LibraryFile, ...]) -> None:
    finding = judge.finding(cudnn_fits, runtime=convolved(COMPLAINT), cuda_libraries=Libraries(copies=copies))
    assert finding.cause == "cudnn_version_mismatch"


@pytest.mark.parametrize(
    "line", ["I cuda_dnn.cc:529] Loaded cuDNN version 90300", "E cuda_dnn.cc:1] Loaded runtime CuDNN library"]
)
def test_other_lines_are_no_complaint(judge: Judge, line: str) -> None:
    assert judge.passes(cudnn_fits, runtime=runtime(log=(line,)))


def test_a_build_that_names_no_cudnn_is_not_judged(judge: Judge) -> None:
    reason = judge.skips(cudnn_fits, tensorflow={"cudnn_version": ""}, runtime=None)
    assert reason == "this TensorFlow does not report which cuDNN it was built with"


@pytest.mark.parametrize(
    "there",
    [
        packages(without=("nvidia-cudnn-cu12",)),  # a toolkit, conda, an image
        target(distributions=(distribution("tensorflow", "2.20.0", requires=()),)),
        target(distributions=()),
    ],
    ids=["no wheel", "no requirement", "nothing"],
)
@pytest.mark.parametrize("run", [None, runtime(computations=(), log=())])
def test_which_cudnn_will_be_loaded_cannot_be_told_beforehand(judge: Judge, there: Target, run: Runtime | None) -> None:
    assert "only a convolution on a GPU shows" in judge.skips(cudnn_fits, target=there, runtime=run)


@pytest.mark.parametrize("run", [runtime(computations=(computation("matmul"),), log=()), convolved()])
def test_a_convolution_that_is_not_right_proves_nothing(judge: Judge, run: Runtime) -> None:
    assert "only a convolution on a GPU shows" in judge.skips(
        cudnn_fits, target=packages(without=("nvidia-cudnn-cu12",)), runtime=run
    )


@pytest.mark.parametrize("installed", ["", "nine"])
def test_a_version_that_cannot_be_understood_is_no_fault(judge: Judge, installed: str) -> None:
    assert judge.does_not_object(cudnn_fits, target=asking(">=9.3.0.75", installed), runtime=None)


@pytest.mark.parametrize("installed", ["8.9.7.29", "8.9.4.26"])
def test_a_newer_cudnn_than_the_one_pinned_fits(judge: Judge, installed: str) -> None:
    there = asking("==8.9.4.25", installed)
    assert judge.does_not_object(cudnn_fits, target=there, tensorflow={"cudnn_version": "8"}, runtime=None)


def test_only_the_folder_that_shadows_is_taken_off(judge: Judge) -> None:
    finding = judge.finding(
        cudnn_fits,
        runtime=convolved(COMPLAINT),
        cuda_libraries=Libraries(copies=(on_library_path(), PIPS)),
        environment=variables(LD_LIBRARY_PATH="/usr/local/nvidia/lib64:/opt/cudnn-9.0/lib"),
    )
    assert finding.fix and finding.fix.commands == ("export LD_LIBRARY_PATH=/usr/local/nvidia/lib64",)


def test_a_copy_of_another_major_version_shadows_nothing(judge: Judge) -> None:
    copies = (on_library_path("libcudnn.so.8", "/opt/cudnn-8/lib"), PIPS)
    finding = judge.finding(cudnn_fits, runtime=convolved(COMPLAINT), cuda_libraries=Libraries(copies=copies))
    assert finding.cause == "cudnn_version_mismatch"


def test_a_wheel_that_does_not_fit_is_not_blamed_on_the_library_path(judge: Judge) -> None:
    finding = judge.finding(
        cudnn_fits,
        target=asking("<10.0,>=9.3.0.75", "9.0.0.312"),
        cuda_libraries=Libraries(copies=(on_library_path(), PIPS)),
        runtime=None,
    )
    assert finding.cause == "cudnn_version_mismatch"


OLD = ResolvedLibrary(
    soname="libcudnn.so.9", found=True, needed_by_tensorflow=True, path="/opt/old/libcudnn.so.9", version="9.1.0",
    found_by="RUNPATH", shadowed=(PIPS.path,),
)  # fmt: skip
TAKEN = Copy(
    name="libcudnn.so.9", path=OLD.path, placed_by="RUNPATH", file="/opt/tf/libtensorflow.so.2", entry="/opt/old",
    instead=PIPS.path, instead_owner="pip: nvidia-cudnn-cu12 9.3.0.75",
)  # fmt: skip
OTHER = Copy(name="libcublas.so.12", path="/opt/other/libcublas.so.12", placed_by="RUNPATH")
LISTED = Copy(
    name="libcudnn.so.9", path=OLD.path, placed_by="LD_LIBRARY_PATH", entry="/opt/old", number=2, others=("/opt/own",),
    instead=PIPS.path, instead_owner="pip: nvidia-cudnn-cu12 9.3.0.75",
)  # fmt: skip
CUBLAS = ResolvedLibrary(
    soname="libcublas.so.12", found=True, needed_by_tensorflow=True, path="/opt/old/libcublas.so.12",
    found_by="LD_LIBRARY_PATH",
)  # fmt: skip


@pytest.mark.parametrize(
    ("copies", "evidence"),
    [
        (
            (OTHER, TAKEN),
            (
                "/opt/old/libcudnn.so.9 comes first because of the RUNPATH of /opt/tf/libtensorflow.so.2, which names /opt/old",
                "it belongs to no installed package",
                f"without it, {PIPS.path} would be taken (pip: nvidia-cudnn-cu12 9.3.0.75)",
            ),
        ),
        ((OTHER,), ("found through RUNPATH", f"it hides {PIPS.path}")),
    ],
    ids=["where it comes from is known", "not known"],
)
def test_an_older_cudnn_that_the_loader_takes_is_told_with_who_put_it_there(
    judge: Judge, copies: tuple[Copy, ...], evidence: tuple[str, ...]
) -> None:
    resolution = Resolution(libraries=(OLD,), copies=copies)
    finding = judge.finding(cudnn_fits, runtime=None, resolution=resolution)
    assert finding.cause == "cudnn_version_mismatch"
    assert finding.message.startswith(
        "the loader selects cuDNN 9.1.0 from /opt/old/libcudnn.so.9, but TensorFlow requires "
    )
    assert finding.evidence == evidence


def test_the_command_survives_a_blank_in_the_path(judge: Judge) -> None:
    machine = broken(target={"executable": "/home/jane doe/venv/bin/python"}, runtime=convolved(COMPLAINT))
    finding = judge.finding(cudnn_fits, machine)
    command = "'/home/jane doe/venv/bin/python' -m pip install 'tensorflow[and-cuda]==2.20.0'"
    assert finding.fix and finding.fix.commands == (command,)


def test_a_nightly_build_is_not_told_to_install_what_does_not_exist(judge: Judge) -> None:
    nightly: Any = {"distribution": "tf-nightly", "version": "2.22.0.dev20261101"}
    finding = judge.finding(cudnn_fits, tensorflow=nightly, runtime=convolved(COMPLAINT))
    assert finding.fix
    assert not any("tensorflow[and-cuda]==2.22.0.dev20261101" in command for command in finding.fix.commands)


BOTH_NAMES = variables(LD_LIBRARY_PATH="/opt/own:/opt/old:/opt/link-to-old")
PART = ResolvedLibrary(
    soname="libcudnn_ops.so.9", found=True, needed_by_tensorflow=True, asked_by="libcudnn.so.9",
    path="/opt/old/libcudnn_ops.so.9", found_by="LD_LIBRARY_PATH",
)  # fmt: skip
OLD_LISTED = msgspec.structs.replace(OLD, found_by="LD_LIBRARY_PATH")


@pytest.mark.parametrize("log", [(), (COMPLAINT,)], ids=["by the files", "by the run"])
def test_every_entry_that_leads_to_the_older_copy_is_taken_out(judge: Judge, log: tuple[str, ...]) -> None:
    finding = judge.finding(
        cudnn_fits,
        runtime=convolved(*log) if log else None,
        cuda_libraries=Libraries(copies=(on_library_path(folder="/opt/old"), PIPS)),
        resolution=Resolution(libraries=(OLD_LISTED, PART), copies=(LISTED,)),
        environment=BOTH_NAMES,
    )
    assert finding.cause == "ld_library_path_shadows_pip_libs"
    assert finding.fix and finding.fix.commands == ("export LD_LIBRARY_PATH=/opt/own",)


@pytest.mark.parametrize("log", [(), (COMPLAINT,)], ids=["by the files", "by the run"])
def test_a_folder_whose_other_libraries_are_in_use_stays_on_the_path(judge: Judge, log: tuple[str, ...]) -> None:
    """cuDNN was unpacked into a toolkit that only LD_LIBRARY_PATH names, and pip brought cuDNN alone."""
    finding = judge.finding(
        cudnn_fits,
        runtime=convolved(*log) if log else None,
        cuda_libraries=Libraries(copies=(on_library_path(folder="/opt/old"), PIPS)),
        resolution=Resolution(libraries=(CUBLAS, OLD_LISTED), copies=(LISTED,)),
        environment=BOTH_NAMES,
    )
    assert finding.cause == "ld_library_path_shadows_pip_libs"
    first = f"export LD_LIBRARY_PATH={SITE}/nvidia/cudnn/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
    assert finding.fix and finding.fix.commands == (first,)
    assert "other libraries of /opt/old are in use" in finding.fix.text


def test_without_a_resolution_the_folder_behind_a_link_is_taken_out_too(judge: Judge) -> None:
    copy = msgspec.structs.replace(on_library_path(), real_path="/opt/cudnn-9.0.0/lib/libcudnn.so.9.0.0")
    finding = judge.finding(
        cudnn_fits,
        runtime=convolved(COMPLAINT),
        cuda_libraries=Libraries(copies=(copy, PIPS)),
        environment=variables(LD_LIBRARY_PATH="/opt/cudnn-9.0/lib:/opt/own:/opt/cudnn-9.0.0/lib"),
    )
    assert finding.fix and finding.fix.commands == ("export LD_LIBRARY_PATH=/opt/own",)
