"""What a GPU has and a processor lacks, beside stand_in_tensorflow: memory of its own, both orders of the axes, kernels in a trace.

Memory is a ledger: what TensorFlow would take under its settings, and what programs ask for with `tf.ones`.
"""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
from typing import Any

MEMORY_MIB, CONTEXT_MIB = 24576, 300  # of an RTX 3090; of a CUDA context
_SHARE = 0.9  # what TensorFlow takes at once, without growth
_PYNVML = '''"""NVML's count of memory in use, from the ledgers of the processes that are alive."""
import pathlib, types

FOLDER = pathlib.Path(__file__).parent / "memory"
MEMORY_MIB = {memory_mib}

class NVMLError(Exception):
    pass

def nvmlInit():
    pass

def nvmlDeviceGetCount():
    return 1

def nvmlDeviceGetHandleByIndex(place):
    return place

def nvmlDeviceGetMemoryInfo(gpu):
    alive = [file for file in FOLDER.glob("*") if pathlib.Path("/proc", file.name).exists()]
    used = sum(int(file.read_text() or 0) for file in alive)
    return types.SimpleNamespace(used=used << 20, free=max(0, MEMORY_MIB - used) << 20)
'''


def write_nvml(folder: pathlib.Path) -> None:
    """Write the module pynvml, and the folder of the ledgers."""
    (folder / "memory").mkdir()
    (folder / "pynvml.py").write_text(_PYNVML.format(memory_mib=MEMORY_MIB))


def equip(tf: Any, folder: pathlib.Path) -> None:
    """Give the GPUs of this process memory, kernels for both orders of the axes, and traces."""
    _count_memory(tf, folder / "memory" / str(os.getpid()))
    _turn_axes(tf)
    _trace_kernels(tf)


def taken_mib(context: Any, asked_mib: int) -> tuple[int, int]:
    """What a process holds that has asked for so much, and the most that it may ask for."""
    gpu = next(each for each in context.list_physical_devices("GPU"))
    parts = context.get_logical_device_configuration(gpu) or []
    most = int(sum(part.memory_limit for part in parts) or MEMORY_MIB * _SHARE)
    forced = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "")
    grows = forced == "true" or (forced != "false" and bool(context.get_memory_growth(gpu)))
    return CONTEXT_MIB + (asked_mib if grows else most), most


def _count_memory(tf: Any, ledger: pathlib.Path) -> None:
    from tensorflow.python.eager import context

    ones, asked = tf.ones, [0]

    def allocate(shape: Any, *rest: Any, **more: Any) -> Any:
        here = context.context()
        here.ensure_initialized()
        if "CPU:0" not in here.device_name and isinstance(shape, tuple):
            asked[0] = max(asked[0], math.prod(shape) * 4 >> 20)
            held, most = taken_mib(here, asked[0])
            if math.prod(shape) * 4 >> 20 > most:
                asked[0] = 0
                raise tf.errors.ResourceExhaustedError(None, None, f"OOM when allocating {list(shape)}")
            if ledger.parent.is_dir():
                ledger.write_text(str(held))
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
