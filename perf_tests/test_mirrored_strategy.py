"""MirroredStrategy: gradients equal to one device's, per-replica batches, all-reduce, and scaling."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.bench import measure
from tfgpu_doctor.perf_tests.ceilings import linked_by_nvlink
from tfgpu_doctor.perf_tests.children import Child, children
from tfgpu_doctor.perf_tests.figures import plan_of
from tfgpu_doctor.perf_tests.fixtures import admit_second
from tfgpu_doctor.perf_tests.gpu_memory import gpu_memory
from tfgpu_doctor.perf_tests.placement import watch_placement
from tfgpu_doctor.perf_tests.runner import Variant
from tfgpu_doctor.perf_tests.timing import Stopwatch
from tfgpu_doctor.perf_tests.visibility import NO_GPU

Keep = Callable[..., None]
REPLICAS, BATCH = 2, 64
ROUNDING = 1e-5  # float32, sums of a few hundred numbers in another order
SIZES = {"CPU": (1 << 18, 1 << 22), "GPU": tuple(1 << power for power in range(12, 31, 3))}  # bytes, 4 KiB to 1 GiB
STEPS = 10
RATE = 1e-4
SCALED_BATCH, MOST_BATCH = 512, 1 << 14  # of one replica
WORTH = 4.0  # the computing of a step, in times of what distributing it costs beside: then GPUs scale to 4/5 of their number
KEPT_VALUES = 12  # of each sample and width, for the backward pass
COMPARED = (512, 512)  # batch and width that also a CPU trains within a second
WIDTHS = {"CPU": 64, "GPU": 2048}


@pytest.fixture(scope="module")
def replicas(
    gpus: tuple[str, ...], gpu_or_cpu: str, exclusive_gpus: dict[str, str]
) -> Iterator[Callable[[], Child]]:  # fmt: skip
    """Replicas on all GPUs if there are two or more; else on parts of the GPU or of the CPU, for correctness only.

    Skips where others use a GPU, as `gpu_or_cpu` does: the replicas would take memory on all of them, and time. Skips
    also where a GPU admits this process alone.
    """
    admit_second(exclusive_gpus)
    with contextlib.ExitStack() as open_:

        @functools.cache
        def start() -> Child:
            order = {"replicas": max(REPLICAS, len(gpus)), "batch": BATCH * max(REPLICAS, len(gpus))}
            return open_.enter_context(children("replicate", (order, {} if gpus else NO_GPU)))[0]

        yield start


@pytest.mark.priority(5, needs_s=15)
def test_gradients(share_s: float, replicas: Callable[[], Child], gpus: tuple[str, ...], metric: Keep) -> None:
    """Check that the replicas' gradients add up to one device's, and that a replica gets its share of the global batch."""
    child, count = replicas(), max(REPLICAS, len(gpus))
    seen = child.ask("check").values
    about = f"{count} replicas on {child.ready['kind']}: checks correctness, not speed"
    metric("gradient apart from one device's", seen["from_one_device"], "of its size", limit=ROUNDING, about=about)
    assert seen["replicas"] == count
    assert len(seen["devices"]) == count, f"the replicas ran only on {', '.join(seen['devices'])}"
    assert seen["batches"] == [BATCH] * count, "per-replica batch times replicas should be the global batch"
    assert not seen["tf32"], "with TF32 the products are not exact enough to be compared"
    assert seen["from_one_device"] < ROUNDING
    assert seen["from_float64"] < ROUNDING


@pytest.mark.priority(6, needs_s=20)
def test_all_reduce(share_s: float, replicas: Callable[[], Child], gpus: tuple[str, ...], metric: Keep) -> None:
    """Check that an all-reduce gives the sum on every replica, and measure its bus bandwidth by size on all GPUs.

    Bus bandwidth: the bytes of one replica over the time, times 2 (n - 1) / n, which does not depend on the number of
    replicas (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md). Parts of one device have another name:
    no link between GPUs is measured there.
    """
    child, count = replicas(), max(REPLICAS, len(gpus))
    kind = child.ready["kind"]
    sizes = [size for size in SIZES["GPU" if kind == "GPU" else "CPU"] if size <= child.ready["most_bytes"]]
    between, told = ("", "") if kind == "GPU" else (f" between {kind}", ": no link between GPUs")
    about = f"bus bandwidth, {count} replicas on {kind}{told}"
    for size in sizes:
        seen = child.ask(f"all-reduce {size}").values
        assert len(set(seen["devices"])) == count, f"the values to sum lie on {', '.join(sorted(set(seen['devices'])))}"
        bus = size / seen["seconds"] * 2 * (count - 1) / count
        metric(f"all-reduce of {in_words(size)}{between}", bus / 1e9, "GB/s", device=kind, about=about)
    assert sizes, "not even the smallest size fits into the free memory"


def in_words(size: int) -> str:
    """Return a size in bytes with its unit."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


class Distributed:
    """Steps of a dense network under a strategy, or without one, on a batch that stays on the devices.

    All steps are one call of a graph. `model.fit` with steps_per_execution would do the same, but Keras 3 raises
    InvalidArgumentError with two replicas (https://github.com/keras-team/keras/issues/19246).
    """

    def __init__(self, tf: Any, strategy: Any, device: str, batch: int, width: int = 0) -> None:
        self._tf, self._strategy, self._device, self._batch = tf, strategy, device, batch
        numbers, width = np.random.default_rng(seed=8), width or WIDTHS[device[:3]]
        shapes = [(width // 2, width), (width, width), (width, width), (width, width), (width, 1)]
        starts = [numbers.standard_normal(shape, dtype=np.float32) * (2 / shape[0]) ** 0.5 for shape in shapes]
        inputs = numbers.standard_normal((batch, width // 2), dtype=np.float32)
        with strategy.scope() if strategy else tf.device(device):
            self._layers = [tf.Variable(start) for start in starts]
            if strategy:
                data = tf.data.Dataset.from_tensor_slices((inputs, inputs[:, :1])).batch(batch)
                self._given = next(iter(strategy.experimental_distribute_dataset(data)))
            else:
                self._given = tf.identity(inputs), tf.identity(inputs[:, :1])
        self._steps = tf.function(self._all_steps)

    def _slopes(self, inputs: Any, due: Any) -> tuple[Any, Any]:
        tf = self._tf
        with tf.GradientTape() as tape:
            values = inputs
            for layer in self._layers[:-1]:
                values = tf.nn.relu(tf.linalg.matmul(values, layer))
            loss = tf.reduce_sum((tf.linalg.matmul(values, self._layers[-1]) - due) ** 2) / self._batch
        return loss, tape.gradient(loss, self._layers)

    def _alone(self) -> Any:
        loss, slopes = self._slopes(*self._given)
        for layer, slope in zip(self._layers, slopes, strict=True):
            layer.assign_sub(RATE * slope)
        return loss

    def _together(self) -> Any:
        def step(inputs: Any, due: Any) -> Any:
            loss, slopes = self._slopes(inputs, due)
            replica = self._tf.distribute.get_replica_context()
            replica.merge_call(update, args=(replica.all_reduce("SUM", slopes),))
            return loss

        def update(strategy: Any, slopes: Any) -> None:
            for layer, slope in zip(self._layers, slopes, strict=True):
                strategy.extended.update(layer, lambda layer, slope: layer.assign_sub(RATE * slope), args=(slope,))

        return self._strategy.reduce("SUM", self._strategy.run(step, args=self._given), axis=None)

    def _all_steps(self) -> Any:
        return [self._together() if self._strategy else self._alone() for _ in range(STEPS)][-1]

    def graph(self) -> Any:
        """Run the steps; return the last loss as a tensor."""
        with contextlib.nullcontext() if self._strategy else self._tf.device(self._device):
            return self._steps()

    def __call__(self) -> float:
        """Run the steps; return the last loss. It is a number, so the devices have finished."""
        return float(self.graph())

    def variant(self, name: str, due: float, also: Sequence[str] = ()) -> Variant:
        """Return these steps as one side of a comparison. Each call trains on, so the loss is at most that of the first."""

        def verify(loss: float) -> None:
            assert np.isfinite(loss)
            assert loss < 1.01 * due, f"the loss is {loss:.4g}, but {due:.4g} in the first steps on one device"

        return Variant(name, self, verify, self._device, ("MatMul",), also=tuple(also))


def step_s(training: Distributed) -> float:
    """Return the seconds of one step."""
    training()  # traces
    return Stopwatch(lambda: None).per_call(training) / STEPS


def worthwhile_batch(alone_s: Callable[[int], float], together_s: Callable[[int], float], first: int, most: int) -> int:
    """Return the batch of a replica that computes for WORTH times what the replicas cost beside it, at most `most`.

    Both functions return the seconds of a step with a batch per replica. An all-reduce takes as long for a small batch as
    for a large one: on an H100 a step with 512 samples computes for 0.2 ms, and the all-reduce of its 59 MB takes 0.4 ms.
    """
    batch, took_s = first, alone_s(first)
    beside_s = together_s(first) - took_s
    while took_s < WORTH * beside_s and 2 * batch <= most:
        batch *= 2 ** max(1, min(math.ceil(math.log2(WORTH * beside_s / took_s)), int(math.log2(most / batch))))
        took_s = alone_s(batch)
    return batch


def most_batch(count: int) -> int:
    """Return the largest batch of a replica of which `count` fit on one GPU, in half of the memory that is free."""
    free = min((gpu.free for gpu in gpu_memory()), default=0)
    return max(SCALED_BATCH, min(MOST_BATCH, free // 2 // (count * KEPT_VALUES * WIDTHS["GPU"] * 4)))


@pytest.fixture(scope="module")
def batch_of_replica(tensorflow: Any, gpus: tuple[str, ...]) -> Callable[[], int]:
    """A function that returns the batch of each GPU in the comparisons of all GPUs with one."""

    @functools.cache
    def find() -> int:
        def alone_s(batch: int) -> float:
            return step_s(Distributed(tensorflow, None, gpus[0], batch))

        def together_s(batch: int) -> float:
            strategy = tensorflow.distribute.MirroredStrategy(list(gpus))
            return step_s(Distributed(tensorflow, strategy, gpus[0], batch * len(gpus)))

        return worthwhile_batch(alone_s, together_s, SCALED_BATCH, most_batch(len(gpus)))

    return find


@pytest.mark.priority(3, needs_s=20)
def test_all_gpus(
    compare: Keep, tensorflow: Any, gpu: str, gpus: tuple[str, ...], batch_of_replica: Callable[[], int]
) -> None:
    """Compare training with one batch on all GPUs with the same on one GPU, where NVLinks connect them."""
    if len(gpus) < 2:
        pytest.skip("there is only one GPU: the strategy has nothing to distribute")
    if not linked_by_nvlink():
        pytest.skip("no NVLink connects the GPUs: whether several are faster depends on the link; see the scaling")
    batch = batch_of_replica() * len(gpus)
    everywhere = Distributed(tensorflow, tensorflow.distribute.MirroredStrategy(list(gpus)), gpu, batch)
    alone = Distributed(tensorflow, None, gpu, batch)
    due = Distributed(tensorflow, None, gpu, batch)()
    compare(everywhere.variant(f"{len(gpus)} GPUs", due, gpus[1:]), alone.variant("1 GPU", due))


@pytest.mark.priority(3, needs_s=10)
def test_against_cpu(compare: Keep, tensorflow: Any, gpu: str, gpus: tuple[str, ...]) -> None:
    """Compare training under the strategy on all GPUs with training on the CPU."""
    batch, width = COMPARED
    everywhere = Distributed(tensorflow, tensorflow.distribute.MirroredStrategy(list(gpus)), gpu, batch, width)
    alone = Distributed(tensorflow, None, "CPU:0", batch, width)
    due = Distributed(tensorflow, None, "CPU:0", batch, width)()
    compare(everywhere.variant(f"MirroredStrategy on {', '.join(gpus)}", due, gpus[1:]), alone.variant("CPU", due))


def devices_used(training: Distributed) -> set[str]:
    """Run the steps once and return the devices that computed the products, from the graph that ran."""
    with watch_placement() as seen:
        training.graph()
    return {device for name, device in seen.operations if "MatMul" in name}


@pytest.mark.priority(4, needs_s=20)
def test_one_replica(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Measure the cost of a strategy with one replica compared with training without a strategy."""
    batch = SCALED_BATCH if "GPU" in gpu_or_cpu else 16
    plain = Distributed(tensorflow, None, gpu_or_cpu, batch)
    mirrored = Distributed(tensorflow, tensorflow.distribute.MirroredStrategy([gpu_or_cpu]), gpu_or_cpu, batch)
    assert devices_used(plain) == devices_used(mirrored) == {gpu_or_cpu}
    assert np.isclose(plain(), mirrored(), rtol=1e-2), "the same training gives another loss under the strategy"
    measured = measure(mirrored, plain, plan=plan_of(share_s, gpu_or_cpu))
    ratio = measured.ratio
    about = f"95 % interval {ratio.low:.2f} to {ratio.high:.2f}; 1 is the speed without a strategy"
    metric("one replica", ratio.value, "times as fast", device=gpu_or_cpu, about=about)


@pytest.mark.priority(2, needs_s=30)
@pytest.mark.parametrize("scaling", ["weak", "strong"])
def test_scaling(
    share_s: float, tensorflow: Any, gpu: str, gpus: tuple[str, ...], batch_of_replica: Callable[[], int], metric: Keep,
    scaling: str,
) -> None:  # fmt: skip
    """Compare all GPUs with one: each with its own batch (weak), or all with parts of one batch (strong).

    Nothing is required: nobody has published how this scales on many machines.
    """
    if len(gpus) < 2:
        pytest.skip("there is only one GPU: scaling needs two")
    own = batch_of_replica()
    batch = own * len(gpus)
    everywhere = Distributed(tensorflow, tensorflow.distribute.MirroredStrategy(list(gpus)), gpu, batch)
    alone = Distributed(tensorflow, None, gpu, own if scaling == "weak" else batch)
    assert devices_used(everywhere) == set(gpus)
    assert devices_used(alone) == {gpu}
    assert np.isfinite(everywhere())
    assert np.isfinite(alone())
    ratio = measure(everywhere, alone, plan=plan_of(share_s, gpu)).ratio
    times = ratio.value * (len(gpus) if scaling == "weak" else 1)  # weak: this many times the samples in the same time
    about = (
        f"{len(gpus)} GPUs, {own} samples each; 95 % interval {ratio.low:.2f} to {ratio.high:.2f} of the time of one"
    )
    about += "; over NVLink" if linked_by_nvlink() else "; no NVLink connects them, so their link limits it"
    metric(f"{scaling} scaling", times, "times one GPU", device="GPU", limit=float(len(gpus)), about=about)
