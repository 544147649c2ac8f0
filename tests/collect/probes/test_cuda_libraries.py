"""The probe of CUDA's libraries."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import healthy
import pytest

from tfgpu_doctor.collect.probes.cuda_libraries import cuda_libraries
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import Libraries

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

SYSTEM = System(os="Linux", release="6.8.0-48-generic", architecture="x86_64")


def read(machine: Machine, environment: dict[str, str] | None = None, **target: Any) -> Libraries:
    known = healthy.target(**{"nvidia_libraries": (), "prefix": "/nowhere", **target})
    found: Libraries = machine.ask(cuda_libraries, environment=environment, system=SYSTEM, target=known)
    return found


def wheels(site: pathlib.Path, *names: str) -> tuple[str, ...]:
    """Libraries as pip's nvidia-* wheels bring them."""
    for name in names:
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(b"x" * 10)
    return tuple(str(site / name) for name in names)


def summary(found: Libraries) -> list[tuple[str, str]]:
    return [(copy.soname, copy.found_in) for copy in found.copies]


def test_libraries_of_pip_are_listed(machine: Machine, tmp_path: pathlib.Path) -> None:
    paths = wheels(
        tmp_path, "nvidia/cudnn/lib/libcudnn.so.9", "nvidia/cudnn/lib/libcudnn_ops.so.9", "nvidia/cu13/lib/libcudart.so.13",
        "nvidia/cublas/lib/libcublas.so.12", "nvidia/cublas/lib/libnvblas.so.12",
    )  # fmt: skip
    found = read(machine, nvidia_libraries=paths)
    names = ("libcudnn.so.9", "libcudnn_ops.so.9", "libcudart.so.13", "libcublas.so.12")
    assert summary(found) == [(name, "pip") for name in names]
    assert found.copies[0].path == str(tmp_path / "nvidia/cudnn/lib/libcudnn.so.9")
    assert found.copies[0].size_bytes == 10


def test_a_library_of_pip_that_is_gone_is_left_out(machine: Machine, tmp_path: pathlib.Path) -> None:
    assert summary(read(machine, nvidia_libraries=(str(tmp_path / "nvidia/cudnn/lib/libcudnn.so.9"),))) == []


def test_an_empty_library_of_pip_shows_its_size(machine: Machine, tmp_path: pathlib.Path) -> None:
    (path,) = wheels(tmp_path, "nvidia/cudnn/lib/libcudnn.so.9")
    pathlib.Path(path).write_bytes(b"")
    assert read(machine, nvidia_libraries=(path,)).copies[0].size_bytes == 0


@pytest.mark.parametrize("by", ["packages", "folder"])
def test_libraries_of_conda_are_listed(machine: Machine, tmp_path: pathlib.Path, by: str) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("libcudart.so.12.4.127", "libcudart.so.12", "libpython3.12.so"):
        (tmp_path / "lib" / name).touch()
    if by == "folder":
        (tmp_path / "conda-meta").mkdir()
    packages = {"cuda-cudart": "12.4.127 he02047a_2"} if by == "packages" else {}
    assert summary(read(machine, prefix=str(tmp_path), conda_packages=packages)) == [("libcudart.so.12", "conda")]


def test_the_libraries_of_a_plain_prefix_are_not_of_conda(machine: Machine, tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libcudart.so.12").touch()
    assert summary(read(machine, prefix=str(tmp_path))) == []


def test_toolkits_beside_the_loaders_path_are_listed(machine: Machine) -> None:
    machine.file("/usr/local/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12.4.127", "x")
    machine.link("/usr/local/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12", "libcudart.so.12.4.127")
    machine.link("/usr/local/cuda-12.4/lib64", "targets/x86_64-linux/lib")
    machine.link("/usr/local/cuda", "cuda-12.4")
    machine.file("/usr/local/cuda-11.8/lib64/libcudart.so.11.0", "x")
    machine.file("/usr/local/cuda-11.8/lib64/libnpp.so.11", "x")
    found = read(machine)
    assert summary(found) == [("libcudart.so.11.0", "known place"), ("libcudart.so.12", "known place")]
    assert found.copies[1].path == "/usr/local/cuda/lib64/libcudart.so.12"
    assert found.copies[1].version == "12.4.127"
    assert not found.copies[1].on_loader_path


def test_libraries_on_the_loaders_path_are_listed(machine: Machine, tmp_path: pathlib.Path) -> None:
    machine.file("/usr/lib/x86_64-linux-gnu/libcudnn.so.8", "x")
    (tmp_path / "libcublas.so.11").touch()
    found = read(machine, environment={"LD_LIBRARY_PATH": str(tmp_path)})
    assert summary(found) == [("libcublas.so.11", "LD_LIBRARY_PATH"), ("libcudnn.so.8", "default folder")]


def test_one_file_found_twice_is_listed_once_as_pips(machine: Machine, tmp_path: pathlib.Path) -> None:
    (path,) = wheels(tmp_path, "nvidia/cudnn/lib/libcudnn.so.9")
    found = read(machine, environment={"LD_LIBRARY_PATH": str(tmp_path / "nvidia/cudnn/lib")}, nvidia_libraries=(path,))
    assert summary(found) == [("libcudnn.so.9", "pip")]


def test_without_cuda_there_is_none(machine: Machine) -> None:
    machine.folder("/usr/local/bin")
    assert read(machine) == Libraries()
