"""What others take of the processors, seen beside real processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tfgpu_doctor.perf_tests.other_work import Reading

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/stat is Linux's")
# In a process group of its own: the other tests of this one start and end processes meanwhile.
OTHERS = """
import os, subprocess, sys, time
from tfgpu_doctor.perf_tests.other_work import Reading

def seconds_of_processor(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

spin = [sys.executable, "-c", "print('on', flush=True)\\nwhile True: pass"]
spinning = subprocess.Popen(spin, stdout=subprocess.PIPE, start_new_session=True)
spinning.stdout.readline()
before, at_first = Reading.now(), seconds_of_processor(spinning.pid)
time.sleep(1.0)
at_last, after = seconds_of_processor(spinning.pid), Reading.now()
spinning.kill()
print(after.others_since(before) * (after.all_s - before.all_s), at_last - at_first)
"""
OWN = """
import time
from tfgpu_doctor.perf_tests.other_work import Reading

before, until = Reading.now(), time.process_time() + 0.5
while time.process_time() < until:
    pass
after = Reading.now()
print(after.own_s - before.own_s, after.busy_s - before.busy_s)
"""


def seconds_told_by(program: str) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, start_new_session=True, check=True
    )
    first, second = map(float, done.stdout.split())
    return first, second


def test_other_processes_count() -> None:
    counted, taken = seconds_told_by(OTHERS)  # on a busy machine it gets less than the whole second
    assert counted >= taken - 0.1


def test_what_the_run_itself_takes_does_not() -> None:
    own, busy = seconds_told_by(OWN)
    assert own >= 0.4
    assert busy >= 0.4


def test_a_moment_of_no_length_tells_nothing() -> None:
    assert Reading(5, 1, 9).others_since(Reading(1, 1, 9)) == 0.0


def test_others_take_what_is_not_the_runs_own() -> None:
    assert Reading(13, 4, 28).others_since(Reading(10, 3, 20)) == pytest.approx(0.25)
