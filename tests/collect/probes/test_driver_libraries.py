"""The probe of the driver's libraries."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probes.driver_libraries import driver_libraries
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import Libraries, LibraryFile

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

SYSTEM = System(os="Linux", release="6.8.0-48-generic", architecture="x86_64")
FOLDER = "/usr/lib/x86_64-linux-gnu"


def install(machine: Machine, folder: str, version: str = "550.54.15") -> None:
    """The two libraries as a driver's package installs them."""
    for stem in ("libcuda", "libnvidia-ml"):
        machine.file(f"{folder}/{stem}.so.{version}", b"x" * 1000)
        machine.link(f"{folder}/{stem}.so.1", f"{stem}.so.{version}")


def read(machine: Machine, **environment: str) -> Libraries:
    found: Libraries = machine.ask(driver_libraries, environment=environment, system=SYSTEM)
    return found


def test_the_drivers_libraries_are_found(machine: Machine) -> None:
    install(machine, FOLDER)
    assert read(machine).copies == tuple(
        LibraryFile(
            soname=f"{stem}.so.1",
            path=f"{FOLDER}/{stem}.so.1",
            real_path=f"{FOLDER}/{stem}.so.550.54.15",
            size_bytes=1000,
            version="550.54.15",
            found_in="default folder",
        )
        for stem in ("libcuda", "libnvidia-ml")
    )


def test_without_a_driver_there_is_none(machine: Machine) -> None:
    assert read(machine) == Libraries()


@pytest.mark.parametrize("cache", [b"", b"junk" * 1000, b"glibc-ld.so.cache1.1" + b"\xff" * 2000])
def test_a_cache_that_cannot_be_read_hides_nothing(machine: Machine, cache: bytes) -> None:
    machine.file("/etc/ld.so.cache", cache)
    install(machine, FOLDER)
    assert [copy.soname for copy in read(machine).copies] == ["libcuda.so.1", "libnvidia-ml.so.1"]


def test_two_versions_are_both_listed(machine: Machine) -> None:
    install(machine, FOLDER, "550.54.15")
    install(machine, "/usr/lib64", "535.183.01")
    assert [copy.version for copy in read(machine).named("libcuda.so.1")] == ["550.54.15", "535.183.01"]


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/usr/lib/wsl/lib", "wsl"),
        ("/run/opengl-driver/lib", "driver"),
        ("/usr/local/nvidia/lib64", "driver"),
        ("/home/kubernetes/bin/nvidia/lib64", "driver"),
        ("/usr/local/cuda/compat", "compat"),
        ("/usr/local/cuda/lib64/stubs", "stub"),
    ],
)
def test_places_that_the_loader_was_not_told_of_are_known(machine: Machine, folder: str, kind: str) -> None:
    install(machine, folder)
    for copy in read(machine).copies:
        assert (copy.kind, copy.found_in, copy.on_loader_path) == (kind, "known place", False)


def test_a_stub_behind_the_link_of_the_toolkit_is_a_stub(machine: Machine) -> None:
    machine.file("/usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs/libcuda.so.1", "stub")
    machine.link("/usr/local/cuda-12.4/lib64", "targets/x86_64-linux/lib")
    machine.link("/usr/local/cuda", "/etc/alternatives/cuda")
    machine.link("/etc/alternatives/cuda", "/usr/local/cuda-12.4")
    (copy,) = read(machine).copies
    assert copy.kind == "stub"
    assert copy.real_path == "/usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs/libcuda.so.1"


def test_a_stub_on_the_variable_comes_first(machine: Machine, tmp_path: pathlib.Path) -> None:
    stubs = tmp_path / "cuda/lib64/stubs"
    stubs.mkdir(parents=True)
    (stubs / "libcuda.so.1").write_text("stub")
    install(machine, FOLDER)
    found = read(machine, LD_LIBRARY_PATH=str(stubs)).named("libcuda.so.1")
    assert [(copy.kind, copy.found_in) for copy in found] == [("stub", "LD_LIBRARY_PATH"), ("driver", "default folder")]


def test_an_empty_library_shows_its_size(machine: Machine) -> None:
    machine.file(f"{FOLDER}/libcuda.so.1", b"")
    (copy,) = read(machine).copies
    assert (copy.size_bytes, copy.version) == (0, "")


def test_other_libraries_of_the_driver_are_left_out(machine: Machine) -> None:
    for name in ("libcuda.so", "libcudadebugger.so.1", "libnvidia-ptxjitcompiler.so.1"):
        machine.file(f"{FOLDER}/{name}")
    assert read(machine).copies == ()
