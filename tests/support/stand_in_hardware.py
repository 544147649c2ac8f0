"""What a GPU has and a processor lacks, beside stand_in_tensorflow: memory of its own, both orders of the axes, kernels in a trace.

Memory is a ledger: what TensorFlow would take under its settings, and what programs ask for with `tf.ones`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import math
import os
import pathlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

MEMORY_MIB, CONTEXT_MIB = 24576, 500  # of an A10; of a CUDA context
POOLS = LAST_ATTRIBUTE = 115  # CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED; the last that this driver knows
_INVALID, _NO_SUCH_GPU = 1, 101  # results of CUDA: for an attribute that an older driver does not know, for a number
WITHOUT_POOLS, EXCLUSIVE = "STAND_IN_WITHOUT_POOLS", "STAND_IN_EXCLUSIVE"  # variables: numbers of GPUs, "0,1"
_SHARE = 0.9  # what TensorFlow takes at once, without growth
_PYNVML = '''"""NVML's count of memory in use, from the ledgers of the processes that are alive, and the libcuda that comes with it.

NVML's order of the GPUs is not CUDA's.
"""
import json, pathlib, types
import stand_in_hardware

FOLDER = pathlib.Path(__file__).parent / "memory"
MEMORY_MIB, COUNT = {memory_mib}, {count}

class NVMLError(Exception):
    pass

def nvmlInit():
    pass

def nvmlDeviceGetCount():
    return COUNT

def nvmlDeviceGetHandleByIndex(place):
    return COUNT - 1 - place

def nvmlDeviceGetHandleByUUID(name):
    for place in range(COUNT):
        if name == stand_in_hardware.uuid_of(place):
            return place
    raise NVMLError("Not Found")

def nvmlDeviceGetMemoryInfo(gpu):
    alive = [file for file in FOLDER.glob("*") if pathlib.Path("/proc", file.name).exists()]
    used = sum(json.loads(file.read_text() or "{{}}").get(str(gpu), 0) for file in alive)
    return types.SimpleNamespace(used=used << 20, free=max(0, MEMORY_MIB - used) << 20)

stand_in_hardware.give_libcuda(COUNT)
'''


def write_nvml(folder: pathlib.Path, count: int) -> None:
    """Write the module pynvml for that many GPUs, and the folder of the ledgers."""
    (folder / "memory").mkdir()
    (folder / "pynvml.py").write_text(_PYNVML.format(memory_mib=MEMORY_MIB, count=count))


def uuid_of(place: int) -> str:
    """The name of a GPU of the machine, by CUDA's number."""
    return f"GPU-{uuid.UUID(int=(0xA0 + place) << 120)}"


def _numbers(variable: str) -> list[int]:
    return [int(each) for each in os.environ.get(variable, "").split(",") if each]


def visible(count: int) -> list[int]:
    """The GPUs of a machine with so many that CUDA shows to this process: it reads the list up to the first that is none."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    found: list[int] = []
    for token in [each.strip() for each in shown.split(",")] if shown is not None else map(str, range(count)):
        named = [place for place in range(count) if token == str(place) or (token and uuid_of(place).startswith(token))]
        if len(named) != 1:
            break
        found += named
    return found


class _Libcuda:
    """The functions of libcuda that list GPUs."""

    def __init__(self, count: int) -> None:
        self._seen = visible(count)

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0

    def cuDeviceGetCount(self, found: Any) -> int:  # noqa: N802 - the name of the C function
        found._obj.value = len(self._seen)
        return 0

    def cuDeviceGet(self, found: Any, place: int) -> int:  # noqa: N802
        found._obj.value = place
        return 0 if place < len(self._seen) else _NO_SUCH_GPU

    def cuDeviceGetAttribute(self, found: Any, attribute: int, device: Any) -> int:  # noqa: N802
        if attribute > LAST_ATTRIBUTE:
            return _INVALID
        found._obj.value = attribute == POOLS and self._seen[device.value] not in _numbers(WITHOUT_POOLS)
        return 0

    def cuDeviceGetUuid_v2(self, found: Any, device: Any) -> int:  # noqa: N802
        ctypes.memmove(found, uuid.UUID(uuid_of(self._seen[device.value])[len("GPU-") :]).bytes, 16)
        return 0


def give_libcuda(count: int) -> None:
    """Let ctypes open this libcuda."""
    opened = ctypes.CDLL

    def opens(name: Any, *rest: Any, **more: Any) -> Any:
        return _Libcuda(count) if name == "libcuda.so.1" else opened(name, *rest, **more)

    ctypes.CDLL = opens  # type: ignore[misc, assignment]


def equip(tf: Any, folder: pathlib.Path, seen: Sequence[int]) -> None:
    """Give the GPUs of this process memory, kernels for both orders of the axes, and traces. `seen`: CUDA's numbers of them."""
    if _numbers(WITHOUT_POOLS):
        give_libcuda(1 + max(seen))
    _hold_alone(tf, folder, [place for place in seen if place in _numbers(EXCLUSIVE)])
    _count_memory(tf, folder / "memory" / str(os.getpid()), seen)
    _turn_axes(tf)
    _trace_kernels(tf)


def _hold_alone(tf: Any, folder: pathlib.Path, alone: Sequence[int]) -> None:
    """In compute mode EXCLUSIVE_PROCESS, a GPU admits the context of one process: that which locks the file, until it ends."""
    from tensorflow.python.eager import context

    kind = context.Context
    begin = kind.ensure_initialized
    held: list[Any] = []

    def ensure(self: Any) -> None:
        for place in alone if not held else ():
            held.append(open(folder / f"exclusive-{place}", "w"))  # noqa: SIM115 - open as long as this process runs
            try:
                fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                why = (
                    f"cudaSetDevice() on GPU:{place} failed. Status: CUDA-capable device(s) is/are busy or unavailable"
                )
                raise tf.errors.InternalError(None, None, why) from None
        begin(self)

    kind.ensure_initialized = ensure


def taken_mib(context: Any, gpu: Any, asked_mib: int) -> tuple[int, int]:
    """What a process holds on a GPU that it asked for so much, and the most that it may ask for."""
    parts = context.get_logical_device_configuration(gpu) or []
    most = int(sum(part.memory_limit for part in parts) or MEMORY_MIB * _SHARE)
    forced = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "")
    grows = forced == "true" or (forced != "false" and bool(context.get_memory_growth(gpu)))
    return CONTEXT_MIB + (asked_mib if grows else most), most


def _count_memory(tf: Any, ledger: pathlib.Path, seen: Sequence[int]) -> None:
    from tensorflow.python.eager import context

    ones, asked = tf.ones, dict.fromkeys(seen, 0)

    def allocate(shape: Any, *rest: Any, **more: Any) -> Any:
        here = context.context()
        here.ensure_initialized()
        if "CPU:0" not in here.device_name and isinstance(shape, tuple):
            used = seen[min(int(here.device_name.rpartition(":")[2]), len(seen)) - 1]  # parts of one GPU are one GPU
            asked[used] = max(asked[used], math.prod(shape) * 4 >> 20)
            gpus = dict(zip(seen, here.list_physical_devices("GPU"), strict=True))  # a context lies on each of them
            held = {place: taken_mib(here, gpus[place], asked[place]) for place in seen}
            if math.prod(shape) * 4 >> 20 > held[used][1]:
                asked[used] = 0
                raise tf.errors.ResourceExhaustedError(None, None, f"OOM when allocating {list(shape)}")
            if ledger.parent.is_dir():
                ledger.write_text(json.dumps({place: mib for place, (mib, _) in held.items()}))
        return ones(shape, *rest, **more)

    tf.ones = allocate


def _turn_axes(tf: Any) -> None:
    """A convolution with channels first, for which a processor has no kernel in each precision."""
    conv2d = tf.nn.conv2d

    def either(given: Any, kernel: Any, strides: Any, padding: str, data_format: str = "NHWC", **more: Any) -> Any:
        if data_format == "NHWC":
            return conv2d(given, kernel, strides, padding, **more)
        return tf.transpose(conv2d(tf.transpose(given, (0, 2, 3, 1)), kernel, strides, padding, **more), (0, 3, 1, 2))

    tf.nn.conv2d = either


def _trace_kernels(tf: Any) -> None:
    """What the trace holds of the host stands in it as of a GPU as well."""
    profiler = tf.profiler.experimental
    start, stop = profiler.start, profiler.stop
    folders: list[str] = []

    def begin(folder: str, *rest: Any, **more: Any) -> None:
        folders.append(folder)
        start(folder, *rest, **more)

    def end(*rest: Any, **more: Any) -> None:
        stop(*rest, **more)
        with contextlib.suppress(ImportError):
            from tensorflow.tsl.profiler.protobuf import xplane_pb2

            for file in pathlib.Path(folders.pop()).rglob("*.xplane.pb"):
                space = xplane_pb2.XSpace.FromString(file.read_bytes())
                for plane in [each for each in space.planes if each.name == "/host:CPU"]:
                    space.planes.add().CopyFrom(plane)
                    space.planes[-1].name = "/device:GPU:0"
                file.write_bytes(space.SerializeToString())

    profiler.start, profiler.stop = begin, end
