"""Read the GPUs through NVML. Runs in the doctor's own interpreter, whose search path is the one argument."""

from __future__ import annotations

import ctypes
import json
import os
import sys

TYPE_CHECKING = False  # importing typing would cost a child more than its work
if TYPE_CHECKING:
    from typing import Any

COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}


def say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def asked(call: Any, *arguments: Any) -> Any:
    """What NVML answers, None where it does not support the question on this GPU or may not tell."""
    import pynvml

    # The second says that this driver lacks the newest version of a function.
    errors = (pynvml.NVMLError, getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError))
    try:
        answer = call(*arguments)
    except (*errors, UnicodeDecodeError):  # nvidia-ml-py decodes names itself
        return None
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def mig_devices(nvml: Any, handle: Any) -> list[str]:
    """UUIDs of the MIG devices of a GPU."""
    most = asked(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    handles = [asked(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index) for index in range(most)]
    return [asked(nvml.nvmlDeviceGetUUID, each) or "" for each in handles if each is not None]


def is_the_doctors_own(pid: int) -> bool:
    """Whether a process is the doctor's own TensorFlow, which may be running meanwhile."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return os.path.join("inside", "run_tensorflow.py").encode() in file.read(4096)
    except OSError:
        return False


def processes(nvml: Any, handle: Any) -> list[dict[str, object]]:
    """Processes that compute or draw on a GPU, with the memory that each holds (bytes)."""
    found = {}
    calls = ((nvml.nvmlDeviceGetGraphicsRunningProcesses, False), (nvml.nvmlDeviceGetComputeRunningProcesses, True))
    for call, computes in calls:
        for process in asked(call, handle) or ():
            if is_the_doctors_own(process.pid):
                continue
            row = {"pid": process.pid, "computes": computes, "memory_bytes": process.usedGpuMemory}
            row["name"] = asked(nvml.nvmlSystemGetProcessName, process.pid) or ""
            found[process.pid] = row
    return list(found.values())


def describe(nvml: Any, index: int) -> dict[str, object]:
    """One GPU: identity, memory (bytes), mode, tenants."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = asked(nvml.nvmlDeviceGetMemoryInfo, handle)
    capability = asked(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    pci = asked(nvml.nvmlDeviceGetPciInfo, handle)
    address = (
        pci.busId.decode("ascii", "replace") if pci and isinstance(pci.busId, bytes) else getattr(pci, "busId", "")
    )
    mig = asked(nvml.nvmlDeviceGetMigMode, handle)
    return {
        "index": index,
        "name": asked(nvml.nvmlDeviceGetName, handle) or "",
        "uuid": asked(nvml.nvmlDeviceGetUUID, handle) or "",
        "pci_address": address.lower(),
        "compute_capability": "%d.%d" % tuple(capability) if capability else "",
        "memory_total_bytes": memory.total if memory else None,
        "memory_free_bytes": memory.free if memory else None,
        "compute_mode": COMPUTE_MODES.get(asked(nvml.nvmlDeviceGetComputeMode, handle), ""),
        "mig": bool(mig[0]) if mig else None,
        "mig_devices": mig_devices(nvml, handle) if mig and mig[0] else [],
        "processes": processes(nvml, handle),
    }


def main() -> None:
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    say(phase="opening " + name)
    if sys.platform != "win32":
        try:
            ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL: die with the doctor
        except (OSError, AttributeError):
            pass
        try:
            ctypes.CDLL(name)  # cheaper to know than to import pynvml for nothing
        except OSError as error:
            say(library_error=str(error))
            return
    sys.path[:] = json.loads(sys.argv[1])
    import pynvml

    say(phase="nvmlInit")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound as error:
        say(library_error=str(error))
        return
    except pynvml.NVMLError as error:
        say(error_code=error.value, error_text=str(error))
        return
    say(driver_version=asked(pynvml.nvmlSystemGetDriverVersion) or "")
    gpus = []
    for index in range(asked(pynvml.nvmlDeviceGetCount) or 0):
        say(phase="reading GPU %d" % index)
        try:
            gpus.append(describe(pynvml, index))
        except pynvml.NVMLError as error:
            say(error_code=error.value, error_text="GPU %d: %s" % (index, error))
        say(gpus=gpus)


if __name__ == "__main__":
    main()
