"""Print a line of comma-separated readings of each GPU every second, until it is ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pynvml

QUERIES: dict[str, Callable[[Any], Any]] = {
    "sm_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
    "memory_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
    "temperature_c": lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
    "power_w": lambda gpu: round(pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000, 1),
    "utilization_percent": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "memory_used_mib": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).used >> 20,
    "throttle_reasons": lambda gpu: hex(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
}


def reading(query: Callable[[Any], Any], gpu: Any) -> str:
    """The answer, or nothing where NVML gives none."""
    try:
        return str(query(gpu))
    except pynvml.NVMLError:
        return ""


pynvml.nvmlInit()
gpus = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
print("seconds,gpu", *QUERIES, sep=",", flush=True)
parent, began = os.getppid(), time.monotonic()
while os.getppid() == parent:
    for index, gpu in enumerate(gpus):
        values = [reading(query, gpu) for query in QUERIES.values()]
        print(f"{time.monotonic() - began:.1f}", index, *values, sep=",", flush=True)
    time.sleep(1)
