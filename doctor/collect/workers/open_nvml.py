"""Read the GPUs through NVML. Runs in the doctor's own interpreter.

Its arguments: that interpreter's search path; the time without a response from any GPU after which those still being
read are given up, and the time at which all must be done (seconds); then the GPU indices, all GPUs if there are none.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import sys
import threading
import time

from gpu_health import read_health  # next to this file, in the folder that Python puts first on the path

TYPE_CHECKING = False  # importing typing would take longer than the rest of the program
if TYPE_CHECKING:
    from typing import Any

COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
LOST, RESET_REQUIRED = 15, 16  # nvmlReturn_t of a GPU that stopped responding
# Numbers that no process has: a driver of 535.43 to 535.86 fills another structure than nvidia-ml-py reads.
IMPOSSIBLE = (0, 0xFFFFFFFF)
_AGAIN_S = 0.1
_STARVED = 0.5  # of a CPU
_HERE = os.path.dirname(os.path.abspath(__file__))
_SAYING = threading.Lock()


def say(**answer: object) -> None:
    with _SAYING:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


class Reader:
    """Reads one GPU on a separate thread, and knows what it is waiting for if no response comes."""

    def __init__(self, nvml: Any, index: int, done: Any) -> None:
        self.nvml, self.index = nvml, index
        self.errors = (nvml.NVMLError, getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError))
        self.call, self.asked_at, self.asked_cpu_s, self.answered_at = "", 0.0, 0.0, time.monotonic()
        self.row = {"index": index}  # type: dict[str, object]
        self.trouble = {}  # type: dict[str, object]
        self.broken = True  # until the reading is complete
        self._done = done
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __call__(self, call: str, *arguments: Any) -> Any:
        """NVML's answer, None if it does not support the query on this GPU or denies permission."""
        function = getattr(self.nvml, call, None)
        if function is None:  # an older nvidia-ml-py
            return None
        self._asks(call)
        try:
            answer = function(*arguments)
        except self.errors as error:
            if getattr(error, "value", 0) in (LOST, RESET_REQUIRED):
                self.note(error)
            answer = None
        except (UnicodeDecodeError, TypeError, ctypes.ArgumentError):
            answer = None  # nvidia-ml-py decodes names itself, and an older version may require other arguments
        self.answered_at = time.monotonic()
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer

    def wants_cpu(self, share: float = 1.0) -> bool:
        """Whether the thread computes or waits for a CPU, and got no more than this share of one since it asked.

        One that waits for the driver does neither; one that spins in it gets a whole CPU.
        """
        try:
            with open("/proc/self/task/%s/stat" % self._thread.native_id) as file:
                state = file.read().rpartition(")")[2].split()
            used_s = (int(state[11]) + int(state[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return False
        return state[0] == "R" and used_s - self.asked_cpu_s <= share * max(_AGAIN_S, time.monotonic() - self.asked_at)

    def _asks(self, call: str) -> None:
        self.call, self.asked_cpu_s, self.asked_at = call, time.thread_time(), time.monotonic()

    def note(self, error: Any) -> None:
        """Keep the first error that says that this GPU cannot be read."""
        if not self.trouble:
            self.trouble = {"call": self.call, "error_code": error.value, "error_text": str(error)}

    def known(self) -> dict[str, object]:
        """The identity of the GPU, as far as it is known."""
        return {name: self.row[name] for name in ("index", "name", "uuid", "pci_address") if name in self.row}

    def _run(self) -> None:
        try:
            self._read()
            self.broken = False
        finally:
            self._done.put(self)

    def _read(self) -> None:
        self._asks("nvmlDeviceGetHandleByIndex")
        try:
            handle = self.nvml.nvmlDeviceGetHandleByIndex(self.index)
        except self.nvml.NVMLError as error:
            self.note(error)
        else:
            describe(self, handle, self.row)
            say(gpus={self.index: self.row})
        if self.trouble:
            say(troubles={self.index: dict(self.known(), **self.trouble)})
        self.answered_at = time.monotonic()


def is_the_doctors_own(pid: int) -> bool:
    """Whether a process is one of the doctor's own programs, which may run at the same time."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return os.fsencode(_HERE + os.sep) in file.read(4096)
    except OSError:
        return False


def processes(ask: Any, handle: Any) -> list[dict[str, object]]:
    """Processes that compute or draw on a GPU, with the memory that each uses (bytes)."""
    found = {}
    calls = (("nvmlDeviceGetGraphicsRunningProcesses", False), ("nvmlDeviceGetComputeRunningProcesses", True))
    for call, computes in calls:
        told = ask(call, handle) or ()
        for process in () if any(each.pid in IMPOSSIBLE for each in told) else told:
            if is_the_doctors_own(process.pid):
                continue
            row = {"pid": process.pid, "computes": computes, "memory_bytes": process.usedGpuMemory}
            row["name"] = ask("nvmlSystemGetProcessName", process.pid) or ""
            found[process.pid] = row
    return list(found.values())


def describe(ask: Any, handle: Any, row: dict[str, object]) -> None:
    """One GPU: identity first, then memory (bytes), mode, processes, health."""
    row["name"] = ask("nvmlDeviceGetName", handle) or ""
    row["uuid"] = ask("nvmlDeviceGetUUID", handle) or ""
    address = getattr(ask("nvmlDeviceGetPciInfo", handle), "busId", "")
    row["pci_address"] = (address.decode("ascii", "replace") if isinstance(address, bytes) else address).lower()
    row["serial"] = ask("nvmlDeviceGetSerial", handle) or ""
    row["part_number"] = ask("nvmlDeviceGetBoardPartNumber", handle) or ""
    row["vbios"] = ask("nvmlDeviceGetVbiosVersion", handle) or ""
    capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
    row["compute_capability"] = "%d.%d" % tuple(capability) if capability else ""
    memory = ask("nvmlDeviceGetMemoryInfo", handle)
    row["memory_total_bytes"] = memory.total if memory else None
    row["memory_free_bytes"] = memory.free if memory else None
    row["compute_mode"] = COMPUTE_MODES.get(ask("nvmlDeviceGetComputeMode", handle), "")
    mig = ask("nvmlDeviceGetMigMode", handle)
    row["mig"] = bool(mig[0]) if mig else None
    row["processes"] = processes(ask, handle)
    health = read_health(ask, handle, mig)
    row["mig_devices"] = [each["uuid"] for each in health["mig_devices"]]
    row["health"] = health


def read(nvml: Any, indices: Any, quiet_s: float, ends_at: float) -> bool:
    """Read those GPUs concurrently; give up those that do not respond once no other responds any longer.

    Returns whether this program itself ran without an error, whatever NVML answered, and had the CPUs that it needed.
    """
    done = queue.Queue()  # type: Any
    waiting = {index: Reader(nvml, index, done) for index in indices}
    readers = list(waiting.values())
    while waiting:
        now = time.monotonic()
        remaining = min(max(each.answered_at for each in readers) + quiet_s, ends_at) - now
        try:
            waiting.pop(done.get(timeout=max(0.0, remaining) or _AGAIN_S).index)
        except queue.Empty:
            silent = max(each.answered_at for each in readers) <= now
            if time.monotonic() >= ends_at or (silent and not any(each.wants_cpu() for each in waiting.values())):
                break
    starved = [index for index, reader in waiting.items() if reader.wants_cpu(_STARVED)]
    for index, reader in waiting.items():
        if index not in starved:
            waited = round(time.monotonic() - reader.asked_at, 3)
            say(troubles={index: dict(reader.known(), call=reader.call, seconds=waited)})
    return not starved and not any(each.broken for each in readers if each.index not in waiting)


def excluded(nvml: Any) -> list[str]:
    """PCI addresses of the GPUs that the driver was configured to exclude."""
    try:
        rows = [nvml.nvmlGetExcludedDeviceInfoByIndex(place) for place in range(nvml.nvmlGetExcludedDeviceCount())]
        addresses = [row.pci.busId for row in rows]
    except (nvml.NVMLError, AttributeError):  # an older driver or nvidia-ml-py
        return []
    return [(each.decode("ascii", "replace") if isinstance(each, bytes) else each).lower() for each in addresses]


def library_opens(name: str) -> bool:
    """Whether the library can be opened; this is cheaper than an import of pynvml that would fail."""
    try:
        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL: die with the doctor
    except (OSError, AttributeError):
        pass
    try:
        ctypes.CDLL(name)
    except OSError as error:
        say(library_error=str(error))
        return False
    return True


def driver_version(nvml: Any) -> str:
    try:
        version = nvml.nvmlSystemGetDriverVersion()
    except nvml.NVMLError:
        return ""
    return version.decode("utf-8", "replace") if isinstance(version, bytes) else str(version)


def main() -> None:
    started = time.monotonic()
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    say(phase="opening " + name)
    if sys.platform != "win32" and not library_opens(name):
        return
    sys.path[:] = json.loads(sys.argv[1])
    quiet_s, within_s = (float(each) for each in sys.argv[2:4])
    import pynvml

    say(phase="nvmlInit")
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError_LibraryNotFound as error:
        say(library_error=str(error))
        return
    except pynvml.NVMLError as error:
        say(error_code=error.value, error_text=str(error))
        return
    say(driver_version=driver_version(pynvml), count=count, excluded=excluded(pynvml))
    say(phase="reading the GPUs")
    went_well = read(pynvml, [int(each) for each in sys.argv[4:]] or range(count), quiet_s, started + within_s)
    say(finished=went_well)
    os._exit(0 if went_well else 1)  # a thread that waits for NVML would prevent a normal exit


if __name__ == "__main__":
    main()
