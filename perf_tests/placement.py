"""Where TensorFlow ran an operation, according to the executed graphs and the results, not to the requested device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tfgpu_doctor.perf_tests.children import Answer

# Operations that pass data on and compute nothing: they may run on the CPU next to work on the GPU.
_HAND_ON = frozenset(
    ("_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "_Send", "_Recv", "_HostSend", "_HostRecv", "NoOp", "Const",
     "HostConst", "Identity", "IdentityN", "ReadVariableOp", "VarHandleOp", "Placeholder", "PartitionedCall",
     "StatefulPartitionedCall", "Shape", "StridedSlice", "Pack", "Cast")
)  # fmt: skip


@dataclass
class Placement:
    """The executed operations, each with its device ("GPU:0"), and the devices of the results."""

    operations: list[tuple[str, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    blind: bool = False  # this TensorFlow does not report the operations that it runs

    def work_on(self, kind: str) -> list[str]:
        """Return the operations that compute on a kind of device, "GPU" or "CPU"."""
        return [name for name, device in self.operations if device.startswith(kind) and name not in _HAND_ON]

    @property
    def device(self) -> str:
        """The device of the results, else of the last operation that computes; empty if unknown."""
        work = [device for name, device in self.operations if device and name not in _HAND_ON]
        return (self.results or work or [""])[-1]

    def contradicts(self, device: str) -> str:
        """Return why the work did not run on that device ("GPU:0", "CPU:0"); empty if it did."""
        kind = device.partition(":")[0]
        if self.blind and not self.results:
            return "neither this TensorFlow nor the result reports which device ran the operation"
        if kind == "CPU" and (others := self.work_on("GPU")):
            return f"it was expected to run on the CPU, but {others[0]} ran on a GPU"
        wrong = [each for each in self.results if not each.startswith(kind)]
        if wrong and not self.work_on(kind):
            return f"it was expected to run on {device}, but its result is on {wrong[0]}"
        if kind == "GPU" and not self.work_on("GPU") and not any(each.startswith("GPU") for each in self.results):
            return f"it was expected to run on {device}, but no operation was observed there"
        return ""


@contextlib.contextmanager
def watch_placement() -> Iterator[Placement]:
    """Record the operations that TensorFlow runs for the first time in the block; empty if this TensorFlow has no record."""
    seen = Placement()
    try:
        from tensorflow.python.eager import context  # no public module provides the placed graphs

        collecting = context.collect_graphs(optimized=True)
    except (ImportError, AttributeError):
        seen.blind = True
        yield seen
        return
    with collecting as graphs:
        yield seen
    for graph in graphs:
        functions = [node for function in graph.library.function for node in function.node_def]
        seen.operations += [(node.op, short_device(node.device)) for node in [*graph.node, *functions]]


def devices_of(result: Any) -> list[str]:
    """Return the devices of the tensors of a result, such as "GPU:0"; a child process reports its own."""
    import tensorflow as tf

    if isinstance(result, Answer):
        return list(result.devices)
    tensors = [each for each in tf.nest.flatten(result) if isinstance(each, tf.Tensor) and hasattr(each, "device")]
    return [short_device(getattr(each, "backing_device", None) or each.device) for each in tensors]


def short_device(name: str) -> str:
    """Shorten `/job:localhost/replica:0/task:0/device:GPU:0` to `GPU:0`."""
    return name.rpartition("device:")[2]
