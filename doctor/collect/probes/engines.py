"""The container engines on this machine, and NVIDIA's toolkit for them."""

from __future__ import annotations

import re

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.engines import Engines

# /run/current-system belongs to NixOS; NVIDIA's GPU operator puts the toolkit in the last one on a Kubernetes node.
_PROGRAMS = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/run/current-system/sw/bin")
_OPERATOR = "/usr/local/nvidia/toolkit"
_TOOLKIT = ("nvidia-ctk", "nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-container-toolkit")
_CONFIG = "/etc/nvidia-container-runtime/config.toml"
_SETTINGS = (
    "/etc/docker/daemon.json", "/etc/containerd/config.toml",
    "/etc/containerd/conf.d/99-nvidia.toml", "/etc/crio/crio.conf.d/99-nvidia.toml",
)  # fmt: skip
_SOCKETS = ("/run/docker.sock", "/var/run/docker.sock")


@probe(waits_for="the container engines")
def engines(host: Host) -> Engines:
    """Look for Docker, the toolkit and their settings; no daemon is queried."""
    own = host.environment.get("XDG_RUNTIME_DIR", "")
    return Engines(
        docker=_first(host, "dockerd"),
        docker_of_snap="/snap/bin/docker" if host.files.exists("/snap/bin/docker") else "",
        docker_runs_as_root=any(host.files.exists(path) for path in _SOCKETS),
        docker_runs_rootless=bool(own) and host.files.exists(f"{own}/docker.sock"),
        toolkit=tuple(path for name in _TOOLKIT if (path := _first(host, name))),
        no_cgroups=_no_cgroups(host.files.text_if_any(_CONFIG)),
        runtime_named_in=tuple(
            path for path in _SETTINGS if "nvidia-container-runtime" in host.files.text_if_any(path)
        ),
    )


def _first(host: Host, name: str) -> str:
    """The path of a program; empty if it is not installed."""
    paths = (f"{folder}/{name}" for folder in (*_PROGRAMS, _OPERATOR))
    return next((path for path in paths if host.files.exists(path)), "")


def _no_cgroups(config: str) -> bool | None:
    """The setting of that name; None without a file. A line that begins with # is the default, which is false."""
    if not config:
        return None
    return re.search(r"^[ \t]*no-cgroups[ \t]*=[ \t]*true\b", config, re.MULTILINE) is not None
