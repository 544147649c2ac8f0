"""The job as objects of Kubernetes: a Job, a DaemonSet, or CronJobs for a round every day."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from tfgpu_doctor.fleet.emitting import Emission, NotEmittable, a_label, a_subdomain, an_image, matching, render

CloudKind = Literal["job", "daemonset"]
KernelLog = Literal["capability", "privileged"]
PATIENCE_MINUTES = 60.0
# Set by NVIDIA's GPU operator: https://github.com/NVIDIA/gpu-operator/blob/main/controllers/state_manager.go
GPU_NODES = "nvidia.com/gpu.present=true"
# What NCCL recommends for containers: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
SHM_SIZE = "1Gi"
_START_S = 300  # to pull the image and to start a pod
_LONGEST_OF_A_ROUND = 45  # a CronJob's name has at most 52 characters, and its collector's ends with -report
_LABEL_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_SELECTOR = re.compile(rf"([a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_LABEL_NAME}=({_LABEL_NAME})?")
_SIZE = re.compile(r"[1-9][0-9]{0,6}(Ki|Mi|Gi|Ti)")
_CRON_FIELD = r"[0-9A-Za-z*/,-]+"
_SCHEDULE = re.compile(rf"@(yearly|annually|monthly|weekly|daily|midnight|hourly)|{_CRON_FIELD}( {_CRON_FIELD}){{4}}")


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One Job or CronJob: over the nodes that the scheduler chooses, or for one node by name."""

    name: str
    node: str = ""
    slot: str = ""  # pods of one slot run one after another


class Cloud(msgspec.Struct, frozen=True, kw_only=True):
    """Additional settings for Kubernetes."""

    image: str
    name: str = "tfgpu-doctor"
    claim: str = ""  # the PersistentVolumeClaim with the folder of the reports; if empty, the folder is on the hosts
    runtime_class: str | None = None  # None: what the job needs
    priority_class: str = ""
    node_selector: tuple[str, ...] = ()  # KEY=VALUE
    uid: int = 1000
    shm_size: str = SHM_SIZE
    kernel_log: KernelLog | None = None
    node_names: tuple[str, ...] = ()
    at_once: int | None = None  # of the named nodes
    schedule: str = ""
    patience: float = PATIENCE_MINUTES  # to wait for nodes that are in use

    @property
    def selector(self) -> dict[str, str]:
        """The labels of the nodes to examine."""
        pairs = (each.partition("=") for each in self.node_selector or (GPU_NODES,))
        return {key: value for key, _, value in pairs}

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The Jobs or CronJobs that examine the nodes."""
        if not self.node_names:
            return (Workload(name=self.name),)
        slots = self.at_once if self.at_once and self.at_once < len(self.node_names) else 0
        return tuple(
            Workload(name=f"{self.name}-{place}", node=node, slot=f"{self.name}-{place % slots}" if slots else "")
            for place, node in enumerate(self.node_names)
        )

    def runtime(self, job: Emission) -> str:
        """The runtime class. A pod that requests no GPU sees the GPUs only with NVIDIA's runtime."""
        if self.runtime_class is None:
            return "nvidia" if job.gpus is None else ""
        return self.runtime_class

    def subfolder(self, job: Emission) -> str:
        """The folder of the reports inside the claim; empty for its root, and for a folder on the hosts."""
        return job.out.strip("/") if self.claim else ""

    def pod_limit_s(self, job: Emission) -> int:
        """The time limit of a pod, from its start."""
        return job.limit_s + _START_S

    def deadline_s(self, job: Emission) -> int:
        """The time limit of the Job: all waves of nodes, a second try, and the wait for nodes that are in use."""
        waves = -(-len(self.node_names) // self.at_once) if self.at_once else 1
        return 2 * job.limit_s + (max(waves, 1) - 1) * self.pod_limit_s(job) + round(60 * self.patience)


def kubernetes(job: Emission, kind: CloudKind, cloud: Cloud) -> dict[str, str]:
    """Return a Kustomize base as a mapping from file name to content, the workload first. Raises NotEmittable."""
    _check_values(job, cloud)
    if kind == "daemonset":
        _check_daemonset(job, cloud)
    else:
        _check_job(job, cloud)
    file = f"{'cronjob' if cloud.schedule else kind}.yaml"
    return {
        file: render(f"{file}.jinja", job=job, cloud=cloud),
        "names.yaml": render("names.yaml.jinja"),
        "kustomization.yaml": render("kustomization.yaml.jinja", file=file),
    }


def _check_values(job: Emission, cloud: Cloud) -> None:
    an_image("--image", cloud.image)
    a_label("--name", cloud.name)
    for option, value in (
        ("--claim", cloud.claim), ("--runtime-class", cloud.runtime_class), ("--priority-class", cloud.priority_class),
    ):  # fmt: skip
        if value:
            a_subdomain(option, value)
    for each in cloud.node_selector:
        matching(_SELECTOR, "--node-selector", each, "a label as KEY=VALUE")
    if twice := _twice([each.partition("=")[0] for each in cloud.node_selector]):
        raise NotEmittable(f"--node-selector sets {twice} twice: a node has one value for each label")
    matching(_SIZE, "--shm-size", cloud.shm_size, "a whole number with Ki, Mi, Gi or Ti")
    if ".." in job.out.split("/"):
        raise NotEmittable(f"--out {job.out} contains '..', which Kubernetes rejects")


def _check_daemonset(job: Emission, cloud: Cloud) -> None:
    if job.loads or job.gpus is not None:
        raise NotEmittable(
            "a DaemonSet would keep the GPUs that it requests: use --kind job for levels that stress GPUs"
        )
    for option, value in (
        ("--nodes", job.nodes), ("--node-names", cloud.node_names), ("--at-once", cloud.at_once), ("--schedule", cloud.schedule),
    ):  # fmt: skip
        if value:
            raise NotEmittable(
                f"--kind daemonset runs once on every node: it cannot be combined with {option}; use --kind job, with "
                "--node-names for some nodes at once"
            )


def _check_job(job: Emission, cloud: Cloud) -> None:
    if job.nodes is None:
        raise NotEmittable("set --nodes N to the number of nodes, or --node-names")
    if job.loads and job.gpus is None:
        raise NotEmittable("this level or suite uses the GPUs: set --gpus N to the number of GPUs per node")
    if job.together and not cloud.name[0].isalpha():
        raise NotEmittable(f"--name {cloud.name} also names a service, so it must begin with a letter")
    if cloud.schedule:
        matching(_SCHEDULE, "--schedule", cloud.schedule, "five fields as in a crontab, or @daily and the like")
        if len(cloud.name) > _LONGEST_OF_A_ROUND:
            raise NotEmittable(
                f"--name {cloud.name} is too long for a CronJob: use at most {_LONGEST_OF_A_ROUND} characters"
            )
    if cloud.node_names:
        _check_named(job, cloud)
    elif cloud.at_once is not None:
        raise NotEmittable(
            "--at-once requires --node-names: without names, Kubernetes may choose a node that was already examined again"
        )


def _check_named(job: Emission, cloud: Cloud) -> None:
    for name in cloud.node_names:
        a_subdomain("--node-names", name)
    if twice := _twice(cloud.node_names):
        raise NotEmittable(f"--node-names contains {twice} twice")
    if cloud.node_selector:
        raise NotEmittable("--node-names selects the nodes: it cannot be combined with --node-selector")
    if job.together:
        raise NotEmittable(
            "in the suite multi_worker, all nodes train together in one Job: use --nodes, not --node-names"
        )


def _twice(values: Sequence[str]) -> str:
    return next((value for value, count in Counter(values).items() if count > 1), "")
