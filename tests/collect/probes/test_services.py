"""The probe of NVIDIA's services."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probe import Request, Unavailable
from tfgpu_doctor.collect.probes.services import services
from tfgpu_doctor.host import Host

if TYPE_CHECKING:
    from collect.probes.conftest import Machine


def run(machine: Machine, pid: int, comm: str, *command: str) -> None:
    """A process as /proc shows it: its name, cut to 15 characters, and its command line."""
    machine.file(f"/proc/{pid}/comm", f"{comm[:15]}\n")
    machine.file(f"/proc/{pid}/cmdline", "".join(f"{word}\0" for word in command))


def test_services_are_found_by_their_names(machine: Machine) -> None:
    run(machine, 1, "systemd", "/sbin/init")
    run(machine, 700, "nvidia-persistenced", "/usr/bin/nvidia-persistenced", "--user", "nvidia-persistenced")
    run(
        machine,
        801,
        "nv-fabricmanager",
        "/usr/bin/nv-fabricmanager",
        "-c",
        "/usr/share/nvidia/nvswitch/fabricmanager.cfg",
    )
    run(machine, 900, "nvidia-cuda-mps-control", "nvidia-cuda-mps-control", "-d")
    run(machine, 901, "nvidia-cuda-mps-server", "nvidia-cuda-mps-server")
    found = machine.ask(services)
    assert found.visible
    assert found.running == (
        "nv-fabricmanager",
        "nvidia-persistenced",
        "nvidia-cuda-mps-control",
        "nvidia-cuda-mps-server",
    )


def test_a_process_whose_command_cannot_be_read_counts_by_its_name(machine: Machine) -> None:
    run(machine, 1, "systemd")
    run(machine, 801, "nv-fabricmanager")
    assert machine.ask(services).running == ("nv-fabricmanager",)


def test_other_processes_are_no_services(machine: Machine) -> None:
    run(machine, 1, "systemd")
    run(machine, 2, "bash", "bash", "-c", "nv-fabricmanager --help")
    run(machine, 3, "nvidia-smi", "nvidia-smi")
    machine.folder("/proc/4")  # it ended while this was looking
    assert machine.ask(services).running == ()


def test_where_the_first_process_is_hidden_others_may_be_too(machine: Machine) -> None:
    run(machine, 4242, "python3", "python3")
    assert not machine.ask(services).visible


def test_where_the_name_of_the_first_process_is_hidden_others_are_too(machine: Machine) -> None:
    machine.folder("/proc/1")  # hidepid=1 shows the folder, and nothing in it
    run(machine, 4242, "python3", "python3")
    assert not machine.ask(services).visible


def test_without_processes_there_is_no_answer(machine: Machine) -> None:
    with pytest.raises(Unavailable, match="no process is visible"):
        machine.ask(services)


@pytest.mark.skipif(not os.path.exists("/proc/self/comm"), reason="there is no /proc here")
def test_a_real_process_is_found(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "nv-fabricmanager"
    program.symlink_to(os.path.realpath(sys.executable))
    with subprocess.Popen(
        [program, "-I", "-S", "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = services.function(Host(), Request(python=sys.executable))
        process.communicate(b"\n")
    assert "nv-fabricmanager" in found.running
