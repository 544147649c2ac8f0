"""The probe of what XLA compiles kernels with."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import pytest
from healthy import target

from tfgpu_doctor.collect.probes.xla_tools import xla_tools
from tfgpu_doctor.host import Completed
from tfgpu_doctor.model.facts.python import TensorFlow

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

LIBDEVICE = "nvvm/libdevice/libdevice.10.bc"
SAYS = Completed(
    b"ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 12.5, V12.5.82\n", "", 0.1, 0
)


def environment(folder: pathlib.Path) -> pathlib.Path:
    """The site-packages folder of an environment with TensorFlow."""
    site = folder / "site-packages"
    (site / "tensorflow").mkdir(parents=True)
    return site


def in_it(site: pathlib.Path, version: str = "2.21.0") -> dict[str, Any]:
    return {
        "target": target(tensorflow_file=f"{site}/tensorflow/__init__.py"),
        "tensorflow": TensorFlow(version=version, folder=f"{site}/tensorflow"),
    }


def write(path: pathlib.Path) -> str:
    path.parent.mkdir(parents=True)
    path.touch()
    return str(path)


def test_the_wheels_own_are_found(machine: Machine, tmp_path: pathlib.Path) -> None:
    site = environment(tmp_path)
    libdevice = write(site / "nvidia/cuda_nvcc" / LIBDEVICE)
    ptxas = write(site / "nvidia/cuda_nvcc/bin/ptxas")
    found = machine.ask(xla_tools, done=SAYS, **in_it(site))
    assert (found.libdevice, found.ptxas, found.ptxas_version) == (libdevice, ptxas, "12.5")
    assert machine.asked[0].argv == [ptxas, "--version"]


def test_a_toolkit_in_the_usual_place_is_found(machine: Machine, tmp_path: pathlib.Path) -> None:
    machine.file(f"/usr/local/cuda-12.5/{LIBDEVICE}")
    machine.file("/usr/local/cuda-12.5/bin/ptxas")
    found = machine.ask(xla_tools, done=SAYS, **in_it(environment(tmp_path)))
    assert found.libdevice == f"/usr/local/cuda-12.5/{LIBDEVICE}"
    assert found.ptxas == "/usr/local/cuda-12.5/bin/ptxas"
    assert found.ptxas_version == ""  # what lies under another root is not run
    assert machine.asked == []


# Arch's package cuda is in /opt/cuda (https://archlinux.org/packages/extra/x86_64/cuda/); XLA looks there and four folders
# above its library since https://github.com/openxla/xla/pull/20858 and https://github.com/openxla/xla/pull/20288.
@pytest.mark.parametrize(
    ("version", "found"), [("2.21.0", True), ("2.19.0", True), ("2.22.0.dev20261101", True), ("2.18.1", False)]
)
def test_newer_releases_look_in_more_folders(
    machine: Machine, tmp_path: pathlib.Path, version: str, found: bool
) -> None:
    site = environment(tmp_path / "lib/python3.12")
    prefix = write(tmp_path / LIBDEVICE)
    assert machine.ask(xla_tools, **in_it(site, version)).libdevice == (prefix if found else "")
    machine.file(f"/opt/cuda/{LIBDEVICE}")
    assert machine.ask(xla_tools, **in_it(site, version)).libdevice == (f"/opt/cuda/{LIBDEVICE}" if found else "")


def test_the_copy_in_the_package_itself_is_found(machine: Machine, tmp_path: pathlib.Path) -> None:
    site = environment(tmp_path)
    inside = write(site / "tensorflow/cuda" / LIBDEVICE)
    assert machine.ask(xla_tools, **in_it(site, "2.13.1")).libdevice == inside


def test_the_folder_of_xla_flags_comes_first(machine: Machine, tmp_path: pathlib.Path) -> None:
    site = environment(tmp_path)
    write(site / "nvidia/cuda_nvcc" / LIBDEVICE)
    chosen = write(tmp_path / "cuda" / LIBDEVICE)
    flags = {"XLA_FLAGS": f"--xla_dump_to=/tmp/x --xla_gpu_cuda_data_dir={tmp_path}/cuda"}
    found = machine.ask(xla_tools, environment=flags, done=SAYS, **in_it(site))
    assert found.libdevice == chosen
    assert found.searched[0] == f"{tmp_path}/cuda"


def test_ptxas_is_taken_from_the_path_first(machine: Machine, tmp_path: pathlib.Path) -> None:
    site = environment(tmp_path)
    write(site / "nvidia/cuda_nvcc/bin/ptxas")
    first = write(tmp_path / "older/ptxas")
    found = machine.ask(xla_tools, environment={"PATH": f"/nowhere:{tmp_path}/older"}, done=SAYS, **in_it(site))
    assert found.ptxas == first


@pytest.mark.parametrize("done", [Completed(b"", "", 5.0, timed_out=True), Completed(b"release 12.5", "", 0.1, 1)])
def test_a_ptxas_that_does_not_answer_has_no_version(machine: Machine, tmp_path: pathlib.Path, done: Completed) -> None:
    site = environment(tmp_path)
    write(site / "nvidia/cuda_nvcc/bin/ptxas")
    assert machine.ask(xla_tools, done=done, **in_it(site)).ptxas_version == ""


def test_nothing_there_is_told_with_the_folders(machine: Machine, tmp_path: pathlib.Path) -> None:
    site = environment(tmp_path)
    found = machine.ask(xla_tools, **in_it(site))
    assert (found.libdevice, found.ptxas, found.ptxas_version) == ("", "", "")
    own = (f"{site}/nvidia/cuda_nvcc", "/usr/local/cuda", f"{site}/tensorflow/cuda")
    assert found.searched == (*own, "/opt/cuda", str(tmp_path.parent.parent))
    assert machine.ask(xla_tools, **in_it(site, "2.18.1")).searched == own
