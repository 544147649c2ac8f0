"""A library that pip put where TensorFlow does not look: `env` names its folder, `fix` links it, `--undo` unlinks it.

The libraries are real ones; the TensorFlow is a made-up one that looks for them where the real one's RUNPATH says.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest
from doctor_command import clean_environment, doctor_argv, make_target, start_doctor
from made_up_wheels import tree
from simulated import Simulate

from tfgpu_doctor.knowledge import read_knowledge

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not shutil.which("cc"), reason="needs Linux and a C compiler"
)

BUILD = """import collections
build_info = collections.OrderedDict([("cuda_version", "12.5.1"), ("cudnn_version", "9"), ("is_cuda_build", True)])
"""
TENSORFLOW = """
import os, sys
__version__ = "2.21.0"
site = os.path.dirname(os.path.dirname(__file__))
places = [os.path.join(site, "nvidia", each, "lib") for each in ("cublas", "cudnn")]
places += os.environ.get("LD_LIBRARY_PATH", "").split(":")

class config:
    def list_physical_devices(kind):
        for name in {names}:
            found = any(os.path.exists(os.path.join(place, name)) for place in places)
            missing = "Could not load dynamic library '%s'; dlerror: %s: cannot open shared object file" % (name, name)
            print("I dso_loader.cc:1] " + ("Successfully opened dynamic library " + name if found else missing), file=sys.stderr)
        return []
"""


@pytest.fixture
def target(tmp_path: pathlib.Path) -> pathlib.Path:
    """All libraries that TensorFlow 2.21 needs; it looks in the folders of cuBLAS and cuDNN, cuSOLVER lies elsewhere."""
    rows = read_knowledge().opened_libraries("2.21.0", "12.5.1", "9")
    names = [row.soname for row in rows if row.needed and not row.soname.startswith(("libcuda.", "libnvidia-ml."))]
    folder = make_target(tmp_path / "a venv", TENSORFLOW.format(names=names), version="2.21.0")
    (site,) = folder.glob("lib/python3*/site-packages")
    runpath = ":".join(f"$ORIGIN/../nvidia/{part}/lib" for part in ("nvshmem", "cublas", "cudnn"))
    plain = tmp_path / "plain.so"
    for path, searched in ((plain, "$ORIGIN"), (site / "tensorflow/libtensorflow_framework.so.2", runpath)):
        command = ["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", str(path), "-Wl,--enable-new-dtags"]
        command.append(f"-Wl,-rpath,{searched}")
        subprocess.run(command, check=True)
    for name in names:
        part = "cusolver" if "cusolver" in name else "cudnn" if "cudnn" in name else "cublas"
        (site / f"nvidia/{part}/lib").mkdir(parents=True, exist_ok=True)
        shutil.copy(plain, site / f"nvidia/{part}/lib" / name)
    (site / "tensorflow/python/platform").mkdir(parents=True)
    (site / "tensorflow/python/platform/build_info.py").write_text(BUILD)
    return folder


def cusolver(target: pathlib.Path) -> pathlib.Path:
    (folder,) = target.glob("lib/python3*/site-packages/nvidia/cusolver/lib")
    return folder


def test_env_names_the_folder_until_it_is_set(target: pathlib.Path, simulate: Simulate) -> None:
    variables = simulate()
    command = " ".join(f"'{word}'" for word in doctor_argv("env", "--shell", "bash", "--python", str(target)))
    script = f'eval "$({command})"; echo "$LD_LIBRARY_PATH"; eval "$({command})"; echo "$LD_LIBRARY_PATH"; {command}'
    done = subprocess.run(
        ["bash", "-ec", script], capture_output=True, text=True, check=True,
        env=clean_environment(**variables),
    )  # fmt: skip
    once = f"{cusolver(target)}:{variables['LD_LIBRARY_PATH']}\n"
    assert (done.stdout, done.stderr) == (once * 2, "")


def test_env_without_a_driver_says_that_it_will_come(target: pathlib.Path) -> None:
    done = start_doctor("env", "--shell", "docker", "--python", str(target))
    assert done.returncode == 0
    assert done.stdout == f'ENV LD_LIBRARY_PATH="{cusolver(target)}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"\n'
    assert "libcuda.so.1 and libnvidia-ml.so.1 will come with the NVIDIA driver" in done.stderr


def test_env_of_a_library_that_is_nowhere(target: pathlib.Path) -> None:
    (cusolver(target) / "libcusolver.so.11").unlink()
    done = start_doctor("env", "--shell", "fish", "--python", str(target))
    assert (done.returncode, done.stdout) == (1, "")
    assert "not installed, so no variable helps: libcusolver.so.11" in done.stderr


def test_env_of_a_library_that_is_damaged_says_so(target: pathlib.Path) -> None:
    (damaged,) = target.glob("lib/python3*/site-packages/nvidia/cublas/lib/libcublas.so.12")
    damaged.write_bytes(damaged.read_bytes()[:1000])
    done = start_doctor("env", "--shell", "bash", "--python", str(target))
    assert done.returncode == 1
    (told,) = [line for line in done.stderr.splitlines() if "libcublas.so.12" in line]
    assert "truncated" in told


def test_env_without_tensorflow(tmp_path: pathlib.Path) -> None:
    done = start_doctor("env", "--shell", "zsh", "--python", str(make_target(tmp_path / "venv", None)))
    assert (done.returncode, done.stdout) == (3, "")
    assert "TensorFlow is not installed" in done.stderr


def test_fix_links_the_library_and_undo_unlinks_it(target: pathlib.Path, simulate: Simulate) -> None:
    before, variables = tree(target), simulate()
    words = ("--python", str(target))
    plan = start_doctor("fix", "LIB003", *words, environment=variables)
    link = cusolver(target).parents[1] / "cublas/lib/libcusolver.so.11"
    assert f"1. link {link} to ../../cusolver/lib/libcusolver.so.11" in plan.stdout
    done = start_doctor("fix", "LIB003", "--apply", "--yes", *words, environment=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert link.resolve() == cusolver(target) / "libcusolver.so.11"
    assert start_doctor("env", "--shell", "bash", *words, environment=variables).stdout == ""
    assert start_doctor("fix", "--undo", *words).returncode == 0
    assert tree(target) == before
