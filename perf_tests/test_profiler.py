"""tf.profiler: check that a trace contains the operations and GPU kernels that ran, and measure the cost of tracing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.bench import Plan, measure
from tfgpu_doctor.perf_tests.placement import prove
from tfgpu_doctor.perf_tests.sizes import side, speed_of
from tfgpu_doctor.perf_tests.work import Product

SIDE, CALLS = 512, 5
MOST_SIDE = 4096


def trace(tf: Any, folder: Path, call: Callable[[], Any]) -> Any:
    """Call a function while the profiler traces, and return its result."""
    tf.profiler.experimental.start(str(folder))
    try:
        result = call()
        result.numpy()
    finally:
        tf.profiler.experimental.stop()
    return result


def planes(folder: Path) -> dict[str, set[str]]:
    """Return the names of the events in each plane ("/host:CPU", "/device:GPU:0") of the traces in a folder."""
    xplane_pb2 = pytest.importorskip(
        "tensorflow.tsl.profiler.protobuf.xplane_pb2", reason="this TensorFlow has no reader for traces"
    )
    found: dict[str, set[str]] = {}
    for file in folder.rglob("*.xplane.pb"):
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
        for plane in space.planes:
            numbers = {event.metadata_id for line in plane.lines for event in line.events}
            names = {plane.event_metadata[number].name for number in numbers}
            found.setdefault(plane.name, set()).update(names)
    return found


@pytest.mark.priority(6)
def test_trace_of_the_host(share_s: float, tensorflow: Any, metric: Callable[..., None], tmp_path: Path) -> None:
    work = Product(tensorflow, "CPU:0", SIDE)
    work.verify(trace(tensorflow, tmp_path, work))
    events = {name for plane, names in planes(tmp_path).items() if plane.startswith("/host") for name in names}
    assert any("MatMul" in name for name in events), "the trace does not contain the matrix product that ran"
    metric("kinds of events traced", len(events), "events", device="CPU:0")


@pytest.mark.priority(5)
def test_trace_of_the_gpu(
    share_s: float, tensorflow: Any, gpu: str, metric: Callable[..., None], tmp_path: Path
) -> None:
    """Check that CUPTI works: the trace contains GPU kernels."""
    work = Product(tensorflow, gpu, SIDE)
    work()
    work.verify(trace(tensorflow, tmp_path, work))
    seen = planes(tmp_path)
    kernels = {name for plane, names in seen.items() if plane.startswith("/device:GPU") for name in names}
    assert kernels, f"the trace contains no GPU kernel, only {', '.join(sorted(seen))}: CUPTI does not work"
    metric("kernels traced", len(kernels), "kernels", device=gpu)


@pytest.mark.priority(7)
def test_cost(
    share_s: float, tensorflow: Any, gpus: tuple[str, ...], gpu_or_cpu: str, metric: Callable[..., None], tmp_path: Path
) -> None:
    """Compare work with and without tracing, excluding the time to start and write the trace."""
    size = side(speed_of(tensorflow, gpu_or_cpu, "tf32"), least=SIDE, most=MOST_SIDE) if gpus else SIDE
    wait = tensorflow.test.experimental.sync_devices if gpus else lambda: None
    work = Product(tensorflow, gpu_or_cpu, size)
    work.verify(prove(work, gpu_or_cpu, work.carriers))
    plain: list[float] = []
    traced: list[float] = []

    def calls() -> None:
        for _ in range(CALLS):
            work()

    for number in range(3):
        for times, folder in ((plain, None), (traced, tmp_path / str(number))):
            if folder:
                tensorflow.profiler.experimental.start(str(folder))
            try:
                plan = Plan(share_s / 12, rounds=2, least_rounds=2)
                measured = measure(calls, calls, plan=plan, synchronise=wait)
            finally:
                if folder:
                    tensorflow.profiler.experimental.stop()
            times.extend(measured.candidate_s + measured.baseline_s)
    cost = float(np.median(traced) / np.median(plain) - 1)
    metric("cost of tracing", 100 * cost, "%", device=gpu_or_cpu, about=f"for {CALLS} matrix products of {size}x{size}")
