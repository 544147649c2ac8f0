"""In pods, jobs, clouds, notebooks and on boards where everything works, no check raises a false alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from built_ground import built, limits
from built_machines import built as others
from every import every
from healthy import broken

from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.model import Finding, Skip
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import Scheduler

if TYPE_CHECKING:
    from checks.conftest import Judge

HEALTHY = {name: facts for name, facts in {**others(), **built()}.items() if name.endswith("-healthy")}
GROUND = ("system", "container", "scheduler", "limits", "hosting", "engines", "notebooks", "project", "environment")


def alarms(judge: Judge, facts: Facts) -> list[str]:
    """The findings that are faults, as the checks come to them, each for itself."""
    found = []
    for check in ALL_CHECKS:
        if any(getattr(facts, name) is None for name in check.needs if name != "knowledge"):
            continue
        try:
            yielded = judge(check, facts)
        except Skip:
            continue
        faults = [each for each in yielded if isinstance(each, Finding) and each.severity != "info"]
        found += [f"{check.id} {each.severity}: {each.message}" for each in faults]
    return found


def test_there_are_enough_of_them() -> None:
    assert len(HEALTHY) >= 12


@every("name", HEALTHY)
def test_nothing_is_wrong(judge: Judge, name: str) -> None:
    assert alarms(judge, HEALTHY[name]) == []


@every("name", built())
def test_a_fact_that_is_missing_is_no_fault(judge: Judge, name: str) -> None:
    if name.endswith("-healthy"):
        for fact in GROUND:
            assert alarms(judge, broken(built()[name], **{fact: None})) == [], fact


@pytest.mark.parametrize("processors", [1, 2, 4, 8, 64, 256])
@pytest.mark.parametrize("quota", [None, 1.0, 2.0, 4.0])
def test_a_small_share_of_any_machine_is_no_fault(judge: Judge, processors: int, quota: float | None) -> None:
    confined = limits(
        processors, cpu_quota=quota, cpu_periods=500, cpu_throttled_periods=400, memory_limit_bytes=4 << 30,
        memory_used_bytes=1 << 30, oom_kills=1, tasks_limit=4096, tasks_used=200,
    )  # fmt: skip
    job = Scheduler(kind="slurm", job="7", granted={"SLURM_JOB_GPUS": "0"}, cpus=1, cpus_said_by="SLURM_CPUS_PER_TASK")
    assert alarms(judge, broken(limits=confined, scheduler=job)) == []
