"""MultiWorkerMirroredStrategy: gradients equal to one worker's, all-reduce, scaling, and detection of a killed worker."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tfgpu_doctor.perf_tests.children import Child, ChildDied
from tfgpu_doctor.perf_tests.clusters import BadCluster, Workers, job_around, workers
from tfgpu_doctor.perf_tests.fixtures import admit_second

Keep = Callable[..., None]
BATCH = 64
SIZES = {"65536": "64 KiB", "1048576": "1 MiB", "16777216": "16 MiB"}  # bytes to display name
NAMED_WITHIN_S = 30.0
_WORKS_S = 2.0  # before one is killed


# The cluster of two comes first, because a short budget ends before four workers have started.
BY_COUNT = pytest.mark.parametrize(
    "count",
    [
        pytest.param(2, marks=pytest.mark.priority(7, needs_s=40)),
        pytest.param(4, marks=pytest.mark.priority(8, needs_s=60)),
    ],
)


@pytest.fixture(scope="module")
def free_gpus(request: pytest.FixtureRequest, gpus: tuple[str, ...], exclusive_gpus: dict[str, str]) -> int:
    """How many GPUs the workers may use, none where others use one, or where one admits the process of the tests alone.

    What the workers check a CPU computes as well.
    """
    try:
        request.getfixturevalue("gpu_or_cpu")
    except pytest.skip.Exception:
        return 0
    return 0 if exclusive_gpus else len(gpus)


@pytest.fixture(scope="module")
def cluster(free_gpus: int, exclusive_gpus: dict[str, str]) -> Iterator[Callable[[int], Workers]]:
    """A function that returns a cluster of `count` workers, one cluster at a time; in a job across machines, the job's."""
    with contextlib.ExitStack() as open_:

        @functools.cache
        def start(count: int) -> Workers | str:
            open_.close()
            try:
                if job := job_around(os.environ):  # a worker of a job uses all GPUs of its machine
                    admit_second(exclusive_gpus)
                return open_.enter_context(workers(count, job, free_gpus))
            except (BadCluster, ChildDied) as error:
                return f"a cluster of {count} workers did not start: {error}"

        def get(count: int) -> Workers:
            if count != 2 and _in_a_job():
                pytest.skip("the workers belong to a job, and its cluster is measured only once")
            started = start(count)
            if isinstance(started, str):
                pytest.fail(started)
            return started

        yield get


def _in_a_job() -> bool:
    try:
        return job_around(os.environ) is not None
    except BadCluster:
        return True


@BY_COUNT
def test_gradients(share_s: float, cluster: Callable[[int], Workers], metric: Keep, count: int) -> None:
    """Check that the workers' gradients add up to one worker's, and that each worker gets its share of the batch.

    All numbers are small integers, and the batch is a power of two: every product and sum is exact in float32, in any
    order, so the gradients must be equal.
    """
    started = cluster(count)
    seen = started.ask("check")
    apart = max(each["apart"] / each["largest"] for each in seen)
    metric(f"gradient of {started.count} workers apart from one's", apart, "of its size", about=started.about)
    assert started.replicas >= started.count
    if BATCH % started.replicas == 0:
        assert {batch for each in seen for batch in each["batches"]} == {BATCH // started.replicas}
    assert all(each["largest"] > 1 for each in seen)
    assert apart == 0


@BY_COUNT
def test_all_reduce(share_s: float, cluster: Callable[[int], Workers], metric: Keep, count: int) -> None:
    """Check that an all-reduce gives the sum on every worker, and measure its speed by message size."""
    started = cluster(count)
    seen = started.ask("all-reduce")
    for size, said in SIZES.items():
        slowest_s = max(each["seconds"][size] for each in seen)
        rate = int(size) / slowest_s / 1e9
        name = f"all-reduce of {said}, {started.count} workers"
        metric(name, rate, "GB/s", device=started.kind, about=started.about)
        placed = [each["devices"][size] for each in seen]
        assert all(len(set(each)) == len(each) for each in placed), f"the values to sum lie on {placed}"


@BY_COUNT
def test_scaling(share_s: float, cluster: Callable[[int], Workers], metric: Keep, count: int) -> None:
    """Weak scaling: compare the step time of all workers, each with its own batch, with that of one worker alone."""
    started = cluster(count)
    alone_s = started.here[0].ask("alone").values["seconds"]
    together_s = max(each["seconds"] for each in started.ask("together"))
    times = started.count * alone_s / together_s
    name = f"weak scaling, {started.count} workers"
    limit = None if started.share_a_processor else float(started.count)
    metric(name, times, "times one worker", device=started.kind, limit=limit, about=started.about)


@pytest.mark.priority(8, needs_s=60)
def test_killed_worker(share_s: float, free_gpus: int, metric: Keep) -> None:
    """Check that all other workers name a killed worker in time."""
    if _in_a_job():
        pytest.skip("the workers belong to a job, so the test does not kill any")
    with workers(3, gpus=free_gpus) as started:
        gone, survivors = started.here[1], [started.here[0], started.here[2]]
        killed_at: list[float] = []
        killer = threading.Timer(_WORKS_S, lambda: _kill(int(gone.ready["pid"]), killed_at))
        killer.start()
        asked = threading.Thread(target=_ask_in_vain, args=(gone,))
        asked.start()
        seen = Workers(survivors, 3, spans=False).ask("until trouble")
        asked.join()
        named_after_s = time.monotonic() - killed_at[0]
    metric("a killed worker is named after", named_after_s, "s", about=started.about)
    assert [each["gone"] for each in seen] == [[1], [1]]
    assert named_after_s < NAMED_WITHIN_S


def _kill(pid: int, at: list[float]) -> None:
    at.append(time.monotonic())
    os.kill(pid, signal.SIGKILL)


def _ask_in_vain(child: Child) -> None:
    with contextlib.suppress(ChildDied):
        child.ask("until trouble")
