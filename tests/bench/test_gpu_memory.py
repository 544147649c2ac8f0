"""The memory of the GPUs that a process may use: NVML lists all GPUs of the machine, CUDA those that are left to the process."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
import stand_in_hardware
from doctor_command import clean_environment
from installed import skip_without_scipy, skip_without_tensorflow
from stand_in_hardware import MEMORY_MIB, uuid_of
from stand_in_run import run_on_stand_in

from tfgpu_doctor.perf_tests.visibility import only_gpu

FULL_MIB = MEMORY_MIB - 100
_CODE = """
import json
from tfgpu_doctor.perf_tests.gpu_memory import gpu_memory
print(json.dumps([each.free >> 20 for each in gpu_memory()]))
"""
_PARTS = """
import sys, pynvml, stand_in_hardware
whole = stand_in_hardware.uuid_of
pynvml.nvmlDeviceGetHandleByUUID = lambda name: {whole(1).replace("GPU-", "MIG-"): 1}[name] if name[0] == "M" else refused()
def refused():
    raise pynvml.NVMLError("Not Found")
"""


def free_mib(folder: pathlib.Path, shown: str | None, before: str = "") -> list[int]:
    """The free memory that a process sees on a machine with three GPUs, the last of which another process fills."""
    found: list[int] = asked(folder, shown, before + _CODE)
    return found


def asked(folder: pathlib.Path, shown: str | None, code: str, **more: str) -> Any:
    """What a program prints on that machine."""
    stand_in_hardware.write_nvml(folder, 3)
    shutil.copy(str(stand_in_hardware.__file__), folder)
    (folder / "memory/1").write_text(json.dumps({"1": 1000, "2": FULL_MIB}))  # process 1 is always alive
    variables = {"PYTHONPATH": str(folder), **({} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}), **more}
    environment = clean_environment(**variables)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("shown", "due"),
    [
        (None, [0, 1, 2]),
        ("1", [1]),
        ("1,0", [1, 0]),
        (uuid_of(1), [1]),
        (f"{uuid_of(0)[:6]},{uuid_of(1)[:6]}", [0, 1]),
        ("1,7,0", [1]),
        ("-1", []),
        ("", []),
    ],
)
def test_only_what_the_variable_leaves_counts(tmp_path: pathlib.Path, shown: str | None, due: list[int]) -> None:
    free = [MEMORY_MIB, MEMORY_MIB - 1000, MEMORY_MIB - FULL_MIB]
    assert free_mib(tmp_path, shown) == [free[place] for place in due]


def test_a_part_of_a_gpu_has_a_name_of_its_own(tmp_path: pathlib.Path) -> None:
    assert free_mib(tmp_path, "1", before=_PARTS) == [MEMORY_MIB - 1000]


@pytest.mark.parametrize(
    ("shown", "due"), [(None, "1"), ("", "1"), ("4,6", "6"), ("GPU-a1, MIG-b2 ", "MIG-b2"), ("7", "1")]
)
def test_a_child_sees_one_of_the_gpus_that_are_visible_here(
    monkeypatch: pytest.MonkeyPatch, shown: str | None, due: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert only_gpu(1) == {"CUDA_VISIBLE_DEVICES": due}


_POOLS = """
from tfgpu_doctor.perf_tests.gpu_memory import has_memory_pools
print(json.dumps([has_memory_pools(place) for place in (0, 1)]))
"""


@pytest.mark.parametrize(
    ("before", "shown", "due"),
    [
        ("", None, [True, False]),
        ("", "1,0", [False, True]),
        ("", "1", [False, None]),
        ("import stand_in_hardware; stand_in_hardware.LAST_ATTRIBUTE = 114", None, [None, None]),  # an older driver
        ("import ctypes, pynvml; ctypes.CDLL = lambda name: (_ for _ in ()).throw(OSError(name))", None, [None, None]),
    ],
    ids=["the first", "in CUDA's order", "no such GPU", "not known to the driver", "no driver"],
)
def test_the_driver_tells_which_gpu_has_memory_pools(
    tmp_path: pathlib.Path, before: str, shown: str | None, due: list[bool | None]
) -> None:
    code = f"{before}\nimport json, pynvml\n{_POOLS}"
    assert asked(tmp_path, shown, code, **{stand_in_hardware.WITHOUT_POOLS: "1"}) == due


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_gpu_without_memory_pools_is_not_asked_to_use_them(tmp_path: pathlib.Path) -> None:
    """As some virtual GPUs: TensorFlow ends the process that asks for cuda_malloc_async."""
    skip_without_tensorflow()
    skip_without_scipy()
    without = {stand_in_hardware.WITHOUT_POOLS: "0"}
    bench = run_on_stand_in(tmp_path, 1, ["memory_growth"], only="taken and (async or limit)", variables=without)
    assert bench.failed == {}
    assert [each.name for each in bench.metrics] == ["taken with limit"]
    ((test, why),) = bench.skipped.items()
    assert "cuda_malloc_async" in test
    assert "GPU:0 has no memory pools" in why


@pytest.mark.tensorflow
@pytest.mark.slow
def test_memory_taken_is_that_of_one_gpu(tmp_path: pathlib.Path) -> None:
    """TensorFlow opens a context on each GPU that it sees: on eight they hold more than the piece that is asked for."""
    skip_without_tensorflow()
    skip_without_scipy()
    bench = run_on_stand_in(tmp_path, 8, ["memory_growth"], only="taken or largest")
    assert not bench.problems
    assert not bench.failed
    taken = {each.name: each.value for each in bench.metrics}
    assert taken["taken with growth"] == stand_in_hardware.CONTEXT_MIB + 64
