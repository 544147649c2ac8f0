"""Where TensorFlow ran an operation: read from the graphs that it executed and from the results, not from what was asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tfgpu_doctor.perf_tests.children import Answer

# Operations that hand data on and compute nothing: they may stand on the CPU beside work on the GPU.
_HAND_ON = frozenset(
    ("_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "_Send", "_Recv", "_HostSend", "_HostRecv", "NoOp", "Const",
     "HostConst", "Identity", "IdentityN", "ReadVariableOp", "VarHandleOp", "Placeholder", "PartitionedCall",
     "StatefulPartitionedCall", "Shape", "StridedSlice", "Pack", "Cast")
)  # fmt: skip


@dataclass
class Placement:
    """The operations that were run, each with its device ("GPU:0"), and the devices of the results."""

    operations: list[tuple[str, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    blind: bool = False  # this TensorFlow does not tell what it runs

    def work_on(self, kind: str) -> list[str]:
        """The operations that compute on a kind of device, "GPU" or "CPU"."""
        return [name for name, device in self.operations if device.startswith(kind) and name not in _HAND_ON]

    @property
    def device(self) -> str:
        """Where the work was: the device of the results, else of the last operation that computes; "" unknown."""
        work = [device for name, device in self.operations if device and name not in _HAND_ON]
        return (self.results or work or [""])[-1]

    def contradicts(self, device: str) -> str:
        """Why this is not work on that device ("GPU:0", "CPU:0"); empty where it is."""
        kind = device.partition(":")[0]
        if self.blind and not self.results:
            return "this TensorFlow does not tell where it runs an operation, and the result does not either"
        if kind == "CPU" and (others := self.work_on("GPU")):
            return f"it was to run on the CPU, and {others[0]} ran on a GPU"
        wrong = [each for each in self.results if not each.startswith(kind)]
        if wrong and not self.work_on(kind):
            return f"it was to run on {device}, and its result lies on {wrong[0]}"
        if kind == "GPU" and not self.work_on("GPU") and not any(each.startswith("GPU") for each in self.results):
            return f"it was to run on {device}, and nothing was seen to run there"
        return ""


@contextlib.contextmanager
def watch_placement() -> Iterator[Placement]:
    """What TensorFlow runs for the first time meanwhile. An older or newer TensorFlow may not tell; then it is empty."""
    seen = Placement()
    try:
        from tensorflow.python.eager import context  # no public module gives the graphs as they were placed

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
    """The devices that hold the tensors of a result: "GPU:0"; a child tells its own."""
    import tensorflow as tf

    if isinstance(result, Answer):
        return list(result.devices)
    tensors = [each for each in tf.nest.flatten(result) if isinstance(each, tf.Tensor) and hasattr(each, "device")]
    return [short_device(getattr(each, "backing_device", None) or each.device) for each in tensors]


def short_device(name: str) -> str:
    """`/job:localhost/replica:0/task:0/device:GPU:0` is GPU:0."""
    return name.rpartition("device:")[2]
