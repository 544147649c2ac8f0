"""Whether this is a container, of which kind, and how it is confined."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.machine import Container

_MARKS = (("podman", "/run/.containerenv"), ("docker", "/.dockerenv"), ("apptainer", "/.singularity.d"))
_GROUPS = (
    ("kubernetes", "kubepods"), ("docker", "/docker"), ("podman", "libpod"), ("lxc", "/lxc"), ("containerd", "nerdctl-"),
)  # fmt: skip
_VARIABLES = (
    ("kubernetes", "KUBERNETES_SERVICE_HOST"),
    ("apptainer", "APPTAINER_CONTAINER"),
    ("apptainer", "SINGULARITY_CONTAINER"),
)
# Files in which systemd names the container manager: https://systemd.io/CONTAINER_INTERFACE/ (read 2026-11-21)
_SAID_BY_SYSTEMD = ("/run/systemd/container", "/run/host/container-manager")
_NO_CONTAINER = ("", "wsl")  # systemd also calls WSL a container
# Host paths of the layers of the root file system, in /proc/self/mountinfo.
_LAYERS = (
    ("docker", "/docker/overlay2/"), ("containerd", "/io.containerd."), ("podman or cri-o", "/containers/storage/overlay"),
)  # fmt: skip
_SECCOMP = {"0": "off", "1": "strict", "2": "filter"}  # proc(5)
_WHOLE_RANGE = ["0", "0", "4294967295"]  # /proc/self/uid_map outside of any user namespace
_DEVICE_MOUNTS = "/var/run/nvidia-container-devices"  # of the device plugin's strategy volume-mounts


@probe(waits_for="the container's indicators")
def container(host: Host) -> Container:
    """Look for the indicators that container engines leave: files, control groups, variables, mounts."""
    found = [(kind, f"{path} exists") for kind, path in _MARKS if host.files.exists(path)]
    found += [(kind, f"${name} is set") for kind, name in _VARIABLES if host.environment.get(name)]
    groups = host.files.text_if_any("/proc/1/cgroup") + host.files.text_if_any("/proc/self/cgroup")
    found += [(kind, f"the name of a control group contains {name!r}") for kind, name in _GROUPS if name in groups]
    said = [(host.environment.get("container", ""), "$container")]
    said += [(host.files.text_if_any(path).strip(), path) for path in _SAID_BY_SYSTEMD]
    found += [(name, f"{place} contains {name!r}") for name, place in said if name not in _NO_CONTAINER]
    kinds = [kind for kind, _ in found]
    engine = _engine(host)
    if engine and not kinds:
        found.append((engine.partition(" ")[0], f"the root file system belongs to {engine}"))
    return Container(
        kind="kubernetes" if "kubernetes" in kinds else next((kind for kind, _ in found), ""),
        evidence=tuple(why for _, why in found),
        shm_bytes=_size(host.files.folder_capacity_bytes, "/dev/shm"),
        shm_free_bytes=_size(host.files.folder_free_bytes, "/dev/shm"),
        engine=engine,
        **_confinement(host),
        device_mounts=tuple(host.files.names_if_any(_DEVICE_MOUNTS)),
    )


def _engine(host: Host) -> str:
    """The engine whose layers make up the root file system; empty if it does not come from an image."""
    for line in host.files.text_if_any("/proc/self/mountinfo").splitlines():
        fields, _, source = line.partition(" - ")
        if fields.split()[4:5] == ["/"] and source.startswith("overlay "):
            return next((name for name, layers in _LAYERS if layers in source), "")
    return ""


def _confinement(host: Host) -> dict[str, Any]:
    """User namespace, capabilities, seccomp and security label of this process."""
    status = host.files.text_if_any("/proc/self/status")
    rows = dict(re.findall(r"^(CapEff|Seccomp):\s*(\S+)", status, re.MULTILINE))
    last = host.files.text_if_any("/proc/sys/kernel/cap_last_cap").strip()
    all_of_them = (2 << int(last)) - 1 if last.isdecimal() else None
    mapped = host.files.text_if_any("/proc/self/uid_map").split()
    label = host.files.text_if_any("/proc/self/attr/current").strip("\0 \n")
    return {
        "user_namespace": mapped != _WHOLE_RANGE if mapped else None,
        "privileged": int(rows["CapEff"], 16) == all_of_them if "CapEff" in rows and all_of_them else None,
        "seccomp": _SECCOMP.get(rows.get("Seccomp", ""), ""),
        "security_label": "" if label == "unconfined" else label,
    }


def _size(measure: Callable[[str], int], folder: str) -> int | None:
    try:
        return measure(folder)
    except (OSError, AttributeError):  # Windows has no statvfs
        return None
