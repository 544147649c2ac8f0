"""Do a unit of work for each line of standard input, in a TensorFlow with a given number of threads."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tfgpu_doctor.perf_tests.importing import without_collection
from tfgpu_doctor.perf_tests.placement import prove, watch_placement

SIDE = 1024
WAITS, WAIT_S = 6, 0.02
STEPS, BATCH, WIDTH = 8, 64, 1024
Work = Callable[[], dict[str, Any]]


def product(tf: Any, device: str) -> Work:
    """One large operation, parallelized by the intra-op threads. It uses integers, so that the sum is exact."""
    import numpy as np

    left = (np.arange(SIDE * SIDE).reshape(SIDE, SIDE) % 7).astype(np.float32)
    with tf.device(device):
        operands = tf.constant(left), tf.constant(left.T % 5)
        multiply = tf.function(lambda: tf.linalg.matmul(*operands))

    def work() -> dict[str, Any]:
        with tf.device(device):
            result = multiply()
        return {"sum": int(result.numpy().astype("int64").sum())}

    return work


def waits(tf: Any, device: str) -> Work:
    """Independent operations that wait, and can all wait at the same time."""

    def wait(number: Any) -> Any:
        time.sleep(WAIT_S)
        return number

    def all_of_them(numbers: Any) -> Any:
        parts = [tf.numpy_function(wait, [number], tf.float32, stateful=False) for number in tf.unstack(numbers)]
        return tf.add_n(parts)

    graph = tf.function(all_of_them)
    with tf.device("CPU:0"):  # where the calls are: on a GPU, each call would copy them
        numbers = tf.range(WAITS, dtype=tf.float32)

    def work() -> dict[str, Any]:
        with tf.device("CPU:0"):
            return {"sum": int(graph(numbers))}

    return work


def fed_training(tf: Any, device: str) -> Work:
    """Training steps on a device while the CPU produces the input."""
    import numpy as np

    numbers = np.random.default_rng(6)
    with tf.device(device):
        weights = tf.Variable(numbers.standard_normal((WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5)
    batches = tf.data.Dataset.range(STEPS * BATCH).map(
        lambda number: tf.math.sin(tf.range(WIDTH, dtype=tf.float32) + tf.cast(number, tf.float32)),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    batches = batches.batch(BATCH).prefetch(2)

    def step(batch: Any) -> Any:
        with tf.device(device):
            for _ in range(8):
                batch = tf.nn.tanh(tf.linalg.matmul(batch, weights))
            return tf.reduce_mean(tf.abs(batch))

    graph = tf.function(step)

    def train(batch: Any) -> Any:
        with tf.device(device):
            return graph(batch)

    def work() -> dict[str, Any]:
        results = [train(batch) for batch in batches]
        return {"sum": float(sum(result.numpy() for result in results))}

    return work


def repeats(tf: Any, device: str) -> Work:
    """A few training steps from the same start, with operations that sum in any order unless determinism is enabled."""
    import numpy as np

    numbers = np.random.default_rng(seed=1)
    images = numbers.standard_normal((8, 32, 32, 8)).astype(np.float32)
    places = numbers.integers(0, 16, 8 * 32 * 32).astype(np.int32)

    def work() -> dict[str, Any]:
        tf.keras.utils.set_random_seed(5)
        with tf.device(device):
            weights = tf.Variable(tf.random.normal((3, 3, 8, 16), seed=2) * 0.1)
            for _ in range(3):
                with tf.GradientTape() as tape:
                    maps = tf.nn.dropout(tf.nn.relu(tf.nn.conv2d(images, weights, 1, "SAME")), 0.2)
                    sums = tf.math.unsorted_segment_sum(tf.reshape(maps, (-1, 16)), places, 16)
                    loss = tf.reduce_mean(sums**2)
                weights.assign_sub(1e-6 * tape.gradient(loss, weights))
        digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()
        return {"digest": digest, "loss": float(loss)}

    return work


def answers(tf: Any, devices: str) -> Work:
    """The results of operations on each of several devices ("GPU:0,GPU:1"), as digests."""
    from tfgpu_doctor.perf_tests.operations import Operation, operations

    def digest(operation: Operation, device: str) -> str:
        def call() -> Any:
            with tf.device(device):
                return operation.call(tf, [tf.constant(each) for each in operation.inputs])

        return hashlib.sha256(prove(call, device, operation.carriers).numpy().tobytes()).hexdigest()

    def work() -> dict[str, Any]:
        asked = operations()
        names = devices.split(",")
        return {
            "devices": names,
            "digests": {name: {each.name: digest(each, name) for each in asked} for name in names},
        }

    return work


WORKS = {"product": product, "waits": waits, "fed_training": fed_training, "repeats": repeats, "answers": answers}
# Part of the name of the operation that carries each; the other one proves its operations itself.
CARRIERS = {"product": "MatMul", "waits": "PyFunc", "fed_training": "MatMul", "repeats": "Conv2D"}


def with_devices(work: Work, carrier: str) -> Work:
    """Add the devices that ran the carrier to each answer; they are observed at the first request."""
    devices: list[str] = []

    def answer() -> dict[str, Any]:
        if devices:
            return {**work(), "devices": devices}
        with watch_placement() as seen:
            found = work()
        devices.extend(sorted({device for name, device in seen.operations if carrier in name}))
        return {**found, "devices": devices}

    return answer


def main() -> None:
    """Process requests; the first argument is a JSON object: work, device, intra, inter, deterministic."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output must not mix with the responses
    order = json.loads(sys.argv[1])
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    with without_collection():
        import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(order.get("intra", 0))
    tf.config.threading.set_inter_op_parallelism_threads(order.get("inter", 0))
    if order.get("deterministic"):
        tf.config.experimental.enable_op_determinism()
    kind = order["work"]
    work = WORKS[kind](tf, order.get("device", "CPU:0"))
    if kind in CARRIERS:
        work = with_devices(work, CARRIERS[kind])
    threads = tf.config.threading
    ready = {
        "intra": threads.get_intra_op_parallelism_threads(),
        "inter": threads.get_inter_op_parallelism_threads(),
    }
    print(json.dumps(ready), file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(work()), file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
