"""Where TensorFlow ran an operation, according to the executed graphs and the results, not to the requested device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tfgpu_doctor.perf_tests.children import Answer

# Operations that pass data on and compute nothing: they may run on the CPU next to work on the GPU, and prove nothing.
_HAND_ON = frozenset(
    ("_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "_Send", "_Recv", "_HostSend", "_HostRecv", "NoOp", "Const",
     "HostConst", "Identity", "IdentityN", "ReadVariableOp", "VarHandleOp", "Placeholder", "PartitionedCall",
     "StatefulPartitionedCall", "Shape", "StridedSlice", "Pack", "Cast", "Enter", "Exit", "Merge", "Switch",
     "NextIteration", "LoopCond")
)  # fmt: skip
CARRIERS = ("MatMul", "Conv2", "Conv3", "Einsum")  # parts of the names of operations that carry most of a model's work


@dataclass
class Placement:
    """The executed operations, each with its device ("GPU:0"), and the devices of the results."""

    operations: list[tuple[str, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    blind: bool = False  # this TensorFlow does not report the operations that it runs
    told: bool = False  # the results are of a child process, which looked at its operations itself

    def work_on(self, kind: str) -> list[str]:
        """Return the operations that compute on a kind of device, "GPU" or "CPU"."""
        return [name for name, device in self.operations if device.startswith(kind) and name not in _HAND_ON]

    @property
    def device(self) -> str:
        """The device of the results, else of the last operation that computes; empty if unknown."""
        work = [device for name, device in self.operations if device and name not in _HAND_ON]
        return (self.results or work or [""])[-1]

    def contradicts(
        self, device: str, carriers: tuple[str, ...] = (), *, compiled: bool = False, also: tuple[str, ...] = ()
    ) -> str:
        """Return why the work did not run on that device ("GPU:0", "CPU:0"); empty if it did.

        On a GPU one of the operations that carry the work must have run, and none of them elsewhere; `carriers` are
        parts of their names. `compiled`: the work is one program of XLA, whose operations TensorFlow does not report.
        `also`: GPUs that share the work; each must have run such an operation.
        """
        if device.startswith("CPU"):
            return self._why_not_on_cpu()
        if self.told:
            wrong = [each for each in self.results if each != device]
            if wrong or not self.results:
                return f"it was expected to run on {device}, but it ran on {wrong[0] if wrong else 'an unknown device'}"
            return ""
        if self.blind:
            return "this TensorFlow does not report which device ran an operation: nothing proves that the GPU did"
        if compiled:
            return self._why_not_compiled_for(device)
        return next(
            filter(None, (self._why_not_on_gpu(each, (device, *also), carriers) for each in (device, *also))), ""
        )

    def _why_not_on_cpu(self) -> str:
        if self.blind and not self.results:
            return "neither this TensorFlow nor the result reports which device ran the operation"
        if others := self.work_on("GPU"):
            return f"it was expected to run on the CPU, but {others[0]} ran on a GPU"
        wrong = [each for each in self.results if not each.startswith("CPU")]
        if wrong and not self.work_on("CPU"):
            return f"it was expected to run on the CPU, but its result is on {wrong[0]}"
        return ""

    def _why_not_on_gpu(self, device: str, sharing: tuple[str, ...], carriers: tuple[str, ...]) -> str:
        parts = carriers or CARRIERS
        carried = [(name, ran_on) for name, ran_on in self.operations if any(part in name for part in parts)]
        for name, ran_on in carried:
            if ran_on not in sharing:
                return f"it was expected to run on {device}, but {name} ran on {ran_on or 'an unknown device'}"
        if carriers and device not in {ran_on for _, ran_on in carried}:
            return f"it was expected to run on {device}, but no {' or '.join(carriers)} was observed there"
        if not self.work_on(device):
            return f"it was expected to run on {device}, but no operation was observed there"
        return ""

    def _why_not_compiled_for(self, device: str) -> str:
        """The result of a compiled program is in the memory of its device, unless an operation copied it there."""
        if others := [name for name, _ in self.operations if not name.startswith("_")]:
            return f"{others[0]} ran beside the compiled program: nothing proves that this ran on {device}"
        wrong = [each for each in self.results if each != device]
        if wrong or not self.results:
            return f"it was expected to run on {device}, but its result is on {wrong[0] if wrong else 'the host'}"
        return ""


@contextlib.contextmanager
def watch_placement() -> Iterator[Placement]:
    """Record the operations that TensorFlow runs in the block, also those that it has run before."""
    seen = Placement()
    try:
        from tensorflow.python.eager import context  # no public module provides the placed graphs

        # TensorFlow reports an operation when it prepares it; it keeps what it has prepared, and would report nothing.
        context.context().clear_kernel_cache()
        collecting = context.collect_graphs(optimized=True)
    except (ImportError, AttributeError, TypeError):
        seen.blind = True
        yield seen
        return
    with collecting as graphs:
        yield seen
    for graph in graphs:
        functions = {function.signature.name: function.node_def for function in graph.library.function}
        seen.operations += _followed(graph.node, functions, "", set())


def _followed(
    nodes: Iterable[Any], functions: dict[str, Any], caller: str, done: set[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the operations of a graph and of the functions that it calls; one without a device has its caller's."""
    for node in nodes:
        device = short_device(node.device) or caller
        yield node.op, device
        values = list(node.attr.values())
        called = {node.op, *(value.func.name for value in values), *(f.name for v in values for f in v.list.func)}
        for name in sorted(called & functions.keys()):
            if (name, device) not in done:
                done.add((name, device))
                yield from _followed(functions[name], functions, device, done)


def prove(call: Callable[[], Any], device: str, carriers: tuple[str, ...] = (), *, compiled: bool = False) -> Any:
    """Call it once and return its result. Raises AssertionError if its work did not run on the device."""
    with watch_placement() as seen:
        result = call()
    seen.results = devices_of(result)
    wrong = seen.contradicts(device, carriers, compiled=compiled)
    assert not wrong, wrong
    return result


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
