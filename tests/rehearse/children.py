"""Child processes that ask the simulated driver: CUDA through ctypes, NVML through nvidia-ml-py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

GENEROUS_S = 60.0

_CUDA = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
def device_text(call, size=128):
    into = ctypes.create_string_buffer(size)
    code = call(into)
    return into.value.decode() if code == 0 else code
def number(call, kind=ctypes.c_int):
    into = kind()
    code = call(ctypes.byref(into))
    return into.value if code == 0 else -code
init = cuda.cuInit(0)
count = number(cuda.cuDeviceGetCount)
devices = []
for place in range(max(count, 0)):
    uuid = (ctypes.c_ubyte * 16)()
    uuid_code = cuda.cuDeviceGetUuid(uuid, place)
    devices.append({
        "name": device_text(lambda into: cuda.cuDeviceGetName(into, 128, place)),
        "pci": device_text(lambda into: cuda.cuDeviceGetPCIBusId(into, 128, place)),
        "memory": number(lambda into: cuda.cuDeviceTotalMem_v2(into, place), ctypes.c_size_t),
        "uuid": bytes(uuid).hex() if uuid_code == 0 else uuid_code,
        "attributes": [number(lambda into: cuda.cuDeviceGetAttribute(into, each, place)) for each in range(1, 125)],
    })
print(json.dumps({"init": init, "count": count, "devices": devices, "version": number(cuda.cuDriverGetVersion)}))
"""

_NVML = """
import json, pynvml as n
def asked(call, *arguments):
    try:
        answer = call(*arguments)
    except n.NVMLError as error:
        return -error.value
    answer = answer.decode() if isinstance(answer, bytes) else answer
    fields = getattr(answer, "_fields_", None)
    return {name: getattr(answer, name) for name, _ in fields} if fields else answer
init = asked(n.nvmlInit)
found = {"init": init, "gpus": []}
for place in range(asked(n.nvmlDeviceGetCount) if init is None else 0):
    try:
        handle = n.nvmlDeviceGetHandleByIndex(place)
    except n.NVMLError as error:
        found["gpus"].append(-error.value)
        continue
    found["gpus"].append({%s})
print(json.dumps(found, default=lambda row: row.__dict__))
"""


def run(code: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A child of this interpreter with those variables and none that steer a driver."""
    return subprocess.run(
        [sys.executable, "-c", code], env={"PATH": os.environ["PATH"], **variables},
        capture_output=True, text=True, timeout=GENEROUS_S, check=False,
    )  # fmt: skip


def cuda_says(variables: Mapping[str, str]) -> Any:
    """What every call about devices answers; an error is its code, below nought where a number was asked for."""
    done = run(_CUDA, variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def nvml_says(variables: Mapping[str, str], *questions: str) -> Any:
    """What nvidia-ml-py answers for every GPU to questions like "Temperature, 0"; an error is its code below nought."""
    rows = []
    for question in questions:
        call, _, arguments = question.partition(",")
        rows.append(f"{question!r}: asked(n.nvmlDeviceGet{call}, handle, {arguments})")
    done = run(_NVML % ", ".join(rows), variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
