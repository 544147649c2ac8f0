"""Files and processes: TFRecord files instead of many small files or of JPEGs, several files at once, several processes."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.bench import Plan, measure
from tfgpu_doctor.perf_tests.children import Child, ChildDied, children
from tfgpu_doctor.perf_tests.figures import interval
from tfgpu_doctor.perf_tests.images import INPUT_SIDE, as_written, make_jpegs
from tfgpu_doctor.perf_tests.placement import prove
from tfgpu_doctor.perf_tests.processors import usable_processors
from tfgpu_doctor.perf_tests.programs.load_elements import load
from tfgpu_doctor.perf_tests.runner import Variant

Hold = Callable[..., None]
Keep = Callable[..., None]
EXAMPLES, EXAMPLE_BYTES, BATCH = 512, 1024, 64
FILES, OPEN_S = 4, 0.025  # a wait for each file, as for one on another machine
PICTURES, PICTURE_BATCH = 24, 8
LOADED, MOST_PROCESSES = 24, 4  # elements that Python loads, and the processes that do it
SERVED, TURNS = 16, 3  # batches that are measured at a time, and how many times
SERVICE_S = 60.0  # for everything that is asked of a service


def write_examples(tf: Any, path: Path, contents: Iterable[bytes]) -> str:
    """Write a TFRecord file of tf.train.Examples with one field, as guides recommend; return its path."""
    train = tf.train
    with tf.io.TFRecordWriter(str(path)) as file:
        for content in contents:
            field = train.Feature(bytes_list=train.BytesList(value=[content]))
            example = train.Example(features=train.Features(feature={"content": field}))
            file.write(example.SerializeToString())
    return str(path)


def contents_of(tf: Any, examples: Any) -> Any:
    """Return the field of a batch of examples."""
    return tf.io.parse_example(examples, {"content": tf.io.FixedLenFeature((), tf.string)})["content"]


def made_up_contents(count: int = EXAMPLES) -> list[bytes]:
    numbers = np.random.default_rng(seed=13)
    return [numbers.bytes(EXAMPLE_BYTES) for _ in range(count)]


def side(tf: Any, name: str, dataset: Any, verify: Callable[[list[Any]], None]) -> Variant:
    """One side of a comparison: it reads the whole dataset."""
    written = as_written(tf, dataset)
    return Variant(name, lambda: list(written.as_numpy_iterator()), verify)


@pytest.mark.priority(3)
def test_one_file(compare: Hold, tensorflow: Any, tmp_path: Path) -> None:
    """Compare examples in one TFRecord file with a small file for each, both read and decoded one after the other.

    The files are on the local disk, and mostly still in memory: this measures the cost of opening each, not the disk.
    """
    tf, contents = tensorflow, made_up_contents()
    names = [tmp_path / f"{number}.bin" for number in range(len(contents))]
    for name, content in zip(names, contents, strict=True):
        name.write_bytes(content)
    record = write_examples(tf, tmp_path / "all.tfrecord", contents)

    def verify(batches: list[Any]) -> None:
        assert [content for batch in batches for content in batch] == contents

    small = tf.data.Dataset.from_tensor_slices([str(name) for name in names]).map(tf.io.read_file).batch(BATCH)
    examples = tf.data.TFRecordDataset(record).batch(BATCH).map(lambda batch: contents_of(tf, batch))
    compare(side(tf, "TFRecord", examples, verify), side(tf, "small files", small, verify), at_least=1.1)


@pytest.fixture
def parts(tensorflow: Any, tmp_path: Path) -> tuple[list[str], list[bytes]]:
    """The paths of several TFRecord files, and the contents of their examples."""
    contents = made_up_contents()
    share = -(-len(contents) // FILES)
    starts = range(0, len(contents), share)
    paths = [write_examples(tensorflow, tmp_path / f"{at}.tfrecord", contents[at : at + share]) for at in starts]
    return paths, contents


def read_parts(
    tf: Any, parts: tuple[list[str], list[bytes]], open_file: Callable[[Any], Any]
) -> tuple[Variant, Variant]:
    """Read several files at once, with interleave, or one after the other."""
    paths, contents = tf.data.Dataset.from_tensor_slices(parts[0]), sorted(parts[1])
    options = tf.data.Options()
    options.threading.private_threadpool_size = FILES

    def verify(batches: list[Any]) -> None:
        assert sorted(content for batch in batches for content in batch) == contents

    def decoded(dataset: Any) -> Any:
        return dataset.batch(BATCH).map(lambda batch: contents_of(tf, batch)).with_options(options)

    at_once = paths.interleave(open_file, cycle_length=FILES, num_parallel_calls=FILES, deterministic=False)
    return (
        side(tf, "interleave", decoded(at_once), verify),
        side(tf, "one file after the other", decoded(paths.flat_map(open_file)), verify),
    )


@pytest.mark.priority(4)
def test_slow_files(compare: Hold, tensorflow: Any, parts: tuple[list[str], list[bytes]]) -> None:
    """Compare opening several files at once with opening them one after the other, where each file must be waited for.

    Both sides have a thread for each file: a wait keeps its thread, and by default there is one thread per CPU.
    """
    tf = tensorflow

    def wait(path: bytes) -> bytes:
        time.sleep(OPEN_S)
        return path

    def slow(path: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(wait, [path], tf.string, stateful=False), ())

    def open_file(path: Any) -> Any:
        # A dataset waits when its first element is read. What stands in this function itself runs for one file at a time.
        return tf.data.Dataset.from_tensors(path).map(slow).flat_map(tf.data.TFRecordDataset)

    compare(*read_parts(tf, parts, open_file), at_least=1.2)


@pytest.mark.priority(6)
def test_local_files(share_s: float, tensorflow: Any, parts: tuple[list[str], list[bytes]], metric: Keep) -> None:
    """Measure the same with files on the local disk that are still in memory: nothing has to be waited for."""
    at_once, in_turn = read_parts(tensorflow, parts, tensorflow.data.TFRecordDataset)
    for each in (at_once, in_turn):
        each.verify(prove(each.call, "CPU:0"))
    measured = measure(at_once.call, in_turn.call, plan=Plan(share_s))
    metric(
        "interleave of local files", measured.ratio.value, "times as fast as one after the other", device="CPU:0",
        about=f"{FILES} files that are in memory; {interval(measured)}",
    )  # fmt: skip


def shrink(tf: Any, content: Any) -> Any:
    """Decode and resize a JPEG."""
    picture = tf.cast(tf.io.decode_jpeg(content, channels=3), tf.float32) / 255.0
    return tf.image.resize(picture, (INPUT_SIDE, INPUT_SIDE), antialias=True)


@pytest.mark.priority(3)
def test_stored_pictures(compare: Hold, tensorflow: Any, tmp_path: Path) -> None:
    """Compare pictures that were decoded, resized and stored once, as 8-bit numbers, with decoding JPEGs in each epoch."""
    tf, jpegs = tensorflow, make_jpegs(tensorflow, PICTURES)
    with tf.device("CPU:0"):
        exact = np.stack([shrink(tf, content) for content in jpegs])
    ready = [picture.tobytes() for picture in np.rint(255 * exact).astype(np.uint8)]

    def unpack(batch: Any) -> Any:
        shape = (-1, INPUT_SIDE, INPUT_SIDE, 3)
        return tf.cast(tf.reshape(tf.io.decode_raw(contents_of(tf, batch), tf.uint8), shape), tf.float32) / 255.0

    def verify(batches: list[Any]) -> None:
        assert np.allclose(np.concatenate(batches), exact, rtol=0, atol=0.501 / 255)

    stored = tf.data.TFRecordDataset(write_examples(tf, tmp_path / "ready.tfrecord", ready))
    encoded = tf.data.TFRecordDataset(write_examples(tf, tmp_path / "jpegs.tfrecord", jpegs))
    compare(
        side(tf, "stored pictures", stored.batch(PICTURE_BATCH).map(unpack), verify),
        side(tf, "JPEGs", decoded_jpegs(tf, encoded).batch(PICTURE_BATCH), verify),
        at_least=1.2,
    )


def decoded_jpegs(tf: Any, examples: Any, at_once: int | None = None) -> Any:
    """Decode and resize JPEGs of any sizes, which therefore cannot be decoded in batches."""
    return examples.map(lambda each: shrink(tf, contents_of(tf, each[None])[0]), num_parallel_calls=at_once)


@pytest.mark.priority(4, needs_s=8)
def test_processes(compare: Hold, tensorflow: Any) -> None:
    """Compare a map whose Python function hands each element to one of several processes with one that computes itself.

    The function needs Python's lock. Parallel calls of it in one process are therefore no faster than one at a time.
    """
    if usable_processors() < 2:
        pytest.skip("the quota or the affinity allows only one CPU: processes cannot work in parallel")
    tf, at_once = tensorflow, min(usable_processors(), MOST_PROCESSES)
    exact = [load(number) for number in range(LOADED)]

    def variant(name: str, function: Callable[[int], list[int]]) -> Variant:
        def call(number: Any) -> Any:
            return tf.numpy_function(lambda each: np.array(function(int(each))), [number], tf.int64, stateful=False)

        def verify(seen: list[Any]) -> None:
            assert np.array_equal(seen, exact)

        return side(tf, name, tf.data.Dataset.range(LOADED).map(call, num_parallel_calls=at_once), verify)

    with children("load_elements", *[({}, {})] * at_once) as started:
        free: queue.SimpleQueue[Child] = queue.SimpleQueue()
        for child in started:
            free.put(child)

        def load_elsewhere(number: int) -> list[int]:
            child = free.get()
            try:
                counts: list[int] = child.ask(str(number)).values["counts"]
            finally:
                free.put(child)
            return counts

        compare(variant(f"{at_once} processes", load_elsewhere), variant("1 process", load), at_least=1.1)


@pytest.mark.priority(7, needs_s=25)
def test_data_service(share_s: float, tensorflow: Any, tmp_path: Path, metric: Keep) -> None:
    """Measure batches from a tf.data service in another process, relative to the same pipeline in this process.

    On one machine both have the same CPUs, and the service has to hand over the batches. Check also that the service
    rejects a Python function: it does not help against Python's lock.
    """
    tf = tensorflow
    encoded = tf.data.TFRecordDataset(write_examples(tf, tmp_path / "jpegs.tfrecord", make_jpegs(tf, PICTURES)))
    pictures = decoded_jpegs(tf, encoded.repeat(), tf.data.AUTOTUNE)
    here = pictures.batch(PICTURE_BATCH).take(1 + SERVED).prefetch(tf.data.AUTOTUNE)
    in_python = tf.data.Dataset.range(4).map(lambda each: tf.numpy_function(lambda one: one, [each], tf.int64))
    try:
        with children("serve_data", ({}, {"CUDA_VISIBLE_DEVICES": "-1"})) as (service,):
            whole = tf.data.experimental.service.ShardingPolicy.OFF
            serve = tf.data.experimental.service.distribute(whole, service.ready["target"])
            rates = within(SERVICE_S, lambda: rates_of(here.apply(serve), here))
            why = within(SERVICE_S, lambda: why_rejected(tf, in_python.apply(serve)))
    except (ChildDied, TimeoutError) as error:
        pytest.fail(f"the tf.data service gave no data: {error}")
    ratio = float(np.median([served / own for served, own in rates]))
    metric(
        "tf.data service", ratio, "times as fast as this process", device="CPU:0",
        about="a worker in another process on the same CPUs; it decodes JPEGs",
    )  # fmt: skip
    assert "callback" in why, f"the service ran a Python function of another process, or failed otherwise: {why}"


def rates_of(served: Any, own: Any) -> list[tuple[float, float]]:
    """Return the batches per second of both datasets, in a few turns, and check that both give the same."""
    found = []
    for _ in range(TURNS):
        (rate, batches), (own_rate, due) = rate_of(served), rate_of(own)
        assert np.allclose(batches, due, atol=1e-5), "the service gives other batches"
        found.append((rate, own_rate))
    return found


def rate_of(dataset: Any) -> tuple[float, Sequence[Any]]:
    """Return the batches per second after the first, and all batches. No batch is made before it starts."""
    batches = iter(dataset.as_numpy_iterator())
    seen = [next(batches)]
    started = time.perf_counter()
    seen += itertools.islice(batches, SERVED)
    return SERVED / (time.perf_counter() - started), seen


def why_rejected(tf: Any, dataset: Any) -> str:
    """Return why a dataset cannot be read; empty if it can."""
    try:
        list(dataset.as_numpy_iterator())
    except tf.errors.OpError as error:
        return str(error)
    return ""


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """Return the result of a call. Raises TimeoutError if it takes longer: the call is then left behind."""
    outcome: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            outcome.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if error:
        raise error
    return result
