"""Open the CUDA driver library as TensorFlow would, call cuInit, and list the GPUs. Takes no GPU memory."""

from __future__ import annotations

import ctypes
import json
import os
import sys

TYPE_CHECKING = False  # importing typing would take longer than the rest of the program
if TYPE_CHECKING:
    from typing import Any

# Numbers of CUdevice_attribute, from the CUDA driver API reference.
MULTIPROCESSOR_COUNT, KERNEL_EXEC_TIMEOUT, CAPABILITY_MAJOR, CAPABILITY_MINOR = 16, 17, 75, 76


def say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def die_with_parent() -> None:
    """Tell the kernel to kill this process when the doctor exits for any reason (Linux)."""
    try:
        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    except (OSError, AttributeError, TypeError):
        pass


def loaded_file(name: str) -> str:
    """The file that the loader took for a library, from the memory map of this process."""
    try:
        with open("/proc/self/maps", errors="replace") as maps:
            paths = [
                line.split(None, 5)[5].strip() for line in maps if line.count("/") and len(line.split(None, 5)) == 6
            ]
    except OSError:
        return ""
    return next((path for path in paths if os.path.basename(path).startswith(name)), "")


def text(call: Any, code: int) -> str:
    """The name of a code from cuGetErrorName; empty for codes that it does not know."""
    answer = ctypes.c_char_p()
    try:
        return answer.value.decode() if call(code, ctypes.byref(answer)) == 0 and answer.value else ""
    except UnicodeDecodeError:
        return ""


def describe(cuda: Any, index: int) -> dict[str, object]:
    """Name, compute capability, memory in bytes, multiprocessors and PCI address of one GPU."""
    device, value = ctypes.c_int(), ctypes.c_int()
    name, address, memory = ctypes.create_string_buffer(256), ctypes.create_string_buffer(64), ctypes.c_size_t()
    attributes = {}
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    cuda.cuDeviceGetPCIBusId(address, len(address), device)
    for attribute in (MULTIPROCESSOR_COUNT, CAPABILITY_MAJOR, CAPABILITY_MINOR):
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        attributes[attribute] = value.value
    limited = cuda.cuDeviceGetAttribute(ctypes.byref(value), KERNEL_EXEC_TIMEOUT, device) == 0
    return {
        "index": index,
        "name": name.value.decode("utf-8", "replace"),
        "compute_capability": "%d.%d" % (attributes[CAPABILITY_MAJOR], attributes[CAPABILITY_MINOR]),
        "memory_bytes": memory.value,
        "multiprocessors": attributes[MULTIPROCESSOR_COUNT],
        "pci_address": address.value.decode("utf-8", "replace").lower(),
        "kernel_time_limit": bool(value.value) if limited else None,
    }


def main() -> None:
    die_with_parent()
    name = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
    say(phase="opening " + name)
    try:
        cuda = ctypes.CDLL(name)
    except OSError as error:
        say(library_error=str(error))
        return
    say(library=loaded_file("libcuda."), phase="cuInit")
    code = cuda.cuInit(0)
    say(init_code=code, init_name=text(cuda.cuGetErrorName, code), phase="reading the driver's version")
    version, count = ctypes.c_int(), ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value:
        say(cuda_version="%d.%d" % (version.value // 1000, version.value % 1000 // 10))
    if code != 0:
        return
    say(phase="listing the GPUs")
    cuda.cuDeviceGetCount(ctypes.byref(count))
    say(gpus=[describe(cuda, index) for index in range(count.value)])


if __name__ == "__main__":
    main()
