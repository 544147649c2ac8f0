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
