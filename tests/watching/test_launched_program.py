"""The watched program behaves as if nobody watched: its output, its exit code, its signals; and nothing is left behind."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import pytest
from doctor_command import clean_environment, doctor_argv

pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="watch needs Linux"),
]
LONG_S = 120.0  # for what takes a second: nothing fails because the machine is slow
CHATTY = r"""
import os, sys
data = sys.stdin.buffer.read()
os.write(1, b"\x00\xff\r\n" + data)
os.write(2, b"err\n")
sys.exit(int(sys.argv[1]))
"""
PATIENT = """
import os, signal, sys, time
def told(number, frame):
    os.write(1, b"got SIGTERM\\n")  # print is not reentrant
    sys.exit(7)
signal.signal(signal.SIGTERM, told)
signal.signal(signal.SIGUSR1, lambda number, frame: os.write(1, b"got SIGUSR1\\n"))
print("ready", os.getpid(), flush=True)
while True:
    time.sleep(0.05)
"""


def watch(*words: str) -> list[str]:
    return doctor_argv("watch", *words)


def started(tmp_path: pathlib.Path, code: str, *options: str, **more: object) -> tuple[subprocess.Popen[str], int]:
    """The doctor beside a program that has said ready, and the process of that program."""
    process = subprocess.Popen(
        watch("--no-live", "-o", str(tmp_path / "report.json"), "--format", "json", *options, "--", sys.executable, "-c", code),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=clean_environment(TMPDIR=str(tmp_path)), **{"preexec_fn": _heed_interrupts, **more},  # type: ignore[call-overload]
    )  # fmt: skip
    assert process.stdout is not None
    word, pid = process.stdout.readline().split()
    assert word == "ready"
    return process, int(pid)


def gone(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for(what: object) -> None:
    until = time.monotonic() + LONG_S
    while not what():  # type: ignore[operator]
        assert time.monotonic() < until, "it has not come to be"
        time.sleep(0.05)


def left_behind(tmp_path: pathlib.Path) -> list[str]:
    return sorted(each.name for each in tmp_path.iterdir() if each.name.startswith("tfgpu"))


@pytest.mark.parametrize("code", [0, 3, 127])
def test_output_and_exit_code_are_the_programs(tmp_path: pathlib.Path, code: int) -> None:
    plain = [sys.executable, "-c", CHATTY, str(code)]
    alone = subprocess.run(plain, input=b"abc\n\xfe", capture_output=True, check=False)
    beside = subprocess.run(
        watch("--no-live", "-o", str(tmp_path / "report"), "--", *plain), input=b"abc\n\xfe", capture_output=True,
        check=False, env=clean_environment(TMPDIR=str(tmp_path)),
    )  # fmt: skip
    assert beside.stdout == alone.stdout == b"\x00\xff\r\nabc\n\xfe"
    assert beside.stderr == alone.stderr
    assert beside.returncode == alone.returncode == code
    assert left_behind(tmp_path) == []


def test_a_program_that_dies_of_a_signal(tmp_path: pathlib.Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    done = subprocess.run(watch("--no-live", "-o", str(tmp_path / "r"), "--", sys.executable, "-c", code), check=False)
    assert done.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_program_that_dies_of_a_signal_while_an_output_is_closed(tmp_path: pathlib.Path, closed: str) -> None:
    words = shlex.join(watch("--no-live", "-o", str(tmp_path / "r"), "--", "sh", "-c", "kill -TERM $$"))
    done = subprocess.run(["sh", "-c", f"exec {words} {closed}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


@pytest.mark.parametrize(("command", "code"), [(("/no/such/program",), 127), (("/etc/passwd",), 126)])
def test_a_command_that_cannot_be_started(tmp_path: pathlib.Path, command: tuple[str, ...], code: int) -> None:
    done = subprocess.run(
        watch("--", *command), capture_output=True, text=True, check=False, env=clean_environment(TMPDIR=str(tmp_path))
    )
    assert done.returncode == code
    assert done.stderr.startswith(f"tfgpu-doctor: error: {command[0]} cannot be started: ")
    assert left_behind(tmp_path) == []


def test_a_signal_to_the_doctor_reaches_the_program(tmp_path: pathlib.Path) -> None:
    process, pid = started(tmp_path, PATIENT)
    process.send_signal(signal.SIGUSR1)
    assert process.stdout is not None
    assert process.stdout.readline() == "got SIGUSR1\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=LONG_S)
    assert out == "got SIGTERM\n"
    assert process.returncode == 7
    assert json.loads((tmp_path / "report.json").read_text())["exit_code"] == 7
    assert gone(pid)
    assert left_behind(tmp_path) == []


def test_ctrl_c_in_a_terminal_reaches_the_program_once(tmp_path: pathlib.Path) -> None:
    code = (
        "import os, time\ntimes, until, ready = 0, None, False\n"
        "while until is None or time.monotonic() < until:\n"
        "    try:\n        if not ready:\n            ready = True\n            print('ready', os.getpid(), flush=True)\n"
        "        time.sleep(0.05)\n"
        "    except KeyboardInterrupt:\n        times += 1\n        until = time.monotonic() + 1.0\n"
        "print('interrupted', times, flush=True)\n"
    )
    controlling, terminal = os.openpty()
    process, _ = started(tmp_path, code, stdin=terminal, start_new_session=True, preexec_fn=_take_terminal)
    os.write(controlling, b"\x03")
    out, errors = process.communicate(timeout=LONG_S)
    assert out == "interrupted 1\n", errors
    assert process.returncode == 0
    os.close(controlling)
    os.close(terminal)


def _heed_interrupts() -> None:
    """A shell starts what runs in the background with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _take_terminal() -> None:
    import fcntl
    import termios

    _heed_interrupts()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize("who", ["doctor", "program", "both"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whoever_is_killed_nothing_stays(tmp_path: pathlib.Path, who: str, number: signal.Signals) -> None:
    code = "import os, time\nprint('ready', os.getpid(), flush=True)\nwhile True: time.sleep(0.05)"
    process, pid = started(tmp_path, code)
    if who in ("program", "both"):
        os.kill(pid, number)
    if who in ("doctor", "both"):
        process.send_signal(number)
    process.communicate(timeout=LONG_S)
    wait_for(lambda: gone(pid))
    wait_for(lambda: left_behind(tmp_path) == [])
    assert process.returncode == -number


def test_the_children_of_a_program_end_with_a_killed_doctor(tmp_path: pathlib.Path) -> None:
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('child', 'w').write(str(child.pid))\nprint('ready', os.getpid(), flush=True)\ntime.sleep(600)\n"
    )
    process, pid = started(tmp_path, code, cwd=str(tmp_path))
    child = int((tmp_path / "child").read_text())
    process.kill()
    process.communicate(timeout=LONG_S)
    wait_for(lambda: gone(pid) and gone(child))
    wait_for(lambda: left_behind(tmp_path) == [])
