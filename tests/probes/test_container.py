"""The probe of the container."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.host import Host
from tfgpu_doctor.probes.container import container

if TYPE_CHECKING:
    from probes.conftest import Machine

ID = "8a3f0e6b2f1c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6"
V1_CONTROLLERS = ("12:memory", "11:cpu,cpuacct", "10:devices", "1:name=systemd")
HOST_V1 = (
    "12:memory:/user.slice\n11:cpu,cpuacct:/user.slice\n1:name=systemd:/user.slice/user-1000.slice/session-2.scope\n"
)
HOST_V2 = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-terminal.scope\n"


def v1(group: str) -> str:
    return "".join(f"{controller}:{group}\n" for controller in V1_CONTROLLERS)


@pytest.mark.parametrize("groups", [HOST_V1, HOST_V2, "0::/init.scope\n", "0::/\n", "", "junk\0\xff\n"])
def test_a_plain_host_is_no_container(machine: Machine, groups: str) -> None:
    machine.file("/proc/self/cgroup", groups)
    machine.file("/proc/1/cgroup", "0::/init.scope\n")
    found = machine.ask(container)
    assert (found.kind, found.evidence) == ("", ())


def test_a_machine_without_proc_is_no_container(machine: Machine) -> None:
    found = machine.ask(container)
    assert (found.kind, found.evidence, found.shm_bytes) == ("", (), None)


@pytest.mark.parametrize(
    ("groups", "kind"),
    [
        (v1(f"/docker/{ID}"), "docker"),
        (f"0::/system.slice/docker-{ID}.scope\n", "docker"),
        (v1(f"/kubepods/burstable/pod1f0a/{ID}"), "kubernetes"),
        (f"0::/kubepods.slice/kubepods-besteffort.slice/cri-containerd-{ID}.scope\n", "kubernetes"),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", "podman"),
        (v1("/lxc/box"), "lxc"),
        ("0::/lxc.payload.box\n", "lxc"),
    ],
)
def test_control_groups_tell_the_engine(machine: Machine, groups: str, kind: str) -> None:
    machine.file("/proc/self/cgroup", groups)
    found = machine.ask(container)
    assert found.kind == kind
    assert len(found.evidence) == 1


@pytest.mark.parametrize(
    ("mark", "kind"),
    [("/.dockerenv", "docker"), ("/run/.containerenv", "podman"), ("/.singularity.d/env/01-base.sh", "apptainer")],
)
def test_files_tell_the_engine(machine: Machine, mark: str, kind: str) -> None:
    machine.file(mark)
    machine.file("/proc/self/cgroup", "0::/\n")
    found = machine.ask(container)
    assert found.kind == kind
    assert "exists" in found.evidence[0]


@pytest.mark.parametrize(
    ("variables", "kind"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"APPTAINER_CONTAINER": "/images/tf.sif"}, "apptainer"),
        ({"SINGULARITY_CONTAINER": "/images/tf.sif"}, "apptainer"),
        ({"container": "podman"}, "podman"),
        ({"container": "lxc"}, "lxc"),
        ({"container": "", "KUBERNETES_SERVICE_HOST": ""}, ""),
        ({"CONTAINER": "docker"}, ""),
    ],
)
def test_variables_tell_the_engine(machine: Machine, variables: dict[str, str], kind: str) -> None:
    assert machine.ask(container, environment=variables).kind == kind


def test_a_docker_container_in_a_pod_is_of_kubernetes(machine: Machine) -> None:
    machine.file("/.dockerenv")
    machine.file("/proc/1/cgroup", v1(f"/kubepods/besteffort/pod1f0a/{ID}"))
    found = machine.ask(container)
    assert found.kind == "kubernetes"
    assert len(found.evidence) == 2


def test_shared_memory_is_measured(machine: Machine) -> None:
    folder = machine.folder("/dev/shm")
    system = os.statvfs(folder)
    assert machine.ask(container).shm_bytes == system.f_blocks * system.f_frsize


def test_this_machine_is_looked_at() -> None:
    found = container.function(host=Host())
    assert bool(found.kind) == bool(found.evidence)
    if os.path.exists("/.dockerenv"):
        assert "docker" in found.evidence[0]
    assert (found.shm_bytes is not None) == os.path.isdir("/dev/shm")
