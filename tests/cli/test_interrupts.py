"""Signals at every moment: the document that was promised comes, once, and nothing is left."""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest
from doctor_command import clean_environment, doctor_argv, hear_interrupts

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc shows which signals wait")

CHANCE = random.Random(20261123)
BITS = sum(1 << (number - 1) for number in (signal.SIGINT, signal.SIGTERM))


def start(folder: pathlib.Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the doctor, and wait until signals wait: before that the interpreter itself starts."""
    process = subprocess.Popen(
        doctor_argv(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=folder,
        env=clean_environment(TMPDIR=str(folder)), preexec_fn=hear_interrupts,
    )  # fmt: skip
    status = pathlib.Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        (blocked,) = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("SigBlk:")]
        if int(blocked, 16) & BITS == BITS:
            break
        time.sleep(0.001)
    return process


def interrupted(
    folder: pathlib.Path, moments: list[float], *arguments: str, most_runs: int = 1
) -> tuple[int, str, str]:
    """The exit code and the outputs of a doctor that gets a signal at each moment, in s after its signals wait.

    It runs again as long as it had ended before the first of them.
    """
    for _ in range(most_runs):
        process, sent = start(folder, *arguments), False
        began = time.monotonic()
        for moment in moments:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            if process.poll() is None:
                os.kill(process.pid, CHANCE.choice((signal.SIGINT, signal.SIGTERM)))
                sent = True
        out, error = process.communicate(timeout=60)
        if sent:
            break
    return process.returncode, out, error


def judge(found: tuple[int, str, str], moments: list[float]) -> bool:
    """Whether the doctor was interrupted; it must have told so in one whole document."""
    code, out, error = found
    assert code in (0, 1, 3, 130), (found, moments)
    assert "Traceback" not in error, (found, moments)
    assert "the doctor itself failed" not in error, (found, moments)
    report = json.loads(out)
    assert report["interrupted"] == (code == 130), (found, moments)
    return code == 130


@pytest.mark.parametrize("moments", [[0.0], [0.0, 0.001], [0.05], [0.05, 0.051, 0.052]])
def test_a_signal_while_it_starts_gives_a_document(tmp_path: pathlib.Path, moments: list[float]) -> None:
    assert judge(interrupted(tmp_path, moments, "--quick", "--format", "json", most_runs=5), moments)


@pytest.mark.slow
def test_signals_at_random_moments(tmp_path: pathlib.Path) -> None:
    ended = []
    for turn in range(60):
        first = CHANCE.uniform(0, 1.5 if turn % 2 else 0.6)
        moments = [first, *(first + CHANCE.expovariate(20) for _ in range(CHANCE.randrange(3)))]
        level = ["--quick"] if turn % 2 else []
        ended.append(judge(interrupted(tmp_path, sorted(moments), *level, "--format", "json"), moments))
    assert any(ended)
    assert [each.name for each in tmp_path.iterdir()] == []


JSON = [
    ["log", "-"], ["matrix"], ["libraries"], ["trace", "x.xplane.pb"], ["accept", "run", "--profile", "ci"],
    ["fleet", "report", "reports"], ["fleet", "history", "--store", "reports"], ["rehearse"], ["advise"], ["bench", "threads"],
]  # fmt: skip


def judge_other(found: tuple[int, str, str], *, has_document: bool) -> bool:
    """Whether a command was interrupted; it must have told so, in one document where that was promised."""
    code, out, error = found
    assert code in (0, 1, 2, 3, 130), found
    assert "Traceback" not in error, found
    assert "the doctor itself failed" not in error, found
    if code != 130:
        return False
    assert "interrupted" in out + error, found
    if has_document:
        assert json.loads(out)["schema"] >= 1, found
    return True


@pytest.mark.parametrize("command", JSON, ids=" ".join)
def test_a_signal_before_anything_is_known_gives_a_document_too(tmp_path: pathlib.Path, command: list[str]) -> None:
    found = interrupted(tmp_path, [0.0], *command, "--format", "json", most_runs=5)
    assert judge_other(found, has_document=True)
    report = json.loads(found[1])
    assert report["interrupted"] or report["verdict"] == "interrupted", found


@pytest.mark.parametrize("command", [["matrix"], ["libraries", "--format", "json", "-o", "x"], ["fix"]], ids=" ".join)
def test_where_no_document_was_promised_one_line_says_so(tmp_path: pathlib.Path, command: list[str]) -> None:
    code, out, error = interrupted(tmp_path, [0.0], *command)
    assert (code, out) == (130, "")
    assert error.split("\n")[-2:] == ["tfgpu-doctor: interrupted: there is nothing to report yet", ""]
    assert [each.name for each in tmp_path.iterdir()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["explain", "DRV001"], ["ticket", "-o", "t.zip"], ["env", "--shell", "bash"], ["fix"], *JSON],
    ids=" ".join,
)
def test_other_commands_end_without_a_traceback(tmp_path: pathlib.Path, command: list[str]) -> None:
    has_document = command in JSON
    for _ in range(4):
        first = CHANCE.uniform(0, 0.7)
        format_ = ["--format", "json"] if has_document else []
        found = interrupted(tmp_path, [first, first + 0.003], *command, *format_)
        judge_other(found, has_document=has_document)


@pytest.mark.parametrize("format_", ["json", "text"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_log_that_does_not_end_is_judged_as_far_as_it_came(
    tmp_path: pathlib.Path, format_: str, number: signal.Signals
) -> None:
    text = "ValueError: Memory growth cannot differ between GPU devices\nand a line that has not yet en"
    process = subprocess.Popen(
        doctor_argv("log", "-", "--format", format_), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=clean_environment(), preexec_fn=hear_interrupts,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()
    while process.poll() is None and _waiting_bytes(process.stdin.fileno()):
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "")
    if format_ == "json":
        report = json.loads(out)
        assert (report["interrupted"], report["lines"]) == (True, 2)
        assert report["causes"]
    else:
        assert "Memory growth cannot differ" in out
        assert "Interrupted after 2 lines: what follows was not read." in out


def _waiting_bytes(pipe: int) -> int:
    """How much of what was written to a pipe nobody has read yet."""
    import fcntl
    import struct
    import termios

    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0])


def test_a_doctor_in_the_background_stays_deaf_to_ctrl_c(tmp_path: pathlib.Path) -> None:
    """A shell starts what runs in the background with SIGINT ignored."""
    process = subprocess.Popen(
        doctor_argv("--quick", "--format", "json"), stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=clean_environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN) and None,
    )  # fmt: skip
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["interrupted"] is False


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("signal_(); print('whole', finish())", "whole False\ninterrupted\n"),
        ("print('whole', finish()); signal_()", "whole True\nafterwards\n"),
    ],
)
def test_what_must_be_done_whole_is_not_interrupted(inside: str, said: str) -> None:
    code = (
        "import os, signal\n"
        "from tfgpu_doctor.cli.interrupts import Undisturbed, finish, hold, listen\n"
        "def signal_(): os.kill(os.getpid(), signal.SIGTERM)\n"
        "hold(); listen()\n"
        "try:\n"
        f"    with Undisturbed(): {inside}\n"
        "    print('afterwards')\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (said, "")
