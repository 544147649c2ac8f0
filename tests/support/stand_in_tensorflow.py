"""A real TensorFlow in which the logical CPUs after the first are GPUs: GPU:0 is CPU:1. Only the names of devices differ.

`stand_in_run` writes a package `tensorflow` that runs `take_over`. What TensorFlow decides in Python stays its own:
settings that come too late, growth that differs between GPUs, limits. An operation for which it has no GPU kernel runs on
CPU:0, or is refused without soft placement, as on a machine with GPUs.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any

NAME, CAPABILITY = "NVIDIA A10", (8, 6)
_MEMORY = {"current": 1 << 20, "peak": 1 << 21}  # bytes; TensorFlow counts none for a CPU
_GPU, _CPU = re.compile(r"gpu:(\d+)", re.IGNORECASE), re.compile(r"CPU:([1-9]\d*)")


def inward(name: Any) -> Any:
    """The CPU behind a GPU's name; other things as they are."""
    if hasattr(name, "to_string"):
        name = name.to_string()
    return _GPU.sub(lambda found: f"CPU:{int(found[1]) + 1}", name) if isinstance(name, str) else name


def outward(name: str) -> str:
    """The GPU for which a CPU stands."""
    return _CPU.sub(lambda found: f"GPU:{int(found[1]) - 1}", name)


def take_over(count: int) -> None:
    """Let the TensorFlow of this process take logical CPUs for that many GPUs, before its first operation."""
    from tensorflow.python.eager import context

    if count:
        _list_gpus(context, count)
        _configure(context)
        _begin_on_the_first(context)
        _rename(context)
        _place_by_kernels(context)
        _replicate()


def _list_gpus(context: Any, count: int) -> None:
    """TensorFlow finds the GPUs, and their details."""
    kind = context.Context
    find, details = kind._initialize_physical_devices, kind.get_device_details
    gpus = [context.PhysicalDevice(f"/physical_device:GPU:{place}", "GPU") for place in range(count)]

    def with_gpus(self: Any, reinitialize: bool = False) -> None:
        if self._physical_devices is not None and not reinitialize:
            return
        find(self, reinitialize)
        self._physical_device_to_index.update({gpu: 1 + place for place, gpu in enumerate(gpus)})
        self._physical_devices += gpus
        self._visible_device_list += gpus
        self._memory_growth_map.update(dict.fromkeys(gpus))

    def told(self: Any, device: Any) -> Any:
        if device.device_type != "GPU":
            return details(self, device)
        return {"device_name": NAME, "compute_capability": CAPABILITY}

    kind._initialize_physical_devices, kind.get_device_details = with_gpus, told
    kind.get_memory_info, kind.reset_memory_stats = (lambda *_: dict(_MEMORY)), (lambda *_: None)


def _configure(context: Any) -> None:
    """The GPUs that a program asks for, or the parts of them, become logical CPUs."""
    kind = context.Context
    made, list_logical = kind.config.fget, kind._initialize_logical_devices

    def config(self: Any) -> Any:
        written = made(self)  # raises for settings that contradict each other
        written.device_count["CPU"] += written.device_count["GPU"]
        written.device_count["GPU"] = 0
        written.ClearField("gpu_options")
        return written

    def listed(self: Any) -> None:
        list_logical(self)
        named = [outward(each.name) for each in self._logical_devices]
        self._logical_devices = [context.LogicalDevice(name, "GPU" if "GPU" in name else "CPU") for name in named]
        server = self._server_def or self._collective_ops_server_def  # those of other workers do not count
        here = f"/job:{server.job_name}/replica:0/task:{server.task_index}/" if server else ""
        self._num_gpus = sum("GPU" in name and here in name for name in named)

    kind.config, kind._initialize_logical_devices = property(config), listed


def _begin_on_the_first(context: Any) -> None:
    """An operation without a device runs on GPU:0, in the thread that initialises TensorFlow."""
    kind, scope = context.Context, context._EagerDeviceContext
    begin, enter = kind.ensure_initialized, scope.__enter__

    def ensure(self: Any) -> None:
        before = self._initialized
        begin(self)
        if not before and self._num_gpus and not self.device_name:
            first = self._context_devices[1]
            self._set_device(first, context.pydev.DeviceSpec.from_string(first))

    def within(self: Any) -> Any:
        self._ctx.ensure_initialized()
        return enter(self)

    kind.ensure_initialized, scope.__enter__ = ensure, within


def _rename(context: Any) -> None:
    """Names that a program gives, and those that it gets: of a result, and of the operations that ran."""
    from tensorflow.python.framework import ops

    device, collect = ops.device, context.collect_graphs
    behind = ops.EagerTensor.backing_device

    @contextlib.contextmanager
    def collected(optimized: bool = True) -> Iterator[list[Any]]:
        with collect(optimized) as graphs:
            yield graphs
        for graph in graphs:
            for node in [*graph.node, *(node for function in graph.library.function for node in function.node_def)]:
                node.device = outward(node.device)

    ops.device = lambda name: device(inward(name))
    context.collect_graphs = collected
    ops.EagerTensor.backing_device = property(lambda self: outward(behind.__get__(self)))


@functools.cache
def _on_cpu_alone(operation: str) -> bool:
    from tensorflow.python.framework import kernels

    kinds = {kernel.device_type for kernel in kernels.get_registered_kernels_for_op(operation).kernel}
    return "CPU" in kinds and not kinds & {"GPU", "DEFAULT"}


def _place_by_kernels(context: Any) -> None:
    """Operations without a GPU kernel run on CPU:0, as on a machine with GPUs: all that reads and decodes, for example."""
    from tensorflow.python import pywrap_tfe

    fast, slow = pywrap_tfe.TFE_Py_FastPathExecute, pywrap_tfe.TFE_Py_Execute

    def run_fast(ctx: Any, operation: str, *rest: Any) -> Any:
        if not _CPU.search(ctx.device_name or "") or not _on_cpu_alone(operation):
            return fast(ctx, operation, *rest)
        with context.device("/device:CPU:0"):
            return fast(ctx, operation, *rest)

    def run(handle: Any, device: Any, operation: str, *rest: Any) -> Any:
        first = _on_cpu_alone(operation) and _CPU.search(device or "")
        return slow(handle, _CPU.sub("CPU:0", device) if first else device, operation, *rest)

    pywrap_tfe.TFE_Py_FastPathExecute, pywrap_tfe.TFE_Py_Execute = run_fast, run
    _place_in_graphs(context)


def _place_in_graphs(context: Any) -> None:
    from tensorflow.python.framework import errors_impl, ops

    place = ops.Graph._apply_device_functions

    def placed(self: Any, operation: Any) -> None:
        place(self, operation)
        if not _on_cpu_alone(operation.type) or "CPU:0" in operation.device:
            return
        if operation.device and context.context()._soft_device_placement is False:  # unset, it is on
            said = f"Cannot assign a device for operation {operation.name}: no GPU kernel"
            raise errors_impl.InvalidArgumentError(None, None, said)
        operation._set_device("/device:CPU:0")

    ops.Graph._apply_device_functions = placed


def _replicate() -> None:
    """Strategies get the CPUs behind the GPUs: TensorFlow chooses how to sum over CPUs, since NCCL needs real GPUs."""
    from tensorflow.python.distribute import collective_all_reduce_strategy, mirrored_strategy

    kind = mirrored_strategy.MirroredStrategy
    local = collective_all_reduce_strategy.CollectiveAllReduceExtended
    begin, find = kind.__init__, local._initialize_local_devices

    def init(self: Any, devices: Any = None, *rest: Any, **more: Any) -> None:
        begin(self, devices and [inward(each) for each in devices], *rest, **more)

    def found(self: Any, *given: Any) -> Any:
        devices, _ = find(self, *given)
        return tuple(map(inward, devices)), "CPU"

    kind.__init__, local._initialize_local_devices = init, found
