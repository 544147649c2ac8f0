"""The probe of what XLA compiles kernels with."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import pytest
from healthy import target

from tfgpu_doctor.collect.probe import Unavailable
from tfgpu_doctor.collect.probes.xla_tools import xla_tools
from tfgpu_doctor.host import Completed, Host

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


def in_it(site: pathlib.Path) -> dict[str, Any]:
    return {"target": target(tensorflow_file=f"{site}/tensorflow/__init__.py")}


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
    assert found.searched == (f"{site}/nvidia/cuda_nvcc", "/usr/local/cuda")


def test_without_tensorflow_there_is_no_xla() -> None:
    with pytest.raises(Unavailable, match="no TensorFlow"):
        xla_tools.function(host=Host(), target=target(tensorflow_file=""))
