"""Compare the same work on the GPU and the CPU; measure the crossover size and the cost of transfers."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.perf_tests.ceilings import PEAK_SIDE, compute_ceiling, link_in_words, memory_ceiling, peak_name
from tfgpu_doctor.perf_tests.networks import TENSOR_CORES, why_no_tensor_cores
from tfgpu_doctor.perf_tests.placement import prove, short_device
from tfgpu_doctor.perf_tests.processors import usable_processors
from tfgpu_doctor.perf_tests.runner import Variant
from tfgpu_doctor.perf_tests.sizes import Each, samples, speed_of
from tfgpu_doctor.perf_tests.tf32 import tf32
from tfgpu_doctor.perf_tests.timing import Stopwatch
from tfgpu_doctor.perf_tests.work import Convolution, Product, Work

Hold = Callable[..., None]
Keep = Callable[..., None]
# A GPU is faster on any machine, and the CPU finishes within a second: from so many CPUs on, so large.
LARGE = {Product: {1: 2048, 16: 4096, 128: 8192}, Convolution: {1: 96, 16: 192, 128: 384}}
SIZES = {Product: (16, 64, 128, 256, 512, 1024, 2048), Convolution: (4, 8, 16, 32, 64, 96)}
NAMES = {Product: "matmul", Convolution: "convolution"}
_KINDS = pytest.mark.parametrize("kind", list(NAMES), ids=NAMES.values())
COPIED = 1 << 26  # float32 numbers, 256 MiB; within the GPU and between GPUs at least
SUSTAINED_S = 3.0  # a boost clock ends within the first second or two
CALLS = 300
TRIPS = 24


@pytest.mark.priority(1)
@_KINDS
def test_gpu(compare: Hold, tensorflow: Any, gpu: str, kind: Any) -> None:
    """Compare the GPU with all CPUs that this process may use."""
    on_gpu, on_cpu = (kind(tensorflow, device, large(kind)) for device in (gpu, "CPU:0"))
    compare(on_gpu.variant(), on_cpu.variant())


def large(kind: Any) -> int:
    """Return the size for the CPUs that this process may use: the same in each run, so that runs can be compared."""
    count = usable_processors()
    return max(size for cpus, size in LARGE[kind].items() if cpus <= count)


@pytest.mark.priority(3)
@_KINDS
def test_cpu(share_s: float, tensorflow: Any, metric: Keep, kind: Any) -> None:
    """Measure the throughput of the CPU, which is available as a reference on any machine."""
    work: Work = kind(tensorflow, "CPU:0", large(kind) // 2)
    work.verify(prove(work, "CPU:0"))
    took_s = Stopwatch(lambda: None).per_call(work)
    metric(
        f"{NAMES[kind]} on the CPU", work.operations / took_s / 1e9, "GFLOP/s", device="CPU:0", about=work.name,
        bounded_by="" if kind is Product else "matmul on the CPU",
    )  # fmt: skip


@pytest.mark.priority(3)
@_KINDS
def test_crossover(share_s: float, tensorflow: Any, gpu: str, metric: Keep, kind: Any) -> None:
    """Find the size from which on the GPU is faster. The CPU may win at any size: test_gpu judges the speed."""
    watch = Stopwatch(tensorflow.test.experimental.sync_devices)
    wins = {}
    for size in SIZES[kind]:
        pair: list[Work] = [kind(tensorflow, device, size) for device in (gpu, "CPU:0")]
        for work in pair:
            work.verify(prove(work, work.device, work.carriers))
        on_gpu, on_cpu = map(watch.per_call, pair)
        wins[size] = on_cpu / on_gpu
        metric(f"{NAMES[kind]} {size}", wins[size], "times as fast as the CPU", device=gpu)
    lost = [size for size, times in wins.items() if times <= 1]
    won = [size for size in wins if size > max(lost, default=0)]
    if won:
        metric(f"crossover of {NAMES[kind]}", won[0], "side", device=gpu, about="the GPU is faster from this size on")


@pytest.mark.priority(5)
def test_soft_placement(tensorflow: Any, gpus: tuple[str, ...]) -> None:
    """Check that an operation without a GPU kernel runs on the CPU with soft placement, and fails without it."""
    tf = tensorflow
    device = gpus[0] if gpus else "GPU:7"  # without a GPU no operation has a kernel there
    before = tf.config.get_soft_device_placement()

    def join() -> Any:
        with tf.device(f"/{device}"):
            return tf.strings.unsorted_segment_join(["soft", "placement"], [0, 0], 1, " ")

    try:
        tf.config.set_soft_device_placement(True)
        result = tf.function(join)()
        assert result.numpy() == [b"soft placement"]
        assert short_device(result.backing_device) == "CPU:0"
        tf.config.set_soft_device_placement(False)
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.function(join)()
    finally:
        tf.config.set_soft_device_placement(before)


@pytest.mark.priority(4)
@pytest.mark.parametrize("kind", ["CPU", "GPU"])
def test_dispatch(request: pytest.FixtureRequest, tensorflow: Any, metric: Keep, kind: str) -> None:
    """Measure the overhead of one eager operation."""
    device = request.getfixturevalue("gpu") if kind == "GPU" else "CPU:0"
    wait = tensorflow.test.experimental.sync_devices if kind == "GPU" else lambda: None
    with tensorflow.device(device):
        one = tensorflow.constant(1.0)

        def calls() -> Any:
            value = one
            for _ in range(CALLS):
                value = value + one
            return value

        assert prove(calls, device, ("Add",)).numpy() == CALLS + 1
        took_s = Stopwatch(wait).per_call(calls)
    metric("eager dispatch", took_s / CALLS * 1e6, "us", device=device, about=f"one of {CALLS} additions in a row")


@pytest.mark.priority(2)
@pytest.mark.parametrize("way", ["host to device", "device to host", "in the device", "device to device"])
def test_bandwidth(share_s: float, tensorflow: Any, gpus: tuple[str, ...], gpu: str, metric: Keep, way: str) -> None:
    """Measure copies between host and GPU, within the GPU's memory, and between GPUs; compare each with its original."""
    tf = tensorflow
    if way == "device to device" and len(gpus) < 2:
        pytest.skip("there is no second GPU")
    source, target = {
        "host to device": ("CPU:0", gpu), "device to host": (gpu, "CPU:0"), "in the device": (gpu, gpu),
        "device to device": (gpu, gpus[-1]),
    }[way]  # fmt: skip
    inside, times = way == "in the device", copied_times(tf, gpu) if "host" not in way else 1
    content = np.random.default_rng(seed=2).integers(0, 1 << 20, COPIED, np.int32).astype(np.float32)
    with tf.device(source):
        original = tf.tile(tf.constant(content), [times])
    assert short_device(original.backing_device) == source

    def copy() -> Any:
        # A tensor caches its copies for other devices, so each copy uses a new tensor on the same memory.
        with tf.device(source):
            new = tf.identity(original)
        with tf.device(target):
            return tf.raw_ops.DeepCopy(x=new) if inside else tf.identity(new)

    # Between devices, the copy is what brings the numbers from one memory to the other.
    copied = prove(copy, target, ("DeepCopy",)) if inside else copy()
    assert short_device(copied.backing_device) == target
    assert all(np.array_equal(part.numpy(), content) for part in tf.split(copied, times)), "the copy differs"
    took_s = Stopwatch(tf.test.experimental.sync_devices).per_call(copy)
    moved = times * content.nbytes * (2 if inside else 1)  # within one memory all bytes are read and written
    limit = memory_ceiling(tf, gpu) if inside else {}
    link = filter(None, ("from pageable memory" if "host" in way else "", link_in_words()))
    about = "read and written" if inside else "; ".join(link)
    metric(
        f"copy {way}", moved / took_s / 1e9, "GB/s", device=target if "GPU" in target else source, about=about, **limit
    )


def copied_times(tf: Any, gpu: str) -> int:
    """Return how many times COPIED is copied within a GPU, so that a copy takes much longer than its launch."""
    return samples(speed_of(tf, gpu), Each(moved=8 * COPIED, held=12 * COPIED))


@pytest.mark.priority(1)
@pytest.mark.parametrize("precision", ["bfloat16", "float16", "tf32", "float32"])
def test_peak(share_s: float, tensorflow: Any, gpu: str, metric: Keep, precision: str) -> None:
    """Compare the speed of a large matrix product, sustained for seconds, with the peak in the data sheet.

    Only in precisions for which the GPU has tensor cores: the others have another peak, or run as float32.
    The best reading of the first moments is told beside it: the clock of a cold GPU is higher than that of a busy one.
    """
    if precision in TENSOR_CORES and (why := why_no_tensor_cores(tensorflow, gpu, precision)):
        pytest.skip(why)
    with tf32(tensorflow, on=precision == "tf32"):
        work = Product(tensorflow, gpu, PEAK_SIDE, "float32" if "32" in precision else precision)
        work.verify(prove(work, gpu, work.carriers))
        times = Stopwatch(tensorflow.test.experimental.sync_devices).readings(work, seconds=SUSTAINED_S)
    limit = compute_ceiling(tensorflow, gpu, precision)
    sustained_s, burst_s = statistics.median(times[len(times) // 2 :]), min(times[: max(3, len(times) // 10)])
    teraflops, burst = (work.operations / took_s / 1e12 for took_s in (sustained_s, burst_s))
    about = f"sustained for {SUSTAINED_S:g} s; {burst:.4g} TFLOP/s at its start"
    metric(peak_name(precision), teraflops, "TFLOP/s", device=gpu, about=about, **limit)


@pytest.mark.priority(3)
def test_needless_transfers(compare: Hold, tensorflow: Any, gpu: str) -> None:
    """Compare a loop that stays on the GPU with one that copies each result to the host and back."""
    tf = tensorflow
    with tf.device(gpu):
        start = tf.random.stateless_normal((1024, 1024), seed=(1, 2))
    due = start.numpy().astype(np.float64) * 0.5**TRIPS

    def side(name: str, between: Callable[[Any], Any]) -> Variant:
        def call() -> Any:
            value = start
            with tf.device(gpu):
                for _ in range(TRIPS):
                    value = between(value) * 0.5
            return value

        def verify(result: Any) -> None:
            assert np.allclose(result.numpy(), due, rtol=1e-6)

        return Variant(name, call, verify, gpu, ("Mul",))

    compare(
        side("stays on the GPU", lambda value: value),
        side("through the host", lambda value: tf.constant(value.numpy())),
    )
