"""The job in the format of each scheduler: Slurm, Kubernetes, MPI."""

from __future__ import annotations

from typing import Literal

import msgspec

from tfgpu_doctor.fleet.emitting import Emission, NotEmittable, a_label, a_name, a_subdomain, an_image, render

SlurmKind = Literal["job", "prolog"]
CloudKind = Literal["job", "daemonset"]
_PATIENCE_S = 3600
_MOUNTED = "/reports"


class Cloud(msgspec.Struct, frozen=True, kw_only=True):
    """Additional settings for Kubernetes."""

    image: str
    name: str = "tfgpu-doctor"
    claim: str = ""  # the PersistentVolumeClaim with the folder of the reports; if empty, the folder is on the hosts
    runtime_class: str = ""
    uid: int = 1000
    patience_s: int = _PATIENCE_S  # to wait for nodes that are in use

    def folder(self, out: str) -> str:
        """Return the path of the reports' folder inside the container."""
        return _MOUNTED + (out.rstrip("/") if self.claim else "")


def slurm(job: Emission, kind: SlurmKind, *, partition: str = "", account: str = "") -> str:
    """Return an sbatch script, or a script for Prolog= and Epilog= in slurm.conf. Raises NotEmittable."""
    if kind == "prolog":
        if partition or account or job.nodes:
            raise NotEmittable(
                "--kind prolog runs where Slurm starts it: it cannot be combined with --nodes, --partition or --account"
            )
        return render("slurm_prolog.sh.jinja", job=job)
    _need_size(job)
    for option, value in (("--partition", partition), ("--account", account)):
        if value:
            a_name(option, value)
    return render("slurm_job.sh.jinja", job=job, partition=partition, account=account)


def mpi(job: Emission) -> str:
    """Return a script that starts mpirun over a list of hosts."""
    return render("mpi.sh.jinja", job=job)


def kubernetes(job: Emission, kind: CloudKind, cloud: Cloud) -> dict[str, str]:
    """Return a Kustomize base as a mapping from file name to content, the workload first. Raises NotEmittable."""
    an_image("--image", cloud.image)
    a_label("--name", cloud.name)
    for option, value in (("--claim", cloud.claim), ("--runtime-class", cloud.runtime_class)):
        if value:
            a_subdomain(option, value)
    if ".." in job.out.split("/"):
        raise NotEmittable(f"--out {job.out} contains '..', which Kubernetes rejects")
    if kind == "job":
        _need_size(job)
        if job.together and not cloud.name[0].isalpha():
            raise NotEmittable(f"--name {cloud.name} also names a service, so it must begin with a letter")
    elif job.loads or job.gpus is not None:
        raise NotEmittable(
            "a DaemonSet would keep the GPUs that it requests: use --kind job for levels that stress GPUs"
        )
    elif job.nodes:
        raise NotEmittable("--kind daemonset runs on every node: it cannot be combined with --nodes")
    file = f"{kind}.yaml"
    return {
        file: render(f"{file}.jinja", job=job, cloud=cloud),
        "kustomization.yaml": render("kustomization.yaml.jinja", file=file),
    }


def _need_size(job: Emission) -> None:
    if job.nodes is None:
        raise NotEmittable("set --nodes N to the number of nodes")
    if job.loads and job.gpus is None:
        raise NotEmittable("this level or suite uses the GPUs: set --gpus N to the number of GPUs per node")
