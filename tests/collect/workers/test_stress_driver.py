"""The questions to libcuda beside TensorFlow, put to a library that counts what is taken and given back."""

from __future__ import annotations

import ctypes
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tfgpu_doctor.collect.workers import stress_driver

SOURCE = r"""
#include <stddef.h>
static int held, pushed, integrated, answers = 1;
int count_held(void) { return held; }
int count_pushed(void) { return pushed; }
void set_integrated(int on) { integrated = on; }
void set_answers(int on) { answers = on; }
int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal + 40; return ordinal > 1 ? 101 : 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 18 && integrated; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) {
  if (!answers || device < 40) return 2;
  *context = (void *)(size_t)(0x7000000000 + device);
  held++;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { held--; return device < 40; }
int cuCtxPushCurrent_v2(void *context) { pushed++; return (size_t)context < 0x7000000000; }
int cuCtxPopCurrent_v2(void **context) { pushed--; return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = 0x2200000000; *total = 0x2300000000;
  return !pushed;
}
int cuPointerGetAttribute(void *value, int attribute, unsigned long long address) {
  if (address < 0x1000000000) return 1; /* CUDA_ERROR_INVALID_VALUE */
  if (address == 0xffffffffffff) return 201;
  *(unsigned *)value = address == 0x7fff00000000 ? 1 : 2;
  return attribute != 2;
}
"""


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or not sys.platform.startswith("linux"):
        pytest.skip("building a library needs Linux and a C compiler")
    place = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(place)], input=SOURCE, text=True, check=True
    )
    return ctypes.CDLL(str(place))


@pytest.fixture(autouse=True)
def _balanced(cuda: Any) -> Any:
    """Whatever is asked, every context is given back."""
    yield
    assert (cuda.count_held(), cuda.count_pushed()) == (0, 0)
    cuda.set_integrated(0)
    cuda.set_answers(1)


def test_free_memory_is_told_beyond_4_gigabytes(cuda: Any) -> None:
    assert stress_driver.free_memory(cuda) == 0x2200000000
    assert stress_driver.free_memory(cuda, 1) == 0x2200000000


def test_a_device_that_is_not_there_has_none(cuda: Any) -> None:
    assert stress_driver.free_memory(cuda, 7) is None


def test_a_device_that_gives_no_context_tells_nothing(cuda: Any) -> None:
    cuda.set_answers(0)
    assert stress_driver.free_memory(cuda) is None
    assert stress_driver.is_pinned(cuda, 0x7FFF00000000) is None


def test_memory_of_the_hosts_own_is_told(cuda: Any) -> None:
    assert stress_driver.is_integrated(cuda) is False
    cuda.set_integrated(1)
    assert stress_driver.is_integrated(cuda) is True


@pytest.mark.parametrize(
    ("address", "pinned"),
    [(0x7FFF00000000, True), (0x7FFF00001000, False), (0x1000, False), (0xFFFFFFFFFFFF, None)],
    ids=["pinned", "the device's", "never heard of", "not to be told"],
)
def test_pinned_memory_is_told_apart(cuda: Any, address: int, pinned: bool | None) -> None:
    assert stress_driver.is_pinned(cuda, address) is pinned


def test_without_a_driver_nothing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert stress_driver.open_driver() is None
    assert stress_driver.free_memory(None) is None
    assert stress_driver.is_integrated(None) is False
    assert stress_driver.is_pinned(None, 1) is None
