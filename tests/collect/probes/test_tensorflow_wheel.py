"""The probe of the TensorFlow wheel, read from its files."""

from __future__ import annotations

import pathlib
import platform
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import healthy
import pytest
from made_up_releases import BUILT, made_up_container, made_up_gpu_library

from tfgpu_doctor.collect.probe import Request, Unavailable
from tfgpu_doctor.collect.probes.tensorflow_wheel import parse_build_info, tensorflow
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.python import Target, TensorFlow

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

# As tensorflow/tools/build_info/gen_build_info.py writes it into the wheels of 2.20.0.
BUILD_INFO = '''\
# Copyright 2020 The TensorFlow Authors. All Rights Reserved.
"""Auto-generated module providing information about the build."""
import collections

build_info = collections.OrderedDict([('cpu_compiler', '/usr/lib/llvm-18/bin/clang'), ('cuda_compute_capabilities', \
['sm_60', 'sm_70', 'sm_80', 'sm_89', 'compute_90']), ('cuda_version', '12.5.1'), ('cudnn_version', '9'), \
('is_cuda_build', True), ('is_rocm_build', False), ('is_tensorrt_build', False)])
'''
CPU_BUILD_INFO = """\
import collections

build_info = collections.OrderedDict([('is_cuda_build', False), ('is_rocm_build', False), ('is_tensorrt_build', False)])
"""
# As in the wheel of 2.22.0rc0.
SILENT_BUILD_INFO = CPU_BUILD_INFO.replace("'is_cuda_build', False", "'is_cuda_build', True")
RUNPATH = ["$ORIGIN/../nvidia/cuda_runtime/lib", "$ORIGIN/../nvidia/cudnn/lib", "/usr/local/cuda/lib64"]


class Wheel:
    """A wheel of TensorFlow, installed in a site-packages of the test's own."""

    def __init__(self, site: pathlib.Path, distribution: str = "tensorflow", version: str = "2.20.0") -> None:
        self.site, self.distribution, self.version = site, distribution, version
        self.package = site / "tensorflow"
        (self.package / "python/platform").mkdir(parents=True)
        self.build_info = self.package / "python/platform/build_info.py"
        self.build_info.write_text(BUILD_INFO)
        self.info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        self.info.mkdir()
        (self.info / "WHEEL").write_text(
            "Wheel-Version: 1.0\nGenerator: setuptools (80.9.0)\nRoot-Is-Purelib: false\n"
            "Tag: cp312-cp312-manylinux_2_17_x86_64\nTag: cp312-cp312-manylinux2014_x86_64\n\n"
        )

    def target(self, **changes: Any) -> Target:
        fields = {
            "distributions": (
                healthy.distribution("keras", "3.10.0", folder=str(self.site)),
                healthy.distribution(self.distribution, self.version, folder=str(self.site), requires=("numpy>=1.26.0",)),
            ),
            "tensorflow_file": str(self.package / "__init__.py"),
            "tensorflow_owners": (self.distribution,),
        }  # fmt: skip
        return healthy.target(**{**fields, **changes})


@pytest.fixture
def wheel(tmp_path: pathlib.Path) -> Wheel:
    return Wheel(tmp_path / "site-packages")


def read(machine: Machine, target: Target, quick: bool = False) -> TensorFlow:
    system = System(os="Linux", release="6.8", architecture=platform.machine())
    request = Request(python=sys.executable, level="quick" if quick else "standard")
    fact: TensorFlow = machine.ask(tensorflow, target=target, request=request, system=system)
    return fact


def test_a_wheel_is_read(machine: Machine, wheel: Wheel) -> None:
    assert read(machine, wheel.target()) == TensorFlow(
        version="2.20.0",
        distribution="tensorflow",
        folder=str(wheel.package),
        built_with_cuda=True,
        cuda_version="12.5.1",
        cudnn_version="9",
        compute_capabilities=("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"),
        wheel_tag="cp312-cp312-manylinux_2_17_x86_64",
    )


def test_the_made_up_root_does_not_move_the_target(machine: Machine, wheel: Wheel) -> None:
    machine.file(str(wheel.build_info), CPU_BUILD_INFO)
    assert read(machine, wheel.target()).built_with_cuda is True


RUNTIME_12 = "nvidia-cuda-runtime-cu12>=12.5.82; extra == 'and-cuda'"
CUDNN_12 = "nvidia-cudnn-cu12<10.0,>=9.10.2.21; extra == 'and-cuda'"


@pytest.mark.parametrize(
    ("requires", "versions", "named_by"),
    [
        ((RUNTIME_12, CUDNN_12), ("12", "9"), "it requires nvidia-cuda-runtime-cu12>=12.5.82"),
        (  # as 2.23's extras for one CUDA each
            (RUNTIME_12, CUDNN_12, "nvidia-cuda-runtime>=13.0.88; extra == 'cuda13'"),
            ("12", "9"),
            "it requires nvidia-cuda-runtime-cu12>=12.5.82",
        ),
        (
            ("nvidia-cuda-runtime>=13.0.88; extra == 'and-cuda'", "nvidia-cudnn-cu13>=9.12; extra == 'and-cuda'"),
            ("13", "9"),
            "it requires nvidia-cuda-runtime>=13.0.88",
        ),
        ((RUNTIME_12,), ("12", ""), "it requires nvidia-cuda-runtime-cu12>=12.5.82"),
        ((RUNTIME_12, "nvidia-cuda-runtime>=13; extra == 'and-cuda'", CUDNN_12), ("", ""), "its build_info.py"),
        ((CUDNN_12, "numpy>=1.26.0"), ("", ""), "its build_info.py"),
        (("nvidia-cuda-runtime-cuda; extra == 'and-cuda'",), ("", ""), "its build_info.py"),
    ],
)
def test_where_the_build_names_no_cuda_the_requirements_do(
    machine: Machine, wheel: Wheel, requires: tuple[str, ...], versions: tuple[str, str], named_by: str
) -> None:
    wheel.build_info.write_text(SILENT_BUILD_INFO)
    owner = healthy.distribution("tensorflow", "2.22.0rc0", folder=str(wheel.site), requires=requires)
    found = read(machine, wheel.target(distributions=(owner,)))
    assert (found.cuda_version, found.cudnn_version) == versions
    assert found.cuda_named_by == named_by


@pytest.mark.parametrize(
    ("build", "cuda", "named_by"),
    [
        ("2.22.0 cuda129py312h02ad3e0_200", "12.9", "conda's tensorflow-base 2.22.0 cuda129py312h02ad3e0_200"),
        ("2.22.0 cuda_130py312h02ad3e0_200", "13.0", "conda's tensorflow-base 2.22.0 cuda_130py312h02ad3e0_200"),
        ("2.22.0 py312h02ad3e0_200", "", "its build_info.py"),
    ],
)
def test_of_a_build_of_condas_its_name_tells_the_cuda(
    machine: Machine, wheel: Wheel, build: str, cuda: str, named_by: str
) -> None:
    """What its metadata require is what pip's build has."""
    wheel.build_info.write_text(SILENT_BUILD_INFO)
    owner = healthy.distribution(
        "tensorflow", "2.22.0", folder=str(wheel.site), requires=(RUNTIME_12, CUDNN_12), installer="conda"
    )
    found = read(machine, wheel.target(distributions=(owner,), conda_packages={"tensorflow-base": build}))
    assert (found.cuda_version, found.cudnn_version, found.cuda_named_by) == (cuda, "", named_by)


def test_the_kernels_tell_what_they_are_compiled_for_where_the_build_does_not(machine: Machine, wheel: Wheel) -> None:
    (wheel.package / "libtensorflow_cc.so.2").write_bytes(made_up_gpu_library(made_up_container(*BUILT)))
    assert read(machine, wheel.target()).compute_capabilities == ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")
    wheel.build_info.write_text(SILENT_BUILD_INFO)
    assert read(machine, wheel.target()).compute_capabilities == ("sm_60", "compute_90")


def test_a_build_for_the_cpu_says_so(machine: Machine, wheel: Wheel) -> None:
    wheel.build_info.write_text(CPU_BUILD_INFO)
    found = read(machine, wheel.target())
    assert (found.built_with_cuda, found.cuda_version, found.compute_capabilities) == (False, "", ())


@pytest.mark.parametrize("distribution", ["tensorflow-cpu", "tf-nightly", "tensorflow-macos"])
def test_other_distributions_are_read(machine: Machine, tmp_path: pathlib.Path, distribution: str) -> None:
    found = read(machine, Wheel(tmp_path / "site", distribution).target())
    assert found.distribution == distribution
    assert found.wheel_tag == "cp312-cp312-manylinux_2_17_x86_64"


def test_conda_keeps_no_record_and_the_name_tells(machine: Machine, wheel: Wheel) -> None:
    assert read(machine, wheel.target(tensorflow_owners=())).distribution == "tensorflow"


def test_a_distribution_of_another_folder_is_not_the_owner(machine: Machine, wheel: Wheel) -> None:
    elsewhere = healthy.distribution("tensorflow", "2.10.0", folder="/elsewhere", requires=("numpy",))
    here = healthy.distribution("tensorflow", "2.20.0", folder=str(wheel.site), requires=("numpy",))
    assert read(machine, wheel.target(distributions=(elsewhere, here))).version == "2.20.0"


def test_a_companion_is_not_the_owner(machine: Machine, wheel: Wheel) -> None:
    companion = healthy.distribution("tensorflow-io-gcs-filesystem", "0.37.1", folder=str(wheel.site), requires=())
    owner = healthy.distribution("tensorflow", "2.20.0", folder=str(wheel.site), requires=("numpy",))
    assert read(machine, wheel.target(distributions=(companion, owner))).distribution == "tensorflow"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"attempt": Attempt(outcome="timed_out", seconds=20.0)}, "the target's Python did not respond within 20 s"),
        ({"tensorflow_file": ""}, "TensorFlow is not installed in /home/user/venv/bin/python"),
        (
            {"tensorflow_file": "/home/user/tensorflow.py"},
            "`import tensorflow` runs /home/user/tensorflow.py, which is not",
        ),
        ({"distributions": ()}, "no installed distribution owns"),
    ],
)
def test_without_a_wheel_there_is_no_answer(machine: Machine, wheel: Wheel, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(Unavailable) as caught:
        read(machine, wheel.target(**changes))
    assert str(caught.value).startswith(why)


def test_without_its_files_a_wheel_says_little(machine: Machine, wheel: Wheel) -> None:
    shutil.rmtree(wheel.package)
    shutil.rmtree(wheel.info)
    found = read(machine, wheel.target())
    assert found == TensorFlow(version="2.20.0", distribution="tensorflow", folder=str(wheel.package))


@pytest.mark.parametrize(
    "source",
    [
        "",
        "build_info = {}\n",
        "build_info = make()\n",
        "build_info = collections.OrderedDict(3)\n",
        "build_info = collections.OrderedDict([1, 2])\n",
        "build_info = collections.OrderedDict([('cuda_version', open('x'))])\n",
        "build_info = collections.OrderedDict([('cuda_version', ",
        "\0\0\0",
        "def broken(:\n",
        "version <<<<<<< HEAD\n",
    ],
)
def test_build_information_that_cannot_be_read_is_none(machine: Machine, wheel: Wheel, source: str) -> None:
    assert parse_build_info(source) == {}
    wheel.build_info.write_text(source)
    found = read(machine, wheel.target())
    assert (found.version, found.built_with_cuda, found.cuda_version) == ("2.20.0", None, "")


def test_build_information_is_not_run(tmp_path: pathlib.Path) -> None:
    note = tmp_path / "ran"
    parse_build_info(f"open({str(note)!r}, 'w').close()\nbuild_info = dict(open({str(note)!r}, 'w'))\n")
    assert not note.exists()


@pytest.mark.parametrize("content", ["", "Tag:\n", "no tag\n", None])
def test_a_wheel_without_a_tag_has_none(machine: Machine, wheel: Wheel, content: str | None) -> None:
    (wheel.info / "WHEEL").unlink()
    if content is not None:
        (wheel.info / "WHEEL").write_text(content)
    assert read(machine, wheel.target()).wheel_tag == ""


def build_library(place: pathlib.Path, *options: str) -> pathlib.Path:
    """A real shared library, with the compiler of this machine."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or not sys.platform.startswith("linux"):
        pytest.skip("a shared library of ELF needs Linux and a C compiler")
    source = place.with_suffix(".c")
    source.write_text("int answer(void) { return 42; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(place), str(source), *options], check=True)
    return place


@pytest.mark.parametrize("tags", ["--enable-new-dtags", "--disable-new-dtags"])
def test_the_run_path_is_read(machine: Machine, wheel: Wheel, tags: str) -> None:
    build_library(wheel.package / "libtensorflow_framework.so.2", f"-Wl,{tags},-rpath,{':'.join(RUNPATH)}")
    assert list(read(machine, wheel.target()).runpath) == RUNPATH
    assert read(machine, wheel.target(), quick=True).runpath == ()


def test_a_library_without_a_run_path_has_none(machine: Machine, wheel: Wheel) -> None:
    build_library(wheel.package / "libtensorflow_framework.so.2")
    assert read(machine, wheel.target()).runpath == ()


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + b"\0" * 57, b"MZ\x90\0", b"\x7fELF" + b"\xff" * 500]
)
def test_what_is_no_library_has_no_run_path(machine: Machine, wheel: Wheel, content: bytes) -> None:
    (wheel.package / "libtensorflow_framework.so.2").write_bytes(content)
    assert read(machine, wheel.target()).runpath == ()


def test_a_library_cut_off_anywhere_has_at_most_its_own_run_path(machine: Machine, wheel: Wheel) -> None:
    library = build_library(wheel.package / "libtensorflow_framework.so.2", f"-Wl,-rpath,{':'.join(RUNPATH)}")
    whole = library.read_bytes()
    target = wheel.target()
    for length in [*range(0, 1200, 37), *range(1200, len(whole), len(whole) // 60)]:
        library.write_bytes(whole[:length])
        assert set(read(machine, target).runpath) <= set(RUNPATH), length


def test_a_damaged_library_costs_no_more_than_its_run_path(machine: Machine, wheel: Wheel) -> None:
    library = build_library(wheel.package / "libtensorflow_framework.so.2", f"-Wl,-rpath,{':'.join(RUNPATH)}")
    content = bytearray(library.read_bytes())
    content[0x20:0x28] = b"\xff" * 8  # e_phoff: where the program headers begin
    library.write_bytes(bytes(content))
    found = read(machine, wheel.target())
    assert (found.version, found.runpath) == ("2.20.0", ())
