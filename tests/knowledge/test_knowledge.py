"""The tables: every row is well-formed, has its source, and agrees with its neighbours."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import msgspec
import pytest
from every import every
from locations import ROOT

from tfgpu_doctor.knowledge import read_knowledge, version

KNOWLEDGE = read_knowledge()
DATA = ROOT / "checks/data"
# Of the statements of people, an example in our words is the source.
SOURCED = {
    path.stem: msgspec.json.decode(path.read_bytes())["rows"]
    for path in DATA.glob("*.json")
    if path.stem not in ("causes", "log_symptoms")
}
ROWS = [(table, row) for table, rows in sorted(SOURCED.items()) for row in rows]
CUDA_ROWS = [*KNOWLEDGE.cuda_toolkits, *KNOWLEDGE.cuda_minimum_drivers]


@every(
    "table, row",
    ROWS,
    key=lambda table, row: f"{table}: {next(iter(row.values()))}",
)
def test_every_row_has_a_source_and_a_date(table: str, row: dict[str, Any]) -> None:
    assert row["source"].startswith("https://") or (table == "references" and (ROOT / row["source"]).is_file()), table
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", row["checked"]), table


@every("table", sorted(SOURCED))
def test_no_row_stands_twice(table: str) -> None:
    second = {
        "opened_libraries": "cuda",
        "log_rules": "rank",
        "log_releases": "line",
        "trace_events": "example",
        "references": "measurement",
    }.get(table, "")  # of tables whose keys are two fields
    keys = [(next(iter(row.values())), row.get(second), str(row.get("context"))) for row in SOURCED[table]]
    assert len(keys) == len(set(keys))


@every("row", CUDA_ROWS, key=lambda row: row.cuda)
def test_drivers_are_versions(row: Any) -> None:
    assert version(row.linux) > version("400")
    assert not row.windows or version(row.windows) > version("400")


@pytest.mark.parametrize("os", ["linux", "windows"])
@pytest.mark.parametrize(
    "table", [KNOWLEDGE.cuda_toolkits, KNOWLEDGE.cuda_minimum_drivers], ids=["toolkits", "minimum"]
)
def test_a_newer_cuda_never_needs_an_older_driver(table: Any, os: str) -> None:
    drivers = [version(getattr(row, os)) for row in table if getattr(row, os)]
    assert drivers == sorted(drivers)
    releases = [version(row.cuda) for row in table]
    assert releases == sorted(releases)


@every("row", KNOWLEDGE.cuda_toolkits, key=lambda row: row.cuda)
def test_the_minimum_is_never_newer_than_the_toolkits_own_driver(row: Any) -> None:
    for os in ("Linux", "Windows"):
        minimum = KNOWLEDGE.minimum_driver(row.cuda, os)
        if minimum and row.driver(os) and row.cuda not in ("11.0", "12.0"):  # betas came before the supported branch
            assert version(minimum.driver(os)) <= version(row.driver(os))


@pytest.mark.parametrize(
    ("cuda", "os", "driver"),
    [
        ("12.5.1", "Linux", "525.60.13"), ("12.5.1", "Windows", "528.33"), ("11.8", "Linux", "450.80.02"),
        ("10.1", "Linux", "418.39"), ("13.0", "Linux", "580.65.06"), ("13.5", "Linux", "580.65.06"), ("13.2", "Windows", "580"),
    ],
)  # fmt: skip
def test_minimum_driver_of_a_cuda_release(cuda: str, os: str, driver: str) -> None:
    row = KNOWLEDGE.minimum_driver(cuda, os)
    assert row is not None
    assert row.driver(os) == driver


@pytest.mark.parametrize("cuda", ["99.1", "1", "", "twelve"])
def test_a_cuda_release_that_the_table_does_not_know_has_no_minimum(cuda: str) -> None:
    assert KNOWLEDGE.minimum_driver(cuda, "Linux") is None


def test_ptx_needs_the_toolkits_own_driver() -> None:
    row = KNOWLEDGE.ptx_driver("12.5.1", "Linux")
    assert row is not None
    assert row.linux == "555.42.02"


@pytest.mark.parametrize(
    ("cuda", "driver"), [("13.0", "580.65.06"), ("13.1", "590.44.01"), ("13.2.1", "595.45.04"), ("13.3", "610.43.02")]
)
def test_ptx_of_cuda_13_needs_the_driver_of_its_minor_version(cuda: str, driver: str) -> None:
    row = KNOWLEDGE.ptx_driver(cuda, "Linux")
    assert row is not None
    assert row.linux == driver
    assert KNOWLEDGE.ptx_driver(cuda, "Windows") is None  # NVIDIA names none


def test_of_a_toolkit_without_a_driver_none_is_told() -> None:
    assert KNOWLEDGE.ptx_driver("13.4", "Linux") is None


@pytest.mark.parametrize(
    ("capability", "first", "last"),
    [
        ("7.0", "9.0", "12.9"),
        ("10.1", "12.8", "12.9"),
        ("10.7", "13.4", ""),
        ("11.0", "13.0", ""),
        ("12.1", "12.9", ""),
    ],
)
def test_which_ptxas_knows_a_capability(capability: str, first: str, last: str) -> None:
    row = KNOWLEDGE.first_ptxas(capability)
    assert row is not None
    assert (row.cuda, row.last_cuda) == (first, last)


@every("release", KNOWLEDGE.tensorflow_releases, key=lambda release: release.version)
def test_pythons_of_a_release_are_consecutive(release: Any) -> None:
    minors = [int(python.removeprefix("3.")) for python in release.pythons]
    assert minors == list(range(minors[0], minors[-1] + 1))


def test_releases_are_in_order() -> None:
    versions = [version(release.version) for release in KNOWLEDGE.tensorflow_releases]
    assert versions == sorted(versions)


@every("cause", KNOWLEDGE.causes.values(), key=lambda cause: cause.label)
def test_causes_are_well_formed(cause: Any) -> None:
    assert re.fullmatch(r"[a-z0-9_]+", cause.label)
    assert cause.severity in ("blocker", "degrades", "feature", "none")
    assert cause.title


ADDED = (
    "cudnn_nvrtc_not_found",
    "gsp_firmware_not_loaded",
    "preloaded_library_fails",
    "ptxas_too_new_for_gpu",
    "tensorboard_not_installed",
    "xla_kernels_disagree",
)  # labels that the project added to the shared vocabulary


def test_the_vocabulary_is_that_of_the_project(shared: pathlib.Path) -> None:
    first_columns = re.findall(r"^\| ((?:`[a-z0-9_]+`(?:, )?)+) \|", (shared / "CAUSES.md").read_text(), re.MULTILINE)
    labels = {label for column in first_columns for label in re.findall(r"`([a-z0-9_]+)`", column)}
    assert set(KNOWLEDGE.causes) - labels <= {"undetermined", *ADDED}
    assert labels - set(KNOWLEDGE.causes) == set()


def test_no_variable_that_may_hold_a_secret_is_looked_at() -> None:
    assert [name for name in KNOWLEDGE.variables if re.search("KEY|TOKEN|SECRET|PASS|CONFIG|CREDENTIAL", name)] == []


def test_a_version_that_is_none_is_older_than_any() -> None:
    assert version("nonsense") < version("0.0.1")


@pytest.mark.parametrize(
    ("tensorflow", "cuda", "cudnn", "expected"),
    [
        ("2.4.0", "11.0", "8", {"libcusolver.so.10", "libcudnn.so.8", "libcudnn_ops_infer.so.8", "libcudart.so.11.0"}),
        ("2.10.1", "11.2", "8", {"libcusolver.so.11", "libcudnn.so.8", "libcuda.so.1", "libcurand.so.10"}),
        ("2.13.1", "11.8", "8", {"libcufft.so.10", "libcurand.so.10"}),
        ("2.14.0", "11.8", "8", {"libcufft.so.10"}),
        ("2.19.1", "12.5.1", "9", {"libcusolver.so.11", "libcufft.so.11", "libcudnn_graph.so.9", "libnvJitLink.so.12"}),
        ("2.21.0", "12.5.1", "9", {"libnvidia-ml.so.1"}),
    ],
)
def test_a_release_opens_the_libraries_of_its_cuda(tensorflow: str, cuda: str, cudnn: str, expected: set[str]) -> None:
    names = [row.soname for row in KNOWLEDGE.opened_libraries(tensorflow, cuda, cudnn)]
    assert expected <= set(names)
    assert len(names) == len(set(names))
    assert ("libnvidia-ml.so.1" in names) == (version(tensorflow) >= version("2.20"))
    assert ("libcurand.so.10" in names) == (version(tensorflow) < version("2.14"))


@pytest.mark.parametrize("release", ["1.14.0", "1.15.5", "2.0.4"])
def test_libraries_of_cuda_10_0_have_its_whole_version_in_their_names(release: str) -> None:
    names = {row.soname for row in KNOWLEDGE.opened_libraries(release, "10.0", "7")}
    parts = ("cudart", "cublas", "cufft", "curand", "cusolver", "cusparse")
    assert names == {"libcuda.so.1", "libcudnn.so.7", *(f"lib{part}.so.10.0" for part in parts)}


def test_before_1_14_the_libraries_of_cuda_are_linked_and_not_opened() -> None:
    names = {row.soname for row in KNOWLEDGE.opened_libraries("1.13.2", "10.0", "7")}
    assert names == {"libcuda.so.1", "libcudnn.so.7"}


@pytest.mark.parametrize(("cuda", "cudnn"), [("", ""), ("64_112", "64_8"), ("99.1", "99")])
def test_of_a_cuda_that_the_table_does_not_know_no_library_is_named(cuda: str, cudnn: str) -> None:
    names = {row.soname for row in KNOWLEDGE.opened_libraries("2.21.0", cuda, cudnn)}
    assert names == {"libcuda.so.1", "libnvidia-ml.so.1"}


def test_who_opens_a_library_is_opened_before_it() -> None:
    for cuda, cudnn in (("12.5.1", "9"), ("12.3", "8"), ("11.2", "8")):
        rows = KNOWLEDGE.opened_libraries("2.21.0", cuda, cudnn)
        names = [row.soname for row in rows]
        for row in rows:
            assert not row.asked_by or row.asked_by not in names or names.index(row.asked_by) < names.index(row.soname)
