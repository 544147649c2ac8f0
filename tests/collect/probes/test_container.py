"""The probe of the container."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probes.container import container
from tfgpu_doctor.host import Host

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

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
        ({"container": "oci"}, "oci"),  # Red Hat's images
        ({"container": "/data/images/tf.sif"}, ""),  # a job script's own variable
        ({"container": "tf.sif"}, ""),
        ({"container": "training"}, ""),
        ({"container": "3"}, ""),
        ({"CH_RUNNING": "Weird Al Yankovic"}, "charliecloud"),
        ({"CH_RUNNING": ""}, ""),
        ({"CH_RUNNING": "Weird Al Yankovic", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "charliecloud"),
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


OVERLAY = "510 400 0:55 / / rw,relatime - overlay overlay rw,lowerdir={lower},upperdir={lower}\n"


@pytest.mark.parametrize(
    ("lower", "engine", "kind"),
    [
        ("/var/lib/docker/overlay2/l/ABC:/var/lib/docker/overlay2/l/DEF", "docker", "docker"),
        ("/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/7/fs", "containerd", "containerd"),
        ("/home/anna/.local/share/containers/storage/overlay/l/ABC", "podman or cri-o", "podman"),
        ("/run/live/rootfs/filesystem.squashfs", "", ""),
    ],
)
def test_the_layers_of_the_root_file_system_tell_the_engine(
    machine: Machine, lower: str, engine: str, kind: str
) -> None:
    """In a control group namespace of version 2, without Docker's mark, nothing else tells a container."""
    machine.file("/proc/self/cgroup", "0::/\n")
    machine.file("/proc/self/mountinfo", OVERLAY.format(lower=lower))
    found = machine.ask(container)
    assert (found.engine, found.kind) == (engine, kind)
    assert bool(found.evidence) == bool(kind)


def test_an_overlay_elsewhere_is_a_container_engines_host(machine: Machine) -> None:
    mounted = OVERLAY.format(lower="/var/lib/docker/overlay2/l/A").replace(
        "/ / rw", "/ /var/lib/docker/overlay2/7/merged rw"
    )
    machine.file("/proc/self/mountinfo", mounted + "junk\n - overlay\n")
    found = machine.ask(container)
    assert (found.engine, found.kind) == ("", "")


# In a container of enroot: its root is a folder of the host, and its lock file is a mount (src/runtime.sh, _start).
IN_ENROOT = (
    "1480 1351 259:2 /var/lib/enroot/data/tf / rw,nosuid,nodev,relatime master:1 - ext4 /dev/nvme0n1p2 rw\n"
    "1483 1480 0:22 / /proc rw,nosuid,nodev,noexec,relatime master:14 - proc proc rw\n"
    "1502 1480 259:2 /var/lib/enroot/data/tf/.lock /.lock ro,nosuid,nodev,noexec,relatime - ext4 /dev/nvme0n1p2 rw\n"
)


@pytest.mark.parametrize("variables", [{}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, {"container": "oci"}], ids=str)
def test_a_container_of_enroot_also_in_a_pod_or_of_an_image_of_docker(
    machine: Machine, variables: dict[str, str]
) -> None:
    machine.file("/proc/self/mountinfo", IN_ENROOT)
    machine.file("/proc/1/cgroup", "0::/init.scope\n")
    machine.file("/proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n")
    machine.file("/.lock")
    found = machine.ask(container, environment=variables)
    assert (found.kind, found.evidence[0]) == ("enroot", "enroot's /.lock is mounted")


@pytest.mark.parametrize(
    "mounts",
    [
        "",
        "1480 1 8:2 / / rw - ext4 /dev/sda2 rw\n",
        IN_ENROOT.replace(" /.lock ro", " /var/lib/enroot/data/tf/.lock ro"),
    ],
    ids=["no mounts", "a plain host", "the mount of a container, seen from its host"],
)
def test_a_file_of_that_name_on_a_host_is_no_container(machine: Machine, mounts: str) -> None:
    machine.file("/proc/self/mountinfo", mounts)
    machine.file("/.lock")
    assert machine.ask(container).kind == ""


# In a container of LXC without systemd only this tells; a container of Docker may have the same mount.
LXCFS = "120 100 0:57 /proc/cpuinfo {place} rw,nosuid,nodev,relatime - fuse.lxcfs lxcfs rw,user_id=0,allow_other\n"


@pytest.mark.parametrize(
    ("place", "files", "kind"),
    [
        ("/proc/cpuinfo", (), "lxc"),
        ("/proc/cpuinfo", ("/.dockerenv",), "docker"),
        ("/var/lib/lxcfs", (), ""),
    ],
    ids=["LXC", "Docker", "a host of LXC"],
)
def test_the_file_system_of_lxc(machine: Machine, place: str, files: tuple[str, ...], kind: str) -> None:
    machine.file("/proc/1/cgroup", "12:freezer:/\n4:memory:/\n0::/init.scope\n")
    machine.file("/proc/self/mountinfo", LXCFS.format(place=place) + "junk\n - fuse.lxcfs\n")
    for each in files:
        machine.file(each)
    assert machine.ask(container).kind == kind


@pytest.mark.parametrize("path", ["/run/systemd/container", "/run/host/container-manager"])
@pytest.mark.parametrize(
    ("said", "kind"), [("systemd-nspawn", "systemd-nspawn"), ("lxc", "lxc"), ("wsl", ""), ("", "")]
)
def test_systemd_says_what_it_runs_in(machine: Machine, path: str, said: str, kind: str) -> None:
    machine.file(path, said + "\n")
    found = machine.ask(container)
    assert found.kind == kind
    assert found.evidence == ((f"{path} contains {kind!r}",) if kind else ())


@pytest.mark.parametrize(
    ("effective", "privileged"), [("000001ffffffffff", True), ("00000000a80425fb", False), ("0000000000000000", False)]
)
def test_every_capability_makes_it_privileged(machine: Machine, effective: str, privileged: bool) -> None:
    machine.file("/proc/self/status", f"Name:\tpython\nCapEff:\t{effective}\nSeccomp:\t2\nSeccomp_filters:\t1\n")
    machine.file("/proc/sys/kernel/cap_last_cap", "40\n")
    found = machine.ask(container)
    assert (found.privileged, found.seccomp) == (privileged, "filter")


@pytest.mark.parametrize(
    ("mapped", "own"),
    [("         0          0 4294967295\n", False), ("         0       1000          1\n", True), ("", None)],
)
def test_a_user_namespace_maps_few_users(machine: Machine, mapped: str, own: bool | None) -> None:
    machine.file("/proc/self/uid_map", mapped)
    assert machine.ask(container).user_namespace is own


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("system_u:system_r:container_t:s0:c1,c2\0", "system_u:system_r:container_t:s0:c1,c2"),
        ("docker-default (enforce)\n", "docker-default (enforce)"),
        ("unconfined\n", ""),
        ("", ""),
    ],
)
def test_the_label_of_selinux_or_apparmor(machine: Machine, label: str, shown: str) -> None:
    machine.file("/proc/self/attr/current", label)
    assert machine.ask(container).security_label == shown


def test_what_kubernetes_leaves_in_a_pod(machine: Machine) -> None:
    machine.file("/var/run/nvidia-container-devices/GPU-1", "")
    found = machine.ask(container, environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert found.device_mounts == ("GPU-1",)


def test_of_the_secrets_of_a_pod_none_is_kept(machine: Machine) -> None:
    machine.file("/var/run/secrets/kubernetes.io/serviceaccount/token", "sesame")
    assert "sesame" not in repr(machine.ask(container))


def test_a_machine_without_proc_says_nothing_of_how_it_is_confined(machine: Machine) -> None:
    found = machine.ask(container)
    assert (found.user_namespace, found.privileged, found.seccomp, found.shm_free_bytes) == (None, None, "", None)
