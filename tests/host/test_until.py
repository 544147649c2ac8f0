"""Commands that are told to end through their standard input: when the doctor says so, or is gone."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
import time

from tfgpu_doctor.host import Processes

LONG_S = 300.0  # a deadline that no command here reaches
WATCHES = "import sys; sys.stdout.write('up'); sys.stdout.flush(); sys.stdin.buffer.read(); sys.stdout.write(' over')"


def test_a_command_that_is_told_to_end_hears_of_it_through_its_standard_input() -> None:
    over = threading.Event()
    timer = threading.Timer(0.5, over.set)
    timer.start()
    done = Processes().run([sys.executable, "-c", WATCHES], deadline_s=LONG_S, environment=dict(os.environ), until=over)
    timer.cancel()
    assert (done.stdout, done.exit_code, done.timed_out) == (b"up over", 0, False)


def test_until_then_its_standard_input_stays_open() -> None:
    done = Processes().run(
        [sys.executable, "-c", WATCHES], deadline_s=2.0, environment=dict(os.environ), until=threading.Event()
    )
    assert done.timed_out
    assert done.stdout in (b"up", b"")


def test_a_command_that_nobody_ends_finds_an_empty_standard_input() -> None:
    done = Processes().run([sys.executable, "-c", WATCHES], deadline_s=LONG_S, environment=dict(os.environ))
    assert done.stdout == b"up over"


DOCTOR = """
import os, sys, threading
from tfgpu_doctor.host import Processes
program = "import os, sys; open(sys.argv[1], 'w').close(); sys.stdin.buffer.read(); os.remove(sys.argv[1])"
argv = [sys.executable, "-c", program, sys.argv[1]]
Processes().run(argv, deadline_s=1000, environment=dict(os.environ), until=threading.Event())
"""


def test_it_ends_when_the_doctor_is_gone_however_it_went(tmp_path: pathlib.Path) -> None:
    """Without the kernel's help, too: nothing but the end of standard input tells it."""
    mark = tmp_path / "mark"
    with subprocess.Popen([sys.executable, "-c", DOCTOR, str(mark)]) as doctor:
        until = time.monotonic() + LONG_S
        while not mark.exists() and time.monotonic() < until:
            time.sleep(0.05)
        doctor.kill()
    until = time.monotonic() + LONG_S
    while mark.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not mark.exists()
