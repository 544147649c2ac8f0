"""Train a small CNN and a small transformer, and compare the GPU with the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.references import Conditions, compared
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.perf_tests.budget import MOST_S
from tfgpu_doctor.perf_tests.ceilings import model_of
from tfgpu_doctor.perf_tests.images import make_jpegs
from tfgpu_doctor.perf_tests.networks import CARRIERS, CLASSES, NETWORKS, Training, why_no_tensor_cores
from tfgpu_doctor.perf_tests.placement import prove
from tfgpu_doctor.perf_tests.processors import usable_processors
from tfgpu_doctor.perf_tests.published import (
    CNN,
    INPUT,
    MEASUREMENTS,
    STORAGE,
    TRAINED,
    TRANSFORMER,
    PublishedTraining,
    Sizes,
    fitting,
)
from tfgpu_doctor.perf_tests.runner import Variant
from tfgpu_doctor.perf_tests.storage import Cached, read_past_cache, write_file

BATCH, LARGE_BATCH = 64, 1024  # the latter is enough work for a GPU
STEPS = 40
COMPARED, AGREE = (
    5,
    0.02,
)  # steps before rounding errors grow; the relative difference allowed between losses
# Of the published trainings. The largest batch that fits is taken; the last ones fit GPUs with 4 GB.
SIZES = Sizes()
BATCHES = {CNN: (256, 128, 64, 32, 16), TRANSFORMER: (256, 128, 64, 32, 16)}
FEWEST_STEPS, WARM_UP = 10, 5
LONG_WARM_UP, LONG_STEPS, LONG_S = 200, 500, 240.0  # as the published ones were measured, but no longer than this
STORED, READS = 256 << 20, 3  # bytes of the file, and how often it is read
PICTURES, PICTURE_SIDE, INPUT_SIDE, INPUT_BATCH = 64, 500, 224, 32  # those of ImageNet are about as large
_KINDS = pytest.mark.parametrize("kind", list(NETWORKS))


@pytest.mark.priority(2)
@_KINDS
def test_step(compare: Callable[..., None], tensorflow: Any, gpu: str, kind: str) -> None:
    """Compare a training step on the GPU with the CPU."""
    due = Training(tensorflow, kind, "CPU:0", LARGE_BATCH).losses(1)[0]

    def side(device: str) -> Variant:
        training = Training(tensorflow, kind, device, LARGE_BATCH)

        def verify(loss: Any) -> None:
            assert np.isclose(float(loss), due, rtol=AGREE), f"the loss is {float(loss)}, but {due} on the CPU"

        return Variant(f"{kind} on {device}", training, verify, device, CARRIERS[kind])

    compare(side(gpu), side("CPU:0"))


@pytest.mark.priority(4, needs_s=8)
@pytest.mark.usefixtures("gpu_or_cpu")  # skips it where others use a GPU
@_KINDS
def test_learning(
    share_s: float, tensorflow: Any, gpus: tuple[str, ...], metric: Callable[..., None], kind: str
) -> None:
    """Check that the loss decreases on every device and is equal in the first steps; measure time per step and samples/s."""
    runs = {}
    for device in ("CPU:0", *gpus):
        prove(Training(tensorflow, kind, device, BATCH), device, CARRIERS[kind])
        training = Training(tensorflow, kind, device, BATCH)
        first = training.losses(1)  # traces
        started = time.perf_counter()
        runs[device] = first + training.losses(STEPS - 1)
        step_s = (time.perf_counter() - started) / (STEPS - 1)
        metric(f"step of the {kind}", 1e3 * step_s, "ms", device=device, about=f"a batch of {BATCH}")
        metric(f"training of the {kind}", BATCH / step_s, "samples/s", device=device, about=f"a batch of {BATCH}")
        metric(
            f"loss of the {kind}",
            runs[device][-1],
            "",
            device=device,
            about=f"after {STEPS} steps, from {first[0]:.3g}",
        )
    for device, losses in runs.items():
        assert np.all(np.isfinite(losses))
        assert losses[-1] < 0.7 * np.log(CLASSES), (
            f"the training on {device} does not converge: the final loss is {losses[-1]:.3g}"
        )
        assert np.allclose(losses[:COMPARED], runs["CPU:0"][:COMPARED], rtol=AGREE), (
            f"the first losses on {device} differ from those on the CPU"
        )


@pytest.mark.priority(8, needs_s=60)
@pytest.mark.parametrize("name", TRAINED, ids=["cnn", "transformer"])
def test_published(share_s: float, tensorflow: Any, gpu: str, metric: Callable[..., None], name: str) -> None:
    """Measure training of ResNet-50 v1.5 and of BERT's layers with generated data, mixed precision and XLA.

    With a budget of `full`, as many steps as the published trainings were measured with; else those of a few seconds.
    """
    policy = "float32" if why_no_tensor_cores(tensorflow, gpu, "float16") else "mixed_float16"

    def build(batch: int) -> PublishedTraining:
        return PublishedTraining(tensorflow, name, gpu, batch, SIZES, policy=policy, xla=True)

    training = fitting(tensorflow, BATCHES[name], build)
    training.prove()
    step_s, steps, loss = timed(training, share_s)
    assert np.isfinite(loss), f"the loss is {loss} after {steps} steps"
    context = Conditions(precision=policy, batch=training.batch, xla=True, data="synthetic")
    value = training.batch / step_s
    model = model_of(tensorflow, gpu)
    told = compared(read_knowledge(), model.name if model else "", MEASUREMENTS[name], value, context)
    about = f"{MEASUREMENTS[name]}, batch {training.batch}, {policy}, XLA, generated data, {steps} steps; {told}"
    metric(name, value, "samples/s", device=gpu, about=about)


def timed(training: PublishedTraining, share_s: float) -> tuple[float, int, float]:
    """Return the seconds of a step, the number of steps, and the last loss; every step has finished."""
    long = share_s >= MOST_S
    for _ in range(LONG_WARM_UP if long else WARM_UP):
        last = training()
    float(last)
    most, at_most_s = (LONG_STEPS, LONG_S) if long else (LONG_STEPS, share_s)
    started, steps = time.perf_counter(), 0
    while steps < most and (steps < FEWEST_STEPS or time.perf_counter() - started < at_most_s):
        for _ in range(FEWEST_STEPS):
            last = training()
        loss = float(last)
        steps += FEWEST_STEPS
    return (time.perf_counter() - started) / steps, steps, loss


@pytest.mark.priority(7)
def test_storage(share_s: float, metric: Callable[..., None], tmp_path: Path) -> None:
    """Measure reading a large file past the cache, in the folder for temporary files; TMPDIR chooses another."""
    file = tmp_path / "stored"
    write_file(file, STORED)
    try:
        read = [read_past_cache(file) for _ in range(READS)]
    except Cached as error:
        pytest.skip(f"{tmp_path.parent} cannot be read past its cache ({error}): set TMPDIR to a folder on the storage")
    assert {count for count, _ in read} == {STORED}
    about = f"one file of {STORED >> 20} MiB, read past the cache, the median of {READS}"
    metric(STORAGE, STORED / float(np.median([took_s for _, took_s in read])) / 1e9, "GB/s", about=about)


@pytest.mark.priority(7)
def test_input(share_s: float, tensorflow: Any, metric: Callable[..., None]) -> None:
    """Measure how many pictures the CPUs decode, crop and resize for a network; a GPU that trains faster waits for them."""
    tf, at_once = tensorflow, tensorflow.data.AUTOTUNE

    def prepared(content: Any) -> Any:
        picture = tf.io.decode_jpeg(content, channels=3)
        cropped = tf.image.random_crop(picture, (PICTURE_SIDE * 7 // 8, PICTURE_SIDE * 7 // 8, 3))
        return tf.image.resize(tf.image.random_flip_left_right(cropped), (INPUT_SIDE, INPUT_SIDE))

    jpegs = tf.data.Dataset.from_tensor_slices(make_jpegs(tf, PICTURES, PICTURE_SIDE))
    batches = iter(jpegs.repeat().map(prepared, num_parallel_calls=at_once).batch(INPUT_BATCH).prefetch(at_once))
    assert next(batches).shape == (INPUT_BATCH, INPUT_SIDE, INPUT_SIDE, 3)
    next(batches)  # the first ones lay in the buffer
    began, seen = time.perf_counter(), 0
    while seen < 2 or time.perf_counter() - began < share_s:
        next(batches)
        seen += 1
    rate = seen * INPUT_BATCH / (time.perf_counter() - began)
    about = f"JPEGs of {PICTURE_SIDE}x{PICTURE_SIDE} to {INPUT_SIDE}x{INPUT_SIDE}, {amount(usable_processors(), 'CPU')}"
    metric(INPUT, rate, "samples/s", device="CPU:0", about=about)
