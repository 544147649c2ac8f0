"""What the advice of `trace` brings: each fault beside its fixes, in turns, in one process.

Prints {"seconds": {fault: {way: [seconds of a step, ...]}}, "missing": {fault: why}}; the first way is as it was, and the
others are fixes that were measured in the same rounds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow import keras

from gpu_run.programs.trainings import dense, stepper

SMALL = "RECORD_GPU_SMALL" in os.environ
WIDTH, BATCH, SIDE, CHANNELS = (256, 64, 16, 8) if SMALL else (8192, 4096, 64, 128)
ROUNDS, CALLS = (3, 4) if SMALL else (7, 10)
STEPS_IN_ONE = 32
GPU = "/GPU:0"

Step = Callable[[], Any]
FAULTS: dict[str, Callable[[], dict[str, Step]]] = {}


def fault(function: Callable[[], dict[str, Step]]) -> Callable[[], dict[str, Step]]:
    """Keep the ways of one fault under its verdict."""
    FAULTS[function.__name__] = function
    return function


@fault
def slow_kernel() -> dict[str, Step]:
    """The gradient of a bias of more than 6,144 numbers."""
    rows = tf.random.normal((BATCH, WIDTH))
    biased, compiled, without = (
        stepper(dense(WIDTH, 3, bias=True)),
        stepper(dense(WIDTH, 3, bias=True), compiled=True),
        stepper(dense(WIDTH, 3)),
    )
    return {
        "a wide bias, bfloat16": lambda: biased(rows),
        "compiled with XLA": lambda: compiled(rows),
        "without the bias": lambda: without(rows),
    }


@fault
def copies() -> dict[str, Step]:
    """A large batch that comes from the host in each step."""
    rows = tf.random.normal((BATCH, WIDTH))
    train_step = stepper(dense(WIDTH, 3))

    def of(data: tf.data.Dataset) -> Step:
        batches: Iterator[tf.Tensor] = iter(data)
        return lambda: train_step(next(batches))

    with tf.device("/CPU:0"):
        held = tf.identity(rows)
        halves = tf.cast(held, tf.bfloat16)
        ahead, smaller = (tf.data.Dataset.from_tensors(each).repeat() for each in (held, halves))
    return {
        "from the host": of(ahead.prefetch(2)),
        "prefetch_to_device": of(ahead.apply(tf.data.experimental.prefetch_to_device(GPU))),
        "16 bit": of(smaller.prefetch(2)),
        "on the GPU already": lambda: train_step(rows),
    }


@fault
def sync_each_step() -> dict[str, Step]:
    """A loss that is read after each step, by a program that has something to do between steps."""
    width = WIDTH // 2
    rows = tf.random.normal((BATCH, width))
    train_step = stepper(dense(width, 4))
    history: list[Any] = []

    def keep(loss: Any) -> Any:
        history.append(loss)
        sum(range(100_000))  # what a program of its own does between two steps
        return loss

    return {"read each step": lambda: keep(float(train_step(rows))), "kept as a tensor": lambda: keep(train_step(rows))}


@fault
def launch_bound() -> dict[str, Step]:
    """Steps that are too small, started one by one, or many in one call."""
    rows = tf.random.normal((32, 64))
    train_step = stepper(dense(64, 3))

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def many() -> tf.Tensor:
        loss = tf.constant(0.0)
        for _ in tf.range(STEPS_IN_ONE):
            loss = train_step(rows)
        return loss

    def one_by_one() -> Any:
        for _ in range(STEPS_IN_ONE):
            loss = train_step(rows)
        return loss

    return {"one step in a call": one_by_one, f"{STEPS_IN_ONE} steps in a call": many}


@fault
def layout() -> dict[str, Step]:
    """Convolutions whose channels come first, in bfloat16."""

    def network(order: str) -> Callable[[tf.Tensor], tf.Tensor]:
        shape = (CHANNELS, SIDE, SIDE) if order == "channels_first" else (SIDE, SIDE, CHANNELS)
        axis = 1 if order == "channels_first" else -1
        layers: list[Any] = [keras.layers.Input(shape)]
        for _ in range(4):
            layers += [
                keras.layers.Conv2D(CHANNELS, 3, padding="same", data_format=order),
                keras.layers.BatchNormalization(axis=axis),
                keras.layers.Activation("relu"),
            ]
        return stepper(keras.Sequential(layers))

    first, last = network("channels_first"), network("channels_last")
    pictures = tf.random.normal((16 if SMALL else 256, SIDE, SIDE, CHANNELS))
    turned = tf.transpose(pictures, (0, 3, 1, 2))
    return {"channels first": lambda: first(turned), "channels last": lambda: last(pictures)}


def measured(ways: dict[str, Step]) -> dict[str, list[float]]:
    """Return the seconds of a step of each way, in rounds whose order turns."""
    for step in ways.values():
        for _ in range(3):  # traces, compiles, chooses algorithms
            step()
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(ROUNDS):
        for way in list(ways) if number % 2 else list(ways)[::-1]:
            tf.test.experimental.sync_devices()
            began = time.perf_counter()
            for _ in range(CALLS):
                ways[way]()
            tf.test.experimental.sync_devices()
            seconds[way].append((time.perf_counter() - began) / CALLS)
    return seconds


def main() -> None:
    """Measure all, and print."""
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    found: dict[str, dict[str, list[float]]] = {}
    missing = {}
    with tf.device(GPU):
        for name, prepare in FAULTS.items():
            try:
                found[name] = measured(prepare())
            except Exception as error:  # noqa: BLE001 - one that cannot run must not cost the others
                missing[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            keras.backend.clear_session()
    print(json.dumps({"seconds": found, "missing": missing}))


if __name__ == "__main__":
    main()
