"""Small programs, each with one ability of TensorFlow on a GPU: `devices.py NAME`; says what it saw as JSON, or fails."""

from __future__ import annotations

import json
import math
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any

if sys.argv[1:] == ["async_allocator"]:
    os.environ["TF_GPU_ALLOCATOR"] = "cuda_malloc_async"

import numpy as np
import tensorflow as tf

PART_MIB = 1024
PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {}


def program(function: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Keep a program under its name."""
    PROGRAMS[function.__name__] = function
    return function


def two_parts() -> list[str]:
    """Divide the first GPU into two logical devices; return their names."""
    gpu = tf.config.list_physical_devices("GPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration(memory_limit=PART_MIB) for _ in range(2)]
    tf.config.set_logical_device_configuration(gpu, parts)
    return [f"GPU:{place}" for place, _ in enumerate(tf.config.list_logical_devices("GPU"))]


def same(one: Any, other: Any, tolerance: float = 1e-4) -> None:
    """Fail unless two results are about equal."""
    worst = float(np.max(np.abs(np.asarray(one) - np.asarray(other))))
    assert worst <= tolerance * max(1.0, float(np.max(np.abs(np.asarray(other))))), f"the results differ by {worst}"


@program
def logical_devices() -> dict[str, Any]:
    """A product on each part of a GPU, and a copy from one to the other."""
    names, placed = two_parts(), []
    assert len(names) == 2, f"TensorFlow lists {names}"
    numbers = np.random.default_rng(1).standard_normal((256, 256)).astype(np.float32)
    for name in names:
        with tf.device(name):
            result = tf.linalg.matmul(tf.constant(numbers), tf.constant(numbers))
        assert name in result.device, f"computed on {result.device}, not on {name}"
        placed.append(result)
    same(placed[0], placed[1], 0)
    same(placed[0], numbers @ numbers, 2e-3)
    return {"devices": names}


def trained(strategy: tf.distribute.Strategy) -> list[float]:
    """Ten steps of a small network on the same numbers."""
    tf.keras.utils.set_random_seed(3)
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.layers.Input((16,)), tf.keras.layers.Dense(32, "relu"), tf.keras.layers.Dense(1)]
        )
        model.compile("sgd", "mse")
    rows = np.random.default_rng(2).standard_normal((64, 16)).astype(np.float32)
    history = model.fit(rows, rows.sum(axis=1), batch_size=64, epochs=10, verbose=0, shuffle=False)
    return [float(each) for each in history.history["loss"]]


@program
def mirrored() -> dict[str, Any]:
    """MirroredStrategy over two parts of a GPU trains as one device does."""
    names = two_parts()
    alone, both = trained(tf.distribute.OneDeviceStrategy(names[0])), trained(tf.distribute.MirroredStrategy(names))
    same(both, alone, 1e-3)
    return {"losses": [round(each, 5) for each in both[:: len(both) - 1]]}


@program
def mirrored_reduction() -> dict[str, Any]:
    """The reduction to one device, which needs no NCCL."""
    names = two_parts()
    strategy = tf.distribute.MirroredStrategy(names, cross_device_ops=tf.distribute.ReductionToOneDevice())
    same(trained(strategy), trained(tf.distribute.OneDeviceStrategy(names[0])), 1e-3)
    return {"devices": names}


@program
def nccl() -> dict[str, Any]:
    """NCCL's sum on one GPU: the library is opened, a communicator is made, a kernel runs."""

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def summed(given: tf.Tensor) -> tf.Tensor:
        with tf.device("GPU:0"):
            return tf.raw_ops.NcclAllReduce(input=given, reduction="sum", num_devices=1, shared_name="one")

    given = tf.random.normal((1 << 20,))
    same(summed(given), given, 0)
    return {"elements": 1 << 20}


@program
def nccl_collective() -> dict[str, Any]:
    """The collective that strategies use, with NCCL, in a group of one."""

    @tf.function  # type: ignore[untyped-decorator, unused-ignore]
    def summed(given: tf.Tensor) -> tf.Tensor:
        with tf.device("GPU:0"):
            return tf.raw_ops.CollectiveReduceV2(
                input=given, group_size=1, group_key=1, instance_key=1, ordering_token=[], merge_op="Add", final_op="Id",
                communication_hint="nccl",
            )  # fmt: skip

    given = tf.random.normal((1 << 16,))
    same(summed(given), given, 0)
    return {"elements": 1 << 16}


@program
def profiler() -> dict[str, Any]:
    """A profile has a plane of the GPU with events: CUPTI works."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    def work() -> Any:
        with tf.device("GPU:0"):
            return tf.linalg.matmul(tf.ones((512, 512)), tf.ones((512, 512)))

    work().numpy()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        for _ in range(5):
            work().numpy()
        tf.profiler.experimental.stop()
        (file,) = pathlib.Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
    planes = {plane.name: sum(len(line.events) for line in plane.lines) for plane in space.planes}
    seen = {name: events for name, events in planes.items() if name.startswith("/device:GPU") and events}
    assert seen, f"no plane of a GPU has events, only {planes}: CUPTI does not work"
    return {"planes": planes}


@program
def xla() -> dict[str, Any]:
    """A function compiled by XLA gives what it gives without."""

    def function(given: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(tf.nn.relu(tf.linalg.matmul(given, given)) + 1.0)

    given = tf.random.stateless_normal((512, 512), (1, 2))
    with tf.device("GPU:0"):
        compiled, plain = tf.function(function, jit_compile=True)(given), tf.function(function)(given)
    assert "GPU:0" in compiled.device, f"computed on {compiled.device}"
    same(compiled, plain, 1e-2)
    return {"device": compiled.device}


@program
def keras_fit() -> dict[str, Any]:
    """A convolution with bias and activation, which XLA fuses, and cuDNN compiles: it needs libnvrtc."""
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
         layers.Conv2D(64, 3, activation="relu"), layers.Flatten(), layers.Dense(10)]
    )  # fmt: skip
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    random = np.random.default_rng(4)
    pictures, labels = random.standard_normal((512, 28, 28, 1)).astype(np.float32), random.integers(0, 10, 512)
    losses = model.fit(pictures, labels, batch_size=128, epochs=2, verbose=0).history["loss"]
    assert all(map(math.isfinite, losses)), f"losses {losses}"
    return {"losses": [round(float(each), 4) for each in losses], "compiled": bool(model.jit_compile)}


@program
def mixed_precision() -> dict[str, Any]:
    """float16 with loss scaling: the losses are finite and fall, and an overflow halves the scale and changes no weight."""
    tf.keras.utils.set_random_seed(3)
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.05))
    model = tf.keras.Sequential(
        [tf.keras.layers.Input((64,)), tf.keras.layers.Dense(128, "relu"), tf.keras.layers.Dense(1, dtype="float32")]
    )
    model.compile(optimizer, "mse")
    rows = np.random.default_rng(2).standard_normal((256, 64)).astype(np.float32)
    losses = model.fit(rows, rows[:, 0], epochs=8, verbose=0).history["loss"]
    assert all(map(math.isfinite, losses)), f"losses {losses}"
    assert losses[-1] < losses[0], f"losses {losses}"
    assert model.layers[0].compute_dtype == "float16"
    before, weights = float(optimizer.dynamic_scale), [each.numpy() for each in model.trainable_variables]
    model.fit(rows * 1e30, rows[:, 0], epochs=1, batch_size=256, verbose=0)
    after = float(optimizer.dynamic_scale)
    assert after == before / 2, f"the scale was {before}, and is {after} after an overflow"
    for one, other in zip(weights, model.trainable_variables, strict=True):
        same(other, one, 0)
    return {"losses": [round(float(each), 4) for each in (losses[0], losses[-1])], "scale": [before, after]}


@program
def async_allocator() -> dict[str, Any]:
    """TF_GPU_ALLOCATOR=cuda_malloc_async: memory is taken, used and given back."""
    with tf.device("GPU:0"):
        for size in (1 << 20, 1 << 24, 1 << 22):
            same(tf.reduce_sum(tf.ones((size,))), size)
    return {"allocator": os.environ["TF_GPU_ALLOCATOR"]}


def main() -> None:
    """Run one, on growing memory unless it divides the GPU."""
    name = sys.argv[1]
    if name not in ("logical_devices", "mirrored", "mirrored_reduction", "async_allocator"):
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
    print(json.dumps(PROGRAMS[name]()))


if __name__ == "__main__":
    main()
