"""The fact of the container engines on this machine, and of NVIDIA's toolkit for them."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import FilePath


class Engines(Fact, frozen=True):
    """Container engines that are installed here, and their configuration for GPUs."""

    docker: FilePath = ""  # the daemon of a package, "/usr/bin/dockerd"
    docker_of_snap: FilePath = ""  # "/snap/bin/docker"
    docker_runs_as_root: bool = False  # its socket exists
    docker_runs_rootless: bool = False
    toolkit: tuple[FilePath, ...] = ()  # programs of the NVIDIA Container Toolkit
    no_cgroups: bool | None = None  # from its config.toml; None if there is no such file
    runtime_named_in: tuple[FilePath, ...] = ()  # settings of engines that name NVIDIA's runtime
