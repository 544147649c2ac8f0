"""`tfgpu-doctor accept` as a user runs it."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import jsonschema
import pytest
from doctor_command import clean_environment, doctor_argv, hear_interrupts, run_doctor
from installed import skip_without_scipy, skip_without_tensorflow
from judged import profile_of
from learnt_runs import recorded_at
from locations import RECORDS, ROOT
from simulated import machine, simulate_in

from tfgpu_doctor.accept.examine import Examiner
from tfgpu_doctor.accept.reading import read_profile
from tfgpu_doctor.accept.vocabulary import Vocabulary
from tfgpu_doctor.cli.configuration import Configuration

SCHEMA = ROOT / "doctor/accept/certificate.schema.json"
WITHOUT_GPU = "gpus = 0\n"


def facts_of(name: str) -> str:
    return str(RECORDS[name])


def accept(*words: str, cwd: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_doctor("accept", *words, cwd=cwd)


def refused(*words: str) -> str:
    """The one line with which the words are refused."""
    done = accept(*words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    return line


def test_the_shipped_profiles_are_listed() -> None:
    done = accept("profiles")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ci", "cluster-node", "server", "workstation"]


def test_a_good_machine_gets_a_certificate_and_a_bad_one_the_cause() -> None:
    good = accept("--profile", "ci", "--facts", facts_of("workstation-healthy"))
    assert (good.returncode, good.stderr) == (0, "")
    assert "✓ Accepted by the profile ci" in good.stdout
    bad = accept("--profile", "ci", "--facts", facts_of("ubuntu-without-driver"))
    assert (bad.returncode, bad.stderr) == (1, "")
    assert bad.stdout.count("✗ ") == 3  # the verdict, the cause, its row
    assert "no_nvidia_driver" in bad.stdout


def test_the_certificate_is_written_and_verified(tmp_path: pathlib.Path) -> None:
    (tmp_path / "key").write_bytes(os.urandom(32))
    written = accept(
        "--profile", "ci", "--facts", facts_of("workstation-healthy"), "--name", "node 7", "--key", "key", "-o", "c.json",
        "--html", "c.html", cwd=tmp_path,
    )  # fmt: skip
    assert written.returncode == 0
    jsonschema.validate(json.loads((tmp_path / "c.json").read_text()), json.loads(SCHEMA.read_text("utf-8")))
    for name in ("c.json", "c.html"):
        done = accept("verify", name, "--key", "key", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(
            f"{name}: intact: digest and seal are correct\nAccepted by the profile ci, issued 20"
        )
        path = tmp_path / name
        path.write_text(path.read_text("utf-8").replace("node 7", "node 8"), "utf-8")
        done = accept("verify", name, "--key", "key", cwd=tmp_path)
        assert done.returncode == 1
        assert done.stdout.startswith(f"{name}: CHANGED: ")


def test_a_form_that_goes_to_a_file_is_not_printed(tmp_path: pathlib.Path) -> None:
    done = accept(
        "--profile", "ci", "--facts", facts_of("workstation-healthy"), "--format", "junit", "-o", "c", cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "c").read_text("utf-8").startswith("<?xml")


def test_usage_that_cannot_be_meant_is_refused(tmp_path: pathlib.Path) -> None:
    facts = facts_of("workstation-healthy")
    (tmp_path / "short").write_text("secret")
    (tmp_path / "bad.toml").write_text("gpu = 1")
    assert "--profile NAME|FILE is missing" in refused()
    assert "there is no profile 'servr'; did you mean server?" in refused("--profile", "servr")
    assert "bad.toml: there is no key 'gpu'; did you mean gpus?" in refused("--profile", str(tmp_path / "bad.toml"))
    assert "do not combine it with" in refused("--profile", "ci", "--facts", facts, "--record", "x")
    assert "`tfgpu-doctor accept learn` takes several records" in refused(
        "--profile", "ci", "--facts", facts, "--facts", facts
    )
    assert "cannot be written: create the folder" in refused(
        "--profile", "ci", "--facts", facts, "-o", str(tmp_path / "gone/c.json")
    )
    assert "has 6 bytes, but a key needs at least 16" in refused("verify", facts, "--key", str(tmp_path / "short"))
    assert "cannot be read: No such file" in refused("verify", str(tmp_path / "gone"))
    assert "No such option" in accept("learn", "--html", "x").stderr
    assert "No such option" in accept("--profile", "ci", "--leave-out", "pipeline/fit").stderr
    assert "No such option" in accept("verify", facts, "--profile", "ci").stderr
    assert "there is no pipeline/nothing to leave out" in refused("learn", "--leave-out", "pipeline/nothing")
    assert "/dev/zero cannot be read: not a regular file" in refused("--profile", "/dev/zero")
    assert "is not a certificate of tfgpu-doctor: it is a different document" in refused("verify", facts)
    assert "short: " in refused("--profile", "ci", "--facts", str(tmp_path / "short"))


def test_several_records_are_learnt_from(tmp_path: pathlib.Path) -> None:
    words = recorded_at((1, 2, 3), tmp_path)
    done = accept("learn", "--profile", "ci", *words, "-o", "node.toml", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == "tfgpu-doctor: 0 bounds from 3 runs, in node.toml\n"
    profile = read_profile(str(tmp_path / "node.toml"), Vocabulary(())).profile
    assert (profile.gpus, profile.models) == (8, ("NVIDIA H100 80GB HBM3",))
    again = accept("--profile", "node.toml", "--facts", facts_of("dgx-8-gpus-healthy"), cwd=tmp_path)
    assert again.returncode == 0
    other = accept("--profile", "node.toml", "--facts", facts_of("workstation-healthy"), cwd=tmp_path)
    assert other.returncode == 1


def test_copies_of_one_recording_are_one_run(tmp_path: pathlib.Path) -> None:
    record = facts_of("dgx-8-gpus-healthy")
    same = [word for _ in range(3) for word in ("--facts", record)]
    done = accept("learn", "--profile", "ci", *same, "-o", "node.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout, os.listdir(tmp_path)) == (1, "", [])
    assert done.stderr.splitlines() == [
        f"tfgpu-doctor: {record} was given 3 times: it counts as one run",
        "tfgpu-doctor: no profile was learned: 3 to 20 runs are required; there is 1",
    ]
    done = accept("learn", "--profile", "ci", *recorded_at((1, 2, 1, 1, 3), tmp_path), cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "tfgpu-doctor: run0.json, run2.json and run3.json are one recording: they count as one run",
        "tfgpu-doctor: 0 bounds from 3 runs",
    ]


def test_nothing_is_learnt_from_a_machine_with_an_error(tmp_path: pathlib.Path) -> None:
    words = [word for _ in range(3) for word in ("--facts", facts_of("ubuntu-without-driver"))]
    done = accept("learn", "--profile", "ci", *words, "-o", "node.toml", cwd=tmp_path)
    assert done.returncode == 1
    assert "no profile was learned: the profile ci does not accept the machine" in done.stderr
    assert os.listdir(tmp_path) == []


# Files


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


@pytest.mark.parametrize(
    "words", [("-o", "new"), ("--html", "new"), ("-o", "kept"), ("--format", "junit", "-o", "kept")]
)
def test_a_full_disk_leaves_no_half_file(words: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """A file may not grow beyond 100 bytes there: as on a full disk, the first bytes are written, and then no more."""
    (tmp_path / "kept").write_text("as it was")
    done = subprocess.run(
        doctor_argv("accept", "--profile", "ci", "--facts", facts_of("workstation-healthy"), *words), capture_output=True,
        text=True, env=clean_environment(PYTHONDONTWRITEBYTECODE="1"), cwd=tmp_path, preexec_fn=_small_files, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == ["kept"]
    assert (tmp_path / "kept").read_text() == "as it was"


def test_a_folder_that_cannot_be_written_is_told() -> None:
    line = refused(
        "--profile", "ci", "--facts", facts_of("workstation-healthy"), "--format", "json", "-o", "/proc/self/c.json"
    )
    assert "cannot be written" in line


# For real


def interrupted(folder: pathlib.Path, *words: str) -> tuple[int, str, str]:
    """How the command ends on Ctrl-C while it examines this machine, with a TensorFlow whose import takes a minute."""
    (folder / "tensorflow").mkdir()
    (folder / "tensorflow/__init__.py").write_text("import time\nopen('began', 'w').close()\ntime.sleep(60)\n")
    child = subprocess.Popen(
        doctor_argv("accept", *words), cwd=folder, env=clean_environment(PYTHONPATH=str(folder)), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=hear_interrupts,
    )  # fmt: skip
    for _ in range(600):
        if (folder / "began").exists() or child.poll() is not None:
            break
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    return child.returncode, out, err


@pytest.mark.slow
def test_ctrl_c_leaves_no_half_file_and_ends_with_130(tmp_path: pathlib.Path) -> None:
    words = ("--profile", "ci", "-o", "c.json", "--html", "c.html", "--record", "r.json")
    code, out, err = interrupted(tmp_path, *words)
    assert code == 130, err
    assert "Interrupted: not judged by the profile ci" in out
    assert "interrupted: the machine is not accepted" in err
    assert sorted(os.listdir(tmp_path)) == ["began", "c.html", "c.json", "tensorflow"]
    assert json.loads((tmp_path / "c.json").read_text())["verdict"] == "interrupted"
    done = accept("verify", "c.html", cwd=tmp_path)
    assert done.returncode == 1
    assert "c.html: intact" in done.stdout


@pytest.fixture
def hearing() -> Iterator[None]:
    """Ctrl-C is heard, though the tests may run deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hearing")
def test_an_examination_that_was_interrupted_is_marked_as_such(tmp_path: pathlib.Path) -> None:
    """The Python to examine sends the signal itself, once, as soon as the examination runs it."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nmkdir "{tmp_path}/once" 2>/dev/null && kill -INT $PPID\nexec sleep 60\n')
    python.chmod(0o755)
    profile = profile_of('level = "quick"', tmp_path).profile
    examined = Examiner(profile, settings=Configuration(python=str(python))).examine()
    assert (examined.interrupted, examined.facts.unknown["target"]) == (True, "interrupted")
    assert 0 < examined.seconds < 60


@pytest.mark.slow
def test_ctrl_c_while_learning_writes_no_profile(tmp_path: pathlib.Path) -> None:
    code, _, err = interrupted(tmp_path, "learn", "--profile", "ci", "-o", "learnt.toml")
    assert (code, sorted(os.listdir(tmp_path))) == (130, ["began", "tensorflow"])
    assert err.endswith("tfgpu-doctor: no profile was learned: interrupted\n")


@pytest.mark.slow
def test_a_simulated_driver_is_told_from_a_real_one(driver_folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.toml").write_text('level = "quick"')
    variables = simulate_in(tmp_path / "machine", driver_folder, machine())
    done = run_doctor("accept", "--profile", "mine.toml", "--format", "json", cwd=tmp_path, environment=variables)
    rows = {row["key"]: row for row in json.loads(done.stdout)["requirements"]}
    assert done.returncode == 1
    assert rows["gpus"]["measured"] == "1: NVIDIA GeForce RTX 3090"
    goal = rows["goal.DRV008"]
    assert (goal["outcome"], goal["reason"]) == ("not measured", "the GPUs and their driver are simulated")


def needs_tensorflow() -> None:
    skip_without_tensorflow()
    skip_without_scipy()
    if os.path.exists("/proc/driver/nvidia/version"):
        pytest.skip("this machine has a GPU; what is tested is one without")


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_machine_without_a_gpu_gets_one_cause() -> None:
    needs_tensorflow()
    done = accept("--profile", "workstation", "--format", "json")
    document = json.loads(done.stdout)
    assert done.returncode == 1
    (missed,) = [row for row in document["requirements"] if row["outcome"] in ("missed", "not measured")]
    assert missed["key"].startswith("checks.")
    assert {key for row in document["requirements"] for key in row["explained_by"]} == {missed["key"]}


@pytest.mark.tensorflow
@pytest.mark.slow
def test_suites_are_run_for_real_and_the_record_is_judged_alike(tmp_path: pathlib.Path) -> None:
    needs_tensorflow()
    (tmp_path / "mine.toml").write_text(
        f'{WITHOUT_GPU}suites = ["graph_execution"]\nbudget = "40s"\n[speed-ups]\n"graph_execution/function" = 0.001\n'
    )
    done = accept("--profile", "mine.toml", "-o", "c.json", "--record", "r.json", cwd=tmp_path)
    first = json.loads((tmp_path / "c.json").read_text())
    rows = {row["key"]: row for row in first["requirements"]}
    comparison = rows["speed-ups.graph_execution/function"]
    assert [f"{key}: {row}" for key, row in rows.items() if row["outcome"] == "missed"] == []
    if unmeasured := [f"{key}: {row['reason']}" for key, row in rows.items() if row["outcome"] == "not measured"]:
        pytest.skip(f"this machine is too busy to measure all: {'; '.join(unmeasured)}")
    assert done.returncode == 0, done.stdout
    assert "95 %:" in comparison["measured"]
    again = accept("--profile", "mine.toml", "--facts", "r.json", "-o", "again.json", cwd=tmp_path)
    second = json.loads((tmp_path / "again.json").read_text())
    assert again.returncode == 0
    assert second["requirements"] == first["requirements"]
    digest = hashlib.sha256((tmp_path / "r.json").read_bytes()).hexdigest()
    assert first["facts"] == second["facts"] == f"sha256:{digest}"


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_profile_is_learnt_for_real(tmp_path: pathlib.Path) -> None:
    needs_tensorflow()
    (tmp_path / "base.toml").write_text(WITHOUT_GPU)
    done = accept("learn", "--runs", "3", "--profile", "base.toml", "-o", "learnt.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "run " in line] == [
        f"tfgpu-doctor: run {n} of 3" for n in (1, 2, 3)
    ]
    assert 'extends = "base.toml"' in (tmp_path / "learnt.toml").read_text()
    assert accept("--profile", "learnt.toml", cwd=tmp_path).returncode == 0


def test_what_the_suites_need_is_asked_for_first(tmp_path: pathlib.Path) -> None:
    """Before anything is examined: a Python that is not the doctor's own cannot run them."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    line = refused("--profile", "workstation", "--python", str(tmp_path / "venv"))
    assert "the suites device_placement run in the doctor's own Python" in line


def test_an_empty_name_of_a_profile_is_refused() -> None:
    """As an unset variable in CI gives it: it must not judge by another profile."""
    for arguments in (("accept", "--profile", ""), ("fleet", "node", "--out", ".", "--profile", "")):
        done = run_doctor(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert "is empty (an unset variable?)" in done.stderr
