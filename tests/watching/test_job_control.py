"""Ctrl-Z, `fg` and `bg` in a real shell: the terminal is the shell's while the program is stopped or in the background."""

from __future__ import annotations

import fcntl
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator

import pytest
from doctor_command import clean_environment, doctor_argv, hear_interrupts

pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed"),
    pytest.mark.skipif(not hasattr(signal, "SIGTSTP"), reason="there is no job control"),
]

LONG_S = 60.0
PROGRAM = """
import os, signal, time
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"CONTINUED"))
os.write(1, b"STARTED")
end = time.monotonic() + 100
while time.monotonic() < end:
    time.sleep(0.05)
"""
REGION, WHOLE = re.compile(rb"\x1b\[1;\d+r"), b"\x1b[r"


class Shell:
    """An interactive bash with a terminal of its own, and all that it printed."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.printed = b""
        self.pid, self.fd = pty.fork()
        if not self.pid:
            hear_interrupts()
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.chdir(folder)
            variables = clean_environment(TERM="xterm", PS1="READY> ", HISTFILE="/dev/null")
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], variables)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))

    def type(self, text: str) -> int:
        """Type it; returns how much was printed before."""
        before = len(self.printed)
        os.write(self.fd, text.encode())
        return before

    def wait_for(self, pattern: bytes | re.Pattern[bytes], since: int) -> int:
        """Read until that was printed; returns where it ends."""
        wanted = pattern if isinstance(pattern, re.Pattern) else re.compile(re.escape(pattern))
        until = time.monotonic() + LONG_S
        while not (found := wanted.search(self.printed, since)):
            assert time.monotonic() < until, f"{wanted.pattern!r} is not in {self.printed[since:]!r}"
            self.read(0.2)
        return found.end()

    def read(self, seconds: float) -> None:
        if select.select([self.fd], [], [], seconds)[0]:
            self.printed += os.read(self.fd, 65536)

    def close(self) -> None:
        os.kill(self.pid, signal.SIGHUP)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture
def shell(tmp_path: pathlib.Path) -> Iterator[Shell]:
    (tmp_path / "program.py").write_text(PROGRAM)
    shell = Shell(tmp_path)
    try:
        shell.wait_for(b"READY> ", 0)
        yield shell
    finally:
        shell.close()


def test_the_terminal_is_the_shells_meanwhile(shell: Shell) -> None:
    python = shlex.quote(sys.executable)
    began = shell.type(f"{python} -m tfgpu_doctor watch -- {python} program.py\n")
    shell.wait_for(b"STARTED", began)
    shell.wait_for(REGION, began)

    stopped = shell.type("\x1a")
    shell.wait_for(WHOLE, stopped)
    prompt = shell.wait_for(b"READY> ", shell.wait_for(b"Stopped", stopped))
    assert not REGION.search(shell.printed, shell.printed.index(WHOLE, stopped)), "the rows are taken from the shell"

    front = shell.type("fg\n")
    shell.wait_for(b"CONTINUED", prompt)
    shell.wait_for(REGION, front)

    again = shell.type("\x1a")
    shell.wait_for(b"READY> ", shell.wait_for(b"Stopped", again))
    behind = shell.type("bg\n")
    shell.wait_for(b"CONTINUED", behind)
    until = time.monotonic() + 3
    while time.monotonic() < until:  # several pictures
        shell.read(0.2)
    assert not REGION.search(shell.printed, behind), "a program in the background draws into the shell's terminal"

    ends = shell.type("fg\n")
    shell.wait_for(REGION, ends)
    shell.type("\x03")
    shell.wait_for(b"READY> ", ends + len("fg\r\n"))
    shell.type("echo code=$?\n")
    shell.wait_for(b"code=130", ends)


def state(pid: int) -> str:
    """A letter: proc_pid_stat(5)."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(sys.platform != "linux", reason="the state of a process is looked up in /proc")
def test_a_program_is_stopped_and_continued_with_the_doctor(tmp_path: pathlib.Path) -> None:
    """By signals to the doctor alone."""
    own = "import os, signal, time; open('pid', 'w').write(str(os.getpid())); os.rename('pid', 'running'); time.sleep(1000)"
    argv = doctor_argv("watch", "--", sys.executable, "-c", own)
    doctor = subprocess.Popen(argv, cwd=tmp_path, preexec_fn=os.setpgrp)  # a group that is stopped like a shell's job
    try:
        wait_until(lambda: (tmp_path / "running").exists())
        program = int((tmp_path / "running").read_text())
        doctor.send_signal(signal.SIGTSTP)
        wait_until(lambda: state(doctor.pid) == "T")
        wait_until(lambda: state(program) == "T")
        doctor.send_signal(signal.SIGCONT)
        wait_until(lambda: state(program) == "S")
    finally:
        doctor.send_signal(signal.SIGCONT)
        doctor.terminate()
        doctor.wait(LONG_S)


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
