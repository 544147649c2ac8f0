"""Workers of a multi-worker strategy: processes on this machine, or this process's part of a job across machines."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.fleet import (
    HOSTS,
    INDEX,
    SERVICE,
    WORKERS,
    Fault,
    TfConfig,
    TfConfigError,
    derive,
    faults,
    faults_among,
    faults_here,
)
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.perf_tests.children import Child, all_of, children
from tfgpu_doctor.perf_tests.peers import free_addresses, look
from tfgpu_doctor.perf_tests.visibility import NO_GPU, only_gpu

START_S = 150.0  # all workers wait for each other and share the cores; less than the time limit of a test
NAMES_S = 60.0  # part of that time, until a pod has its name and the others can resolve it
_LAUNCHERS = ("SLURM_", "JOB_COMPLETION_INDEX", HOSTS, INDEX, "TF_CONFIG")


class BadCluster(Exception):
    """Raised for a TF_CONFIG that cannot work; the message says what to change."""


@dataclass(frozen=True)
class Workers:
    """The processes started on this machine. `count`: the workers of the whole cluster; `spans`: whether others run elsewhere."""

    here: Sequence[Child]
    count: int
    spans: bool

    @property
    def kind(self) -> str:
        """The kind of device that computes: CPU or GPU."""
        return str(self.here[0].ready["kind"])

    @property
    def share_a_processor(self) -> bool:
        """Whether the workers share one CPU, so that more workers do not increase the throughput."""
        return not self.spans and self.kind == "CPU"

    @property
    def about(self) -> str:
        """A description of the cluster, to interpret the metrics."""
        if self.spans:
            return f"{self.count} workers of a job, {amount(self.replicas, 'replica')} on {self.kind}"
        return f"{self.count} workers on the loopback of one machine, on {self.kind}: does not measure a network"

    @property
    def replicas(self) -> int:
        """The number of replicas in the whole cluster."""
        return int(self.here[0].ready["replicas"])

    def ask(self, what: str) -> list[dict[str, Any]]:
        """Send all workers the same request at the same time, because they wait for each other. Raises ChildDied."""
        return [answer.values for answer in all_of(self.here, lambda child: child.ask(what))]


def job_around(environment: Mapping[str, str]) -> TfConfig | None:
    """Return the cluster that this process was started in, if it has more than one process. Raises BadCluster."""
    if not {HOSTS, WORKERS, "TF_CONFIG"} & set(environment):  # the pods of an indexed Job may be independent
        environment = {name: value for name, value in environment.items() if name != "JOB_COMPLETION_INDEX"}
    try:
        config = derive(environment)
    except TfConfigError as error:
        raise BadCluster(str(error)) from error
    return config if config and len(config.members) > 1 else None


@contextlib.contextmanager
def workers(count: int, job: TfConfig | None = None, gpus: int = 0) -> Iterator[Workers]:
    """Start this machine's part of the job, or `count` processes without a job. Raises BadCluster, ChildDied."""
    configs = [job] if job else _local(count)
    began = time.monotonic()
    _refuse([*faults_among(configs)] if not job else [], configs)
    orders: list[tuple[dict[str, bool], dict[str, str]]] = []
    for place, config in enumerate(configs):
        # Two processes on one GPU are not faster than one, and NCCL rejects them.
        visible = {} if job else only_gpu(place) if gpus >= count else NO_GPU
        orders.append(({"leave_together": bool(job)}, {"TF_CONFIG": config.text, **visible}))
    with children("join_cluster", *orders, start_s=START_S - (time.monotonic() - began)) as started:
        yield Workers(started, len(configs[0].members), bool(job))


def _local(count: int) -> list[TfConfig]:
    """Return the configuration of each process, derived from an environment like that of a launcher."""
    addresses = ",".join(free_addresses(count))
    around = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS)}
    found = [derive({**around, HOSTS: addresses, INDEX: str(place)}) for place in range(count)]
    return [config for config in found if config]


def _refuse(among: Sequence[Fault], configs: Sequence[TfConfig]) -> None:
    found = list(among)
    names_s = NAMES_S if os.environ.get(SERVICE) else 0.0
    for config in configs:
        found += [*faults(config)]
        found += faults_here(config, look(config, names_s)) if not found else []
    if found:
        raise BadCluster("; ".join(str(fault) for fault in found[:3]))
