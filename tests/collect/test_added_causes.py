"""Causes that only a real TensorFlow shows: flags that it does not know, a preloaded library, another framework of Keras."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
from doctor_command import diagnose
from installed import skip_without_tensorflow
from made_up_root import make_gpu_root
from simulated import Simulate

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(sys.platform != "linux", reason="the driver is simulated on Linux"),
]
ASKED = ("--select", "ENV005,ENV006,ENV007,PKG012,TFW001,TFW002")
# As an allocator that is at odds with TensorFlow: the process dies when a library of TensorFlow is opened.
DIES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
void *dlopen(const char *name, int flags) {
  void *(*next)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
  if (name && strstr(name, "tensorflow")) abort();
  return next(name, flags);
}
"""


@pytest.fixture(scope="module", autouse=True)
def _tensorflow() -> None:
    skip_without_tensorflow()


def causes(tmp_path: pathlib.Path, simulate: Simulate, **variables: str) -> list[dict[str, Any]]:
    """What the doctor's real command says with these variables, of one simulated GPU."""
    root = make_gpu_root(tmp_path / "root")
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    environment = {**simulate(), "HOME": str(home), **variables}
    found: list[dict[str, Any]] = diagnose("--root", str(root), *ASKED, environment=environment)["causes"]
    return found


def test_a_flag_of_tensorflow(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    first = causes(tmp_path, simulate, TF_XLA_FLAGS="--tf_xla_auto_jit=2 --tf_xla_made_up=1")[0]
    assert (first["label"], first["id"]) == ("unknown_flag_in_environment", "ENV005")
    assert "--tf_xla_made_up=1" in first["title"]
    assert "TFW002" in first["explains"]


@pytest.mark.slow
def test_a_flag_of_xla(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    found = causes(tmp_path, simulate, XLA_FLAGS="--xla_dump_to=/tmp/xla --xla_gpu_made_up=1")
    (cause,) = [each for each in found if each["label"] == "unknown_flag_in_environment"]
    assert cause["id"] == "ENV007"
    assert "--xla_gpu_made_up=1" in cause["title"]


@pytest.mark.slow
def test_flags_that_it_knows(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    known = {"XLA_FLAGS": "--xla_gpu_cuda_data_dir=/usr/lib/cuda", "TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}
    assert "unknown_flag_in_environment" not in [each["label"] for each in causes(tmp_path, simulate, **known)]


def test_a_framework_that_is_not_tensorflow(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    (tmp_path / "home/.keras").mkdir(parents=True)
    (tmp_path / "home/.keras/keras.json").write_text('{"backend": "jax"}')
    labels = [each["label"] for each in causes(tmp_path, simulate)]
    assert "keras_backend_not_tensorflow" in labels


def test_a_preloaded_library_that_ends_the_import(tmp_path: pathlib.Path, simulate: Simulate) -> None:
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    (tmp_path / "dies.c").write_text(DIES)
    subprocess.run(["cc", "-shared", "-fPIC", "dies.c", "-o", "libdies.so", "-ldl"], cwd=tmp_path, check=True)
    first = causes(tmp_path, simulate, LD_PRELOAD=str(tmp_path / "libdies.so"))[0]
    assert (first["label"], first["id"]) == ("preloaded_library_fails", "ENV006")
    assert "TFW001" in first["explains"]
