"""What the doctor looks at is broken, for real: it still says what is so, in one document and without a traceback."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from typing import Any

import pytest
from doctor_command import (
    NOT_INSTALLED,
    clean_environment,
    diagnose,
    doctor_argv,
    hear_interrupts,
    make_target,
    run_doctor,
    with_more_time,
)
from made_up_root import make_gpu_root
from simulated import Simulate

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and process groups are POSIX's")

DIES = "import os, signal; os.kill(os.getpid(), signal.{})"
HANGS = "import time; time.sleep(3600)"


def test_no_tensorflow(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    target = make_target(tmp_path / "venv", None)
    document = diagnose("--python", str(target), environment=simulate())
    assert document["causes"][0]["label"] == NOT_INSTALLED
    assert document["target"]["tensorflow"] == ""


def test_tensorflow_that_raises(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    target = make_target(tmp_path / "venv", "raise ImportError('the library libfoo.so is missing')")
    document = diagnose("--python", str(target), environment=simulate())
    assert document["causes"][0]["id"] == "TFW001"
    assert "libfoo.so is missing" in document["causes"][0]["title"]


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGILL", "SIGABRT"])
def test_tensorflow_that_dies_of_a_signal(tmp_path: pathlib.Path, simulate: Simulate, name: str) -> None:
    target = make_target(tmp_path / "venv", DIES.format(name))
    document = diagnose("--python", str(target), environment=simulate())
    assert document["causes"][0]["id"] == "TFW001"
    assert f"was killed by {name}" in document["causes"][0]["title"]


def test_tensorflow_that_hangs(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    target = make_target(tmp_path / "venv", HANGS)
    variables = simulate()
    document = with_more_time(
        lambda deadline: diagnose("--python", str(target), "--deadline", deadline, environment=variables),
        lambda document: document["causes"][0]["id"] == "TFW001",
        (3, 20, 60),
    )
    assert document["causes"][0]["id"] == "TFW001"
    assert "did not respond within" in document["causes"][0]["title"]


def test_tensorflow_that_exits(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    target = make_target(tmp_path / "venv", "import sys; print('noise'); sys.exit(7)")
    document = diagnose("--python", str(target), environment=simulate())
    assert document["causes"][0]["id"] == "TFW001"
    assert "SystemExit" in document["causes"][0]["title"]


def test_tensorflow_that_is_no_tensorflow(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    target = make_target(tmp_path / "venv", "")
    document = diagnose("--python", str(target), environment=simulate())
    assert document["healthy"] is False
    assert document["counts"]["crash"] == 0


def test_python_that_is_missing(tmp_path: pathlib.Path) -> None:
    document = diagnose("--python", str(tmp_path / "nothing/bin/python"))
    assert document["causes"][0]["label"] == "wrong_python_environment"
    assert "No such file" in document["causes"][0]["title"]


def test_python_that_is_not_executable(tmp_path: pathlib.Path) -> None:
    python = tmp_path / "python"
    python.write_text("no program")
    document = diagnose("--python", str(python))
    assert document["causes"][0]["id"] == "PKG001"


def test_python_that_says_nonsense(tmp_path: pathlib.Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho nonsense\n")
    python.chmod(0o755)
    document = diagnose("--python", str(python))
    assert document["causes"][0]["id"] == "PKG001"


def test_python_that_hangs(tmp_path: pathlib.Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 3600\n")
    python.chmod(0o755)
    document = diagnose("--python", str(python), "--deadline", "2")
    assert document["causes"][0]["id"] == "PKG001"
    assert "did not respond within" in document["causes"][0]["title"]


def test_hanging_driver(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    root, target = make_gpu_root(tmp_path / "root"), make_target(tmp_path / "venv", None)
    variables = simulate(faults={"cuInit": "hang", "nvmlInit": "hang"})
    document = with_more_time(
        lambda deadline: diagnose(
            "--root", str(root), "--python", str(target), "--quick", "--deadline", deadline, environment=variables
        ),
        lambda document: any(cause["id"] == "DRV008" and "'cuInit'" in cause["title"] for cause in document["causes"]),
        (4, 20, 60),  # the first is long enough for one GPU to start
    )
    hung = next(cause for cause in document["causes"] if cause["id"] == "DRV008")
    assert hung["label"] == "gpu_hang"
    assert re.search(r"did not respond within \d+ s during 'cuInit'", hung["title"])


def test_crashing_driver(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    root, target = make_gpu_root(tmp_path / "root"), make_target(tmp_path / "venv", None)
    variables = simulate(faults={"cuInit": "crash"})
    document = diagnose("--root", str(root), "--python", str(target), "--quick", environment=variables)
    assert document["causes"][-1]["id"] == "DRV008"
    assert "was killed by SIGSEGV during 'cuInit'" in document["causes"][-1]["title"]


def test_unreadable_machine(tmp_path: pathlib.Path) -> None:
    """/proc is a ring of links, /sys a file, /dev missing: nothing can be judged, and nothing is called healthy."""
    (tmp_path / "proc").symlink_to("proc")
    (tmp_path / "sys").write_text("")
    document = diagnose("--root", str(tmp_path), "--quick")
    assert document["healthy"] is False
    assert document["counts"]["crash"] == 0


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia"), reason="this machine has an NVIDIA driver")
def test_unreadable_machine_exits_with_3_where_nothing_is_wrong(tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / "venv", "")
    (tmp_path / "empty").mkdir()
    done = run_doctor("--root", str(tmp_path / "empty"), "--quick", "--python", str(target))
    assert done.returncode == 3, done.stdout
    assert "Not judged" in done.stdout


def test_closed_pipe_changes_nothing_about_the_verdict(tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / "venv", None)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        doctor_argv("--quick", "--python", str(target)),
        stdout=write,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        check=False,
    )
    os.close(write)
    assert done.returncode == 1
    assert done.stderr == b""


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_closed_standard_streams(tmp_path: pathlib.Path, redirection: str) -> None:
    target = make_target(tmp_path / "venv", None)
    command = " ".join(doctor_argv("--quick", "--python", str(target)))
    done = subprocess.run(
        ["sh", "-c", f"{command} {redirection}"], capture_output=True, env=clean_environment(), check=False
    )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_full_disk_is_told(tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / "venv", None)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            doctor_argv("--quick", "--python", str(target)),
            stdout=full,
            stderr=subprocess.PIPE,
            env=clean_environment(),
            check=False,
        )
    assert done.returncode == 2
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


def alive(pattern: str) -> list[str]:
    """Command lines of running processes that hold a text."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if pattern in line and state != "Z" and int(folder.name) != os.getpid():
            found.append(line)
    return found


def wait_until(condition: object, seconds: float = 150) -> bool:
    """Whether the condition came true in time."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def interrupted(target: pathlib.Path, number: signal.Signals, after_s: float) -> dict[str, Any]:
    """The document of a doctor that waits for TensorFlow, and is interrupted some time after that has begun."""
    child = f"{target}/bin/python"
    doctor = subprocess.Popen(
        doctor_argv("--python", str(target), "--format", "json"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(), preexec_fn=hear_interrupts,
    )  # fmt: skip
    assert wait_until(lambda: any("run_tensorflow" in line and line.startswith(child) for line in alive(child)))
    time.sleep(after_s)
    doctor.send_signal(number)
    output, errors = doctor.communicate(timeout=150)
    assert doctor.returncode == 130
    assert errors == b""
    assert wait_until(lambda: not [line for line in alive(child) if line.startswith(child)])
    document: dict[str, Any] = json.loads(output)
    return document


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_prints_what_is_known(tmp_path: pathlib.Path, number: signal.Signals) -> None:
    target = make_target(tmp_path / "venv", HANGS)
    for after_s in (1, 5, 20):  # on a busy machine the target's Python describes itself later
        document = interrupted(target, number, after_s)
        assert document["interrupted"] is True
        if document["target"]["version"]:
            break
    assert document["target"]["version"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc")
@pytest.mark.usefixtures("own_tmpdir")
def test_killed_it_leaves_no_child_behind(tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / "venv", HANGS)
    child = f"{target}/bin/python"
    doctor = subprocess.Popen(
        doctor_argv("--python", str(target)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
    )

    def running() -> list[str]:
        return [line for line in alive(child) if "run_tensorflow" in line and line.startswith(child)]

    assert wait_until(lambda: bool(running()))
    time.sleep(1)
    doctor.kill()
    doctor.wait()
    assert wait_until(lambda: not running())


@pytest.mark.skipif(not shutil.which("script"), reason="needs script(1) for a terminal")
def test_a_terminal_is_told_what_is_waited_for(tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / "venv", HANGS)
    # Two of those waited for are named; on a busy machine the other processes take long, too.
    for deadline_s in (3, 20, 60):
        command = " ".join(doctor_argv("--python", str(target), "--deadline", str(deadline_s)))
        done = subprocess.run(
            ["script", "-qec", command, "/dev/null"],
            capture_output=True,
            env=clean_environment(TERM="xterm"),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert b"Traceback" not in done.stdout
        if b"waiting for TensorFlow to import" in done.stdout:
            break
    assert b"waiting for TensorFlow to import" in done.stdout
