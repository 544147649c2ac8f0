"""Run one worker of a cluster and report its gradients, all-reduces and steps, or which other worker is gone."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tfgpu_doctor.perf_tests.importing import without_collection
from tfgpu_doctor.perf_tests.peers import all_gone
from tfgpu_doctor.perf_tests.placement import devices_of
from tfgpu_doctor.perf_tests.timing import LEAST_READING_S, MOST_CALLS

FEATURES, BATCH = 64, 64  # powers of two; with small integers every sum in float32 is exact
SIZES = (1 << 16, 1 << 20, 1 << 24)  # bytes
IN_A_ROW, READINGS = 4, 5  # all-reduces in one call; readings, of which the median counts
LAYERS, WIDTH = 3, 256
LOOK_EVERY_S = 1.0
LEAVE_S = 6.0  # within this time the other workers of a job have finished or are gone
_TASK = re.compile(r"/job:(?:worker|chief)/(?:replica:\d+/)?task:(\d+)")


class Worker:
    """The worker of this process in the cluster that TF_CONFIG describes."""

    def __init__(self, tf: Any, cluster: list[str], index: int) -> None:
        self._tf, self._peers, self._index = tf, cluster, index
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.AUTO
        )
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        self.replicas = self.strategy.num_replicas_in_sync
        with self.strategy.scope():  # all workers wait for each other here, not where one measures alone
            layers = [tf.random.stateless_normal((WIDTH, WIDTH), (1, place)) / 16 for place in range(LAYERS)]
            self._layers = [tf.Variable(layer) for layer in layers]
        self._inputs = self._on_each(lambda: tf.random.stateless_normal((WIDTH, WIDTH), (2, 0)))

    def _on_each(self, make: Callable[[], Any]) -> Any:
        """Return a value for each replica, made on its own device: else each call would begin with copies from the first."""
        devices = self.strategy.extended.worker_devices

        def on_its_device(context: Any) -> Any:
            with self._tf.device(devices[context.replica_id_in_sync_group % len(devices)]):
                return make()

        return self.strategy.experimental_distribute_values_from_function(on_its_device)

    def _mean(self, times: int = 1) -> Any:
        """Return a compiled function: the mean of all replicas' values, some times, which changes nothing after the first."""
        tf, count = self._tf, self.replicas

        def add_up(each: Any) -> Any:  # the identity sets the device of the sum
            for _ in range(times):
                each = tf.distribute.get_replica_context().all_reduce("SUM", tf.identity(each)) / count
            return each

        return tf.function(lambda values: self.strategy.run(add_up, args=(values,)))

    def _numbers(self, answer: Any) -> list[float]:
        """Return the first and last number of each result on this worker: its devices have finished then."""
        flat = [self._tf.reshape(each, [-1]) for each in self._tf.nest.flatten(self._local(answer))]
        return [float(each[place]) for each in flat for place in (0, -1)]

    def _local(self, answer: Any) -> Any:
        return self.strategy.experimental_local_results(answer)

    def check(self) -> dict[str, Any]:
        """Compare the gradient of all workers' shares with that of the whole batch on one device, to the last bit."""
        import numpy as np

        tf, numbers = self._tf, np.random.default_rng(6)
        inputs, due, start = (
            numbers.integers(-2, 3, shape).astype("float32") for shape in ((BATCH, FEATURES), (BATCH, 1), (FEATURES, 1))
        )
        with self.strategy.scope():
            weights = tf.Variable(start)
        data = tf.data.Dataset.from_tensor_slices((inputs, due)).batch(BATCH)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        shares = next(iter(self.strategy.experimental_distribute_dataset(data.with_options(options))))

        def slope(inputs: Any, due: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((tf.linalg.matmul(inputs, weights) - due) ** 2) / BATCH
            own = tape.gradient(loss, weights)
            return tf.distribute.get_replica_context().all_reduce("SUM", own), tf.shape(inputs)[0]

        slopes, batches = tf.function(lambda shares: self.strategy.run(slope, args=shares))(shares)
        local = self._local
        exact = 2 / BATCH * inputs.T.astype("float64") @ (inputs.astype("float64") @ start - due)
        return {
            "batches": [int(each) for each in local(batches)],
            "apart": float(max(np.abs(each.numpy() - exact).max() for each in local(slopes))),
            "largest": float(np.abs(exact).max()),
        }

    def all_reduce(self) -> dict[str, Any]:
        """Measure the seconds of an all-reduce, by size in bytes, and check the sums; tell where the values lie."""
        tf, mean = self._tf, self._mean(IN_A_ROW)
        found: dict[str, dict[str, Any]] = {"seconds": {}, "reading_s": {}, "devices": {}}
        for size in SIZES:
            values = self._on_each(functools.partial(tf.ones, size // 4))
            assert set(self._numbers(mean(values))) == {1.0}, "the sum is wrong"
            took = self._timed(functools.partial(mean, values), together=True)
            found["seconds"][str(size)] = took["seconds"] / IN_A_ROW
            found["reading_s"][str(size)] = took["reading_s"]
            found["devices"][str(size)] = devices_of(self._local(values))
        return found

    def _timed(self, call: Callable[[], Any], *, together: bool) -> dict[str, float]:
        """Return the median seconds of one call, and of a reading: so many calls that it lasts.

        `together`: all workers measure at the same time. They agree on the calls, since each waits for the others.
        """
        mean = self._mean()

        def agreed(seconds: float) -> float:
            return self._numbers(mean(self._on_each(lambda: self._tf.fill([1], seconds))))[0] if together else seconds

        def reading_s(calls: int) -> float:
            began = time.perf_counter()
            for _ in range(calls - 1):
                call()
            self._numbers(call())
            return time.perf_counter() - began

        def median_s(calls: int) -> float:
            return sorted(reading_s(calls) for _ in range(READINGS))[READINGS // 2]

        reading_s(1)  # traces
        calls, took_s = 1, median_s(1)  # not one reading: a process that is stopped meanwhile would make too few calls
        while (usual_s := agreed(took_s)) < LEAST_READING_S and calls < MOST_CALLS:
            calls = min(MOST_CALLS, max(2 * calls, math.ceil(calls * LEAST_READING_S / usual_s)))
            took_s = median_s(calls)
        return {"seconds": took_s / calls, "reading_s": took_s}

    def _slopes(self, inputs: Any) -> Any:
        tf = self._tf
        with tf.GradientTape() as tape:
            values = inputs
            for layer in self._layers:
                values = tf.nn.relu(tf.linalg.matmul(values, layer))
            loss = tf.reduce_mean(values**2)
        return tape.gradient(loss, self._layers)

    def step_s(self, together: bool) -> dict[str, Any]:
        """Measure the seconds of a training step, with an all-reduce or without."""
        tf = self._tf

        def step(inputs: Any) -> Any:
            own = self._slopes(inputs)
            return tf.distribute.get_replica_context().all_reduce("SUM", own) if together else own

        run = tf.function(lambda inputs: self.strategy.run(step, args=(inputs,)))
        return self._timed(lambda: run(self._inputs), together=together)

    def until_trouble(self) -> dict[str, Any]:
        """Run all-reduces until a worker is gone, and name it. TensorFlow may name one that only stopped after it."""
        said: list[str] = []
        threading.Thread(target=self._work_until_it_fails, args=(said,), daemon=True).start()
        while not (gone := all_gone(self._peers, self._index)):
            time.sleep(LOOK_EVERY_S / 10 if said else LOOK_EVERY_S)
        time.sleep(LOOK_EVERY_S)  # for TensorFlow's error message
        return {"gone": gone, "tensorflow": said[0] if said else "", "tensorflow_names": _named_in(said)}

    def _work_until_it_fails(self, said: list[str]) -> None:
        tf, add_up = self._tf, self._mean()
        values = self._on_each(lambda: tf.ones(1024))
        try:
            while True:
                add_up(values)
        except tf.errors.OpError as error:
            said.append(" ".join(str(error).split()))

    def leave_together(self) -> None:
        """Wait until all others are ready to exit: a worker that exits early loses data that another has not fetched yet."""
        last = threading.Thread(target=self._meet, daemon=True)
        last.start()
        last.join(LEAVE_S)

    def _meet(self) -> None:
        tf, add_up = self._tf, self._mean()
        with contextlib.suppress(tf.errors.OpError):  # the others have already exited
            add_up(self._on_each(lambda: tf.ones(1)))


def _named_in(said: list[str]) -> list[int]:
    return sorted({int(each) for text in said for each in _TASK.findall(text)})


def main() -> None:
    """Process one request per line of standard input; the environment defines the cluster."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    config = json.loads(os.environ["TF_CONFIG"])
    index = config["task"]["index"]
    with without_collection():
        import tensorflow as tf

    worker = Worker(tf, config["cluster"]["worker"], index)
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    ready = {"pid": os.getpid(), "index": index, "replicas": worker.replicas, "kind": kind}
    print(json.dumps(ready), file=answers, flush=True)

    work: dict[str, Callable[[], dict[str, Any]]] = {
        "check": worker.check, "until trouble": worker.until_trouble, "all-reduce": worker.all_reduce,
        "alone": lambda: worker.step_s(together=False), "together": lambda: worker.step_s(together=True),
    }  # fmt: skip
    for line in sys.stdin:
        answer = work[line.strip()]()
        print(json.dumps(answer), file=answers, flush=True)
    if json.loads(sys.argv[1]).get("leave_together"):
        worker.leave_together()
    os._exit(0)


if __name__ == "__main__":
    main()
