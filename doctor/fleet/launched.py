"""The index of this process and the hosts of all, from the variables of Slurm, Kubernetes or a launcher on Ray."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Set by the launcher of the processes if no other variable is available: on Ray, and on Kubernetes without a service.
HOSTS, INDEX = "TFGPU_DOCTOR_HOSTS", "TFGPU_DOCTOR_INDEX"
# In the manifest of an indexed Job: the number of pods, and the headless service that names them.
WORKERS, SERVICE = "TFGPU_DOCTOR_WORKERS", "TFGPU_DOCTOR_SERVICE"
_MOST_HOSTS = 65536
_MOST_STEPS = 0xFFFFFFF0  # SLURM_MAX_NORMAL_STEP_ID: https://github.com/SchedMD/slurm/blob/master/slurm/slurm.h
_GROUP = re.compile(r"([^\[\]]*)\[([0-9,-]+)\](.*)")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


@dataclass(frozen=True)
class Launched:
    """The host of each process, in the order of their indices, and the index of this process."""

    hosts: tuple[str, ...]
    index: int
    by: str


def launched_by(environment: Mapping[str, str]) -> Launched | None:
    """Return the processes and the index of this one; None if unknown. Raises ValueError that says what to set."""
    if environment.get(HOSTS):
        hosts = tuple(host.strip() for host in environment[HOSTS].split(",") if host.strip())
        for name in (INDEX, "JOB_COMPLETION_INDEX", "SLURM_PROCID"):
            if name in environment:
                return Launched(hosts, _number(environment, name), "the hosts given")
        raise ValueError(f"{HOSTS} lists the processes, but the index of this one is not set: set {INDEX}")
    if "SLURM_PROCID" in environment:
        return _by_slurm(environment)
    if "JOB_COMPLETION_INDEX" in environment:
        return _by_kubernetes(environment)
    return None


def _by_slurm(environment: Mapping[str, str]) -> Launched:
    nodes = _first(environment, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    tasks = _first(environment, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE") or "1"
    if not nodes:
        raise ValueError(
            "SLURM_PROCID is set, but SLURM_JOB_NODELIST is not: start the processes with srun inside a job"
        )
    hosts, counts = expand(nodes), tasks_per_node(tasks)
    if len(counts) == 1:
        counts *= len(hosts)
    if len(counts) != len(hosts):
        raise ValueError(f"Slurm lists {len(hosts)} nodes ({nodes}), but tasks for {len(counts)} ({tasks})")
    if sum(counts) > 1 and _runs_once(environment):
        raise ValueError(
            "this is the batch script of a Slurm job, or its shell: it runs once, so that every process would be worker 0. "
            "Derive TF_CONFIG in each process that srun starts: "
            "srun bash -c 'TF_CONFIG=$(tfgpu-doctor fleet tfconfig) && export TF_CONFIG && exec python train.py'"
        )
    everyone = tuple(host for host, count in zip(hosts, counts, strict=True) for _ in range(count))
    if "SLURM_NODEID" in environment and "SLURM_LOCALID" in environment:  # right for every --distribution
        node, local = _number(environment, "SLURM_NODEID"), _number(environment, "SLURM_LOCALID")
        return Launched(everyone, sum(counts[:node]) + local, "Slurm")
    return Launched(everyone, _number(environment, "SLURM_PROCID"), "Slurm")


def _runs_once(environment: Mapping[str, str]) -> bool:
    """Whether this is no process of srun. Slurm gives process 0 to a batch script and to the shell of salloc, too.

    They have no step, or one of Slurm's own, with a number above that of every other step.
    """
    step = environment.get("SLURM_STEP_ID", "")
    if step:
        return step.isdecimal() and int(step) > _MOST_STEPS
    return environment["SLURM_PROCID"] == "0" and not environment.get("SLURM_STEP_NODELIST")


def _by_kubernetes(environment: Mapping[str, str]) -> Launched:
    """Return the pods of an indexed Job, which have names of the form <job>-<index>.<service>."""
    index, host = _number(environment, "JOB_COMPLETION_INDEX"), environment.get("HOSTNAME", "")
    if not environment.get(WORKERS) or not environment.get(SERVICE):
        raise ValueError(
            f"JOB_COMPLETION_INDEX is set, but the names of the other pods are unknown: set {HOSTS}, or {WORKERS} (the Job's "
            f"completions) and {SERVICE} (the headless service that is the pods' subdomain)"
        )
    job = host.removesuffix(f"-{index}")
    if job == host:
        raise ValueError(f"the host name {host!r} does not end with the completion index {index}: set {HOSTS}")
    count = _number(environment, WORKERS)
    if count > _MOST_HOSTS:
        raise ValueError(f"{WORKERS} is {count}, more than any cluster has")
    return Launched(tuple(f"{job}-{place}.{environment[SERVICE]}" for place in range(count)), index, "Kubernetes")


def _first(environment: Mapping[str, str], *names: str) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


def _number(environment: Mapping[str, str], name: str) -> int:
    if not environment[name].isdecimal():
        raise ValueError(f"{name} is {environment[name]!r}, which is not a number")
    return int(environment[name])


def tasks_per_node(text: str) -> tuple[int, ...]:
    """Expand Slurm's task counts: 2(x3),1 is 2, 2, 2, 1. Raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        matched = _TASKS.fullmatch(part.strip())
        if not matched or int(matched.group(2) or 1) > _MOST_HOSTS:
            raise ValueError(f"{text!r} is not a list of tasks per node in Slurm's format")
        found += [int(matched.group(1))] * int(matched.group(2) or 1)
    return tuple(found)


def expand(text: str) -> tuple[str, ...]:
    """Expand Slurm's list of nodes: gpu[01-03,7],login is gpu01, gpu02, gpu03, gpu7, login. Raises ValueError."""
    found: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        found += _expand_one(part.strip(), text)
        if len(found) > _MOST_HOSTS:
            raise ValueError(f"a list of more than {_MOST_HOSTS} nodes: {text[:60]}")
    return tuple(found)


def _expand_one(part: str, whole: str) -> list[str]:
    matched = _GROUP.fullmatch(part)
    if not matched:
        if not part or "[" in part or "]" in part:
            raise ValueError(f"{whole!r} is not a list of nodes in Slurm's format")
        return [part]
    before, ranges, after = matched.groups()
    ends = _expand_one(after, whole) if after else [""]
    found: list[str] = []
    for each in ranges.split(","):
        low, _, high = each.partition("-")
        if not low.isdecimal() or (high and not high.isdecimal()):
            raise ValueError(f"{whole!r} is not a list of nodes in Slurm's format")
        numbers = range(int(low), int(high or low) + 1)
        if int(high or low) - int(low) > _MOST_HOSTS or len(found) + len(numbers) * len(ends) > _MOST_HOSTS:
            raise ValueError(f"a list of more than {_MOST_HOSTS} nodes: {whole[:60]}")
        found += [f"{before}{number:0{len(low)}d}{end}" for number in numbers for end in ends]
    return found
