"""Whether this is a container, of which kind, and how it is confined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
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
# Engines that start a container within another one or within a pod: where a process shows their mark, it is in theirs.
# https://github.com/hpc/charliecloud/blob/main/doc/ch-run.rst (CH_RUNNING, read 2026-11-29)
_INNERMOST = ("enroot", "charliecloud")
_CHARLIECLOUD = "CH_RUNNING"
# Enroot, also under Slurm's plugin pyxis, mounts its lock file into each container:
# https://github.com/NVIDIA/enroot/blob/main/src/runtime.sh (read 2026-11-29)
_LOCK_OF_ENROOT = "/.lock"
# Files in which systemd names the container manager: https://systemd.io/CONTAINER_INTERFACE/ (read 2026-11-21)
_SAID_BY_SYSTEMD = ("/run/systemd/container", "/run/host/container-manager")
_NO_CONTAINER = ("", "wsl")  # systemd also calls WSL a container
# Of the variable of that interface, the names that systemd-detect-virt(1) knows, and those of Red Hat's images and Flatpak:
# users have a variable `container` too, which holds an image's file or a name of theirs.
_SYSTEMDS_VARIABLE = "container"
_NAMES_IN_VARIABLE = (
    "container-other", "docker", "flatpak", "lxc", "lxc-libvirt", "oci", "openvz", "podman", "pouch", "proot", "rkt",
    "systemd-nspawn",
)  # fmt: skip
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
    mounts = host.files.text_if_any("/proc/self/mountinfo").splitlines()
    found = [("enroot", f"enroot's {_LOCK_OF_ENROOT} is mounted")] if _has_lock_of_enroot(mounts) else []
    found += [("charliecloud", f"${_CHARLIECLOUD} is set")] if host.environment.get(_CHARLIECLOUD) else []
    found += [(kind, f"{path} exists") for kind, path in _MARKS if host.files.exists(path)]
    found += [(kind, f"${name} is set") for kind, name in _VARIABLES if host.environment.get(name)]
    groups = host.files.text_if_any("/proc/1/cgroup") + host.files.text_if_any("/proc/self/cgroup")
    found += [(kind, f"the name of a control group contains {name!r}") for kind, name in _GROUPS if name in groups]
    found += _said_by_systemd(host)
    engine = _engine(mounts)
    if engine and not found:
        found.append((engine.partition(" ")[0], f"the root file system belongs to {engine}"))
    if not found and _has_lxcfs(mounts):
        found.append(("lxc", "lxcfs is mounted below /proc"))
    kinds = [kind for kind, _ in found]
    return Container(
        kind=next((kind for kind in (*_INNERMOST, "kubernetes") if kind in kinds), "") or next(iter(kinds), ""),
        evidence=tuple(why for _, why in found),
        shm_bytes=_size(host.files.folder_capacity_bytes, "/dev/shm"),
        shm_free_bytes=_size(host.files.folder_free_bytes, "/dev/shm"),
        engine=engine,
        **_confinement(host),
        device_mounts=tuple(host.files.names_if_any(_DEVICE_MOUNTS)),
    )


def _has_lock_of_enroot(mounts: Iterable[str]) -> bool:
    """Whether enroot's lock file is a mount of its own: a file of that name on a host is none."""
    return any(line.split()[4:5] == [_LOCK_OF_ENROOT] for line in mounts)


def _has_lxcfs(mounts: Iterable[str]) -> bool:
    """Whether LXC's view of the machine covers files of /proc: all that shows a container of LXC without systemd.

    Its host mounts it elsewhere; Docker and Kubernetes use it too, and leave marks of their own.
    """
    split = (line.partition(" - ") for line in mounts)
    return any(
        source.startswith("fuse.lxcfs ") and "".join(fields.split()[4:5]).startswith("/proc/")
        for fields, _, source in split
    )


def _said_by_systemd(host: Host) -> list[tuple[str, str]]:
    """The kinds of container that systemd's interface names, and where."""
    variable = host.environment.get(_SYSTEMDS_VARIABLE, "")
    said = [(variable if variable in _NAMES_IN_VARIABLE else "", f"${_SYSTEMDS_VARIABLE}")]
    said += [(host.files.text_if_any(path).strip(), path) for path in _SAID_BY_SYSTEMD]
    return [(name, f"{place} contains {name!r}") for name, place in said if name not in _NO_CONTAINER]


def _engine(mounts: Iterable[str]) -> str:
    """The engine whose layers make up the root file system; empty if it does not come from an image."""
    for line in mounts:
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
