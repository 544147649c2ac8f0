"""LIM003: what it takes from the kernel's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from built_kernel import log, message
from healthy import runtime

from tfgpu_doctor.checks.machine.host_memory import memory_suffices
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.limits import Limits

if TYPE_CHECKING:
    from checks.conftest import Judge


@pytest.mark.parametrize(("process", "told"), [("python3", True), ("java", False)])
def test_a_python_that_the_kernel_ended_is_told(judge: Judge, process: str, told: bool) -> None:
    killed = runtime(attempt=Attempt(outcome="killed_by_signal", signal="SIGKILL"), computations=())
    limits = Limits(memory_limit_bytes=4 << 30, memory_used_bytes=3 << 30)
    text = f"Memory cgroup out of memory: Killed process 4242 ({process}) total-vm:1kB"
    ended = log(message("out_of_memory", text, process=process))
    finding = judge.finding(memory_suffices, limits=limits, runtime=killed, kernel_log=ended)
    assert (f"kernel log: {text}" in finding.evidence) is told


@pytest.mark.parametrize(("age_s", "told"), [(20.0, True), (86_400.0, False), (None, False)])
def test_with_plenty_of_memory_only_a_line_of_this_run_counts(judge: Judge, age_s: float | None, told: bool) -> None:
    """Such a line from weeks ago, of another program, says nothing of a process that somebody ended now."""
    killed = runtime(attempt=Attempt(outcome="killed_by_signal", signal="SIGKILL", seconds=40.0), computations=())
    text = "Out of memory: Killed process 4242 (python3) total-vm:1kB"
    ended = log(message("out_of_memory", text, process="python3", last_age_s=age_s))
    given = {
        "limits": Limits(),
        "system": {"memory_available_bytes": 200 << 30},
        "runtime": killed,
        "kernel_log": ended,
    }
    if told:
        assert f"kernel log: {text}" in judge.finding(memory_suffices, **given).evidence
    else:
        assert "memory was not short" in judge.skips(memory_suffices, **given)
