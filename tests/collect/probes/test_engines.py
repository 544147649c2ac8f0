"""The probe of what runs containers here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probes.engines import engines
from tfgpu_doctor.model.facts.engines import Engines

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

DAEMON = '{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}'
# The toolkit's own file, as its package brings it.
CONFIG = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
disable-require = false

[nvidia-container-cli]
environment = []
#no-cgroups = false
ldconfig = "@/sbin/ldconfig.real"
"""


def test_a_machine_without_engines(machine: Machine) -> None:
    assert machine.ask(engines) == Engines()


def test_docker_with_the_toolkit(machine: Machine) -> None:
    for name in ("dockerd", "docker", "nvidia-ctk", "nvidia-container-runtime"):
        machine.file(f"/usr/bin/{name}")
    machine.file("/etc/docker/daemon.json", DAEMON)
    machine.file("/run/docker.sock")
    machine.file("/etc/nvidia-container-runtime/config.toml", CONFIG)
    found = machine.ask(engines)
    assert (found.docker, found.docker_runs_as_root, found.docker_runs_rootless) == ("/usr/bin/dockerd", True, False)
    assert found.toolkit == ("/usr/bin/nvidia-ctk", "/usr/bin/nvidia-container-runtime")
    assert found.no_cgroups is False
    assert found.runtime_named_in == ("/etc/docker/daemon.json",)


@pytest.mark.parametrize("path", ["/etc/containerd/conf.d/99-nvidia.toml", "/etc/crio/crio.conf.d/99-nvidia.toml"])
def test_newer_toolkits_write_a_file_of_their_own(machine: Machine, path: str) -> None:
    machine.file(path, 'BinaryName = "/usr/bin/nvidia-container-runtime"\n')
    assert machine.ask(engines).runtime_named_in == (path,)


def test_a_client_alone_starts_no_container_here(machine: Machine) -> None:
    """Docker Desktop puts its client into a WSL distribution; the daemon, and the toolkit, are elsewhere."""
    machine.file("/usr/bin/docker")
    assert machine.ask(engines).docker == ""


def test_docker_of_the_snap_store(machine: Machine) -> None:
    machine.file("/snap/bin/docker")
    found = machine.ask(engines)
    assert (found.docker, found.docker_of_snap) == ("", "/snap/bin/docker")


def test_docker_without_root(machine: Machine) -> None:
    machine.file("/run/user/1000/docker.sock")
    found = machine.ask(engines, environment={"XDG_RUNTIME_DIR": "/run/user/1000"})
    assert (found.docker_runs_as_root, found.docker_runs_rootless) == (False, True)


@pytest.mark.parametrize(
    ("line", "value"),
    [("no-cgroups = true", True), ("  no-cgroups=true", True), ("no-cgroups = false", False), ("#no-cgroups = true", False)],
)  # fmt: skip
def test_what_the_toolkits_file_says(machine: Machine, line: str, value: bool) -> None:
    machine.file("/etc/nvidia-container-runtime/config.toml", f"[nvidia-container-cli]\n{line}\n")
    assert machine.ask(engines).no_cgroups is value


def test_the_operator_of_kubernetes_puts_the_toolkit_elsewhere(machine: Machine) -> None:
    machine.file("/usr/local/nvidia/toolkit/nvidia-container-runtime")
    assert machine.ask(engines).toolkit == ("/usr/local/nvidia/toolkit/nvidia-container-runtime",)
