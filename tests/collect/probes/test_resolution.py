"""The resolution of TensorFlow's libraries, on made-up targets whose libraries are real ones."""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from healthy import distribution, healthy, target

from tfgpu_doctor.collect.ldso.owners import Owners
from tfgpu_doctor.collect.probe import Unavailable
from tfgpu_doctor.collect.probes.resolution import resolution
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import Libraries, LibraryFile
from tfgpu_doctor.model.facts.python import TensorFlow
from tfgpu_doctor.model.facts.resolution import Resolution

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux and a C compiler")
SYSTEM = System(os="Linux", release="6.8", architecture=platform.machine())
NONE = Libraries()


def library(
    path: pathlib.Path, *, soname: str = "", needs: tuple[pathlib.Path, ...] = (), runpath: str = ""
) -> pathlib.Path:
    """A real shared library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", str(path), f"-Wl,-soname,{soname or path.name}"]
    command += ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{runpath}"] if runpath else []
    command += ["-x", "none", "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", *map(str, needs)]
    subprocess.run(command, check=True)
    return path


class Site:
    """A site-packages folder with a TensorFlow whose framework library looks in nvidia/cublas/lib alone."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.distributions = [distribution("tensorflow", "2.20.0", folder=str(folder))]
        library(folder / "tensorflow/libtensorflow_framework.so.2", runpath="$ORIGIN/../nvidia/cublas/lib")

    def wheel(self, name: str, version: str, *paths: str) -> None:
        """A wheel of NVIDIA's that lists those files."""
        record = self.folder / f"{name.replace('-', '_')}-{version}.dist-info/RECORD"
        record.parent.mkdir(parents=True)
        record.write_text("".join(f"{path},,\n" for path in paths))
        self.distributions.append(distribution(name, version, folder=str(self.folder)))

    def resolve(self, machine: Machine, *copies: pathlib.Path, cudnn: str = "9", **environment: str) -> Resolution:
        found = [
            LibraryFile(soname=path.name, path=str(path), real_path=str(path), size_bytes=1, found_in="pip")
            for path in copies
        ]
        build = TensorFlow(
            version="2.20.0", distribution="tensorflow", folder=str(self.folder / "tensorflow"), built_with_cuda=True,
            cuda_version="12.5.1", cudnn_version=cudnn,
        )  # fmt: skip
        told: Resolution = machine.ask(
            resolution, environment=environment, system=SYSTEM, tensorflow=build, driver_libraries=NONE,
            target=target(executable=sys.executable, distributions=tuple(self.distributions)),
            cuda_libraries=Libraries(copies=tuple(found)),
        )  # fmt: skip
        return told


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    return Site(tmp_path / "site-packages")


def test_a_library_is_found_with_who_brought_it(machine: Machine, site: Site) -> None:
    path = library(site.folder / "nvidia/cublas/lib/libcublas.so.12")
    site.wheel("nvidia-cublas-cu12", "12.5.3.2", "nvidia/cublas/lib/libcublas.so.12")
    found = site.resolve(machine).find("libcublas.so.12")
    assert found is not None
    assert (found.found, found.path, found.found_by) == (True, str(path), "RUNPATH")
    assert (found.version, found.origin) == ("12.5.3.2", "pip: nvidia-cublas-cu12 12.5.3.2")
    assert found.missing_chain == ()


def test_a_library_behind_a_link_to_the_environment_is_still_pips(machine: Machine, tmp_path: pathlib.Path) -> None:
    """/home/user may be a link to /gpfs/user: the loader's own path is the one without the link."""
    (tmp_path / "home").symlink_to(tmp_path / "gpfs")
    (tmp_path / "gpfs").mkdir()
    site = Site(tmp_path / "home/site-packages")
    path = library(site.folder / "nvidia/cublas/lib/libcublas.so.12")
    site.wheel("nvidia-cublas-cu12", "12.5.3.2", "nvidia/cublas/lib/libcublas.so.12")
    found = site.resolve(machine).find("libcublas.so.12")
    assert found is not None
    assert found.real_path == os.path.realpath(path)
    assert found.origin == "pip: nvidia-cublas-cu12 12.5.3.2"
    path.write_bytes(path.read_bytes()[:5000])
    truncated = site.resolve(machine, path).find("libcublas.so.12")
    assert truncated is not None
    assert truncated.wheel == "nvidia-cublas-cu12==12.5.3.2"


def test_a_library_behind_a_link_to_condas_prefix_is_still_condas(tmp_path: pathlib.Path) -> None:
    (tmp_path / "home").symlink_to(tmp_path / "gpfs")
    (tmp_path / "gpfs/env/lib").mkdir(parents=True)
    there = target(prefix=str(tmp_path / "home/env"), conda_packages={"cudnn": "9.3.0 0"}, distributions=())
    owners = Owners(Host(), there)
    assert owners.of(os.path.realpath(tmp_path / "gpfs/env/lib/libcudnn.so.9"))[0] == "conda"
    assert owners.of(str(tmp_path / "home/env/lib/libcudnn.so.9"))[0] == "conda"
    assert owners.of(os.path.realpath(tmp_path / "gpfs/environment/libcudnn.so.9"))[0] != "conda"


def test_a_library_in_another_folder_is_not_found_and_lies_elsewhere(machine: Machine, site: Site) -> None:
    path = library(site.folder / "nvidia/cusolver/lib/libcusolver.so.11")
    told = site.resolve(machine, path)
    found = told.find("libcusolver.so.11")
    assert found is not None
    assert (found.found, found.missing_chain, found.elsewhere) == (False, ("libcusolver.so.11",), (str(path),))
    assert found in told.missing
    assert told.search_folders == (f"{site.folder}/tensorflow/../nvidia/cublas/lib",)


def test_the_chain_leads_to_the_file_that_is_missing(machine: Machine, site: Site) -> None:
    folder = site.folder / "nvidia/cublas/lib"
    gone = library(folder / "libnvJitLink.so.12")
    library(folder / "libcusparse.so.12", needs=(gone,))
    library(folder / "libcusolver.so.11", needs=(folder / "libcusparse.so.12",), runpath="$ORIGIN")
    site.wheel("nvidia-nvjitlink-cu12", "12.5.82", "nvidia/cublas/lib/libnvJitLink.so.12")
    gone.unlink()
    found = site.resolve(machine).find("libcusolver.so.11")
    assert found is not None
    assert found.missing_chain == ("libcusolver.so.11", "libcusparse.so.12", "libnvJitLink.so.12")
    assert found.wheel == "nvidia-nvjitlink-cu12==12.5.82"


def test_a_truncated_library_is_named_with_its_wheel(machine: Machine, site: Site) -> None:
    path = library(site.folder / "nvidia/cublas/lib/libcublas.so.12")
    site.wheel("nvidia-cublas-cu12", "12.5.3.2", "nvidia/cublas/lib/libcublas.so.12")
    path.write_bytes(path.read_bytes()[:5000])
    found = site.resolve(machine, path).find("libcublas.so.12")
    assert found is not None
    assert not found.found
    assert found.error.startswith(f"{path}: it is truncated: 5,000 of at least")
    assert (found.wheel, found.elsewhere) == ("nvidia-cublas-cu12==12.5.3.2", ())


def test_the_library_of_another_framework_is_not_what_is_missing(machine: Machine, site: Site) -> None:
    """PyTorch's wheels bring copies in a folder of their own, where TensorFlow never looks."""
    library(site.folder / "torch/lib/libcudnn.so.9")
    site.wheel("torch", "2.3.1+cu121", "torch/lib/libcudnn.so.9")
    found = site.resolve(machine).find("libcudnn.so.9")
    assert found is not None
    assert (found.found, found.wheel) == (False, "")


def test_a_damaged_library_is_of_the_wheel_that_brought_the_file(machine: Machine, site: Site) -> None:
    """Two wheels list a file of that name; the loader takes the copy of the second."""
    library(site.folder / "nvidia/cudnn/lib/libcudnn.so.9")
    site.wheel("nvidia-cudnn-cu12", "9.3.0.75", "nvidia/cudnn/lib/libcudnn.so.9")
    path = library(site.folder / "torch/lib/libcudnn.so.9")
    site.wheel("torch", "2.3.1+cu121", "torch/lib/libcudnn.so.9")
    path.write_bytes(path.read_bytes()[:5000])
    found = site.resolve(machine, LD_LIBRARY_PATH=str(path.parent)).find("libcudnn.so.9")
    assert found is not None
    assert (found.found, found.wheel) == (False, "torch==2.3.1+cu121")


def test_a_copy_on_the_variable_hides_that_of_pip(machine: Machine, site: Site, tmp_path: pathlib.Path) -> None:
    own = library(site.folder / "nvidia/cublas/lib/libcudnn.so.9")
    first = library(tmp_path / "old/lib/libcudnn.so.9")
    header = tmp_path / "old/include/cudnn_version.h"
    header.parent.mkdir()
    header.write_text("#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n")
    found = site.resolve(machine, LD_LIBRARY_PATH=str(first.parent)).find("libcudnn.so.9")
    assert found is not None
    assert (found.path, found.found_by, found.shadowed) == (str(first), "LD_LIBRARY_PATH", (str(own),))
    assert (found.version, found.origin) == ("9.1.0", "")


def test_a_part_of_cudnn_is_looked_for_as_cudnn_does(machine: Machine, site: Site) -> None:
    folder = site.folder / "nvidia/cudnn/lib"
    library(folder / "libcudnn_ops.so.9")
    library(site.folder / "nvidia/cublas/lib/libcudnn.so.9", runpath=str(folder))
    told = site.resolve(machine)
    found, other = told.find("libcudnn_ops.so.9"), told.find("libcudnn_cnn.so.9")
    assert found is not None
    assert other is not None
    assert (found.found, found.asked_by, other.found) == (True, "libcudnn.so.9", False)


def test_a_preloaded_library_counts(machine: Machine, site: Site, tmp_path: pathlib.Path) -> None:
    path = library(tmp_path / "libcublas.so.12")
    found = site.resolve(machine, LD_PRELOAD=str(path)).find("libcublas.so.12")
    assert found is not None
    assert (found.found, found.path, found.found_by) == (True, str(path), "its path")


@pytest.mark.parametrize(
    ("build", "why"),
    [
        ({"built_with_cuda": False, "distribution": "tensorflow-cpu"}, "tensorflow-cpu is built without CUDA"),
        ({"folder": "/nowhere"}, "/nowhere/libtensorflow_framework.so.2, which opens the libraries, does not exist"),
    ],
)
def test_where_there_is_nothing_to_resolve_it_says_why(machine: Machine, build: dict[str, object], why: str) -> None:
    fact = healthy().tensorflow
    assert fact is not None
    changed = TensorFlow(**{**{name: getattr(fact, name) for name in fact.__struct_fields__}, **build})
    with pytest.raises(Unavailable, match=why):
        machine.ask(
            resolution, system=SYSTEM, tensorflow=changed, target=target(), driver_libraries=NONE, cuda_libraries=NONE
        )


def test_a_framework_library_that_is_damaged_is_told(machine: Machine, site: Site) -> None:
    (site.folder / "tensorflow/libtensorflow_framework.so.2").write_bytes(b"")
    with pytest.raises(Unavailable, match="it is empty"):
        site.resolve(machine)


def test_other_systems_have_other_loaders(machine: Machine, site: Site) -> None:
    with pytest.raises(Unavailable, match="not on Windows"):
        machine.ask(
            resolution, system=System(os="Windows", release="11", architecture="AMD64"), tensorflow=healthy().tensorflow, target=target(),
            driver_libraries=NONE, cuda_libraries=NONE,
        )  # fmt: skip


def test_a_damaged_copy_on_the_variable_is_not_the_wheels_fault(
    machine: Machine, site: Site, tmp_path: pathlib.Path
) -> None:
    own = library(site.folder / "nvidia/cublas/lib/libcublas.so.12")
    site.wheel("nvidia-cublas-cu12", "12.5.3.2", "nvidia/cublas/lib/libcublas.so.12")
    first = library(tmp_path / "half/libcublas.so.12")
    first.write_bytes(first.read_bytes()[:5000])
    told = site.resolve(machine, own, LD_LIBRARY_PATH=f"/nowhere:{first.parent}")
    found = told.find("libcublas.so.12")
    assert found is not None
    assert (found.found, found.wheel) == (False, "")
    assert found.error.startswith(f"{first}: it is truncated")
    (copy,) = told.copies
    assert (copy.path, copy.placed_by, copy.number, copy.owner) == (str(first), "LD_LIBRARY_PATH", 2, "")
    assert (copy.instead, copy.instead_owner) == (str(own), "pip: nvidia-cublas-cu12 12.5.3.2")
