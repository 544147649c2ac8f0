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


def interrupted(folder: pathlib.Path, moments: list[float], *arguments: str) -> tuple[int, str, str]:
    """The exit code and the outputs of a doctor that gets a signal at each moment, in s after its signals wait."""
    process = start(folder, *arguments)
    began = time.monotonic()
    for moment in moments:
        time.sleep(max(0.0, began + moment - time.monotonic()))
        if process.poll() is None:
            os.kill(process.pid, CHANCE.choice((signal.SIGINT, signal.SIGTERM)))
    out, error = process.communicate(timeout=60)
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
    assert judge(interrupted(tmp_path, moments, "--quick", "--format", "json"), moments)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["explain", "DRV001"], ["log", "-"], ["matrix"], ["ticket", "-o", "t.zip"], ["env", "--shell", "bash"]]
)
def test_other_commands_end_without_a_traceback(tmp_path: pathlib.Path, command: list[str]) -> None:
    for _ in range(4):
        first = CHANCE.uniform(0, 0.7)
        code, _, error = interrupted(tmp_path, [first, first + 0.003], *command)
        assert code in (0, 1, 3, 130), (code, error)
        assert "Traceback" not in error
        assert "the doctor itself failed" not in error


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
