"""LIM003, LIM007: the machine's own memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from built_ground import limits
from built_machines import DOCKER
from healthy import cuda_gpu, runtime

from tfgpu_doctor.checks.machine.host_memory import data_buffers_fit, memory_suffices
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.python import Runtime

if TYPE_CHECKING:
    from checks.conftest import Judge

GIB = 1 << 30
KILLED = Runtime(attempt=Attempt(outcome="killed_by_signal", signal="SIGKILL", phase="importing TensorFlow"))
SMALL = limits(memory_limit_bytes=157_286_400, memory_used_bytes=16_834_560, oom_kills=0)


def test_memory_of_the_machine(judge: Judge) -> None:
    assert judge.passes(memory_suffices, limits=limits()) == "the machine has 64.0 GiB"


def test_what_is_left_is_told(judge: Judge) -> None:
    found = limits(memory_limit_bytes=32 * GIB, memory_used_bytes=2 * GIB)
    said = judge.passes(memory_suffices, limits=found, container=DOCKER, system={"memory_available_bytes": 50 * GIB})
    assert said == "this docker may use 32.0 GiB, 30.0 GiB are available"


def test_a_limit_larger_than_the_machine_is_none(judge: Judge) -> None:
    found = limits(memory_limit_bytes=500 * GIB, memory_used_bytes=GIB)
    assert judge.passes(memory_suffices, limits=found).startswith("the machine has")


@pytest.mark.parametrize("gpu_memory", [80 * GIB, 141 * GIB])
def test_less_than_the_gpus_is_mentioned_and_no_more(judge: Judge, gpu_memory: int) -> None:
    cuda = {"gpus": (cuda_gpu(memory_bytes=gpu_memory),)}
    assert judge.finding(memory_suffices, limits=limits(), cuda_driver=cuda).severity == "info"


def test_as_much_as_the_gpu_is_not_mentioned(judge: Judge) -> None:
    cuda = {"gpus": (cuda_gpu(memory_bytes=64 * GIB),)}
    assert judge.passes(memory_suffices, limits=limits(), cuda_driver=cuda) == "the machine has 64.0 GiB"


def test_tensorflow_killed_in_a_small_container(judge: Judge) -> None:
    finding = judge.finding(memory_suffices, limits=SMALL, container=DOCKER, runtime=KILLED)
    assert finding.severity == "error"
    assert "SIGKILL during 'importing TensorFlow'" in finding.message
    assert "this docker may use 150 MiB, of which 133 MiB were available" in finding.evidence[0]
    assert finding.fix and "--memory" in finding.fix.text


def test_those_killed_before_are_evidence(judge: Judge) -> None:
    found = limits(memory_limit_bytes=157_286_400, memory_used_bytes=0, oom_kills=3)
    finding = judge.finding(memory_suffices, limits=found, runtime=KILLED)
    assert "processes killed in this control group before: 3" in finding.evidence


def test_tensorflow_killed_on_a_machine_that_was_full(judge: Judge) -> None:
    system = {"memory_available_bytes": 200 << 20}
    finding = judge.finding(memory_suffices, limits=limits(), system=system, runtime=KILLED)
    assert "the machine has 64.0 GiB, of which 200 MiB were available" in finding.evidence[0]


@pytest.mark.parametrize(
    ("system", "told"),
    [
        ({"swap_bytes": 0}, ["the machine has no swap"]),
        ({"swap_bytes": 8 * GIB, "huge_pages": 0}, ["the machine has 8.0 GiB of swap"]),
        ({"huge_pages": 512}, ["512 huge pages are reserved; ordinary allocations cannot use them"]),
        ({}, []),
    ],
)
def test_swap_and_huge_pages_of_a_machine_are_evidence(judge: Judge, system: dict[str, int], told: list[str]) -> None:
    full = {"memory_available_bytes": 200 << 20, **system}
    killed = judge.finding(memory_suffices, limits=limits(), system=full, runtime=KILLED)
    small = judge.finding(
        memory_suffices, limits=limits(), system=full, cuda_driver={"gpus": (cuda_gpu(memory_bytes=80 * GIB),)}
    )
    assert list(killed.evidence[1:]) == list(small.evidence[1:]) == told


def test_swap_of_the_machine_does_not_matter_inside_a_limit(judge: Judge) -> None:
    finding = judge.finding(memory_suffices, limits=SMALL, system={"swap_bytes": 8 * GIB}, runtime=KILLED)
    assert "swap" not in str(finding.evidence)


def test_a_kill_with_memory_to_spare_had_another_reason(judge: Judge) -> None:
    system = {"memory_available_bytes": 50 * GIB}
    assert "memory was not short" in judge.skips(memory_suffices, limits=limits(), system=system, runtime=KILLED)


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT", "SIGILL"])
def test_other_signals_are_not_memorys(judge: Judge, signal: str) -> None:
    died = Runtime(attempt=Attempt(outcome="killed_by_signal", signal=signal))
    assert judge.does_not_object(memory_suffices, limits=SMALL, runtime=died)


def test_the_doctors_own_deadline_is_no_lack_of_memory(judge: Judge) -> None:
    late = Runtime(attempt=Attempt(outcome="timed_out", seconds=120.0, signal="SIGKILL"))
    assert judge.does_not_object(memory_suffices, limits=SMALL, runtime=late)


def test_what_is_not_known_is_not_judged(judge: Judge) -> None:
    assert judge.skips(memory_suffices, limits=Limits(), system=None)


# LIM007


@pytest.mark.parametrize(
    ("limit", "used", "free", "mentioned"),
    [
        (16 * GIB, 2 * GIB, 900 * GIB, True),
        (16 * GIB, 2 * GIB, 6 * GIB, False),
        (500 * GIB, 2 * GIB, 900 * GIB, False),
    ],
)
def test_buffers_against_what_is_left(judge: Judge, limit: int, used: int, free: int, mentioned: bool) -> None:
    found = limits(memory_limit_bytes=limit, memory_used_bytes=used)
    findings = judge.findings(data_buffers_fit, limits=found, system={"memory_free_bytes": free})
    assert [each.severity for each in findings] == (["info"] if mentioned else [])
    if mentioned:
        assert findings[0].fix and f"ram_budget = {7 * GIB}" in findings[0].fix.text


def test_where_the_use_is_not_known_the_whole_limit_is_left(judge: Judge) -> None:
    found = limits(memory_limit_bytes=16 * GIB, memory_used_bytes=None)
    finding = judge.finding(data_buffers_fit, limits=found, system={"memory_free_bytes": 900 * GIB})
    assert finding.fix and f"ram_budget = {8 * GIB}`" in finding.fix.text
    assert [figure.value for figure in finding.figures] == [450 * GIB, 16 * GIB]


@pytest.mark.parametrize(
    ("used", "left", "fix"),
    [
        (17 * GIB, 0, "Raise the memory limit of the control group, "),
        (16 * GIB - 4096, 4096, "Raise the memory limit of the control group, "),
        (
            16 * GIB - (2 << 20),
            2 << 20,
            "Set `options = tf.data.Options(); options.autotune.ram_budget = 1048576` and ",
        ),
    ],
)
def test_where_hardly_anything_is_left_no_budget_helps(judge: Judge, used: int, left: int, fix: str) -> None:
    """TensorFlow 2.21 takes a budget of 0 for its default."""
    found = limits(memory_limit_bytes=16 * GIB, memory_used_bytes=used)
    finding = judge.finding(data_buffers_fit, limits=found, system={"memory_free_bytes": 900 * GIB})
    assert [figure.value for figure in finding.figures] == [450 * GIB, left]
    assert finding.fix and finding.fix.text.startswith(fix)


def test_without_a_limit_there_is_nothing_to_compare(judge: Judge) -> None:
    assert judge.skips(data_buffers_fit, limits=limits()) == "no control group limits memory"
    assert (
        judge.skips(data_buffers_fit, limits=limits(memory_limit_bytes=GIB)) == "the amount of free memory is unknown"
    )


def test_a_healthy_run_is_no_fault(judge: Judge) -> None:
    assert judge.does_not_object(memory_suffices, limits=SMALL, runtime=runtime())
