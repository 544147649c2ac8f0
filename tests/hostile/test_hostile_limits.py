"""Limits that leave the doctor itself too little: it works with what there is, or names the limit and its value."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from typing import Any

import pytest
from doctor_command import clean_environment, doctor_argv

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limits are those of Linux")

ANOTHER_USER = (
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_override", "--ambient-caps=+dac_override",
)  # fmt: skip
CODES = (0, 1)


def limited(
    line: str, *arguments: str, prefix: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the doctor after a line of shell, which sets a limit."""
    script = f"{line}; exec {shlex.join(doctor_argv('--quick', *arguments))}"
    return subprocess.run(
        [*prefix, "bash", "-c", script], capture_output=True, text=True, timeout=120, check=False,
        env=clean_environment(**variables), stdin=subprocess.DEVNULL,
    )  # fmt: skip


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert "Traceback" not in done.stderr
    assert "the doctor itself failed" not in done.stderr
    assert done.returncode in CODES, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def findings(answer: dict[str, Any], id_: str) -> str:
    (result,) = [each for each in answer["results"] if each["id"] == id_]
    return json.dumps(result)


@pytest.fixture
def tasks_are_limited() -> tuple[str, ...]:
    """What comes before a command for which `ulimit -u` holds: root's processes are not limited."""
    if os.getuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed, and root's processes are not limited")
    return ANOTHER_USER


@pytest.mark.parametrize("kib", [60_000, 100_000, 200_000, 400_000])
def test_address_space_for_no_thread_is_enough(kib: int) -> None:
    answer = document(limited(f"ulimit -v {kib}", "--format", "json"))
    assert "ulimit -v is" in findings(answer, "LIM002")


@pytest.mark.parametrize("kib", [15_000, 25_000, 30_000])
def test_too_little_address_space_is_said_in_one_line(kib: int) -> None:
    done = limited(f"ulimit -v {kib}")
    assert (done.returncode, done.stdout) == (3, "")
    assert "ulimit -v" in done.stderr
    assert "raise the limit" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("files", [4, 5, 6, 8, 12, 20])
def test_few_files_are_enough_for_a_report(files: int) -> None:
    answer = document(limited(f"ulimit -n {files}", "--format", "json"))
    assert f"ulimit -n is {files}" in findings(answer, "LIM005")


def test_no_file_for_a_child_is_a_finding() -> None:
    answer = document(limited("ulimit -n 4", "--format", "json"))
    assert "the doctor needs more" in findings(answer, "LIM005")
    assert "open_files_limit" in [cause["label"] for cause in answer["causes"]]


@pytest.mark.parametrize("tasks", [1, 2, 10])
def test_few_tasks_are_named(tasks: int, tasks_are_limited: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o777)
    done = limited(f"ulimit -u {tasks}", "--format", "json", prefix=tasks_are_limited, HOME=str(tmp_path))
    answer = document(done)
    assert f"ulimit -u allows this user {tasks} tasks" in findings(answer, "LIM004")


def test_no_task_for_a_child_is_a_finding(tasks_are_limited: tuple[str, ...]) -> None:
    answer = document(limited("ulimit -u 1", "--format", "json", prefix=tasks_are_limited))
    assert "the doctor may not even start one process" in findings(answer, "LIM004")
    assert "task_limit" in [cause["label"] for cause in answer["causes"]]


def test_files_that_may_not_grow_do_not_prevent_a_report(tmp_path: pathlib.Path) -> None:
    document(limited("ulimit -f 0", "--format", "json", HOME=str(tmp_path), TMPDIR=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line", ["unset HOME", "export HOME=/proc/nowhere", "export TMPDIR=/proc", "export TMPDIR=/nowhere"]
)
def test_no_place_to_write_does_not_prevent_a_report(line: str) -> None:
    document(limited(line, "--format", "json"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root unmounts")
def test_without_shared_memory_there_is_a_report() -> None:
    probe = subprocess.run(["unshare", "-m", "umount", "/dev/shm"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("/dev/shm cannot be unmounted here")
    document(limited("umount /dev/shm", "--format", "json", prefix=("unshare", "-m")))
