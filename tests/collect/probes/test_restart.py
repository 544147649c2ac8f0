"""The probe of a pending restart."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probes.restart import restart
from tfgpu_doctor.model.facts.restart import Restart

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

KERNEL = "6.8.0-48-generic"
HOUR_S = 3600


def with_module(machine: Machine, started_s: float, listed: str = "updates/dkms/nvidia.ko.zst") -> None:
    """A machine that started then, and on which a module was installed just now."""
    machine.file("/proc/sys/kernel/osrelease", f"{KERNEL}\n")
    machine.file("/proc/stat", f"cpu  1 2 3\nbtime {int(started_s)}\nprocesses 5\n")
    machine.file(f"/lib/modules/{KERNEL}/modules.dep", f"{listed}: kernel/x.ko\n")
    machine.file(f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko.zst")


@pytest.mark.parametrize("folder", ["/run", "/var/run"])
def test_packages_that_ask_for_it(machine: Machine, folder: str) -> None:
    machine.file(f"{folder}/reboot-required", "*** System restart required ***\n")
    machine.file(
        f"{folder}/reboot-required.pkgs", "linux-image-6.8.0-50-generic\nnvidia-driver-565\nlinux-base\nlinux-base\n"
    )
    found = machine.ask(restart)
    assert found.required
    assert found.packages == ("linux-image-6.8.0-50-generic", "nvidia-driver-565", "linux-base")


def test_nothing_asks(machine: Machine) -> None:
    machine.file("/run/reboot-required.pkgs", "left-behind\n")
    assert machine.ask(restart) == Restart()


@pytest.mark.parametrize("old", [f"/lib/modules/{KERNEL}/modules.builtin", "/etc/os-release"])
def test_a_module_installed_after_the_start(machine: Machine, old: str) -> None:
    machine.file(old)
    time.sleep(1.1)  # the time of the start has whole seconds
    with_module(machine, time.time())
    assert machine.ask(restart).module_is_newer is True


def test_a_root_file_system_that_was_filled_after_the_start_tells_nothing(machine: Machine) -> None:
    """A diskless node unpacks its image into memory: each file is newer than the start."""
    for path in (f"/lib/modules/{KERNEL}/modules.builtin", "/etc/os-release", "/etc/hostname"):
        machine.file(path)
    with_module(machine, time.time() - HOUR_S)
    assert machine.ask(restart).module_is_newer is None


def test_a_module_from_before_the_start(machine: Machine) -> None:
    with_module(machine, time.time() + HOUR_S)
    assert machine.ask(restart).module_is_newer is False


def test_a_module_that_is_listed_and_gone(machine: Machine) -> None:
    with_module(machine, time.time(), listed="extra/nvidia.ko")
    assert machine.ask(restart).module_is_newer is None


def test_no_time_of_the_start(machine: Machine) -> None:
    with_module(machine, time.time())
    machine.file("/proc/stat", "cpu  1 2 3\n")
    assert machine.ask(restart).module_is_newer is None
