"""LIM001: threads against processors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_ground import built, limits
from built_machines import variables
from healthy import ANSWERED, nvml_gpu

from tfgpu_doctor.checks.machine.cpu_share import threads_fit_processors
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Scheduler
from tfgpu_doctor.model.facts.nvidia import Nvml

if TYPE_CHECKING:
    from checks.conftest import Judge

GIB = 1 << 30
JOB = Scheduler(kind="slurm", job="7", cpus=4, cpus_said_by="SLURM_CPUS_PER_TASK")
AT_WORK = {"gpus": (nvml_gpu(memory_total_bytes=24 * GIB, memory_free_bytes=3 * GIB),)}


def quota(share: float, cpus: int = 64, **changes: Any) -> Limits:
    return limits(cpus, cpu_quota=share, cpu_quota_group="/sys/fs/cgroup", **changes)


@pytest.mark.parametrize("found", [limits(32), limits(2), quota(2, 2), quota(8, 4), quota(64, 64)])
def test_a_share_as_large_as_what_is_counted_is_no_fault(judge: Judge, found: Limits) -> None:
    assert "nothing limits it to fewer" in judge.passes(threads_fit_processors, limits=found)


def test_a_cpuset_is_what_tensorflow_counts(judge: Judge) -> None:
    """Of a job that is bound to its processors TensorFlow sees no others: 4 of 64."""
    found = limits(64, cpu_list="8-11")
    assert "4 CPUs" in judge.passes(threads_fit_processors, limits=found, scheduler=JOB)


@pytest.mark.parametrize("share", [1, 1.5, 2, 4, 16])
def test_a_quota_below_what_is_counted_is_mentioned_and_no_more(judge: Judge, share: float) -> None:
    finding = judge.finding(threads_fit_processors, limits=quota(share))
    assert (finding.severity, finding.cause) == ("info", "input_pipeline_bound")
    assert f"limits this process to {amount(share, 'CPU')}" in finding.message
    assert "64 threads" in finding.message
    assert finding.fix
    threads = max(1, int(share))
    assert finding.fix.commands == (
        f"export TF_NUM_INTRAOP_THREADS={threads}",
        f"export TF_NUM_INTEROP_THREADS={threads}",
    )


def test_a_job_that_is_not_bound_starts_threads_for_the_whole_node(judge: Judge) -> None:
    finding = judge.finding(threads_fit_processors, limits=limits(128), scheduler=JOB)
    assert finding.severity == "info"
    assert "SLURM_CPUS_PER_TASK" in finding.message


def test_less_than_one_processor_stops_the_thread_that_starts_kernels(judge: Judge) -> None:
    finding = judge.finding(threads_fit_processors, limits=quota(0.5))
    assert finding.severity == "warning"
    assert "one busy thread is throttled for 50% of the time" in finding.evidence
    assert finding.fix and "--cpus=4" in finding.fix.text


STOPPED = quota(4, cpu_periods=86_412, cpu_throttled_periods=78_630)


def test_a_quota_that_runs_out_while_the_gpu_is_at_work_does_harm(judge: Judge) -> None:
    finding = judge.finding(threads_fit_processors, limits=STOPPED, nvml=AT_WORK)
    assert finding.severity == "warning"
    assert "the quota ran out in 78630 of the 86412 periods in which the process ran (91%)" in finding.evidence


def test_ten_minutes_of_work_are_enough_to_judge_by(judge: Judge) -> None:
    found = quota(4, cpu_periods=6000, cpu_throttled_periods=5400)
    assert judge.finding(threads_fit_processors, limits=found, nvml=AT_WORK).severity == "warning"


@pytest.mark.parametrize(
    ("found", "nvml"),
    [
        (STOPPED, {}),  # a compiler or a test used it up
        (STOPPED, Nvml(attempt=ANSWERED)),
        (quota(4, cpu_periods=86_412, cpu_throttled_periods=9_000), AT_WORK),
        (quota(4, cpu_periods=120, cpu_throttled_periods=118), AT_WORK),
        (quota(4, cpu_periods=0, cpu_throttled_periods=0), AT_WORK),
        (quota(4), AT_WORK),
    ],
)
def test_figures_that_show_no_harm_are_no_fault(judge: Judge, found: Limits, nvml: Any) -> None:
    assert judge.finding(threads_fit_processors, limits=found, nvml=nvml).severity == "info"


def test_the_figures_are_mentioned_all_the_same(judge: Judge) -> None:
    assert any("91%" in line for line in judge.finding(threads_fit_processors, limits=STOPPED).evidence)


def test_threads_that_were_set_by_hand_are_no_fault(judge: Judge) -> None:
    environment = variables(TF_NUM_INTRAOP_THREADS="4", TF_NUM_INTEROP_THREADS="2")
    said = judge.passes(threads_fit_processors, limits=quota(4), environment=environment)
    assert "TF_NUM_INTRAOP_THREADS=4" in said


def test_one_pool_alone_is_not_enough(judge: Judge) -> None:
    environment = variables(TF_NUM_INTRAOP_THREADS="4")
    assert judge.finding(threads_fit_processors, limits=quota(4), environment=environment).severity == "info"


def test_what_is_not_known_is_not_judged(judge: Judge) -> None:
    assert judge.skips(threads_fit_processors, limits=Limits(), system=None)
    assert judge.passes(threads_fit_processors, limits=Limits())  # the system's own count


@pytest.mark.parametrize("name", [name for name in built() if name.endswith("-healthy")])
def test_on_healthy_machines_it_is_no_fault(judge: Judge, name: str) -> None:
    machine = built()[name]
    assert machine.limits is None or judge.does_not_object(threads_fit_processors, machine)
