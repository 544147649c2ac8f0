"""Workers of a multi-worker strategy: processes on this machine, or this one's part of a job that spans machines."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.fleet.launched import HOSTS, INDEX, SERVICE, WORKERS
from tfgpu_doctor.fleet.tf_config import Fault, TfConfig, TfConfigError, derive, faults, faults_among, faults_here
from tfgpu_doctor.perf_tests.children import Child, children
from tfgpu_doctor.perf_tests.peers import free_addresses, look

START_S = 150.0  # all have to be there before any goes on, and they share the cores; less than a test may take
NAMES_S = 60.0  # of that, for a pod to be given its name, and for the others to hear of it
_LAUNCHERS = ("SLURM_", "JOB_COMPLETION_INDEX", HOSTS, INDEX, "TF_CONFIG")


class BadCluster(Exception):
    """A TF_CONFIG that cannot work; the message says what to change."""


@dataclass(frozen=True)
class Workers:
    """The processes that were started here; `count`: of the whole cluster. `spans`: whether others run elsewhere."""

    here: Sequence[Child]
    count: int
    spans: bool

    @property
    def kind(self) -> str:
        """What computes: CPU or GPU."""
        return str(self.here[0].ready["kind"])

    @property
    def share_a_processor(self) -> bool:
        """Whether more workers cannot do more."""
        return not self.spans and self.kind == "CPU"

    @property
    def about(self) -> str:
        """What the metrics are worth."""
        if self.spans:
            return f"{self.count} workers of a job, {self.replicas} replicas on {self.kind}"
        return f"{self.count} workers on the loopback of one machine, on {self.kind}: no measure of a network"

    @property
    def replicas(self) -> int:
        """Of the whole cluster."""
        return int(self.here[0].ready["replicas"])

    def ask(self, what: str) -> list[dict[str, Any]]:
        """Have all do the same at once: each waits for the others in it. Raises ChildDied."""
        with ThreadPoolExecutor(len(self.here)) as pool:
            return [answer.values for answer in pool.map(lambda child: child.ask(what), self.here)]


def job_around(environment: Mapping[str, str]) -> TfConfig | None:
    """The cluster of more than one process that this one was started in. Raises BadCluster."""
    if not {HOSTS, WORKERS, "TF_CONFIG"} & set(environment):  # an indexed Job's pods need know nothing of each other
        environment = {name: value for name, value in environment.items() if name != "JOB_COMPLETION_INDEX"}
    try:
        config = derive(environment)
    except TfConfigError as error:
        raise BadCluster(str(error)) from error
    return config if config and len(config.members) > 1 else None


@contextlib.contextmanager
def workers(count: int, job: TfConfig | None = None, gpus: int = 0) -> Iterator[Workers]:
    """The part of the job that is started here, else so many processes here. Raises BadCluster, ChildDied."""
    configs = [job] if job else _local(count)
    began = time.monotonic()
    _refuse([*faults_among(configs)] if not job else [], configs)
    orders: list[tuple[dict[str, bool], dict[str, str]]] = []
    for place, config in enumerate(configs):
        # Two processes on one GPU are no faster than one, and NCCL refuses them.
        visible = {} if job else {"CUDA_VISIBLE_DEVICES": str(place) if gpus >= count else "-1"}
        orders.append(({"leave_together": bool(job)}, {"TF_CONFIG": config.text, **visible}))
    with children("join_cluster", *orders, start_s=START_S - (time.monotonic() - began)) as started:
        yield Workers(started, len(configs[0].members), bool(job))


def _local(count: int) -> list[TfConfig]:
    """What each process derives from the environment that a launcher gives it."""
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
