"""LIB: the copy of a library that the loader takes, where it is not the one of the package that provides it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_shadowed import built
from healthy import SITE, pip_library, runtime, target, without_gpus

from tfgpu_doctor.checks.libraries.library_loading import every_library_opens, pip_libraries_are_found
from tfgpu_doctor.checks.libraries.taken_copies import cuda_libraries_are_taken, driver_libraries_are_taken
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.copies import Copy
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Libraries, Nvml
from tfgpu_doctor.model.facts.python import LibraryLoad, Runtime
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

if TYPE_CHECKING:
    from checks.conftest import Judge

MACHINES = built()
TRUNCATED, WITHOUT_PARTS = MACHINES["truncated-cublas-on-library-path"], MACHINES["older-cudnn-without-its-parts"]
OWN = pip_library("libcublas.so.12")


def test_a_truncated_file_on_the_variable_is_named_and_no_wheel_is_blamed(judge: Judge) -> None:
    finding = judge.finding(cuda_libraries_are_taken, TRUNCATED)
    assert finding.cause == "library_shadowed"
    assert finding.message == (
        "the loader takes /opt/half/libcublas.so.12 instead of the copy of nvidia-cublas-cu12 12.5.3.2, and cannot load it: "
        "it is truncated: 4,096 of at least 105,137,712 bytes are present"
    )
    assert finding.evidence[0].endswith("because of entry 1 of LD_LIBRARY_PATH: /opt/half")
    assert finding.fix
    assert finding.fix.commands == ("unset LD_LIBRARY_PATH",)


def test_an_older_cudnn_without_its_parts_is_one_line_with_a_count(judge: Judge) -> None:
    finding = judge.finding(cuda_libraries_are_taken, WITHOUT_PARTS)
    assert finding.cause == "library_shadowed"
    assert finding.message.endswith("of nvidia-cudnn-cu12 9.3.0.75, and 7 libraries that it opens are not found")
    assert "(and 6 more: libcudnn_ops.so.9," in finding.evidence[0]
    assert len(finding.evidence) == 4
    assert finding.fix
    assert finding.fix.commands == ("export LD_LIBRARY_PATH=/opt/lib",)


def test_a_cudnn_whose_version_is_known_to_be_older_keeps_its_label(judge: Judge) -> None:
    assert WITHOUT_PARTS.resolution
    first, *rest = WITHOUT_PARTS.resolution.libraries
    libraries = (msgspec.structs.replace(first, version="9.1.0"), *rest)
    finding = judge.finding(cuda_libraries_are_taken, WITHOUT_PARTS, resolution={"libraries": libraries})
    assert finding.cause == "ld_library_path_shadows_pip_libs"
    assert finding.message.startswith("the loader takes libcudnn.so.9 9.1.0 from /opt/old/lib/libcudnn.so.9 ")


@pytest.mark.parametrize(
    ("version", "cause"),
    [
        ("9.2.9", "ld_library_path_shadows_pip_libs"),
        ("9.3.0.75", "library_shadowed"),
        ("9.4.0", "library_shadowed"),
    ],
)
def test_only_an_older_copy_gets_the_label_of_an_older_copy(judge: Judge, version: str, cause: str) -> None:
    assert WITHOUT_PARTS.resolution
    first, *rest = WITHOUT_PARTS.resolution.libraries
    libraries = (msgspec.structs.replace(first, version=version), *rest)
    assert judge.finding(cuda_libraries_are_taken, WITHOUT_PARTS, resolution={"libraries": libraries}).cause == cause


@pytest.mark.parametrize("name", ["truncated-cublas-on-library-path", "older-cudnn-without-its-parts"])
def test_one_cause_explains_what_the_other_checks_would_say(name: str) -> None:
    (cause,) = diagnose(MACHINES[name]).causes
    assert {"LIB003", "LIB006", "LIB007", "TFW001", "TFW002"} <= set(cause.explains)


def test_the_lines_of_many_lost_libraries_are_few(judge: Judge) -> None:
    finding = judge.finding(pip_libraries_are_found, WITHOUT_PARTS)
    assert len(finding.evidence) == 2
    assert finding.evidence[1].startswith(f"pip's copy is {SITE}/nvidia/cudnn/lib/libcudnn_graph.so.9 (and 6 more: ")


def resolution(*copies: Copy, **changes: Any) -> Resolution:
    """The loader's search, in which one library was lost."""
    known = {"soname": "libcublas.so.12", "found": False, "needed_by_tensorflow": True}
    lost = ResolvedLibrary(**{**known, "missing_chain": ("libcublas.so.12",), **changes})
    return Resolution(libraries=(lost,), copies=copies)


def refused(**changes: Any) -> Copy:
    """A damaged libcublas that the loader takes."""
    known = {"name": "libcublas.so.12", "path": "/opt/x/libcublas.so.12", "error": "it is empty", "entry": "/opt/x"}
    return Copy(**{**known, "placed_by": "ld.so.conf", "file": "/etc/ld.so.conf.d/x.conf", "line": 2, **changes})


def test_where_the_right_copy_is_off_the_path_its_folder_is_put_first(judge: Judge) -> None:
    told = resolution(refused(), error="/opt/x/libcublas.so.12: it is empty")
    finding = judge.finding(
        cuda_libraries_are_taken, resolution=told, cuda_libraries=Libraries(copies=(OWN,)), runtime=None
    )
    assert finding.cause == "library_shadowed"
    assert f"instead of {OWN.path}, which pip installed, and cannot load it" in finding.message
    assert "/etc/ld.so.conf.d/x.conf, line 2" in finding.evidence[0]
    assert finding.fix
    assert finding.fix.commands[0].startswith(f"export LD_LIBRARY_PATH={SITE}/nvidia/cublas/lib$")


@pytest.mark.parametrize("owner", ["pip: nvidia-cublas-cu12 12.5.3.2", "toolkit: /usr/local/cuda"])
def test_the_packages_own_damaged_copy_is_left_to_the_next_check(judge: Judge, owner: str) -> None:
    told = resolution(refused(owner=owner), error="/opt/x/libcublas.so.12: it is empty", wheel="w==1")
    sections = {"resolution": told, "cuda_libraries": Libraries(), "runtime": None}
    assert judge.does_not_object(cuda_libraries_are_taken, **sections)
    assert judge.finding(every_library_opens, **sections).cause == "gpu_libs_not_found"


def test_the_packages_own_damage_that_kills_the_import_is_named_before_it(judge: Judge) -> None:
    died = Runtime(
        attempt=Attempt(outcome="killed_by_signal", seconds=1.0, signal="SIGBUS", phase="importing TensorFlow")
    )
    told = resolution(refused(owner="pip: w 1"), error="/site/libcublas.so.12: it is truncated", wheel="w==1")
    finding = judge.finding(cuda_libraries_are_taken, resolution=told, cuda_libraries=Libraries(), runtime=died)
    assert finding.cause == "gpu_libs_not_found"
    assert finding.fix
    assert finding.fix.commands == (f"{target().executable} -m pip install --force-reinstall --no-deps w==1",)


def test_an_older_library_that_lacks_a_symbol(judge: Judge) -> None:
    """libcusparse of CUDA 12.9 with libnvJitLink of 12.5, as TensorFlow 2.21 prints it."""
    said = "/site/libcusparse.so.12: undefined symbol: __nvJitLinkGetErrorLogSize_12_9, version libnvJitLink.so.12"
    first = Copy(
        name="libnvJitLink.so.12", path="/opt/x/libnvJitLink.so.12", placed_by="LD_LIBRARY_PATH", entry="/opt/x", number=1,
        instead="/site/libnvJitLink.so.12", instead_owner="pip: nvidia-nvjitlink-cu12 12.9.86",
    )  # fmt: skip
    run = without_gpus(LibraryLoad(soname="libcusparse.so.12", opened=False, error=said))
    finding = judge.finding(cuda_libraries_are_taken, resolution=Resolution(copies=(first,)), runtime=run)
    assert finding.cause == "ld_library_path_shadows_pip_libs"
    assert finding.message.endswith(
        "the copy of nvidia-nvjitlink-cu12 12.9.86, and libcusparse.so.12 cannot be opened with it"
    )


def test_a_missing_symbol_is_blamed_on_the_library_that_should_have_it(judge: Judge) -> None:
    """Neither on another copy, which the message does not name, nor on the file that lacks the symbol's provider."""
    said = "/opt/x/libcusparse.so.12: undefined symbol: __nvJitLinkCreate_12_9, version libnvJitLink.so.12"
    known: dict[str, Any] = {"placed_by": "LD_LIBRARY_PATH", "entry": "/opt/x", "number": 1}
    unrelated = Copy(name="libcufft.so.11", path="/opt/x/libcufft.so.11", instead="/site/libcufft.so.11", **known)
    asker = Copy(name="libcusparse.so.12", path="/opt/x/libcusparse.so.12", instead="/site/libcusparse.so.12", **known)
    guilty = Copy(
        name="libnvJitLink.so.12", path="/opt/x/libnvJitLink.so.12", instead="/site/libnvJitLink.so.12", **known
    )
    run = without_gpus(LibraryLoad(soname="libcusparse.so.12", opened=False, error=said))
    told = Resolution(copies=(unrelated, asker, guilty))
    finding = judge.finding(cuda_libraries_are_taken, resolution=told, runtime=run)
    assert finding.message.startswith("the loader takes libnvJitLink.so.12 from /opt/x/libnvJitLink.so.12 instead of ")


def test_another_copy_that_lacks_what_it_needs_is_blamed_in_a_chain(judge: Judge) -> None:
    taken = Copy(
        name="libcusparse.so.12", path="/opt/x/libcusparse.so.12", placed_by="LD_LIBRARY_PATH", entry="/opt/x", number=1,
        instead="/site/libcusparse.so.12", instead_owner="pip: nvidia-cusparse-cu12 12.5.1.3",
    )  # fmt: skip
    chain = ("libcusolver.so.11", "libcusparse.so.12", "libnvJitLink.so.12")
    told = resolution(taken, soname=chain[0], missing_chain=chain)
    finding = judge.finding(
        cuda_libraries_are_taken, resolution=told, cuda_libraries=Libraries(copies=(OWN,)), runtime=None
    )
    assert finding.message == (
        "the loader takes libcusparse.so.12 from /opt/x/libcusparse.so.12 instead of the copy of nvidia-cusparse-cu12 12.5.1.3, "
        "and libnvJitLink.so.12 is not found"
    )


def test_what_tensorflow_did_counts_for_more_than_the_search(judge: Judge) -> None:
    assert judge.does_not_object(cuda_libraries_are_taken, TRUNCATED, runtime=runtime())


def test_a_copy_that_hides_another_and_works_is_evidence(judge: Judge) -> None:
    intact = refused(error="", instead=OWN.path)
    told = msgspec.structs.replace(resolution(intact, found=True, missing_chain=(), path=intact.path))
    assert judge.passes(cuda_libraries_are_taken, resolution=told) == (
        f"1 library can be loaded; /opt/x/libcublas.so.12 comes before {OWN.path}"
    )


@pytest.mark.parametrize("name", ["libcuda.so.1", "libnvidia-ml.so.1"])
def test_a_damaged_driver_library_before_the_drivers_own(judge: Judge, name: str) -> None:
    """The real loader dies of SIGBUS on a truncated libcuda: the process that opens it cannot say which file it was."""
    first = refused(name=name, path=f"/opt/x/{name}", placed_by="LD_LIBRARY_PATH", number=1, instead=f"/usr/lib/{name}")
    died = Attempt(outcome="killed_by_signal", seconds=0.1, signal="SIGBUS")
    sections = {"resolution": resolution(first), "cuda_driver": CudaDriver(attempt=died), "nvml": Nvml(attempt=died)}
    finding = judge.finding(driver_libraries_are_taken, **sections)
    assert finding.cause == "library_shadowed"
    assert f"takes /opt/x/{name} instead of /usr/lib/{name}" in finding.message


def test_a_driver_that_works_was_found(judge: Judge) -> None:
    first = refused(name="libcuda.so.1", path="/opt/x/libcuda.so.1", instead="/usr/lib/libcuda.so.1")
    told = resolution(first, soname="libcuda.so.1", found=True, missing_chain=(), path="/usr/lib/libcuda.so.1")
    assert judge.passes(driver_libraries_are_taken, resolution=told) == "libcuda.so.1 is /usr/lib/libcuda.so.1"
    assert judge.skips(driver_libraries_are_taken, resolution=Resolution()) == "the loader finds none of them"
