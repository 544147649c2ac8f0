"""The maintainer's script against an index on this machine: what it reads, what it leaves alone, what it transfers."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from made_up_releases import BUILT, made_up_container, made_up_gpu_library


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "table.json"


def rows(table: pathlib.Path) -> list[dict[str, Any]]:
    return json.loads(table.read_text())["rows"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_release_is_read_out_of_its_wheels(
    index: Any, read_releases: Any, table: pathlib.Path, as_json: bool
) -> None:
    index.as_json = as_json
    index.add("2.20.0")
    index.add("2.20.0", platform="win_amd64", cuda="")
    stub = (
        'tensorflow-cpu-aws==2.20.0; platform_system == "Linux"',
        'tensorflow-intel==2.20.0; platform_system == "Windows"',
    )
    index.add("2.20.0", platform="manylinux_2_17_aarch64", cuda=None, requires=stub)
    index.add("2.20.0", platform="macosx_12_0_arm64", cuda="")
    assert read_releases() == 0
    (row,) = rows(table)
    assert row["version"] == "2.20.0"
    assert row["requires"] == ["numpy>=1.26.0", "protobuf<6,>=3.20.3"]
    assert row["cuda_extra"] == ["nvidia-cublas-cu12==12.5.3.2"]
    assert row["runpath"] == ["cublas", "cudnn"]
    assert row["requires_python"] == ">=3.9"
    linux, arm, windows, mac = row["wheels"]
    assert linux == {
        "os": "linux", "architecture": "x86_64", "pythons": ["3.9", "3.10"],
        "tags": ["manylinux2014_x86_64", "manylinux_2_17_x86_64"], "glibc": "2.17", "cuda": "12.5.1", "cudnn": "9",
        "compute_capabilities": ["sm_60", "compute_90"], "stands_for": "",
    }  # fmt: skip
    assert (arm["architecture"], arm["cuda"], arm["stands_for"]) == ("aarch64", "", "tensorflow-cpu-aws")
    assert (windows["os"], windows["cuda"], windows["glibc"]) == ("windows", "", "")
    assert (mac["os"], mac["architecture"]) == ("macos", "arm64")


def test_windows_numbers_are_read_as_versions(index: Any, read_releases: Any, table: pathlib.Path) -> None:
    index.add("2.10.1")
    index.add("2.10.1", platform="win_amd64", cuda="11.2", windows=True)
    assert read_releases() == 0
    assert [(each["cuda"], each["cudnn"]) for each in rows(table)[0]["wheels"]] == [("12.5.1", "9"), ("11.2", "8")]


def test_little_of_a_wheel_is_transferred(index: Any, read_releases: Any) -> None:
    index.add("2.20.0", pythons=("cp310",))
    wheel = next(iter(index.files.values()))
    assert read_releases() == 0
    assert all(range_ for path, range_ in index.asked if path.endswith(".whl"))
    assert max(len(wheel), 1 << 18) * 4 > index.sent_bytes


def test_metadata_beside_the_wheel_is_taken(index: Any, read_releases: Any, table: pathlib.Path) -> None:
    index.add("2.20.0")
    index.metadata = dict.fromkeys(index.files, b"Metadata-Version: 2.1\nName: tensorflow\nRequires-Dist: numpy<3\n\n")
    assert read_releases() == 0
    assert rows(table)[0]["requires"] == ["numpy<3"]


def test_what_is_no_final_release_is_left_out(index: Any, read_releases: Any, table: pathlib.Path) -> None:
    for version in ("2.3.4", "2.20.0rc1", "2.20.0", "2.22.0.dev20260101"):
        index.add(version)
    index.add("2.21.0")
    index.yanked = {name for name in index.files if "2.21.0" in name}
    index.files["tensorflow-2.20.0.tar.gz"] = index.files["no wheel.whl"] = b""
    assert read_releases() == 0
    assert [row["version"] for row in rows(table)] == ["2.20.0"]


REQUIRES = (
    'nvidia-cuda-runtime-cu12>=12.5.82,<13.0; extra == "and-cuda"',
    'nvidia-cudnn-cu12>=9.10.2.21,<10.0; extra == "and-cuda"',
)


def test_a_candidate_is_shown_and_not_kept(
    index: Any, read_releases: Any, table: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its build_info.py names no version, as that of 2.22.0rc0; a row of kernels comes behind a single one."""
    row = [made_up_container(*BUILT)] * 20
    kernels = made_up_gpu_library(*row, single=made_up_container((1, 90))) + bytes(33 << 20)
    index.add("2.20.0")
    index.add("2.22.0rc0", pythons=("cp312",), requires=REQUIRES, kernels=kernels)
    assert read_releases() == 0
    capsys.readouterr()
    before = table.read_text()
    assert read_releases("--show", "2.22.0rc0") == 0
    (shown,) = json.loads(capsys.readouterr().out)
    (linux,) = shown["wheels"]
    assert (linux["cuda"], linux["cudnn"], linux["compute_capabilities"]) == ("12", "9", ["sm_60", "compute_90"])
    assert table.read_text() == before
    assert read_releases("--show", "2.30.0") == 1
    assert "the index has no TensorFlow 2.30.0" in capsys.readouterr().out


def test_a_second_run_changes_nothing(index: Any, read_releases: Any, table: pathlib.Path) -> None:
    index.add("2.9.3")
    index.add("2.10.0")
    assert read_releases() == 0
    before, stamp = table.read_bytes(), table.stat().st_mtime_ns
    index.asked.clear()
    assert read_releases() == 0
    assert (table.read_bytes(), table.stat().st_mtime_ns) == (before, stamp)
    assert [path for path, _ in index.asked] == ["/simple/tensorflow/"]


def test_a_new_release_is_added_in_its_place(index: Any, read_releases: Any, table: pathlib.Path) -> None:
    index.add("2.9.3")
    index.add("2.11.0")
    assert read_releases() == 0
    old = table.read_text().replace('"checked": "20', '"checked": "19')
    table.write_text(old)
    index.add("2.10.0")
    assert read_releases() == 0
    assert [row["version"] for row in rows(table)] == ["2.9.3", "2.10.0", "2.11.0"]
    assert [row["checked"][:2] for row in rows(table)] == ["19", "20", "19"]
    assert set(old.splitlines()[:3]) < set(table.read_text().splitlines())


def test_a_release_is_read_again_where_that_is_asked(index: Any, read_releases: Any, table: pathlib.Path) -> None:
    index.add("2.10.0")
    assert read_releases() == 0
    table.write_text(table.read_text().replace('"checked": "20', '"checked": "19'))
    assert read_releases("--again", "2.10.0") == 0
    assert [row["checked"][:2] for row in rows(table)] == ["20"]


def test_a_failure_half_way_leaves_the_table_whole(
    index: Any, read_releases: Any, table: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index.add("2.9.3")
    assert read_releases() == 0
    before = table.read_bytes()
    index.add("2.10.0")
    index.add("2.11.0")
    index.fails_for = "2.11.0"
    assert read_releases() == 1
    assert table.read_bytes() == before
    assert "503" in (told := capsys.readouterr().err)
    assert "table is unchanged" in told
    assert list(table.parent.iterdir()) == [table]


def test_a_server_that_stumbles_is_asked_again(index: Any, read_releases: Any, table: pathlib.Path) -> None:
    index.add("2.10.0")
    index.fails_for, index.failures_left = "cp310", 2
    assert read_releases() == 0
    assert len(rows(table)) == 1


def test_a_server_without_ranges_is_refused(
    index: Any, read_releases: Any, table: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index.add("2.10.0")
    index.ranges = False
    assert read_releases() == 1
    assert not table.exists()
    assert "ignores Range" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"<html>a login page</html>", "is not a wheel"), (b"PK", "is not a wheel")],
)
def test_a_damaged_wheel_is_named(
    index: Any, read_releases: Any, table: pathlib.Path, capsys: pytest.CaptureFixture[str], content: bytes, told: str
) -> None:
    index.add("2.10.0")
    index.files = dict.fromkeys(index.files, content)
    assert read_releases() == 1
    assert told in capsys.readouterr().err
    assert not table.exists()


def test_wheels_that_disagree_are_told(index: Any, read_releases: Any, capsys: pytest.CaptureFixture[str]) -> None:
    index.add("2.10.0", pythons=("cp39",))
    index.add("2.10.0", pythons=("cp310",), cuda="11.8")
    assert read_releases() == 1
    assert "disagree" in capsys.readouterr().err


def test_compare_tells_what_the_wheels_say_otherwise(
    index: Any, read_releases: Any, table: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index.add("2.10.0")
    assert read_releases() == 0
    assert read_releases("--compare") == 0
    assert "1 releases match" in capsys.readouterr().out
    table.write_text(
        table.read_text().replace("cudnn", "nccl", 1).replace('"runpath": ["cublas", "cudnn"]', '"runpath": []')
    )
    before = table.read_bytes()
    assert read_releases("--compare") == 1
    assert "2.10.0: runpath is [], but the wheels say ['cublas', 'cudnn']" in capsys.readouterr().out
    assert table.read_bytes() == before


@pytest.mark.parametrize("arguments", [["--compare"], ["--again", "2.10.0", "2.9.3"]])
def test_a_release_that_the_index_lacks_is_named(
    index: Any, read_releases: Any, table: pathlib.Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    index.add("2.9.3")
    index.add("2.10.0")
    assert read_releases() == 0
    capsys.readouterr()
    before = table.read_bytes()
    index.files = {name: content for name, content in index.files.items() if "2.9.3" not in name}
    assert read_releases(*arguments) == 1
    told = "".join(capsys.readouterr())
    assert "the index has no final release 2.9.3 of TensorFlow" in told
    assert "2.10.0 of TensorFlow" not in told
    assert "match" not in told
    assert table.read_bytes() == before


def test_the_index_is_that_of_pip(index: Any, run_script: Any, table: pathlib.Path) -> None:
    index.add("2.10.0")
    done = run_script("--table", str(table), PIP_INDEX_URL=index.address.rstrip("/"))
    assert done.returncode == 0, done.stderr
    assert [row["version"] for row in rows(table)] == ["2.10.0"]


@pytest.mark.slow
def test_an_index_that_cannot_be_reached_is_told(run_script: Any, table: pathlib.Path) -> None:
    done = run_script("--table", str(table), "--index-url", "http://127.0.0.1:9/simple/")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "127.0.0.1:9" in done.stderr
    assert not table.exists()


def test_without_an_index_the_script_says_so(run_script: Any, table: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = run_script("--table", str(table), PIP_CONFIG_FILE="/dev/null", HOME=str(tmp_path))
    assert done.returncode == 1
    assert "--index-url" in done.stderr


def test_a_runpath_is_read_as_far_as_it_stands(index: Any) -> None:
    from made_up_releases import made_up_library
    from releases.elf_runpath import NoRunpath, read_runpath

    library = made_up_library("$ORIGIN/../nvidia/cufft/lib")
    pieces = iter([library[start : start + 512] for start in range(0, len(library), 512)])
    assert read_runpath(pieces) == ["$ORIGIN/../nvidia/cufft/lib"]
    assert sum(1 for _ in pieces) > 1000
    for damaged in (b"MZ", library[:100], library[:0x210], b"\x7fELF\x02\x02" + library[6:]):
        with pytest.raises(NoRunpath):
            read_runpath(iter([damaged]))
