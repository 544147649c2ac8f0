"""The probe of whose machine this is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probes.hosting import hosting, parse_l4t
from tfgpu_doctor.host import Host
from tfgpu_doctor.knowledge import read_knowledge

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

SERVICES = read_knowledge().hosted_services.values()
# The first line of /etc/nv_tegra_release, as Jetson Linux of three generations writes it.
RELEASES = {
    "# R36 (release), REVISION: 4.0, GCID: 37537400, BOARD: generic, EABI: aarch64, DATE: Fri Sep 13 04:36:44 UTC 2024\n": "36.4.0",
    "# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64, DATE: Tue Aug  1 19:57:35 UTC 2023\n": "35.4.1",
    "# R32 (release), REVISION: 7.4, GCID: 33514132, BOARD: t210ref, EABI: aarch64, DATE: Fri Jun  9 04:25:08 UTC 2023\n": "32.7.4",
}
DPKG = """\
Package: nvidia-jetpack-dev
Status: install ok installed
Version: 9.9

Package: nvidia-jetpack
Status: install ok installed
Section: metapackages
Version: 6.1+b123
Depends: nvidia-container

Package: nvidia-l4t-core
Version: 36.4.0
"""


@pytest.mark.parametrize("service", SERVICES, ids=lambda row: row.name)
def test_a_service_is_told_by_its_variables_and_files(machine: Machine, service: object) -> None:
    row = read_knowledge().hosted_services[service.name]  # type: ignore[attr-defined]
    for name in row.variables:
        found = machine.ask(hosting, environment={name: "1"})
        assert (found.service, found.evidence) == (row.name, (f"${name} is set",))
    for path in row.files:
        machine.file(path + "/x")
        assert machine.ask(hosting).service == row.name


def test_what_a_variable_holds_is_not_kept(machine: Machine) -> None:
    assert "sesame" not in repr(machine.ask(hosting, environment={"CODESPACES": "sesame"}))


@pytest.mark.parametrize("variables", [{}, {"CODESPACES": ""}, {"COLAB": "1"}])
def test_an_ordinary_machine_is_nobodys(machine: Machine, variables: dict[str, str]) -> None:
    found = machine.ask(hosting, environment=variables)
    assert (found.service, found.evidence, found.vendor, found.l4t) == ("", (), "", "")


def test_the_firmware_of_a_cloud_names_the_type(machine: Machine) -> None:
    machine.file("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    machine.file("/sys/class/dmi/id/product_name", "g4dn.xlarge\n")
    found = machine.ask(hosting)
    assert (found.vendor, found.product) == ("Amazon EC2", "g4dn.xlarge")


@pytest.mark.parametrize(("text", "version"), [*RELEASES.items(), ("", ""), ("# R (release)", ""), ("junk\0", "")])
def test_the_release_of_jetson_linux(text: str, version: str) -> None:
    assert parse_l4t(text) == version


def test_a_jetson(machine: Machine) -> None:
    machine.file("/etc/nv_tegra_release", next(iter(RELEASES)))
    machine.file("/var/lib/dpkg/status", DPKG)
    found = machine.ask(hosting)
    assert (found.l4t, found.jetpack) == ("36.4.0", "6.1+b123")


def test_this_machine_is_looked_at() -> None:
    assert bool(hosting.function(host=Host()).evidence) == bool(hosting.function(host=Host()).service)
