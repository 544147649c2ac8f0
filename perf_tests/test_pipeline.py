"""Input pipelines: tf.data against a plain Python generator, and each of its techniques against its absence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tfgpu_doctor.perf_tests.referee import Contender

ELEMENTS = 24
READ_S = 0.002  # what an element costs to read or decode: a wait, as for a disk
STEP_S = 0.002  # what a training step costs meanwhile


def slow_numbers() -> Iterator[int]:
    """A generator as people write it: each element is read when it is asked for."""
    for number in range(ELEMENTS):
        time.sleep(READ_S)
        yield number


def consume(dataset: Any, step_s: float = 0.0) -> list[int]:
    """Go through a dataset as a training loop does."""
    seen = []
    for element in dataset:
        if step_s:
            time.sleep(step_s)
        seen.append(int(element))
    return seen


def verify(seen: list[int]) -> None:
    assert seen == list(range(ELEMENTS))


def contender(name: str, dataset: Any, step_s: float = 0.0) -> Contender:
    return Contender(name, lambda: consume(dataset, step_s), verify)


@pytest.mark.telling(2)
def test_prefetch(duel: Callable[..., None], tensorflow: Any) -> None:
    """Reading ahead while the training step runs, against waiting for each element."""
    tf = tensorflow
    plain = tf.data.Dataset.from_generator(slow_numbers, output_signature=tf.TensorSpec((), tf.int64))
    duel(contender("prefetch", plain.prefetch(4), STEP_S), contender("no prefetch", plain, STEP_S), at_least=1.1)
