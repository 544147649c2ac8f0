"""Whether this is a container, and of which kind."""

from __future__ import annotations

from tfgpu_doctor.facts import Container
from tfgpu_doctor.host import Host
from tfgpu_doctor.probe import probe

_MARKS = (("podman", "/run/.containerenv"), ("docker", "/.dockerenv"), ("apptainer", "/.singularity.d"))
_GROUPS = (("kubernetes", "kubepods"), ("docker", "/docker"), ("podman", "libpod"), ("lxc", "/lxc"))
_VARIABLES = (
    ("kubernetes", "KUBERNETES_SERVICE_HOST"),
    ("apptainer", "APPTAINER_CONTAINER"),
    ("apptainer", "SINGULARITY_CONTAINER"),
)


@probe(waits_for="the container's marks")
def container(host: Host) -> Container:
    """Look for the marks that container engines leave: files, control groups, variables."""
    found = [(kind, f"{path} exists") for kind, path in _MARKS if host.files.exists(path)]
    found += [(kind, f"${name} is set") for kind, name in _VARIABLES if host.environment.get(name)]
    groups = host.files.text_if_any("/proc/1/cgroup") + host.files.text_if_any("/proc/self/cgroup")
    found += [(kind, f"a control group is named {name!r}") for kind, name in _GROUPS if name in groups]
    if marked := host.environment.get("container"):
        found.append((marked, f"$container is {marked!r}"))
    kinds = [kind for kind, _ in found]
    return Container(
        kind="kubernetes" if "kubernetes" in kinds else next(iter(kinds), ""),
        evidence=tuple(why for _, why in found),
        shm_bytes=_shm_bytes(host),
    )


def _shm_bytes(host: Host) -> int | None:
    try:
        return host.files.folder_capacity_bytes("/dev/shm")
    except (OSError, AttributeError):
        return None
