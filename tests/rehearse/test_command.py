"""`tfgpu-doctor rehearse` as a user runs it, on a target whose TensorFlow is made up and asks the driver itself."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import zipfile
from typing import Any

import jsonschema
import pytest
from doctor_command import NOT_INSTALLED, clean_environment, doctor_argv, make_target, run_doctor, with_more_time
from locations import RECORDS, ROOT
from made_up_root import make_gpu_root
from simulated import Simulate, machine

SCHEMA = json.loads((ROOT / "doctor/rehearse/rehearsal.schema.json").read_text())
# It lists what cuInit gives, and sets memory growth unless it is told not to.
TENSORFLOW = """
import ctypes, os, types
__version__ = "2.20.0"

class Device:
    def __init__(self, place):
        self.name = "/physical_device:GPU:%d" % place

def list_physical_devices(kind):
    try:
        cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    if cuda.cuInit(0):
        return []
    cuda.cuDeviceGetCount(ctypes.byref(count))
    return [Device(place) for place in range(count.value)]

def set_memory_growth(device, on):
    if os.environ.get("TF_REFUSES_GROWTH"):
        raise ValueError("Physical devices cannot be modified after being initialized")
    device.growth = on

experimental = types.SimpleNamespace(
    get_device_details=lambda device: {"device_name": "a GPU", "compute_capability": (8, 6)},
    get_memory_growth=lambda device: getattr(device, "growth", None),
    set_memory_growth=set_memory_growth,
)
config = types.SimpleNamespace(list_physical_devices=list_physical_devices, experimental=experimental)
"""


@pytest.fixture(scope="module")
def cache(driver_folder: pathlib.Path) -> str:
    """The cache folder in which the driver is built already."""
    return str(driver_folder.parents[1])


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make_target(tmp_path_factory.mktemp("target") / "venv", TENSORFLOW)


def rehearse(target: pathlib.Path, cache: str, *options: str, code: int = 0, **variables: str) -> dict[str, Any]:
    done = run_doctor(
        "rehearse", "--python", str(target), "--format", "json", *options, XDG_CACHE_HOME=cache, environment=variables
    )
    assert done.stderr == ""
    document: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert done.returncode == code, document["causes"]
    return document


def in_file(folder: pathlib.Path, document: dict[str, Any]) -> str:
    place = folder / "machine.json"
    place.write_text(json.dumps(document))
    return str(place)


def test_gpus_are_registered(target: pathlib.Path, cache: str) -> None:
    document = rehearse(target, cache, "--gpu", "rtx 4090", "--count", "3", "--driver", "535.54.03")
    assert (document["registered"], document["expected"], document["healthy"]) == (3, 3, True)
    assert (document["simulated"], document["computes"]) == (True, None)  # no record of a machine on which it computes
    assert (document["cuda"], document["machine"]["driver"]) == ("12.2", "535.54.03")
    assert document["machine"]["gpus"] == ["NVIDIA GeForce RTX 4090"] * 3
    skipped = {each["id"]: each["reason"] for each in document["results"] if each["outcome"] == "skip"}
    assert skipped["GPU004"] == skipped["GPU005"] == "a simulated driver cannot run kernels"


def test_check_computes_nothing_on_a_simulated_driver_either(
    target: pathlib.Path, tmp_path: pathlib.Path, simulate: Simulate
) -> None:
    done = run_doctor(
        "check",
        "--python",
        str(target),
        "--root",
        str(make_gpu_root(tmp_path / "root")),
        "--format",
        "json",
        environment=simulate(),
    )
    document = json.loads(done.stdout)
    assert (document["healthy"], document["causes"], done.returncode) == (True, [], 0)
    skipped = {each["id"]: each["reason"] for each in document["results"] if each["outcome"] == "skip"}
    assert skipped["GPU004"] == "a simulated driver cannot run kernels"


def test_the_default_is_said(target: pathlib.Path, cache: str) -> None:
    done = run_doctor("rehearse", "--python", str(target), XDG_CACHE_HOME=cache)
    assert (done.returncode, done.stderr) == (0, "")
    assert "simulated: driver 610.43.02 (CUDA 13.3), 1 x NVIDIA H100 80GB HBM3" in done.stdout
    assert "✓ TensorFlow would register the GPU of such a machine." in done.stdout
    assert "the libraries load, the versions fit, the GPUs register, and memory growth can be set" in done.stdout
    assert "Cannot show   that kernels run" in done.stdout


@pytest.mark.parametrize(
    ("fields", "id"),
    [
        ({"faults": {"cuInit": 999}}, "DRV008"),
        ({"faults": {"cuInit": "crash"}}, "DRV008"),
        ({"faults": {"cuInit": "hang"}}, "DRV008"),
        ({"missing": ["libcuda.so.1"]}, "LIB001"),
        ({"missing": ["libnvidia-ml.so.1"]}, "LIB005"),
        ({"gpus": []}, "GPU001"),
    ],
)
def test_what_is_wrong_with_the_machine_is_named(
    target: pathlib.Path, cache: str, tmp_path: pathlib.Path, fields: dict[str, Any], id: str
) -> None:
    file = in_file(tmp_path, {**machine(), **fields})
    document = with_more_time(
        lambda deadline: rehearse(target, cache, "--machine", file, "--deadline", deadline, code=1),
        lambda document: document["causes"][0]["id"] == id,
        (5, 30),
    )
    assert (document["registered"], document["healthy"]) == (0, False)
    assert document["causes"][0]["id"] == id, document["causes"]


def test_gpus_that_are_hidden_are_not_registered(target: pathlib.Path, cache: str) -> None:
    document = rehearse(target, cache, "--count", "2", code=1, CUDA_VISIBLE_DEVICES="1")
    assert (document["registered"], document["expected"], document["healthy"]) == (1, 2, False)
    done = run_doctor(
        "rehearse", "--python", str(target), "--count", "2", XDG_CACHE_HOME=cache, CUDA_VISIBLE_DEVICES="1"
    )
    assert "✗ TensorFlow would register 1 of the 2 GPUs of such a machine." in done.stdout
    assert "VIS001: CUDA lists 1 GPU with CUDA_VISIBLE_DEVICES='1'" in done.stdout


def test_memory_growth_that_is_refused_is_no_success(target: pathlib.Path, cache: str) -> None:
    document = rehearse(target, cache, code=1, TF_REFUSES_GROWTH="1")
    assert (document["registered"], document["memory_growth_set"], document["healthy"]) == (1, False, False)


def test_without_tensorflow_that_is_the_cause(cache: str, tmp_path: pathlib.Path) -> None:
    document = rehearse(make_target(tmp_path / "venv", None), cache, code=1)
    assert document["causes"][0]["label"] == NOT_INSTALLED
    assert document["registered"] == 0


def test_a_tensorflow_that_hangs_is_ended(cache: str, tmp_path: pathlib.Path) -> None:
    hanging = make_target(tmp_path / "venv", "import time; time.sleep(3600)")
    document = rehearse(hanging, cache, "--deadline", "2", code=1)
    assert "did not respond within 2 s" in document["causes"][0]["title"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpu", "H900"], "'H900' is not a GPU that the doctor knows; similar names: NVIDIA H800"),
        (["--gpu", "GTX 560 Ti"], "a file for --machine can describe any other GPU"),
        (["--gpu", "rtx"], "'rtx' matches several GPUs"),
        (["--driver", "550"], "driver: it must have the form 550.54.15"),
        (["--count", "0"], "0 is not in the range"),
        (["--count", "65"], "65 is not in the range"),
        (["--machine", "x.json", "--gpu", "H100"], "--machine describes the whole machine"),
        (["--machine", "/nowhere.json"], "/nowhere.json cannot be read: No such file or directory"),
        (["--machine", "/"], "/ cannot be read: Is a directory"),
        (["--format", "xml"], "'xml' is not one of"),
    ],
)
def test_wrong_usage_is_refused_in_one_line(options: list[str], words: str) -> None:
    done = run_doctor("rehearse", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_the_machine_of_a_ticket_is_simulated(target: pathlib.Path, cache: str, tmp_path: pathlib.Path) -> None:
    """And one that an editor saved with a mark; a GPU that the record does not name has words of its own."""
    record = str(RECORDS["one-of-8-gpus-is-lost"])
    ticket, marked = tmp_path / "ticket.zip", tmp_path / "record.json"
    run_doctor("ticket", "--facts", record, "-o", str(ticket))
    marked.write_text(pathlib.Path(record).read_text(), "utf-8-sig")
    for file in (ticket, marked):
        done = run_doctor("rehearse", "--python", str(target), "--machine", str(file), XDG_CACHE_HOME=cache)
        assert done.stderr == ""
        head = " ".join(done.stdout.partition("\n\n")[0].split())
        assert head.endswith("7 x NVIDIA H100 80GB HBM3, 1 x GPU of an unknown model")


def test_a_zip_that_is_no_ticket_is_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "other.zip"
    with zipfile.ZipFile(file, "w") as bundle:
        bundle.writestr("notes.txt", "nothing")
    done = run_doctor("rehearse", "--machine", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{file}: it contains no facts.json: it is not a ticket of tfgpu-doctor" in done.stderr


def test_a_file_that_is_wrong_is_refused_with_its_name(tmp_path: pathlib.Path) -> None:
    file = in_file(tmp_path, {"gpus": [{"name": "T4", "cuont": 2}]})
    done = run_doctor("rehearse", "--machine", file)
    assert done.returncode == 2
    assert done.stderr == f"tfgpu-doctor: error: {file}: gpus[0]: Object contains unknown field `cuont`\n"


def test_what_cannot_be_built_judges_nothing(target: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_doctor("rehearse", "--python", str(target), XDG_CACHE_HOME=str(tmp_path / "file"))
    assert (done.returncode, done.stdout) == (3, "")
    assert "cannot be written" in done.stderr
    assert done.stderr.count("\n") == 1
    done = run_doctor("rehearse", "--python", str(target), "--format", "json", XDG_CACHE_HOME=str(tmp_path / "file"))
    document = json.loads(done.stdout)
    assert done.returncode == 3
    assert (document["schema"], document["simulated"], document["judged"]) == (1, True, False)
    assert done.stderr == f"tfgpu-doctor: error: {document['reason']}\n"


def test_nothing_stays_behind(target: pathlib.Path, cache: str, tmp_path: pathlib.Path) -> None:
    rehearse(target, cache, TMPDIR=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said(target: pathlib.Path, cache: str, tmp_path: pathlib.Path) -> None:
    if os.access("/dev/full", os.W_OK):
        done = run_doctor("rehearse", "--python", str(target), "-o", "/dev/full", XDG_CACHE_HOME=cache)
        assert done.returncode == 2
        assert "cannot be written" in done.stderr.splitlines()[0]
        assert "TensorFlow " in done.stderr  # the report is not lost


def test_the_report_goes_to_a_file(target: pathlib.Path, cache: str, tmp_path: pathlib.Path) -> None:
    done = run_doctor(
        "rehearse", "--python", str(target), "--format", "json", "-o", str(tmp_path / "x"), XDG_CACHE_HOME=cache
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads((tmp_path / "x").read_text())["registered"] == 1


def test_interrupted_it_says_what_is_known(cache: str, tmp_path: pathlib.Path) -> None:
    mark = tmp_path / "mark"
    hanging = make_target(tmp_path / "venv", f"open({str(mark)!r}, 'w'); import time; time.sleep(3600)")
    process = subprocess.Popen(
        doctor_argv("rehearse", "--python", str(hanging)), env=clean_environment(XDG_CACHE_HOME=cache, TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not mark.exists():
        assert process.poll() is None
    process.terminate()
    output, _ = process.communicate(timeout=150)
    assert process.returncode == 130
    assert "Interrupted" in output
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mark", "venv"]
