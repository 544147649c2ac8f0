"""Input pipelines: compare tf.data with a plain Python generator, and each tf.data technique with a pipeline without it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.perf_tests.images import as_written, make_jpegs, prepare, tuned_and_naive
from tfgpu_doctor.perf_tests.networks import reconstructor
from tfgpu_doctor.perf_tests.processors import usable_processors
from tfgpu_doctor.perf_tests.runner import Variant

Hold = Callable[..., None]
Keep = Callable[..., None]
ELEMENTS, AT_ONCE = 4, 4
READ_S = 0.03  # time to read an element: a wait, as for a disk; far longer than the start of a pipeline
STEP_S = 0.03  # time of a training step
SMALL = 2048  # elements whose cost is almost only the call
PICTURES = 24
BATCHES, BATCH, BATCH_SIDE = 5, 32, 224  # a batch of float32 pictures: to assemble it takes about as long as the step
ASSEMBLE_STEP_S = 0.005


def read(number: np.int64) -> np.int64:
    """Read one element, slowly."""
    time.sleep(READ_S)
    return number


def slow_numbers() -> Iterator[int]:
    """A typical generator: it reads each element on request."""
    for number in range(2 * ELEMENTS):
        time.sleep(READ_S)
        yield number


def consume(elements: Any, step_s: float = 0.0) -> list[int]:
    """Iterate over a dataset like a training loop."""
    seen = []
    for element in elements:
        if step_s:
            time.sleep(step_s)
        seen.append(int(element))
    return seen


def in_order(seen: list[int]) -> None:
    assert seen == list(range(ELEMENTS))


def complete(seen: list[int]) -> None:
    assert sorted(seen) == list(range(ELEMENTS))


def skip_on_one_cpu() -> None:
    """Skip the test where only one CPU is available: a call that waits keeps its thread, and there is one per CPU.

    TensorFlow makes a thread for each CPU of the affinity. A quota takes none away, and calls that wait need no time.
    """
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("only one CPU is available: it makes one call at a time")


@pytest.fixture(scope="session")
def slow_read(tensorflow: Any) -> Callable[[Any], Any]:
    """A function that reads an element inside a pipeline; as many reads can wait at the same time as there are CPUs."""

    def call(number: Any) -> Any:
        return tensorflow.ensure_shape(tensorflow.numpy_function(read, [number], tensorflow.int64, stateful=False), ())

    return call


def variant(
    tf: Any, name: str, dataset: Any, *, step_s: float = 0.0, verify: Callable[[list[int]], None] = in_order,
    autotune: bool = False,
) -> Variant:  # fmt: skip
    written = as_written(tf, dataset, autotune=autotune)
    return Variant(name, lambda: consume(written, step_s), verify)


@pytest.mark.priority(1)
def test_parallel_map(compare: Hold, tensorflow: Any, slow_read: Any) -> None:
    """Compare reading several elements in parallel with reading them sequentially."""
    skip_on_one_cpu()
    numbers = tensorflow.data.Dataset.range(ELEMENTS)
    parallel = variant(tensorflow, "parallel map", numbers.map(slow_read, num_parallel_calls=AT_ONCE))
    compare(parallel, variant(tensorflow, "map", numbers.map(slow_read)), at_least=1.2)


@pytest.mark.priority(4)
def test_autotune(compare: Hold, tensorflow: Any, slow_read: Any) -> None:
    """Compare a map with AUTOTUNE, with which TensorFlow chooses the number of parallel calls, with a sequential map."""
    skip_on_one_cpu()
    numbers = tensorflow.data.Dataset.range(ELEMENTS)
    chosen = numbers.map(slow_read, num_parallel_calls=tensorflow.data.AUTOTUNE)
    compare(
        variant(tensorflow, "AUTOTUNE", chosen, autotune=True),
        variant(tensorflow, "map", numbers.map(slow_read), autotune=True),
        at_least=1.2,
    )


@pytest.mark.priority(4)
def test_threadpool(compare: Hold, tensorflow: Any, slow_read: Any) -> None:
    """Compare a thread for each read that waits with the default of one thread per CPU; the parallel calls are the same.

    More parallel calls alone change nothing: a call that waits keeps its thread.
    """
    at_once = AT_ONCE * len(os.sched_getaffinity(0))
    numbers = tensorflow.data.Dataset.range(at_once).map(slow_read, num_parallel_calls=at_once)
    options = tensorflow.data.Options()
    options.threading.private_threadpool_size = at_once

    def verify(seen: list[int]) -> None:
        assert seen == list(range(at_once))

    own = variant(tensorflow, f"private_threadpool_size={at_once}", numbers.with_options(options), verify=verify)
    compare(own, variant(tensorflow, "default threads", numbers, verify=verify), at_least=1.2)


@pytest.mark.priority(1)
def test_prefetch(compare: Hold, tensorflow: Any, slow_read: Any) -> None:
    """Compare reading ahead during the training step with waiting for each element."""
    plain = tensorflow.data.Dataset.range(ELEMENTS).map(slow_read)
    ahead = variant(tensorflow, "prefetch", plain.prefetch(AT_ONCE), step_s=STEP_S)
    compare(ahead, variant(tensorflow, "no prefetch", plain, step_s=STEP_S), at_least=1.1)


@pytest.mark.priority(5)
def test_prefetch_last(compare: Hold, tensorflow: Any) -> None:
    """Compare prefetch after batch with prefetch before it: only the former assembles a batch during the training step.

    Both read the same number of elements ahead.
    """
    tf, count = tensorflow, BATCHES * BATCH
    picture = np.random.default_rng(seed=7).random((BATCH_SIDE, BATCH_SIDE, 3), dtype=np.float32)
    numbered = tf.data.Dataset.zip((tf.data.Dataset.range(count), tf.data.Dataset.from_tensors(picture).repeat()))

    def side(name: str, dataset: Any) -> Variant:
        batches = as_written(tf, dataset)

        def call() -> tuple[list[Any], Any]:
            seen, last = [], None
            for batch in batches:
                time.sleep(ASSEMBLE_STEP_S)
                seen.append(batch[0])
                last = batch[1]
            return seen, last

        def verify(result: tuple[list[Any], Any]) -> None:
            numbers, pictures = result
            assert np.array_equal(np.concatenate(numbers), np.arange(count))
            assert np.array_equal(pictures, np.broadcast_to(picture, (BATCH, *picture.shape)))

        return Variant(name, call, verify)

    compare(
        side("batch, then prefetch", numbered.batch(BATCH).prefetch(1)),
        side("prefetch, then batch", numbered.prefetch(BATCH).batch(BATCH)),
    )


@pytest.mark.priority(1)
def test_cache_in_memory(compare: Hold, tensorflow: Any, slow_read: Any) -> None:
    """Compare an epoch from the cache in memory with reading it again."""
    plain = tensorflow.data.Dataset.range(ELEMENTS).map(slow_read)
    cached = variant(tensorflow, "cache", plain.cache())
    compare(cached, variant(tensorflow, "no cache", plain), at_least=1.2)


@pytest.mark.priority(3)
def test_cache_in_file(compare: Hold, tensorflow: Any, slow_read: Any, tmp_path: Path) -> None:
    """Compare an epoch from a local cache file with reading it again from the slow source."""
    plain = tensorflow.data.Dataset.range(ELEMENTS).map(slow_read)
    cached = variant(tensorflow, "cache in a file", plain.cache(str(tmp_path / "cache")))
    compare(cached, variant(tensorflow, "no cache", plain), at_least=1.2)


@pytest.mark.priority(2)
def test_generator(compare: Hold, tensorflow: Any, slow_read: Any) -> None:
    """Compare a tuned tf.data pipeline with a simple Python generator."""
    numbers = tensorflow.data.Dataset.range(2 * ELEMENTS)
    tuned = numbers.map(slow_read, num_parallel_calls=AT_ONCE).prefetch(AT_ONCE)
    step_s = STEP_S / 3  # shorter than reading, so the training waits for its input

    def verify(seen: list[int]) -> None:
        assert seen == list(range(2 * ELEMENTS))

    naive = Variant("Python generator", lambda: consume(slow_numbers(), step_s), verify)
    compare(variant(tensorflow, "tf.data", tuned, step_s=step_s, verify=verify), naive, at_least=1.2)


@pytest.mark.priority(3)
def test_interleave(compare: Hold, tensorflow: Any, slow_read: Any) -> None:
    """Compare reading several files in parallel with reading them sequentially."""
    skip_on_one_cpu()
    files = tensorflow.data.Dataset.range(AT_ONCE)
    share = ELEMENTS // AT_ONCE

    def elements_of(file: Any) -> Any:
        return tensorflow.data.Dataset.range(file * share, (file + 1) * share).map(slow_read)

    mixed = files.interleave(elements_of, cycle_length=AT_ONCE, num_parallel_calls=AT_ONCE, deterministic=False)
    at_once = variant(tensorflow, "interleave", mixed, verify=complete)
    compare(at_once, variant(tensorflow, "one file after the other", files.flat_map(elements_of)), at_least=1.2)


@pytest.mark.priority(3)
def test_vectorised_map(compare: Hold, tensorflow: Any) -> None:
    """Compare one call per batch with one call per element: for a cheap function the calls dominate the cost."""
    numbers = tensorflow.data.Dataset.range(SMALL)
    batches = {
        "batch, then map": as_written(tensorflow, numbers.batch(256).map(lambda number: number * 3 + 1)),
        "map, then batch": as_written(tensorflow, numbers.map(lambda number: number * 3 + 1).batch(256)),
    }

    def verify(result: Any) -> None:
        assert np.array_equal(result, np.arange(SMALL) * 3 + 1)

    def side(name: str) -> Variant:
        return Variant(name, lambda: np.concatenate(list(batches[name].as_numpy_iterator())), verify)

    compare(side("batch, then map"), side("map, then batch"), at_least=1.2)


@pytest.mark.priority(6)
def test_shuffle(share_s: float, tensorflow: Any, metric: Keep) -> None:
    """Check that shuffling keeps each element once, follows its seed and reshuffles each epoch; measure its cost."""
    numbers = tensorflow.data.Dataset.range(SMALL)
    plain = numbers.batch(SMALL)
    shuffled = numbers.shuffle(SMALL, seed=5).batch(SMALL)
    again = numbers.shuffle(SMALL, seed=5, reshuffle_each_iteration=False).batch(SMALL)

    def seen(dataset: Any) -> tuple[list[int], float]:
        started = time.perf_counter()
        elements = next(dataset.as_numpy_iterator())
        return elements.tolist(), time.perf_counter() - started

    first, second = seen(shuffled)[0], seen(shuffled)[0]
    assert sorted(first) == sorted(second) == list(range(SMALL))
    assert first != second, "the second epoch has the same order"
    assert first != list(range(SMALL)), "the elements are not shuffled"
    assert seen(again)[0] == seen(again)[0], "the same seed gives different orders"
    costs = [seen(shuffled)[1] - seen(plain)[1] for _ in range(15)]
    about = f"in addition to reading, with a buffer of {SMALL}"
    metric("shuffle", 1e6 * float(np.median(costs)) / SMALL, "us/element", device="CPU:0", about=about)


@pytest.fixture(scope="session")
def pictures(tensorflow: Any) -> Any:
    """Numbered JPEGs, as a dataset."""
    return tensorflow.data.Dataset.from_tensor_slices(make_jpegs(tensorflow, PICTURES)).enumerate()


@pytest.mark.priority(3)
def test_pictures(compare: Hold, tensorflow: Any, pictures: Any) -> None:
    """Compare decoding, resizing and augmenting JPEGs on all CPUs with doing so on one CPU."""
    if (processors := usable_processors()) < 2:
        pytest.skip("the quota or the affinity allows only one CPU: it decodes one picture at a time")
    ready = partial(prepare, tensorflow)
    exact = np.stack([ready(number, content).numpy() for number, content in pictures])

    def verify(seen: Any) -> None:
        assert np.allclose(np.stack(seen), exact, atol=1e-5)

    def side(name: str, at_once: int | None) -> Variant:
        prepared = as_written(tensorflow, pictures.map(ready, num_parallel_calls=at_once))
        return Variant(name, lambda: list(prepared.as_numpy_iterator()), verify)

    compare(side("parallel", processors), side("sequential", None))


@pytest.mark.priority(4, needs_s=8)
def test_fit(compare: Hold, tensorflow: Any, gpu_or_cpu: str, pictures: Any) -> None:
    """Compare training from JPEGs through a tuned pipeline with a generator; both use the same images."""
    tuned, naive = tuned_and_naive(tensorflow, pictures)
    exact = np.concatenate(list(naive.as_numpy_iterator()))

    def side(name: str, dataset: Any) -> Variant:
        targets = dataset.map(lambda batch: (batch, batch))
        with tensorflow.device(gpu_or_cpu):
            model = reconstructor(tensorflow)

        def call() -> float:
            with tensorflow.device(gpu_or_cpu):
                return float(model.fit(targets, shuffle=False, verbose=0).history["loss"][-1])

        def verify(loss: float) -> None:
            assert np.isfinite(loss)
            assert np.allclose(np.concatenate(list(dataset.as_numpy_iterator())), exact, atol=1e-5)

        return Variant(name, call, verify, gpu_or_cpu, ("Conv2D",))

    compare(side("tuned tf.data", tuned), side("Python generator", naive), at_least=1.1)


@pytest.mark.priority(5, needs_s=8)
def test_wait_for_input(share_s: float, tensorflow: Any, gpu_or_cpu: str, pictures: Any, metric: Keep) -> None:
    """Measure the share of a training step spent waiting for input, with and without a tuned pipeline."""
    names = ("tuned tf.data", "Python generator")
    for name, dataset in zip(names, tuned_and_naive(tensorflow, pictures), strict=True):
        with tensorflow.device(gpu_or_cpu):
            model = reconstructor(tensorflow)
            step_through(model, dataset)  # traces, and fills the cache
            seen = [step_through(model, dataset) for _ in range(3)]
        assert {count for _, _, count in seen} == {PICTURES}, f"{name} does not give each picture once in each epoch"
        wait_s, work_s = (sum(times) for times in list(zip(*seen, strict=True))[:2])
        share = 100 * wait_s / (wait_s + work_s)
        metric(
            f"wait for input, {name}",
            share,
            "%",
            device=gpu_or_cpu,
            limit=100.0,
            about="of the time of a training step",
        )


def step_through(model: Any, dataset: Any) -> tuple[float, float, int]:
    """Return the seconds spent waiting for batches, and training with them, and the number of pictures."""
    batches = iter(dataset)
    wait = work = 0.0
    count = 0
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        arrived = time.perf_counter()
        wait += arrived - started
        if batch is None:
            return wait, work, count
        count += len(batch)
        model.train_on_batch(batch, batch)  # returns the loss as a number, so the device has finished
        work += time.perf_counter() - arrived
