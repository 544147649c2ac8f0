"""LIB: libcuda and libnvidia-ml."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_machines import (
    NO_LIBCUDA,
    NO_NVML,
    cuda_that_fails,
    cuda_without_library,
    tensorflow_after,
    variables,
    wsl,
)
from every import every
from healthy import ANSWERED, DRIVER, broken, driver_library, lost_library, runtime, without_gpus

from tfgpu_doctor.checks.commands import prepend_library_path
from tfgpu_doctor.checks.driver.driver_libraries import (
    libcuda_is_found,
    libcuda_is_the_drivers_own,
    libnvidia_ml_is_found,
)
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Libraries, LibraryFile, Nvml
from tfgpu_doctor.model.facts.python import LibraryLoad
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

if TYPE_CHECKING:
    from checks.conftest import Judge

FOLDER = "/usr/lib/x86_64-linux-gnu"
LIBCUDA = f"{FOLDER}/libcuda.so.{DRIVER}"
HUNG = CudaDriver(attempt=Attempt(outcome="timed_out", seconds=15.0, phase="opening libcuda.so.1"))
WITHOUT_NVML = Nvml(attempt=ANSWERED, library_error=NO_NVML)
NOT_OPENED: dict[str, Any] = {"cuda_driver": cuda_without_library(), "runtime": None}
REST = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"


def copy_in(folder: str, stem: str = "libcuda", **changes: Any) -> LibraryFile:
    fields = {"path": f"{folder}/{stem}.so.1", "real_path": f"{folder}/{stem}.so.1", "found_in": "known place"}
    return driver_library(stem, **{**fields, **changes})


def copies(*given: LibraryFile) -> Libraries:
    return Libraries(copies=given)


# prepend_library_path


def test_folders_are_put_before_what_the_variable_holds() -> None:
    assert prepend_library_path(["/a", "/b"]) == f"export LD_LIBRARY_PATH=/a:/b{REST}"


@pytest.mark.parametrize(
    "folder", ["/opt/my cuda/lib", "/opt/it's/lib", "/opt/$HOME/lib", "/opt/`id`/lib", "/a;rm -rf b"]
)
def test_a_folder_is_quoted(folder: str) -> None:
    words = shlex.split(prepend_library_path([folder, "/b"]))
    assert words == ["export", f"LD_LIBRARY_PATH={folder}:/b{REST}"]


# LIB001


def test_a_libcuda_that_the_loader_takes_is_found(judge: Judge) -> None:
    assert judge.passes(libcuda_is_found) == f"the loader opened {LIBCUDA}"


def test_a_libcuda_that_the_loader_takes_need_not_be_found_on_disk(judge: Judge) -> None:
    # NixOS, or an interpreter with an RPATH of its own
    cuda = {"library": "/nix/store/abc/lib/libcuda.so.560.35.03"}
    assert judge.passes(libcuda_is_found, driver_libraries=Libraries(), cuda_driver=cuda)


@pytest.mark.parametrize("os", ["Windows", "Darwin"])
def test_libcuda_is_looked_for_on_linux_alone(judge: Judge, os: str) -> None:
    assert os in judge.skips(libcuda_is_found, system={"os": os}, cuda_driver=cuda_without_library())


def test_an_opening_without_end_is_judged_elsewhere(judge: Judge) -> None:
    assert judge.skips(libcuda_is_found, cuda_driver=HUNG) == f"the process that opens libcuda {HUNG.attempt.ending}"


def test_a_libcuda_that_is_nowhere_is_not_installed(judge: Judge) -> None:
    finding = judge.finding(libcuda_is_found, driver_libraries=Libraries(), **NOT_OPENED)
    assert (finding.cause, finding.severity) == ("no_nvidia_driver", "error")
    assert finding.message == "the driver's library libcuda.so.1 is not installed"
    assert finding.evidence == (NO_LIBCUDA,)
    assert finding.fix and "libnvidia-compute" in finding.fix.text
    assert finding.fix.commands == ()


@pytest.mark.parametrize("kind", ["stub", "compat"])
def test_a_stub_or_compatibility_copy_beside_the_path_is_no_driver(judge: Judge, kind: str) -> None:
    beside = copy_in(f"/usr/local/cuda/{kind}", kind=kind)
    finding = judge.finding(libcuda_is_found, driver_libraries=copies(beside), **NOT_OPENED)
    assert finding.cause == "no_nvidia_driver"
    assert f"a copy is at {beside.path} (known place)" in finding.evidence


@pytest.mark.parametrize("found_in", ["LD_LIBRARY_PATH", "ld.so.cache", "default folder"])
def test_a_libcuda_on_the_path_that_does_not_open_is_broken(judge: Judge, found_in: str) -> None:
    error = "libcuda.so.1: file too short"
    finding = judge.finding(
        libcuda_is_found,
        driver_libraries=copies(driver_library("libcuda", found_in=found_in)),
        cuda_driver=CudaDriver(attempt=ANSWERED, library_error=error),
        runtime=None,
    )
    assert finding.cause == "no_nvidia_driver"
    assert finding.message == "libcuda.so.1 exists but cannot be opened"
    assert finding.evidence[0] == error


@pytest.mark.parametrize("folder", ["/run/opengl-driver/lib", "/usr/local/nvidia/lib64"])
def test_a_libcuda_beside_the_path_is_put_on_it(judge: Judge, folder: str) -> None:
    finding = judge.finding(libcuda_is_found, driver_libraries=copies(copy_in(folder)), **NOT_OPENED)
    assert (finding.cause, finding.severity) == ("gpu_libs_not_found", "error")
    assert finding.message == f"libcuda.so.1 is in {folder}, where the loader does not search"
    assert finding.evidence == (NO_LIBCUDA, f"a copy is at {folder}/libcuda.so.1 (known place)")
    assert finding.fix and finding.fix.commands == (f"export LD_LIBRARY_PATH={folder}{REST}",)


def off_the_path() -> Facts:
    beside = copies(copy_in("/usr/lib/wsl/lib", kind="wsl"), copy_in("/usr/lib/wsl/lib", "libnvidia-ml", kind="wsl"))
    return wsl(2, driver_libraries=beside, nvml=WITHOUT_NVML, **NOT_OPENED)


def test_in_wsl_libcuda_beside_the_path_has_a_name(judge: Judge) -> None:
    finding = judge.finding(libcuda_is_found, off_the_path())
    assert (finding.cause, finding.severity) == ("wsl_libcuda_not_on_path", "error")
    assert finding.fix and finding.fix.commands == (f"export LD_LIBRARY_PATH=/usr/lib/wsl/lib{REST}",)


def test_in_wsl_without_libcuda_windows_lacks_its_driver_or_the_pc_a_gpu(judge: Judge) -> None:
    # /dev/dxg is there with a GPU of Intel or AMD, too: https://github.com/microsoft/DirectML/issues/18
    finding = judge.finding(libcuda_is_found, wsl(2, driver_libraries=Libraries(), **NOT_OPENED))
    assert (finding.cause, finding.confidence) == ("no_nvidia_driver", "medium")
    assert "or this PC has no NVIDIA GPU" in finding.message
    assert finding.fix and "no action is needed" in finding.fix.text
    assert "/usr/lib/wsl/lib has no libcuda.so.1" in finding.evidence
    assert finding.fix and "in Windows" in finding.fix.text


def test_a_folder_with_a_blank_is_quoted_in_the_command(judge: Judge) -> None:
    finding = judge.finding(libcuda_is_found, driver_libraries=copies(copy_in("/opt/my driver")), **NOT_OPENED)
    assert finding.fix and finding.fix.commands == (f"export LD_LIBRARY_PATH='/opt/my driver'{REST}",)


# An interpreter does not have the RUNPATH of TensorFlow's library: nixpkgs adds the driver's folder to it
# (https://github.com/NixOS/nixpkgs/issues/95824), and NixOS has no ld.so.cache.

OPENGL = "/run/opengl-driver/lib"


def resolved(folder: str = OPENGL, found_by: str = "RUNPATH") -> Resolution:
    return Resolution(
        libraries=tuple(
            ResolvedLibrary(
                soname=name,
                found=bool(found_by),
                needed_by_tensorflow=True,
                path=f"{folder}/{name}" if found_by else "",
                real_path=f"{folder}/{name}" if found_by else "",
                found_by=found_by,
            )
            for name in ("libcuda.so.1", "libnvidia-ml.so.1")
        )
    )


def nixos(**sections: Any) -> Facts:
    """The driver's libraries are in a folder to which only TensorFlow's RUNPATH leads."""
    return broken(
        **{
            "system": {"distribution": "NixOS 25.05 (Warbler)"},
            "driver_libraries": copies(copy_in(OPENGL), copy_in(OPENGL, "libnvidia-ml")),
            "cuda_driver": cuda_without_library(),
            "nvml": WITHOUT_NVML,
            "resolution": resolved(),
            **sections,
        }
    )


@every("check", [libcuda_is_found, libnvidia_ml_is_found], key=lambda check: check.id)
def test_a_driver_that_tensorflow_alone_finds_is_found(judge: Judge, check: Check) -> None:
    assert judge.passes(check, nixos(resolution=None)) == "TensorFlow lists 1 GPU"
    assert judge.passes(check, nixos(runtime=None)).startswith(f"the RUNPATH of TensorFlow leads to {OPENGL}/lib")


NOTHING_LOST = runtime(gpus=(), computations=(), libraries=())


@every(
    "resolution, run",
    [
        (None, None),
        (resolved(found_by=""), None),
        (resolved("/usr/local/cuda/lib64/stubs"), None),
        (resolved(found_by="ld.so.cache"), None),  # the loader did not open that one
        (resolved(), without_gpus(lost_library("libcuda.so.1"), lost_library("libnvidia-ml.so.1"))),
        (None, NOTHING_LOST),
    ],
)
def test_a_driver_that_tensorflow_does_not_find_either_is_not(judge: Judge, resolution: Any, run: Any) -> None:
    for check in (libcuda_is_found, libnvidia_ml_is_found):
        finding = judge.finding(check, nixos(resolution=resolution, runtime=run))
        assert finding.cause == "gpu_libs_not_found"


def test_a_machine_whose_driver_tensorflow_alone_finds_is_healthy() -> None:
    report = diagnose(nixos())
    assert (report.causes, report.computes, report.fit, report.healthy) == ((), True, True, True)
    quick = diagnose(nixos(runtime=None, quick=True))
    assert (quick.causes, quick.healthy, quick.judged) == ((), False, False)  # nobody has called cuInit


@every("quick", [False, True])
def test_there_a_driver_that_fails_is_not_called_healthy(quick: bool) -> None:
    opened = (LibraryLoad(soname="libcuda.so.1", opened=True),)
    run = None if quick else tensorflow_after(999, "CUDA_ERROR_UNKNOWN: unknown error")
    run = msgspec.structs.replace(run, libraries=opened) if run else None
    report = diagnose(nixos(runtime=run, driver=Driver(running_kernel="6.12.41"), quick=quick))
    assert [cause.label for cause in report.causes] == ["no_nvidia_driver"]
    whole = diagnose(nixos(runtime=run, quick=quick))
    assert not whole.healthy
    assert "gpu_libs_not_found" not in [cause.label for cause in whole.causes]
    assert quick or whole.causes


# LIB002

STUBS = "/usr/local/cuda/lib64/stubs"
STUB = copy_in(STUBS, kind="stub", version="", found_in="LD_LIBRARY_PATH")
STRAY = copy_in("/opt/conda/lib", version="", found_in="LD_LIBRARY_PATH")
OWN = driver_library("libcuda")
STUBBED = cuda_that_fails(34, "CUDA_ERROR_STUB_LIBRARY", library=STUB.real_path)
STRAYED = cuda_that_fails(-1, "", library=STRAY.real_path)


def test_the_drivers_own_libcuda_passes(judge: Judge) -> None:
    assert judge.passes(libcuda_is_the_drivers_own) == f"the loader opened {LIBCUDA}"


def test_a_libcuda_that_was_not_opened_is_not_judged(judge: Judge) -> None:
    for cuda in (cuda_without_library(), HUNG):
        assert judge.skips(libcuda_is_the_drivers_own, cuda_driver=cuda) == "libcuda was not opened"


def test_a_stub_is_no_driver(judge: Judge) -> None:
    finding = judge.finding(
        libcuda_is_the_drivers_own,
        environment=variables(LD_LIBRARY_PATH=f"/opt/lib:{STUBS}/::/opt/more lib"),
        driver_libraries=copies(STUB, OWN),
        cuda_driver=STUBBED,
    )
    assert (finding.cause, finding.severity) == ("libcuda_stub_loaded", "error")
    assert finding.message == f"the loader opens the CUDA toolkit's stub of libcuda in {STUBS}"
    assert finding.evidence == (
        f"the loader opened {STUBS}/libcuda.so.1",
        f"the driver's own copy is {FOLDER}/libcuda.so.1",
        "cuInit returned 34, CUDA_ERROR_STUB_LIBRARY",
    )
    assert finding.fix and finding.fix.commands == ("export LD_LIBRARY_PATH=/opt/lib:'/opt/more lib'",)


def test_a_stub_shows_by_its_code_alone(judge: Judge) -> None:
    cuda = cuda_that_fails(34, "CUDA_ERROR_STUB_LIBRARY", library="/opt/lib/libcuda.so.1")
    finding = judge.finding(libcuda_is_the_drivers_own, driver_libraries=Libraries(), driver=None, cuda_driver=cuda)
    assert finding.cause == "libcuda_stub_loaded"
    assert finding.fix and "ld.so.conf.d" in finding.fix.text
    assert finding.fix.commands == ()


def test_a_stub_shows_by_its_folder_alone(judge: Judge) -> None:
    hanging = CudaDriver(attempt=Attempt(outcome="timed_out", seconds=15.0), library=STUB.real_path)
    finding = judge.finding(libcuda_is_the_drivers_own, cuda_driver=hanging)
    assert finding.cause == "libcuda_stub_loaded"
    assert "cuInit" not in str(finding.evidence)


def test_a_stray_copy_is_not_the_drivers(judge: Judge) -> None:
    finding = judge.finding(
        libcuda_is_the_drivers_own,
        environment=variables(LD_LIBRARY_PATH="/opt/conda/lib"),
        driver_libraries=copies(STRAY, OWN),
        cuda_driver=STRAYED,
    )
    assert (finding.cause, finding.severity) == ("foreign_libcuda_bundled", "error")
    assert "/opt/conda/lib" in finding.message
    assert finding.evidence == (
        "the loader opened /opt/conda/lib/libcuda.so.1",
        f"the driver's own copy is {FOLDER}/libcuda.so.1",
        "with that copy cuInit returned -1",
    )
    assert finding.fix and finding.fix.commands == ("unset LD_LIBRARY_PATH",)


def test_a_stray_copy_that_is_not_on_the_variable_is_outdone_by_the_drivers(judge: Judge) -> None:
    finding = judge.finding(
        libcuda_is_the_drivers_own,
        environment=Environment(),
        driver_libraries=copies(STRAY, OWN),
        cuda_driver=STRAYED,
    )
    assert finding.fix and finding.fix.commands == (f"export LD_LIBRARY_PATH={FOLDER}{REST}",)


def test_a_stray_copy_that_crashes_is_not_the_drivers(judge: Judge) -> None:
    crashed = CudaDriver(
        attempt=Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase="cuInit"), library=STRAY.real_path
    )
    finding = judge.finding(libcuda_is_the_drivers_own, driver_libraries=copies(STRAY, OWN), cuda_driver=crashed)
    assert finding.cause == "foreign_libcuda_bundled"
    assert "that copy was killed by SIGSEGV during 'cuInit'" in finding.evidence


@pytest.mark.parametrize(
    "sections",
    [
        {"cuda_driver": {"library": STRAY.real_path}},  # it works
        {"cuda_driver": cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE", library=STRAY.real_path)},
        {"cuda_driver": STRAYED, "driver": None},
        {"cuda_driver": STRAYED, "driver": Driver()},
        {"cuda_driver": STRAYED, "driver": {"version": "550.120"}},  # the other copy is not the driver's either
        {"cuda_driver": STRAYED, "driver_libraries": copies(STRAY)},
        {
            "cuda_driver": STRAYED,
            "driver_libraries": copies(STRAY, copy_in("/opt/lib", version="")),
            "driver": Driver(),
        },
        {"cuda_driver": STRAYED, "driver_libraries": copies(STRAY, copy_in("/opt/compat/lib", kind="compat"))},
        {"cuda_driver": cuda_that_fails(999, "CUDA_ERROR_UNKNOWN", library=OWN.path)},  # named by its link
        {"cuda_driver": cuda_that_fails(804, "", library="/usr/local/cuda-12.8/compat/libcuda.so.570.124.06")},
        {"cuda_driver": cuda_that_fails(999, "CUDA_ERROR_UNKNOWN")},  # the driver's own, for another reason
    ],
)
def test_a_copy_is_not_called_foreign_without_need(judge: Judge, sections: dict[str, Any]) -> None:
    assert judge.passes(libcuda_is_the_drivers_own, **{"driver_libraries": copies(STRAY, OWN), **sections})


def test_of_two_copies_of_the_drivers_own_none_is_foreign(judge: Judge) -> None:
    twin = copy_in("/usr/lib64/nvidia", real_path=f"/usr/lib64/nvidia/libcuda.so.{DRIVER}", found_in="ld.so.cache")
    unknown = cuda_that_fails(999, "CUDA_ERROR_UNKNOWN")
    assert judge.does_not_object(libcuda_is_the_drivers_own, driver_libraries=copies(OWN, twin), cuda_driver=unknown)


def test_after_an_upgrade_the_new_libcuda_is_not_foreign(judge: Judge) -> None:
    old = driver_library(
        "libcuda", path=f"{FOLDER}/libcuda.so.550.120", real_path=f"{FOLDER}/libcuda.so.550.120", version="550.120"
    )
    assert judge.does_not_object(
        libcuda_is_the_drivers_own,
        driver={"version": "550.120"},
        driver_libraries=copies(OWN, old),
        cuda_driver=cuda_that_fails(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    )


@pytest.mark.parametrize("code", [100, 304, 999])
def test_a_driver_for_linux_that_was_installed_in_wsl_is_foreign(judge: Judge, code: int) -> None:
    windows = copy_in("/usr/lib/wsl/lib", kind="wsl", version="", found_in="ld.so.cache")
    linux = driver_library("libcuda", version="535.183.01", real_path=f"{FOLDER}/libcuda.so.535.183.01")
    finding = judge.finding(
        libcuda_is_the_drivers_own,
        wsl(2, driver_libraries=copies(linux, windows), cuda_driver=cuda_that_fails(code, "", library=linux.real_path)),
    )
    assert finding.cause == "foreign_libcuda_bundled"


def test_a_stub_behind_a_link_is_taken_off_the_variable(judge: Judge) -> None:
    real = "/usr/local/cuda-12.5/targets/x86_64-linux/lib/stubs/libcuda.so"
    finding = judge.finding(
        libcuda_is_the_drivers_own,
        environment=variables(LD_LIBRARY_PATH=f"{STUBS}:/usr/local/cuda/lib64"),
        driver_libraries=copies(copy_in(STUBS, real_path=real, kind="stub", found_in="LD_LIBRARY_PATH"), OWN),
        cuda_driver=cuda_that_fails(34, "CUDA_ERROR_STUB_LIBRARY", library=real),
    )
    assert finding.fix and finding.fix.commands == ("export LD_LIBRARY_PATH=/usr/local/cuda/lib64",)


# LIB005


def test_an_nvml_that_opened_is_found(judge: Judge) -> None:
    assert judge.passes(libnvidia_ml_is_found, runtime=None) == "nvidia-ml-py opened it"


def test_a_tensorflow_that_lists_gpus_needs_no_other_proof(judge: Judge) -> None:
    assert judge.passes(libnvidia_ml_is_found, nvml=WITHOUT_NVML) == "TensorFlow lists 1 GPU"


@pytest.mark.parametrize("os", ["Windows", "Darwin"])
def test_libnvidia_ml_is_looked_for_on_linux_alone(judge: Judge, os: str) -> None:
    assert os in judge.skips(libnvidia_ml_is_found, system={"os": os}, nvml=WITHOUT_NVML, runtime=None)


def test_an_nvml_that_hangs_is_judged_elsewhere(judge: Judge) -> None:
    nvml = Nvml(attempt=Attempt(outcome="timed_out", seconds=15.0, phase="nvmlInit"))
    assert judge.skips(libnvidia_ml_is_found, nvml=nvml, runtime=None) == f"NVML {nvml.attempt.ending}"


@pytest.mark.parametrize("run", [None, runtime(gpus=(), computations=())])
def test_an_nvml_that_is_nowhere_keeps_tensorflow_from_the_gpu(judge: Judge, run: Any) -> None:
    finding = judge.finding(libnvidia_ml_is_found, driver_libraries=Libraries(), nvml=WITHOUT_NVML, runtime=run)
    assert (finding.cause, finding.severity) == ("gpu_libs_not_found", "error")
    assert finding.evidence == (NO_NVML,)
    assert finding.fix and "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in finding.fix.text
    assert finding.fix.commands == ()


def test_an_nvml_beside_the_path_is_put_on_it(judge: Judge) -> None:
    finding = judge.finding(libnvidia_ml_is_found, off_the_path(), runtime=None)
    assert finding.evidence == (NO_NVML, "a copy is at /usr/lib/wsl/lib/libnvidia-ml.so.1")
    assert finding.fix and finding.fix.commands == (f"export LD_LIBRARY_PATH=/usr/lib/wsl/lib{REST}",)


def test_a_stub_of_nvml_beside_the_path_is_not_put_on_it(judge: Judge) -> None:
    beside = copies(copy_in(STUBS, "libnvidia-ml", kind="stub"))
    finding = judge.finding(libnvidia_ml_is_found, driver_libraries=beside, nvml=WITHOUT_NVML, runtime=None)
    assert finding.fix and finding.fix.commands == ()


def test_an_nvml_on_the_path_that_does_not_open_needs_no_other_path(judge: Judge) -> None:
    there = copies(driver_library("libnvidia-ml"))
    finding = judge.finding(libnvidia_ml_is_found, driver_libraries=there, nvml=WITHOUT_NVML, runtime=None)
    assert f"a copy is at {FOLDER}/libnvidia-ml.so.1" in finding.evidence
    assert finding.fix and finding.fix.commands == ()


@pytest.mark.parametrize("version", ["2.15.1", "2.19.1"])
def test_an_older_tensorflow_does_without_nvml(judge: Judge, version: str) -> None:
    machine = broken(tensorflow={"version": version}, nvml=WITHOUT_NVML, runtime=None)
    assert judge.does_not_object(libnvidia_ml_is_found, machine)
