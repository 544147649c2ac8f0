"""The batch job that this process belongs to, and the GPUs and CPUs that it was granted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import BatchSystem
from tfgpu_doctor.model.facts.machine import Scheduler


@probe(waits_for="the scheduler's variables")
def scheduler(host: Host) -> Scheduler:
    """Read the variables that batch systems set in a job."""
    for row in read_knowledge().batch_systems.values():
        job = host.environment.get(row.job)
        if job and all(host.environment.get(name) for name in row.also):
            return _describe(row, job, host.environment)
    return Scheduler()


def _describe(row: BatchSystem, job: str, environment: Mapping[str, str]) -> Scheduler:
    named = _named(row.grants, environment)
    cpus, said_by = _cpus(row, environment)
    return Scheduler(
        kind=row.kind,
        job=job,
        granted={name: value for name, value in named.items() if value not in row.nothing},
        denied={name: value for name, value in named.items() if value in row.nothing},
        step=environment.get(row.step, "") if row.step else "",
        step_granted=_named(row.step_grants, environment),
        cpus=cpus,
        cpus_said_by=said_by,
    )


def _named(names: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of those names that are set and not empty; a * matches the rest of a name."""
    found: dict[str, str] = {}
    for name in names:
        if name.endswith("*"):
            found.update({each: value for each, value in sorted(environment.items()) if each.startswith(name[:-1])})
        elif name in environment:
            found[name] = environment[name]
    return {name: value for name, value in found.items() if value}


def _cpus(row: BatchSystem, environment: Mapping[str, str]) -> tuple[int | None, str]:
    """The number of granted CPUs, and the variable that states it."""
    told = ((environment.get(name, ""), name) for name in row.cpus)
    return next(((int(value), name) for value, name in told if value.isdecimal() and int(value) > 0), (None, ""))
