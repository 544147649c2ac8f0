"""The tables of a report: which copy of each library is taken, and which versions TensorFlow needs."""

from __future__ import annotations

import msgspec
from healthy import CUDA_WHEELS, SITE, broken, distribution, driver_library, healthy, lost_library, target, without_gpus

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.diagnose.libraries import list_libraries
from tfgpu_doctor.diagnose.versions import list_versions
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import LibraryCopy, VersionRow

CUDNN = f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9"


def copy_of(soname: str, facts: Facts) -> LibraryCopy:
    (row,) = [row for row in list_libraries(facts) if row.soname == soname]
    return row


def test_a_library_that_tensorflow_opened_has_a_path_and_its_origin() -> None:
    row = copy_of("libcudnn.so.9", healthy())
    assert (row.found, row.path, row.origin, row.elsewhere) == (True, CUDNN, "pip", ())


def test_a_library_that_tensorflow_could_not_open_has_copies_elsewhere_alone() -> None:
    error = "libcudnn.so.9: cannot open shared object file: No such file or directory"
    row = copy_of("libcudnn.so.9", broken(runtime=without_gpus(lost_library("libcudnn.so.9", error))))
    assert (row.found, row.path, row.origin, row.elsewhere) == (False, "", "", (CUDNN,))
    assert row.error == error


def test_of_a_library_that_nobody_opened_the_copy_is_told_but_not_that_it_is_taken() -> None:
    row = copy_of("libcudnn.so.9", broken(runtime=None))
    assert (row.found, row.path, row.origin, row.elsewhere) == (None, CUDNN, "pip", ())


def test_the_copy_that_libcuda_itself_named_is_the_one_taken() -> None:
    other = driver_library("libcuda", path="/opt/libcuda.so.1", real_path="/opt/libcuda.so.550", version="550")
    facts = healthy()
    assert facts.driver_libraries
    row = copy_of("libcuda.so.1", broken(facts, driver_libraries={"copies": (other, *facts.driver_libraries.copies)}))
    assert (row.version, row.path) == ("560.35.03", "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
    assert row.shadowed == ("/opt/libcuda.so.1",)


def versions(facts: Facts) -> dict[str, VersionRow]:
    return {row.component: row for row in list_versions(facts, ALL_CHECKS)}


def test_what_the_gpus_must_be_is_needed_by_a_build_that_tells_it() -> None:
    row = versions(healthy())["Compute capability of the GPUs"]
    assert (row.found, row.needed) == ("8.6", "sm_60, sm_70, sm_80, sm_89, compute_90")
    assert row.needed_by == "TensorFlow 2.20.0"
    silent = versions(broken(tensorflow={"compute_capabilities": ()}))["Compute capability of the GPUs"]
    assert (silent.found, silent.needed, silent.needed_by) == ("8.6", "", "")


def test_the_python_that_runs_is_listed_with_those_that_have_a_wheel() -> None:
    row = versions(healthy())["Python"]
    assert row.found == healthy().target.version  # type: ignore[union-attr]
    assert row.found.startswith("3.")
    assert row.found.rpartition(".")[0] in row.needed.split(", ")


def test_the_wheels_of_the_extra_are_listed_with_what_is_needed() -> None:
    rows = versions(healthy())
    wheels = {name: version for name, version, _ in CUDA_WHEELS.values()}
    assert {name: row.found for name, row in rows.items() if name.startswith("nvidia-")} == wheels
    row = rows["nvidia-cudnn-cu12"]
    assert (row.needed, row.needed_by, row.fits) == ("<13.0,>=9.3.0.75", "tensorflow 2.20.0", True)
    assert row.check == "PKG009"


def test_a_wheel_of_another_extra_is_not_listed() -> None:
    requires = ('nvidia-cudnn-cu12>=9.3; extra == "and-cuda"', 'nvidia-dali>=1.0; extra == "data"', "nvidia-ml-py>=12")
    names = ("nvidia-cudnn-cu12", "nvidia-dali", "nvidia-ml-py")
    installed = (
        *(distribution(name, "13.0") for name in names),
        distribution("tensorflow", "2.20.0", requires=requires),
    )
    rows = versions(msgspec.structs.replace(healthy(), target=target(distributions=installed)))
    assert [name for name in rows if name.startswith("nvidia-")] == ["nvidia-cudnn-cu12"]
