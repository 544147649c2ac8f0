"""`tfgpu-doctor advise` and `tfgpu-doctor matrix` as a user runs them."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import msgspec
import pytest
from doctor_command import make_target, run_doctor
from healthy import distribution, target
from locations import RECORDS

from tfgpu_doctor.advise import command
from tfgpu_doctor.cli.main import run
from tfgpu_doctor.model.facts import Facts, decode_facts
from tfgpu_doctor.model.facts.machine import Environment

A100 = ("--gpu", "A100", "--driver", "470.57.02", "--python", "3.10")


def document(*arguments: str, code: int = 0) -> dict[str, Any]:
    done = run_doctor(*arguments, "--format", "json")
    assert (done.returncode, done.stderr) == (code, "")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_advise_as_text() -> None:
    done = run_doctor("advise", *A100)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("NVIDIA A100-SXM4-80GB (compute capability 8.0) · driver 470.57.02 · Python 3.10")
    assert "\nTensorFlow 2.14.1: machine code for this GPU, CUDA 11.8" in done.stdout
    assert "  • 2.15.0 to 2.21.0: requires driver 525.60.13 or newer for CUDA 12, this is 470.57.02\n" in done.stdout
    assert "  • driver 525.60.13 or newer: TensorFlow 2.21.0\n" in done.stdout
    assert "    uv venv --seed --python 3.10 tensorflow-gpu\n" in done.stdout


def test_advise_names_each_release_where_that_is_asked() -> None:
    done = run_doctor("advise", *A100, "-v")
    assert "  • 2.16.1: requires driver 525.60.13" in done.stdout
    assert " to 2.21.0:" not in done.stdout


def test_advise_as_json() -> None:
    found = document("advise", *A100)
    assert (found["schema"], found["release"], found["kernels"]) == (2, "2.14.1", "native")
    assert found["target"]["gpu"] == {"name": "NVIDIA A100-SXM4-80GB", "compute_capability": "8.0"}
    assert found["newer"][0]["reasons"] == [
        {
            "kind": "driver",
            "text": "requires driver 525.60.13 or newer for CUDA 12, this is 470.57.02",
            "needs": "525.60.13",
        }
    ]
    driver, package = found["lifts"]
    assert (driver["change"], driver["release"]) == ("driver 525.60.13 or newer", "2.21.0")
    assert "[and-cuda]==2.21.0" in driver["commands"][1]
    assert package["change"] == "the package cuda-compat-12-5 in addition to driver 470.57.02 (forward compatibility)"
    assert package["release"] == "2.21.0"


def test_advise_says_that_nothing_works() -> None:
    found = document("advise", "--gpu", "rtx 5090", code=1)
    assert found["release"] is None
    assert found["commands"] == []
    assert found["alternatives"][0]["commands"][0].startswith("docker run ")
    assert run_doctor("advise", "--gpu", "rtx 5090").stdout.count("https://") > 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--gpu", "voodoo 2"), "voodoo 2"),
        (("--driver", "new"), "550.54.15"),
        (("--gpu", "a100", "--python", "three"), "use the form 3.12"),
        (("--glibc", "x"), "2.31"),
        (("--os", "beos"), "beos"),
    ],
)
@pytest.mark.parametrize("command", ["advise", "matrix"])
def test_what_makes_no_sense_is_refused(command: str, arguments: tuple[str, ...], told: str) -> None:
    done = run_doctor(command, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["advise", "matrix"])
def test_a_python_beside_a_described_machine_is_asked_for_its_version(command: str, tmp_path: pathlib.Path) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for python in (sys.executable, str(make_target(tmp_path / command, None))):
        asked = run_doctor(command, "--gpu", "L4", "--python", python)
        given = run_doctor(command, "--gpu", "L4", "--python", version)
        assert (asked.returncode, asked.stdout) == (given.returncode, given.stdout)
    done = run_doctor(command, "--gpu", "L4", "--python", str(tmp_path / "nope"))
    assert done.returncode == 2
    assert "is neither a Python version (use the form 3.12) nor an interpreter or a virtual environment" in done.stderr


def test_the_commands_of_a_change_are_shown_where_nothing_works_without_it() -> None:
    done = run_doctor("advise", "--gpu", "L4", "--python", "3.14")
    assert done.returncode == 1
    assert (
        "  • Python 3.10 to 3.13: TensorFlow 2.21.0\n      uv venv --seed --python 3.13 tensorflow-gpu\n" in done.stdout
    )
    assert "uv (https://docs.astral.sh/uv) creates the environment" in done.stdout


def test_a_compute_capability_stands_for_a_gpu() -> None:
    assert document("advise", "--gpu", "5.2")["release"] == "2.16.2"


@pytest.mark.parametrize("name", ["Jetson Nano", "jetson agx orin"])
def test_a_jetson_is_known_by_its_name(name: str) -> None:
    found = document("advise", "--gpu", name, code=1)
    assert found["target"]["architecture"] == "aarch64"
    assert "JetPack" in found["alternatives"][0]["text"]


@pytest.mark.parametrize("name", ["GH200", "GH200 144GB", "GB200", "gb300", "GB200 NVL72", "GB10", "DGX Spark"])
def test_a_machine_with_nvidias_cpu_is_an_arm_machine(name: str) -> None:
    found = document("advise", "--gpu", name, code=1)
    assert (found["target"]["architecture"], found["release"]) == ("aarch64", None)
    assert found["alternatives"]


def test_the_usual_architecture_is_that_of_no_other_gpu() -> None:
    assert document("advise", "--gpu", "GH200", "--architecture", "x86_64")["target"]["architecture"] == "x86_64"
    name = "NVIDIA Corporation GH100 [H100 PCIe]"
    assert document("advise", "--gpu", name)["target"]["architecture"] == "x86_64"
    assert document("advise", "--gpu", "GB202 [GeForce RTX 5090]", code=1)["target"]["architecture"] == "x86_64"


@pytest.mark.parametrize("name", ["Orin NX", "Orin Nano", "Xavier NX", "DRIVE Orin"])
def test_a_board_needs_no_word_for_its_family(name: str) -> None:
    found = document("advise", "--gpu", name, code=1)
    assert [("JetPack" in way["text"], way["commands"]) for way in found["alternatives"]] == [(True, [])]


def test_a_system_without_glibc_has_none() -> None:
    assert document("advise", "--os", "windows", "--glibc", "2.17")["target"]["glibc"] is None
    assert document("advise", "--os", "wsl", "--glibc", "2.17")["target"]["glibc"] == "2.17"


@pytest.mark.parametrize("name", ["Apple M1", "GeForce GTX 1080 eGPU"])
def test_on_a_mac_no_name_of_a_gpu_matters(name: str) -> None:
    found = document("advise", "--gpu", name, "--os", "macos", code=1)
    assert (found["target"]["gpu"], found["target"]["architecture"]) == (None, "arm64")
    assert "tensorflow-metal" in found["alternatives"][0]["commands"][1]


def test_the_last_branch_of_drivers_is_in_the_document() -> None:
    assert document("advise", "--gpu", "K80")["last_driver_branch"] == "470"
    assert document("advise", "--gpu", "L4")["last_driver_branch"] is None


def test_a_python_that_is_not_there_is_refused_without_a_gpu_too(tmp_path: pathlib.Path) -> None:
    done = run_doctor("advise", "--python", str(tmp_path / "nope"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "nope is neither a Python version" in done.stderr


@pytest.mark.parametrize(
    ("name", "gpu", "release"),
    [
        ("cloud-vm-t4-healthy", "Tesla T4", "2.21.0"),
        ("maxwell-too-old", "NVIDIA GeForce GTX 980", "2.16.2"),
        ("blackwell-too-new", "NVIDIA GeForce RTX 5090", None),
    ],
)
def test_advise_for_this_machine(
    name: str, gpu: str, release: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = decode_facts(RECORDS[name].read_bytes())
    monkeypatch.setattr(command, "examine", lambda **options: facts)
    assert run(["advise", "--python", "3.12", "--format", "json"]) == (0 if release else 1)
    found = json.loads(capsys.readouterr().out)
    assert (found["target"]["gpu"]["name"], found["target"]["python"], found["release"]) == (gpu, "3.12", release)


OWN = target(
    executable="/home/user/.local/share/pipx/venvs/tfgpu-doctor/bin/python", version="3.14.2", is_of_one_tool=True,
    prefix="/home/user/.local/share/pipx/venvs/tfgpu-doctor", distributions=(distribution("tfgpu-doctor", "1.0.0"),),
)  # fmt: skip
HERS = target(executable="/home/user/venv/bin/python", prefix="/home/user/venv", version="3.9.7")


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, "uv venv --seed --python 3.13 tensorflow-gpu"),
        (
            {"VIRTUAL_ENV": "/home/user/venv"},
            "/home/user/venv/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0'",
        ),
    ],
)
def test_tensorflow_is_not_advised_for_the_doctors_own_environment(
    variables: dict[str, str], first: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = decode_facts(RECORDS["cloud-vm-t4-healthy"].read_bytes())
    here = msgspec.structs.replace(here, target=OWN, environment=Environment(variables=variables))
    asked = []

    def examine(*, python: str | None, **_: Any) -> Facts:
        asked.append(python)
        return msgspec.structs.replace(here, target=HERS) if python else here

    monkeypatch.setattr(command, "examine", examine)
    assert run(["advise", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["commands"][0] == first
    assert not any(OWN.executable in each for each in json.loads(out)["commands"])
    assert asked == [None, *variables.values()]
    assert ("the active environment /home/user/venv" in err) == bool(variables)


def test_the_active_environment_of_a_python_that_is_named_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = decode_facts(RECORDS["cloud-vm-t4-healthy"].read_bytes())
    monkeypatch.setattr(command, "examine", lambda **options: msgspec.structs.replace(here, target=OWN))
    assert run(["advise", "--python", "3.12", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["commands"][0] == "uv venv --seed --python 3.12 tensorflow-gpu"


@pytest.mark.parametrize(("name", "told"), [("wsl1", "WSL 2"), ("colab-without-gpu", "--gpu")])
def test_advise_names_no_release_where_no_gpu_is_known(
    name: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = decode_facts(RECORDS[name].read_bytes())
    monkeypatch.setattr(command, "examine", lambda **options: facts)
    assert run(["advise"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err


def test_matrix_as_text_and_markdown() -> None:
    text = run_doctor("matrix", "--python", "3.13").stdout.splitlines()
    assert text[0].split() == [
        "TensorFlow",
        "Python",
        "CUDA",
        "cuDNN",
        "driver",
        "compute",
        "capabilities",
        "glibc",
        "[and-cuda]",
    ]
    assert [line.split()[0] for line in text[2:]] == ["2.21.0", "2.20.0"]
    markdown = run_doctor("matrix", "--python", "3.13", "--format", "markdown").stdout.splitlines()
    assert len(markdown) == 4
    assert all(line.startswith("|") and line.endswith("|") for line in markdown)


def test_matrix_as_json() -> None:
    newest = document("matrix")["releases"][0]
    assert newest["tensorflow"] == "2.21.0"
    assert newest["python"] == ["3.10", "3.11", "3.12", "3.13"]
    assert (newest["cuda"], newest["cudnn"], newest["minimum_driver"]) == ("12.5.1", "9", "525.60.13")
    assert newest["compute_capabilities"] == ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]
    assert newest["kernels"] is None
    assert len(document("matrix")["releases"]) >= 52


def test_matrix_of_a_gpu_says_how_it_runs() -> None:
    kernels = {row["tensorflow"]: row["kernels"] for row in document("matrix", "--gpu", "H100")["releases"]}
    assert (kernels["2.21.0"], kernels["2.13.1"]) == ("native", "ptx")


def test_matrix_without_a_row() -> None:
    done = run_doctor("matrix", "--gpu", "rtx 5090", "--format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"schema": 1, "releases": []}
    assert "advise" in done.stderr


def test_the_document_goes_to_a_file(tmp_path: pathlib.Path) -> None:
    done = run_doctor("matrix", "--format", "json", "-o", str(tmp_path / "matrix.json"))
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads((tmp_path / "matrix.json").read_text())["schema"] == 1
