"""The doctor with a real TensorFlow, in the interpreter that runs the tests; the driver is none, or the simulated one."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

import pytest
from doctor_command import clean_environment, diagnose, run_doctor
from installed import skip_without_tensorflow
from locations import ROOT
from made_up_root import make_gpu_root
from packaging.version import Version
from simulated import Simulate

pytestmark = pytest.mark.tensorflow

HAS_DRIVER = os.path.exists("/proc/driver/nvidia")
INSTALLED = {each.name: each.version for each in importlib.metadata.distributions()}
FINDS_ALL = "nvidia-cudnn-cu12" in INSTALLED and Version(INSTALLED.get("tensorflow", "0")) >= Version("2.22.0rc0")
without_driver = pytest.mark.skipif(HAS_DRIVER, reason="this machine has an NVIDIA driver of its own")
PROGRAM = ROOT / "doctor/collect/workers/run_tensorflow.py"


@pytest.fixture(scope="module", autouse=True)
def _tensorflow() -> None:
    skip_without_tensorflow()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], pathlib.Path]:
    """One full run on this machine, and its record."""
    record = tmp_path_factory.mktemp("record") / "facts.json"
    return diagnose("--record", str(record)), record


@without_driver
def test_a_machine_without_a_gpu(live: tuple[dict[str, object], pathlib.Path]) -> None:
    document, _ = live
    causes = document["causes"]
    assert isinstance(causes, list)
    assert [cause["label"] for cause in causes] == ["no_gpu_in_machine"]
    assert document["counts"]["crash"] == 0  # type: ignore[index]


@pytest.mark.slow
@without_driver
def test_it_ends_with_1_and_says_nothing_on_standard_error() -> None:
    done = run_doctor()
    assert done.returncode == 1
    assert done.stderr == ""


def test_the_record_replays_to_the_same_causes(live: tuple[dict[str, object], pathlib.Path]) -> None:
    document, record = live
    replayed = diagnose("--facts", str(record))
    assert replayed["causes"] == document["causes"]
    assert replayed["counts"] == document["counts"]
    assert replayed["target"] == document["target"]


def test_tensorflow_imports(live: tuple[dict[str, object], pathlib.Path]) -> None:
    results = {result["id"]: result for result in live[0]["results"]}  # type: ignore[attr-defined]
    assert results["TFW001"]["outcome"] == "pass"


def test_the_wheel_says_without_import_what_tensorflow_says(live: tuple[dict[str, object], pathlib.Path]) -> None:
    code = "import json, tensorflow as tf; print(json.dumps([tf.__version__, dict(tf.sysconfig.get_build_info())], default=str))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=clean_environment()
    )
    version, build = json.loads(done.stdout.splitlines()[-1])
    wheel = json.loads(live[1].read_bytes())["tensorflow"]
    assert Version(wheel["version"]) == Version(version)
    assert wheel["built_with_cuda"] == build["is_cuda_build"]
    # From 2.22 on the build names no versions: the requirements and the kernels do.
    assert wheel["cuda_version"] == build.get("cuda_version", "12")
    assert wheel["cudnn_version"] == build.get("cudnn_version", "9")
    assert wheel["compute_capabilities"] == build.get(
        "cuda_compute_capabilities", ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]
    )
    assert wheel["runpath"]


def test_the_computations_are_exact() -> None:
    """The program that computes on GPUs, on the CPU: both operations run, and their error is nought."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "CPU"], capture_output=True, text=True, check=True, env=clean_environment()
    )
    merged: dict[str, list[dict[str, object]]] = {}
    for line in done.stdout.splitlines():
        merged.update(json.loads(line))
    assert [row["operation"] for row in merged["computations"]] == ["matmul", "convolution"]
    for row in merged["computations"]:
        assert row["largest_error"] == 0
        assert "CPU:0" in str(row["placed_on"])


@pytest.mark.slow
def test_a_device_that_is_not_there_is_an_error_not_a_fallback() -> None:
    code = (
        "import sys, types; sys.argv = ['x', 'CPU']; sys.path.insert(0, ''); "
        f"source = open({str(PROGRAM)!r}).read().replace('__main__', 'never'); exec(source); "
        "import tensorflow as tf; tf.config.set_soft_device_placement(False); print(compute(tf, 'matmul', '/GPU:7'), file=ANSWER); ANSWER.flush()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=clean_environment(), check=False
    )
    assert "'error'" in done.stdout, done.stderr[-500:]
    assert "largest_error" not in done.stdout


@without_driver
@pytest.mark.skipif(FINDS_ALL, reason="from 2.22 on TensorFlow finds all CUDA libraries that pip installed beside it")
def test_a_healthy_driver_without_the_cuda_libraries(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    root = make_gpu_root(tmp_path)
    document = diagnose("--root", str(root), environment=simulate())
    assert document["causes"][0]["label"] in (
        "pip_without_and_cuda_extra",
        "cuda_toolkit_wrong_major",
        "pip_cuda_libs_not_found",
    )
    assert len(document["causes"]) == 1
    assert "libcudart.so" in " ".join(document["causes"][0]["evidence"]) or "pip's copy" in " ".join(
        document["causes"][0]["evidence"]
    )


@without_driver
@pytest.mark.parametrize(
    ("code", "label"),
    [
        ("999", "undetermined"),
        ("802", "fabric_manager_not_running"),
        ("803", "driver_library_version_mismatch"),
        ("46", "exclusive_compute_mode"),
    ],
)
def test_codes_of_cuinit(tmp_path: pathlib.Path, simulate: Simulate, code: str, label: str) -> None:
    root = make_gpu_root(tmp_path)
    document = diagnose("--root", str(root), "--quick", environment=simulate(faults={"cuInit": int(code)}))
    assert document["causes"][0]["label"] == label


@without_driver
def test_a_hidden_gpu(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    root = make_gpu_root(tmp_path)
    document = diagnose("--root", str(root), "--quick", CUDA_VISIBLE_DEVICES="-1", environment=simulate())
    assert "cuda_visible_devices_hides_gpu" in [cause["label"] for cause in document["causes"]]


@without_driver
@pytest.mark.parametrize("name", ["tensorflow.py", "inspect.py"])
def test_a_file_of_ones_own_in_the_way(tmp_path: pathlib.Path, simulate: Simulate, name: str) -> None:
    root, project = make_gpu_root(tmp_path / "root"), tmp_path / "project"
    project.mkdir()
    (project / name).write_text("raise ImportError('this is no library')\n")
    document = diagnose("--root", str(root), cwd=project, environment=simulate())
    assert document["causes"][0]["label"] == "local_module_shadows_tensorflow"
    assert str(project / name) in document["causes"][0]["title"]


@without_driver
def test_a_folder_in_pythonpath_that_is_in_the_way(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    root, mine = make_gpu_root(tmp_path / "root"), tmp_path / "mine"
    (mine / "tensorflow").mkdir(parents=True)
    (mine / "tensorflow/__init__.py").write_text("raise ImportError('half of an installation')\n")
    paths = os.pathsep.join([str(mine), *filter(None, [os.environ.get("PYTHONPATH")])])
    document = diagnose("--root", str(root), PYTHONPATH=paths, environment=simulate())
    assert document["causes"][0]["label"] == "local_module_shadows_tensorflow"
    assert str(mine) in document["causes"][0]["title"]


def test_quick_imports_no_tensorflow(tmp_path: pathlib.Path) -> None:
    """A tensorflow that would leave a mark is in the way, and leaves none."""
    mark = tmp_path / "mark"
    (tmp_path / "tensorflow.py").write_text(f"open({str(mark)!r}, 'w')\n")
    diagnose("--quick", cwd=tmp_path)
    assert not mark.exists()
