"""Train one batch on several replicas, and report how their gradients match one device's, and the times of all-reduces."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from typing import Any

from tfgpu_doctor.perf_tests.gpu_memory import gpu_memory
from tfgpu_doctor.perf_tests.importing import without_collection
from tfgpu_doctor.perf_tests.placement import devices_of, watch_placement
from tfgpu_doctor.perf_tests.timing import LEAST_READING_S

WIDTH = 64
IN_A_ROW = 8  # all-reduces in one call
PART_MIB = 2048  # at most, of a GPU that is divided
_UNKNOWN_BYTES = 512 << 20  # taken for the free memory if NVML does not report it
_MIB = 1 << 20


def logical(tf: Any, count: int) -> tuple[list[str], dict[str, Any]]:
    """Return the devices of the replicas: one GPU each if there are enough, else parts of one GPU, else parts of the CPU.

    And what to tell: their kind, and the most bytes of an all-reduce, an eighth of the memory that a replica may take.
    """
    gpus, part = tf.config.list_physical_devices("GPU"), tf.config.LogicalDeviceConfiguration
    free = min((gpu.free for gpu in gpu_memory()), default=_UNKNOWN_BYTES)
    if len(gpus) >= count:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        return ["GPU:%d" % place for place in range(count)], {"kind": "GPU", "most_bytes": free // 8}
    if gpus:
        part_mib = min(PART_MIB, free // (2 * count * _MIB))
        tf.config.set_logical_device_configuration(gpus[0], [part(memory_limit=part_mib)] * count)
        told = {"kind": "parts of one GPU", "most_bytes": part_mib * _MIB // 8, "part_mib": part_mib}
        return ["GPU:%d" % place for place in range(count)], told
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [part()] * count)
    return ["CPU:%d" % place for place in range(count)], {"kind": "parts of the CPU", "most_bytes": _UNKNOWN_BYTES // 8}


class Replicas:
    """A linear layer and its training step under a strategy, and the same on one device."""

    def __init__(self, tf: Any, devices: list[str], batch: int) -> None:
        import numpy as np

        self._tf, self._batch, self._devices = tf, batch, devices
        # NCCL rejects a GPU that participates twice, and does not support CPUs.
        whole = len(tf.config.list_physical_devices("GPU")) >= len(devices)
        across = None if whole else tf.distribute.HierarchicalCopyAllReduce()
        self.strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=across)
        numbers = np.random.default_rng(4)
        self._inputs = numbers.standard_normal((batch, WIDTH)).astype("float32")
        self._due = numbers.standard_normal((batch, 1)).astype("float32")
        self._start = numbers.standard_normal((WIDTH, 1)).astype("float32")
        with self.strategy.scope():
            self._weights = tf.Variable(self._start)
        with tf.device(devices[0]):
            self._one = tf.Variable(self._start)
        data = tf.data.Dataset.from_tensor_slices((self._inputs, self._due)).batch(batch)
        self._shares = next(iter(self.strategy.experimental_distribute_dataset(data)))
        self._step = tf.function(lambda shares: self.strategy.run(self._slope, args=shares))

    def _loss(self, weights: Any, inputs: Any, due: Any) -> Any:
        """Return the loss divided by the global batch, so that the replicas' losses add up to one device's loss."""
        return self._tf.reduce_sum((self._tf.linalg.matmul(inputs, weights) - due) ** 2) / self._batch

    def _slope(self, inputs: Any, due: Any) -> Any:
        tf = self._tf
        with tf.GradientTape() as tape:
            loss = self._loss(self._weights, inputs, due)
        slope = tape.gradient(loss, self._weights)
        return tf.distribute.get_replica_context().all_reduce("SUM", slope), tf.shape(inputs)[0]

    def _summing(self) -> Any:
        """Return a graph that adds up the values of all replicas a few times, divided so that they stay what they are."""
        tf, count = self._tf, len(self._devices)

        def add_up(given: Any) -> Any:
            for _ in range(IN_A_ROW):
                given = tf.distribute.get_replica_context().all_reduce("SUM", given) / count
            return given[-1]

        return tf.function(lambda values: self.strategy.run(add_up, args=(values,)))

    def _ones(self, count: int) -> Any:
        """Return ones for each replica, on its own device: else each call would begin with copies from the first."""

        def on_its_device(context: Any) -> Any:
            with self._tf.device(self._devices[context.replica_id_in_sync_group]):
                return self._tf.ones(count)

        return self.strategy.experimental_distribute_values_from_function(on_its_device)

    def check(self) -> dict[str, Any]:
        """Return the gradient's distance from one device's and from NumPy's in float64, and the batch of each replica."""
        import numpy as np

        tf = self._tf
        with watch_placement() as seen:
            slopes, batches = self._step(self._shares)
        local = self.strategy.experimental_local_results
        with tf.device(self._devices[0]), tf.GradientTape() as tape:
            loss = self._loss(self._one, self._inputs, self._due)
        alone = tape.gradient(loss, self._one).numpy()
        wide = self._inputs.astype("float64")
        exact = 2 / self._batch * wide.T @ (wide @ self._start - self._due)
        answers = [each.numpy() for each in local(slopes)]
        return {
            "replicas": self.strategy.num_replicas_in_sync,
            "batches": [int(each) for each in local(batches)],
            "from_one_device": float(max(np.abs(each - alone).max() for each in answers) / np.abs(alone).max()),
            "from_float64": float(max(np.abs(each - exact).max() for each in answers) / np.abs(exact).max()),
            "devices": sorted({device for name, device in seen.operations if name == "MatMul"}),
            "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
        }

    def all_reduce(self, size: int) -> dict[str, Any]:
        """Return the time of one all-reduce of that many bytes per replica, and where the replicas' values lie.

        The time is the median of readings of at least 20 ms.
        """
        values = self._ones(size // 4)
        graph, count = self._summing(), len(self._devices)
        answers = self.strategy.experimental_local_results(graph(values))  # traces
        assert all(float(each) == 1.0 for each in answers), f"the sum of {count} ones is not {count}"

        def reading_s(calls: int) -> float:
            started = time.perf_counter()
            for _ in range(calls):
                answers = self.strategy.experimental_local_results(graph(values))
            assert all(float(each) == 1.0 for each in answers)
            return time.perf_counter() - started

        calls = max(1, math.ceil(LEAST_READING_S / min(reading_s(1), reading_s(1))))
        seconds = sorted(reading_s(calls) for _ in range(7))[3] / (calls * IN_A_ROW)
        return {"seconds": seconds, "devices": devices_of(self.strategy.experimental_local_results(values))}


def main() -> None:
    """Process requests; the first argument is a JSON object: replicas, batch."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    order = json.loads(sys.argv[1])
    with without_collection():
        import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)  # the gradients are compared in float32
    devices, told = logical(tf, order["replicas"])
    replicas = Replicas(tf, devices, order["batch"])
    print(json.dumps(told), file=answers, flush=True)
    for line in sys.stdin:
        word, _, size = line.strip().partition(" ")
        answer = replicas.check() if word == "check" else replicas.all_reduce(int(size))
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
