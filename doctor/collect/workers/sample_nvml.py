"""Read clocks, temperature, power and the use of all GPUs several times a second, until standard input ends.

Runs in the doctor's own interpreter. The first argument is its search path, the second a plan in JSON: at most
`seconds`, `every_s` between two samples, `with_tenants` to include the processes that use the GPUs.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import sys
import time

TYPE_CHECKING = False  # importing typing would take longer than the rest of the program
if TYPE_CHECKING:
    from typing import Any

# Bits of nvmlClocksEventReasons: https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
REASONS = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
    "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting",
)  # fmt: skip
RECENT_S = 3.0
IMPOSSIBLE = (0, 0xFFFFFFFF)  # numbers that no process has
SM, GPU_SENSOR, SLOWDOWN = 1, 0, 1  # NVML_CLOCK_SM, NVML_TEMPERATURE_GPU, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN


def say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def asked(nvml: Any, call: str, *arguments: Any) -> Any:
    """NVML's answer, None if the query is not supported on this GPU, or the call by this nvidia-ml-py."""
    errors = (nvml.NVMLError, getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError))
    try:
        answer = getattr(nvml, call)(*arguments)
    except (*errors, UnicodeDecodeError, AttributeError):
        return None
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def watts(milliwatts: Any) -> Any:
    return None if milliwatts is None else milliwatts / 1000


def describe(nvml: Any, handle: Any) -> dict[str, object]:
    """The constant properties: identity and limits."""
    pci = asked(nvml, "nvmlDeviceGetPciInfo", handle)
    address = getattr(pci, "busId", "")
    return {
        "name": asked(nvml, "nvmlDeviceGetName", handle) or "",
        "uuid": asked(nvml, "nvmlDeviceGetUUID", handle) or "",
        "pci_address": (address.decode("ascii", "replace") if isinstance(address, bytes) else address).lower(),
        "max_sm_mhz": asked(nvml, "nvmlDeviceGetMaxClockInfo", handle, SM),
        "power_limit_w": watts(asked(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)),
        "default_power_limit_w": watts(asked(nvml, "nvmlDeviceGetPowerManagementDefaultLimit", handle)),
        "slowdown_c": asked(nvml, "nvmlDeviceGetTemperatureThreshold", handle, SLOWDOWN),
    }


def listed(nvml: Any, call: str, handle: Any) -> Any:
    """Processes of a GPU; none where one has an impossible number.

    A driver of 535.43 to 535.86 fills another structure than nvidia-ml-py reads.
    """
    found = asked(nvml, call, handle) or ()
    return () if any(each.pid in IMPOSSIBLE for each in found) else found


def tenants(nvml: Any, handle: Any) -> list[dict[str, object]]:
    """The processes that compute on a GPU, and the memory that each uses (bytes)."""
    found = listed(nvml, "nvmlDeviceGetComputeRunningProcesses", handle)
    used = utilizations(nvml, handle) if len(found) > 1 else {}
    return [
        {
            "pid": each.pid,
            "memory_bytes": each.usedGpuMemory,
            "name": asked(nvml, "nvmlSystemGetProcessName", each.pid) or "",
            **({"utilization_percent": used.get(each.pid, 0)} if used else {}),
        }
        for each in found
        if not is_the_doctors_own(each.pid)
    ]


def utilizations(nvml: Any, handle: Any) -> dict[int, int]:
    """By process, the share (%) of the last seconds in which its kernels ran; empty if NVML does not tell.

    https://docs.nvidia.com/deploy/nvml-api/group__nvmlGridQueries.html: samples since a moment, in us of the epoch.
    """
    since_us = int((time.time() - RECENT_S) * 1e6)
    shares: dict[int, list[int]] = {}
    for each in asked(nvml, "nvmlDeviceGetProcessUtilization", handle, since_us) or ():
        shares.setdefault(each.pid, []).append(each.smUtil)
    return {pid: sum(rows) // len(rows) for pid, rows in shares.items()}


def drawing_bytes(nvml: Any, handle: Any) -> int:
    """The memory of processes that only draw."""
    found = listed(nvml, "nvmlDeviceGetGraphicsRunningProcesses", handle)
    return sum(each.usedGpuMemory or 0 for each in found)


def is_the_doctors_own(pid: int) -> bool:
    """Whether a process is a program of the doctor's, which may be about to end."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            words = file.read(4096).split(b"\0")
    except OSError:
        return False
    folder = os.path.dirname(os.path.abspath(__file__)).encode()
    return any(os.path.dirname(word) == folder for word in words)


def look(nvml: Any, handle: Any, with_tenants: bool) -> dict[str, object]:
    """One sample of one GPU, with the processes that use it if requested."""
    memory = asked(nvml, "nvmlDeviceGetMemoryInfo", handle)
    rates = asked(nvml, "nvmlDeviceGetUtilizationRates", handle)
    bits = asked(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:  # the older name
        bits = asked(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    row = {
        "sm_mhz": asked(nvml, "nvmlDeviceGetClockInfo", handle, SM),
        "temperature_c": asked(nvml, "nvmlDeviceGetTemperature", handle, GPU_SENSOR),
        "power_w": watts(asked(nvml, "nvmlDeviceGetPowerUsage", handle)),
        "utilization_percent": rates.gpu if rates else None,
        "reasons": None if bits is None else [word for bit, word in enumerate(REASONS) if bits >> bit & 1],
        "pcie_generation": asked(nvml, "nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "pcie_width": asked(nvml, "nvmlDeviceGetCurrPcieLinkWidth", handle),
    }
    if with_tenants:
        row["tenants"] = tenants(nvml, handle)
        row["used_bytes"] = memory.used if memory else None
        row["total_bytes"] = memory.total if memory else None
        row["drawing_bytes"] = drawing_bytes(nvml, handle)
    return row


def is_over(every_s: float) -> bool:
    """Wait for the next sample, or for the end of standard input, when the output is no longer read."""
    if os.name == "nt":
        time.sleep(every_s)  # pipes cannot be waited for there; the deadline ends this
        return False
    ready, _, _ = select.select([0], [], [], every_s)
    return bool(ready) and not os.read(0, 4096)


def watch(nvml: Any, handles: dict[int, Any], *, seconds: float, every_s: float, with_tenants: bool) -> None:
    """Sample all GPUs repeatedly."""
    ends = time.monotonic() + seconds
    while True:
        now, rows = time.monotonic(), {}
        for index, handle in handles.items():
            say(phase="reading GPU %d" % index)
            rows[str(index)] = look(nvml, handle, with_tenants)
        say(samples={"%.3f" % now: rows})
        if now > ends or is_over(every_s):
            return


def main() -> None:
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    if sys.platform != "win32":
        try:
            ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL: die with the doctor
        except (OSError, AttributeError):
            pass
    try:
        ctypes.CDLL(name)  # cheaper than an import of pynvml that would fail
    except OSError as error:
        say(library_error=str(error))
        return
    sys.path[:] = json.loads(sys.argv[1])
    plan = json.loads(sys.argv[2])
    import pynvml

    say(phase="nvmlInit")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        say(library_error=str(error))
        return
    handles = {}
    for index in range(asked(pynvml, "nvmlDeviceGetCount") or 0):
        say(phase="describing GPU %d" % index)
        handle = asked(pynvml, "nvmlDeviceGetHandleByIndex", index)
        if handle is not None:
            handles[index] = handle
            say(gpus={str(index): describe(pynvml, handle)})
    watch(pynvml, handles, **plan)


if __name__ == "__main__":
    main()
