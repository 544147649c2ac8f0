"""What others take of the processors, seen beside real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tfgpu_doctor.perf_tests.other_work import Reading

SPIN = "print('on', flush=True)\nwhile True: pass"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/stat is Linux's")


def seconds_of_processor(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_other_processes_count() -> None:
    spinning = subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert spinning.stdout is not None
        spinning.stdout.readline()
        before, at_first = Reading.now(), seconds_of_processor(spinning.pid)
        time.sleep(1.0)
        after, at_last = Reading.now(), seconds_of_processor(spinning.pid)
    finally:
        spinning.kill()
        spinning.communicate()
    assert before and after
    took = at_last - at_first  # on a busy machine it gets less than the whole second
    assert after.others_since(before) * (after.all_s - before.all_s) >= took - 0.1


def test_what_the_run_itself_takes_does_not() -> None:
    before = Reading.now()
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass
    after = Reading.now()
    assert before and after
    assert after.own_s - before.own_s >= 0.4
    assert after.busy_s - before.busy_s >= 0.4


def test_a_moment_of_no_length_tells_nothing() -> None:
    assert Reading(5, 1, 9).others_since(Reading(1, 1, 9)) == 0.0


def test_others_take_what_is_not_the_runs_own() -> None:
    assert Reading(13, 4, 28).others_since(Reading(10, 3, 20)) == pytest.approx(0.25)
