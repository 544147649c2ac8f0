"""`tfgpu-doctor log`, as a user runs it."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest
from doctor_command import clean_environment, doctor_argv, run_doctor

STUB = "E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:152] failed call to cuInit: UNKNOWN ERROR (34)\n"


def test_a_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.log").write_text("epoch 1\n" + STUB)
    done = run_doctor("log", str(tmp_path / "train.log"))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(
        "✗ the container was started without the GPU\n  container_started_without_gpu, confidence"
    )
    assert "line 2: E external/local_xla" in done.stdout
    assert "--gpus all" in done.stdout


def test_standard_input_as_json() -> None:
    done = run_doctor("log", "-", "--format", "json", "--given", "tensorflow=2.18", "--given", "os=Debian", stdin=STUB)
    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    assert document["schema"] == 2
    assert document["lines"] == 1
    assert document["context"] == {"tensorflow": "2.18", "os": "Debian"}
    assert document["causes"][0]["label"] == "container_started_without_gpu"
    assert document["causes"][0]["lines"] == [1]
    assert document["noise"] == []


@pytest.mark.parametrize("log", ["", "\n \r\n"])
def test_an_empty_log(log: str) -> None:
    done = run_doctor("log", "-", stdin=log)
    assert (done.returncode, done.stderr, done.stdout) == (3, "", "The log is empty: there is nothing to judge.\n")
    document = json.loads(run_doctor("log", "-", "--format", "json", stdin=log).stdout)
    assert (document["empty"], document["causes"]) == (True, [])


def test_a_log_without_a_cause() -> None:
    done = run_doctor("log", "-", stdin="all is well\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("No cause found in")


def test_noise_is_no_finding() -> None:
    done = run_doctor("log", "-", stdin="TF-TRT Warning: Could not find TensorRT\n")
    assert done.returncode == 0
    assert done.stdout.startswith("· nothing is wrong")
    assert "Harmless by themselves:\n  line 1:" in done.stdout


def test_two_troubles_are_two_and_what_one_may_be_instead_is_no_second() -> None:
    done = run_doctor("log", "-", stdin="CUDA_ERROR_UNKNOWN: unknown error\nNVRM: Xid (PCI:0000:01:00): 48, pid=1\n")
    assert done.stdout.count("✗ ") == 2
    assert done.stdout.count("? alternatively: ") == 1


def test_into_a_file(tmp_path: pathlib.Path) -> None:
    done = run_doctor("log", "-", "--format", "json", "-o", str(tmp_path / "out.json"), stdin=STUB)
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads((tmp_path / "out.json").read_text())["causes"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["/nowhere/train.log"], "/nowhere/train.log cannot be read: No such file"),
        (["/"], "/ cannot be read: Is a directory"),
        (["-", "--given", "tensorflow"], "--given requires KEY=VALUE"),
        (["-", "--given", "colour=red"], "got 'colour=red'"),
        ([], "Missing argument 'FILE|-'"),
    ],
)
def test_wrong_usage(arguments: list[str], why: str) -> None:
    done = run_doctor("log", *arguments, stdin="")
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away() -> None:
    with subprocess.Popen(
        doctor_argv("log", "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=clean_environment(),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(STUB)
        process.stdin.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == ""


def test_hostile_lines_change_nothing_outside_their_own() -> None:
    hostile = (
        "\x1b]0;owned\x07\x1b[2J\u202e<script>alert(1)</script> failed call to cuInit: UNKNOWN ERROR (34)\x1b[31m\n"
    )
    done = run_doctor("log", "-", stdin=hostile)
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert "\x07" not in done.stdout
