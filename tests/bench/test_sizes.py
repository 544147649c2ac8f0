"""Sizes of work: long enough for large GPUs, small enough for 4 GB, and the same in each run."""

from __future__ import annotations

import os
import types
from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("scipy")

from tfgpu_doctor.model.facts.limits import Limits  # noqa: E402 - after what is missing was found
from tfgpu_doctor.perf_tests import (  # noqa: E402 - they need NumPy
    processors,
    sizes,
    test_device_placement,
    test_graph_execution,
    test_inference,
    test_mixed_precision,
    test_model_architecture,
    test_pipeline,
)
from tfgpu_doctor.perf_tests.largest_batch import largest_batch, most_for_search  # noqa: E402
from tfgpu_doctor.perf_tests.networks import DEEP_NUMBERS  # noqa: E402
from tfgpu_doctor.perf_tests.sizes import Each, Speed, memory_of, nearest_power, samples, side  # noqa: E402
from tfgpu_doctor.perf_tests.work import Convolution, Product  # noqa: E402

GIB = 1 << 30
GTX_1650 = Speed(4 * GIB, 2.9, 128.0)
FAST_WITH_4_GB = Speed(4 * GIB, 1000.0, 8000.0)  # so fast that its memory decides
H100, H200 = Speed(80 * GIB, 989.0, 3350.0), Speed(141 * GIB, 989.0, 4800.0)
A_QUARTER = 0.25 * 3.7 * GIB  # of what is free on an idle card with 4 GB
SMALL = {"GTX 1650": GTX_1650, "fast": FAST_WITH_4_GB}
GPUS = {**SMALL, "H100": H100, "H200": H200}


def test_a_fast_gpu_gets_more_work() -> None:
    each = Each(operations=1e9, moved=1e6, held=1e6)
    counts = [samples(gpu, each) for gpu in (GTX_1650, H100)]
    assert counts == sorted(counts)
    assert counts[0] < counts[1]
    for gpu, count in zip((GTX_1650, H100), counts, strict=True):
        busy_s = count * (each.operations / gpu.teraflops / 1e12 + each.moved / gpu.gb_per_s / 1e9)
        assert sizes.BUSY_S <= busy_s < 2 * sizes.BUSY_S


def test_memory_ends_it_before_the_clock_does() -> None:
    assert samples(FAST_WITH_4_GB, Each(operations=1e3, held=100 << 20)) == 8
    assert samples(FAST_WITH_4_GB, Each(operations=1e3), most=100) == 64
    assert samples(FAST_WITH_4_GB, Each(operations=1e3, held=2 * GIB), least=3) == 3


def test_a_product_is_large_enough() -> None:
    found = [side(gpu, least=512, most=8192) for gpu in (GTX_1650, H100)]
    assert found == [2048, 8192]
    assert side(H100, least=512, most=4096) == 4096


@pytest.mark.parametrize(
    ("usable", "sold", "due"),
    [
        (22.9 * GIB, 24 * GIB, 24 * GIB),
        (23.1 * GIB, 24 * GIB, 24 * GIB),  # the same in the next run
        (5 * GIB, 24 * GIB, 5 * GIB),  # a limit, or others
        (9.5 * GIB, None, 9.5 * GIB),  # a slice
        (None, 24 * GIB, 24 * GIB),
        (None, None, 4 * GIB),
    ],
)
def test_the_memory_is_that_of_the_model_unless_there_is_far_less(
    usable: float | None, sold: float | None, due: float
) -> None:
    assert memory_of(usable, sold) == due


def test_what_was_measured_is_rounded() -> None:
    assert {nearest_power(each) for each in (100.0, 128.0, 170.0)} == {128.0}


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Speed:
    """The GPU of the suites."""
    found = GPUS[request.param]
    for suite in (
        test_device_placement, test_graph_execution, test_inference, test_mixed_precision, test_model_architecture
    ):  # fmt: skip
        monkeypatch.setattr(suite, "speed_of", lambda *_: found)
    return found


def asked() -> dict[str, tuple[int, Each]]:
    """For each comparison with sizes of its own: how many samples, and what each needs; the bytes are estimates."""
    tf: Any = types.SimpleNamespace()
    kinds = test_mixed_precision.SHAPES
    found = {
        f"mixed_precision/{kind}": (
            test_mixed_precision.shape_of(tf, "GPU:0", kind)[0], test_mixed_precision.needs(kind)
        )
        for kind in kinds
    }  # fmt: skip
    for name, places in (("separable", 1), ("stride", 2), ("kernel_size", 27), ("axes", 9)):
        batch, high, channels = test_model_architecture.pictures_for(tf, "GPU:0", places=places)
        maps = 4 * high * (high + 2) * channels
        operations = 2 * places * high * (high + 2) * channels**2
        found[f"model_architecture/{name}"] = batch, Each(operations, 3 * maps, 6 * maps)
    count, *rest = test_model_architecture.normalised(tf, "GPU:0")
    held = 4 * float(np.prod(rest))
    found["model_architecture/normalisation"] = count, Each(moved=3 * held, held=5 * held)
    found["graph_execution/xla"] = test_graph_execution.wide(tf, "GPU:0"), Each(moved=8, held=16)
    copied = test_device_placement.COPIED * test_device_placement.copied_times(tf, "GPU:0")
    found["device_placement/bandwidth"] = copied, Each(moved=8, held=12)
    batch, each = test_inference.enough(tf, "GPU:0"), test_inference
    found["inference/float16"] = batch, Each(each.WIDE_OPERATIONS, each.WIDE_BYTES / 2, 2 * each.WIDE_BYTES)
    return found


@pytest.mark.parametrize("speed", SMALL, indirect=True)
def test_no_comparison_needs_a_quarter_of_4_gb(speed: Speed) -> None:
    peaks = {name: count * each.held for name, (count, each) in asked().items()}
    assert {name: f"{peak / GIB:.2f} GiB" for name, peak in peaks.items() if peak > A_QUARTER} == {}


@pytest.mark.parametrize("speed", ["H100", "H200"], indirect=True)
def test_a_large_gpu_is_busy_for_longer_than_a_launch(speed: Speed) -> None:
    short = {}
    for name, (count, each) in asked().items():
        busy_s = count * (each.operations / speed.teraflops / 1e12 + each.moved / speed.gb_per_s / 1e9)
        if busy_s < sizes.BUSY_S / 2:  # at its peak, which nothing reaches
            short[name] = f"{1e6 * busy_s:.0f} us"
    assert short == {}


@pytest.mark.parametrize("speed", GPUS, indirect=True)
def test_the_batches_end_where_a_share_of_the_memory_does(speed: Speed) -> None:
    batches = test_model_architecture.batches_for(None, "GPU:0")
    assert batches[-1] * test_model_architecture.SAMPLE_BYTES <= sizes.SHARE * speed.memory_bytes
    assert batches[-1] >= 1024


def test_the_largest_batch_takes_nearly_all_that_is_free_and_less_beside_others() -> None:
    assert most_for_search(80_000.0, alone=True) == pytest.approx(68_000)
    assert most_for_search(3_600.0, alone=True) == pytest.approx(3_060)
    assert most_for_search(80_000.0, alone=False) == 4096
    assert most_for_search(None, alone=True) == 1024


def test_the_search_for_the_largest_batch_ends_at_what_fits() -> None:
    first, most = test_model_architecture.FIRST_BATCH, test_model_architecture.MOST_BATCH
    batch, mib, ran_out = largest_batch(lambda count: 0.98 * count, 0.85 * 80_000, MemoryError, first=first, most=most)
    assert not ran_out
    assert 0.95 * 0.85 * 80_000 < mib <= 0.85 * 80_000
    assert batch * DEEP_NUMBERS < 1 << 31


def test_samples_that_are_compared_are_different_ones() -> None:
    spread, verified = test_model_architecture.spread, test_model_architecture.VERIFIED
    for batch in (4, 8, 32, 512, 1024):
        assert len({place % verified for place in range(0, batch, spread(batch))}) == verified


def allow(monkeypatch: pytest.MonkeyPatch, cpus: int, quota: float | None) -> None:
    """A machine with that many CPUs, and a group of processes that may use the time of so many: `limits.cpu` of Kubernetes."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    monkeypatch.setattr(processors, "limits", types.SimpleNamespace(function=lambda _: Limits(cpu_quota=quota)))


@pytest.mark.parametrize(
    ("cpus", "quota", "due"),
    [
        (128, None, [8192, 384]),
        (128, 200.0, [8192, 384]),
        (128, 24.0, [4096, 192]),
        (128, 2.0, [2048, 96]),  # 8192 would take two CPUs eight seconds
        (128, 0.5, [2048, 96]),
        (4, 16.0, [2048, 96]),
    ],
)
def test_the_work_for_all_cpus_is_that_of_the_cpus_that_the_quota_allows(
    monkeypatch: pytest.MonkeyPatch, cpus: int, quota: float | None, due: list[int]
) -> None:
    allow(monkeypatch, cpus, quota)
    assert [test_device_placement.large(kind) for kind in (Product, Convolution)] == due


def no_comparison(*_: Any, **__: Any) -> None:
    pytest.fail("it compared")


@pytest.mark.parametrize(("cpus", "quota"), [(1, None), (128, 1.0), (128, 1.5)])
def test_pictures_are_not_decoded_in_parallel_on_one_cpu(
    monkeypatch: pytest.MonkeyPatch, cpus: int, quota: float | None
) -> None:
    allow(monkeypatch, cpus, quota)
    with pytest.raises(pytest.skip.Exception, match="the quota or the affinity allows only one CPU"):
        test_pipeline.test_pictures(no_comparison, None, None)


def test_calls_that_wait_need_threads_and_no_time_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow has a thread for each CPU of the affinity, whatever the quota is."""
    allow(monkeypatch, 128, 1.0)
    test_pipeline.skip_on_one_cpu()
    allow(monkeypatch, 1, None)
    with pytest.raises(pytest.skip.Exception, match="only one CPU is available"):
        test_pipeline.skip_on_one_cpu()
