"""`tfgpu-doctor libraries`, on a made-up target whose libraries are real ones."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest
from doctor_command import make_target, run_doctor

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not shutil.which("cc"), reason="needs Linux and a C compiler"
)
FIELDS = {"soname", "found", "path", "version", "origin", "needed_by_tensorflow", "missing_chain", "shadowed"}
BUILD = "import collections\nbuild_info = collections.OrderedDict([('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True)])\n"


def library(path: pathlib.Path, *options: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", str(path), f"-Wl,-soname,{path.name}", *options]
    subprocess.run(command, check=True)


@pytest.fixture
def target(tmp_path: pathlib.Path) -> pathlib.Path:
    """A TensorFlow that looks in nvidia/cublas/lib, with cuBLAS there and cuSOLVER elsewhere."""
    folder = make_target(tmp_path / "venv", "", version="2.20.0")
    (site,) = folder.glob("lib/python3*/site-packages")
    library(
        site / "tensorflow/libtensorflow_framework.so.2",
        "-Wl,--enable-new-dtags",
        "-Wl,-rpath,$ORIGIN/../nvidia/cublas/lib",
    )
    library(site / "nvidia/cublas/lib/libcublas.so.12")
    library(site / "nvidia/cusolver/lib/libcusolver.so.11")
    (site / "tensorflow/python/platform").mkdir(parents=True)
    (site / "tensorflow/python/platform/build_info.py").write_text(BUILD)
    return folder


def test_as_json(target: pathlib.Path) -> None:
    done = run_doctor("libraries", "--python", str(target), "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    rows = {row["soname"]: row for row in document["libraries"]}
    assert all(set(row) >= FIELDS for row in rows.values())
    assert rows["libcublas.so.12"]["found"]
    assert rows["libcublas.so.12"]["path"].endswith("nvidia/cublas/lib/libcublas.so.12")
    assert not rows["libcusolver.so.11"]["found"]
    assert rows["libcusolver.so.11"]["missing_chain"] == ["libcusolver.so.11"]
    assert rows["libcusolver.so.11"]["elsewhere"][0].endswith("nvidia/cusolver/lib/libcusolver.so.11")
    assert document["opener"].endswith("libtensorflow_framework.so.2")


def test_as_a_table(target: pathlib.Path) -> None:
    done = run_doctor("libraries", "--python", str(target))
    assert (done.returncode, done.stderr) == (1, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "✓ libcublas.so.12 RUNPATH" in lines
    assert "✗ libcusolver.so.11 not found" in lines
    assert "- libnccl.so.2 not found" in lines
    assert "libnccl.so.2 was not found (not needed to compute on one GPU)" in lines
    assert "nvidia/cusolver/lib/libcusolver.so.11, which the loader does not search" in done.stdout
    assert "which searches" not in done.stdout


def test_a_library_that_lacks_another_is_not_said_to_be_absent(target: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (cublas,) = target.glob("lib/python3*/site-packages/nvidia/cublas/lib/libcublas.so.12")
    part = tmp_path / "libpart.so.1"
    library(part)
    library(cublas, f"-Wl,--no-as-needed,{part}")
    part.unlink()
    done = run_doctor("libraries", "--python", str(target))
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "✗ libcublas.so.12 cannot be loaded" in lines
    told = "libcublas.so.12 cannot be loaded: it needs libpart.so.1, of which there is no copy in any known location"
    place = lines.index(told)
    assert lines[place + 1] == f"it is at {cublas}"
    assert lines[place + 2] == ""
    done = run_doctor("libraries", "--python", str(target), "--format", "json")
    (row,) = [each for each in json.loads(done.stdout)["libraries"] if each["soname"] == "libcublas.so.12"]
    assert (row["found"], row["path"], row["missing_chain"]) == (
        False,
        str(cublas),
        ["libcublas.so.12", "libpart.so.1"],
    )


def test_in_full(target: pathlib.Path) -> None:
    done = run_doctor("libraries", "--python", str(target), "-v")
    assert "nvidia/cublas/lib/libcublas.so.12\n" in done.stdout
    assert "libtensorflow_framework.so.2, which searches\n" in done.stdout


def test_into_a_file(target: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = run_doctor("libraries", "--python", str(target), "--format", "json", "-o", str(tmp_path / "out.json"))
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads((tmp_path / "out.json").read_text())["schema"] == 1


def test_what_the_variable_puts_before_is_shown(target: pathlib.Path, tmp_path: pathlib.Path) -> None:
    library(tmp_path / "own/libcublas.so.12")
    done = run_doctor("libraries", "--python", str(target), LD_LIBRARY_PATH=str(tmp_path / "own"))
    assert f"libcublas.so.12: {tmp_path}/own/libcublas.so.12 is used, and hides" in done.stdout


def test_without_tensorflow(tmp_path: pathlib.Path) -> None:
    done = run_doctor("libraries", "--python", str(make_target(tmp_path / "venv", None)))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("tfgpu-doctor: nothing to examine: TensorFlow is not installed in")


def test_without_tensorflow_the_document_has_the_reason(tmp_path: pathlib.Path) -> None:
    target, file = str(make_target(tmp_path / "venv", None)), tmp_path / "out.json"
    done = run_doctor("libraries", "--python", target, "--format", "json")
    document = json.loads(done.stdout)
    assert done.returncode == 3
    assert document["reason"].startswith("nothing to examine: TensorFlow is not installed in")
    assert (document["schema"], document["libraries"], document["opener"], document["search_folders"]) == (
        1,
        [],
        "",
        [],
    )
    assert done.stderr == f"tfgpu-doctor: {document['reason']}\n"
    assert run_doctor("libraries", "--python", target, "--format", "json", "-o", str(file)).stdout == ""
    assert json.loads(file.read_text()) == document


def test_a_python_that_is_not_there(tmp_path: pathlib.Path) -> None:
    done = run_doctor("libraries", "--python", str(tmp_path / "nowhere"))
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
