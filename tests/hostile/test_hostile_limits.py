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


def slow(*values: int) -> list[Any]:
    """Parameters for --full alone."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def limited(
    line: str, *arguments: str, prefix: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the doctor after a line of shell, which sets a limit."""
    script = f"{line}; exec {shlex.join(doctor_argv('--quick', *arguments))}"
    return subprocess.run(
        [*prefix, "bash", "-c", script], capture_output=True, text=True, timeout=120, check=False,
        env=clean_environment(**variables), stdin=subprocess.DEVNULL,
    )  # fmt: skip


def own_words(done: subprocess.CompletedProcess[str]) -> str:
    """What the doctor wrote on standard error; before it, Python itself may complain of a .pth file that it cannot read."""
    return done.stderr.rpartition("Remainder of file ignored\n")[2]


def is_named(done: subprocess.CompletedProcess[str], id_: str, limit: str) -> bool:
    """Whether the limit is a finding of the report; or, where Python itself needs too much of it, one line names it."""
    if done.returncode != 3 or done.stdout:
        return limit in findings(document(done), id_)
    words = own_words(done)
    assert words.count("\n") == 1, words
    assert "Traceback" not in words
    return limit in words and "raise the limit" in words


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert "Traceback" not in own_words(done)
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


@pytest.mark.parametrize("kib", [30_000, 200_000, *slow(40_000, 60_000, 100_000, 400_000)])
def test_little_address_space_is_named(kib: int) -> None:
    done = limited(f"ulimit -v {kib}", "--format", "json")
    assert is_named(done, "LIM002", "ulimit -v is")


@pytest.mark.slow
@pytest.mark.parametrize("first", [28_000, 60_000, 68_000, 76_000])
def test_little_address_space_leaves_nothing(first: int, tmp_path: pathlib.Path) -> None:
    """It begins only where it has room to end as well."""
    for kib in range(first, first + 8_000, 500):
        done = limited(f"ulimit -v {kib}", "--format", "json", TMPDIR=str(tmp_path))
        assert done.returncode in (*CODES, 3), (kib, done.returncode, done.stderr)
        assert "the doctor itself failed" not in done.stderr, (kib, done.stderr)
        assert list(tmp_path.iterdir()) == [], (kib, done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("line", "limit"), [("ulimit -v 44000", "ulimit -v is 44000"), ("ulimit -d 40000", "ulimit -d is 40000")]
)
def test_too_little_memory_for_the_doctor_itself_is_said_at_once(line: str, limit: str) -> None:
    """CPython may try again for ever where it has no memory for an exception: at 40,480 KiB it did, one of some thousand starts."""
    done = limited(line)
    assert (done.returncode, done.stdout) == (3, "")
    assert limit in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("kib", [60_000, *slow(58_250, 64_000, 73_300, 200_000, 1_000_000)])
def test_data_without_room_for_threads_is_enough_for_a_report(kib: int) -> None:
    """Python waits for ever for a thread that gets a stack and no more."""
    done = limited(f"ulimit -d {kib}", "--format", "json")
    assert (done.returncode == 3 and f"ulimit -d is {kib}" in done.stderr) or document(done)


def test_address_space_without_room_for_threads_is_enough_for_a_report() -> None:
    assert "ulimit -v is" in findings(document(limited("ulimit -v 1000000", "--format", "json")), "LIM002")


@pytest.mark.parametrize("files", [8, *slow(5, 6, 12, 20)])
def test_few_files_are_named(files: int) -> None:
    assert is_named(limited(f"ulimit -n {files}", "--format", "json"), "LIM005", f"ulimit -n is {files}")


def test_few_files_are_enough_for_a_report() -> None:
    answer = document(limited("ulimit -n 12", "--format", "json"))
    assert "ulimit -n is 12" in findings(answer, "LIM005")


@pytest.mark.parametrize("tasks", [2, *slow(1, 10)])
def test_few_tasks_are_named(tasks: int, tasks_are_limited: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o777)
    done = limited(f"ulimit -u {tasks}", "--format", "json", prefix=tasks_are_limited, HOME=str(tmp_path))
    assert f"ulimit -u allows this user {tasks} tasks" in findings(document(done), "LIM004")


def test_no_task_for_a_child_is_a_finding(tasks_are_limited: tuple[str, ...]) -> None:
    answer = document(limited("ulimit -u 1", "--format", "json", prefix=tasks_are_limited))
    assert "the doctor may not even start one process" in findings(answer, "LIM004")
    assert {cause["label"] for cause in answer["causes"]} - {"no_gpu_in_machine"} == {"task_limit"}


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
