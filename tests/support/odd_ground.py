"""Odd facts of limits, engines, notebooks and projects, for the test that no check breaks on any."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tfgpu_doctor.model.facts.engines import Engines
from tfgpu_doctor.model.facts.hosting import Hosting
from tfgpu_doctor.model.facts.limits import Limits
from tfgpu_doctor.model.facts.machine import Container, NumaNode, Scheduler, System
from tfgpu_doctor.model.facts.notebooks import EditorSetting, Interpreter, Kernel, Notebooks
from tfgpu_doctor.model.facts.project import Project, ProjectRequirement

WORDS = st.sampled_from(["", "odd", "1", "-1", "0", "a b", "100000", "GPU-1", "/x/y"])
COUNTS = st.none() | st.sampled_from([-1, 0, 1, 3, 1 << 40])
LISTS = st.sampled_from(["", "0", "0-3", "8-", "-", "odd", "0-63,128-191", "5-3"])
SHARES = st.none() | st.sampled_from([0.0, 0.01, 0.5, 1.0, 4.0, 1e9])
FLAGS = st.none() | st.booleans()
PATHS = st.sampled_from(["", "python", "/usr/bin/python3", "/home/user/venv/bin/python", "C:\\venv\\python.exe"])
PACKAGES = st.sampled_from(
    ["", "tensorflow-gpu", "tensorflow-gpu==", "tensorflow-gpu>=2.8", "tensorflow_gpu==2.*", "tensorflow-gpu^2.8", "odd", "tensorflow-gpu===x"]
)  # fmt: skip


def many(of: Any) -> Any:
    return st.lists(of, max_size=3).map(tuple)


def table(of: Any, names: Any) -> Any:
    return st.dictionaries(names, of, max_size=3)


INTERPRETERS = st.builds(Interpreter, path=PATHS, prefix=WORDS, exists=st.booleans(), is_target=FLAGS)
REQUIREMENTS = st.builds(ProjectRequirement, file=WORDS, words=PACKAGES)
GROUND_FACTS: dict[str, Any] = {
    "limits": st.builds(
        Limits,
        cgroup_version=st.sampled_from([0, 1, 2, 3]),
        cpu_list=LISTS,
        cpu_quota=SHARES,
        cpu_quota_group=WORDS,
        cpu_periods=COUNTS,
        cpu_throttled_periods=COUNTS,
        memory_limit_bytes=COUNTS,
        memory_used_bytes=COUNTS,
        oom_kills=COUNTS,
        tasks_limit=COUNTS,
        tasks_used=COUNTS,
        device_rules=many(WORDS),
        resources=table(st.sampled_from([-1, 0, 100, 1 << 33]), st.sampled_from(["as", "nofile", "nproc", "memlock", "odd"])),
    ),
    "hosting": st.builds(
        Hosting,
        service=st.sampled_from(["", "Google Colab", "GitHub Codespaces", "odd"]),
        evidence=many(WORDS), vendor=WORDS, product=WORDS, l4t=WORDS, jetpack=WORDS,
    ),
    "engines": st.builds(
        Engines,
        docker=WORDS, docker_of_snap=WORDS, docker_runs_as_root=st.booleans(), docker_runs_rootless=st.booleans(),
        toolkit=many(WORDS), no_cgroups=FLAGS, runtime_named_in=many(WORDS),
    ),
    "notebooks": st.builds(
        Notebooks,
        kernels=many(st.builds(Kernel, name=WORDS, folder=WORDS, interpreter=INTERPRETERS, variables=table(WORDS, st.just("LD_LIBRARY_PATH")))),
        settings=many(st.builds(EditorSetting, file=WORDS, interpreter=INTERPRETERS)),
        inside=st.sampled_from(["", "Jupyter", "odd"]),
        running=st.none() | INTERPRETERS,
        target_was_named=st.booleans(),
    ),
    "project": st.builds(Project, requirements=many(REQUIREMENTS), gpu_containers=many(REQUIREMENTS)),
    "container": st.builds(
        Container,
        kind=st.sampled_from(["", "docker", "lxc", "oci", "kubernetes", "systemd-nspawn"]),
        evidence=many(WORDS), shm_bytes=COUNTS, shm_free_bytes=COUNTS, engine=WORDS, user_namespace=FLAGS,
        privileged=FLAGS, seccomp=WORDS, security_label=WORDS, device_mounts=many(WORDS),
    ),
    "scheduler": st.builds(
        Scheduler,
        kind=st.sampled_from(["", "slurm", "lsf", "pbs", "sge", "htcondor", "odd"]),
        job=WORDS, granted=table(WORDS, WORDS), denied=table(WORDS, WORDS), step=WORDS, step_granted=table(WORDS, WORDS),
        cpus=COUNTS, cpus_said_by=WORDS,
    ),
}  # fmt: skip


def with_ground(systems: Any) -> Any:
    """Odd systems with odd memory and odd nodes."""
    nodes = st.builds(NumaNode, number=st.sampled_from([0, 1, 7]), cpu_list=LISTS, memory_bytes=COUNTS)
    more = st.fixed_dictionaries(
        {
            "memory_free_bytes": COUNTS, "memory_available_bytes": COUNTS, "swap_bytes": COUNTS,
            "huge_pages": COUNTS,
            "numa_nodes": many(nodes), "rdma_devices": many(WORDS),
        }
    )  # fmt: skip
    return st.builds(_replaced, systems, more)


def _replaced(system: System, changes: dict[str, Any]) -> System:
    from msgspec.structs import replace

    return replace(system, **changes)
