"""The search for the largest batch that the memory of a GPU can train."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfgpu_doctor.perf_tests.gpu_memory import gpu_memory
from tfgpu_doctor.perf_tests.networks import Training

MIB = 1 << 20
ALONE, BESIDE = 0.85, 0.5  # of the free memory, for the search for the largest batch: TensorFlow needs some, others too
MOST_BESIDE_MIB, UNKNOWN_MIB = 4096, 1024  # at most beside others; and if NVML does not report the free memory
WORTH = 1.05  # a batch that is less than 5 % larger is not tried
RETRIED = 0.9


def free_mib() -> float | None:
    """Return the free memory of the GPU that has the least; None if NVML does not report it."""
    return min((gpu.free for gpu in gpu_memory()), default=0) / MIB or None


def largest_batch(
    needed: Callable[[int], float], most_mib: float, exhausted: type[Exception], *, first: int, most: int
) -> tuple[int, float, bool]:
    """Return the largest batch that needs at most so much memory, what it needs (MiB), and whether memory ran out before.

    `needed` trains with a batch and returns its memory; it raises `exhausted` if there is not enough. It is called only
    with batches that fit if each sample needs as much as in the batch before.
    """
    batch, mib = first, needed(first)
    while True:
        larger = min(2 * batch, int(batch * most_mib / mib), most)
        if larger < WORTH * batch:
            return batch, mib, False
        try:
            took = needed(larger)
        except exhausted:
            return batch, mib, True
        if took > most_mib:
            return batch, mib, False
        batch, mib = larger, took


def most_for_search(free: float | None, *, alone: bool) -> float:
    """Return the memory (MiB) that the search may use: nearly all that is free, unless others may use the GPU."""
    if free is None:
        return UNKNOWN_MIB
    return ALONE * free if alone else min(BESIDE * free, MOST_BESIDE_MIB)


def trained_again(training: Training, batch: int, exhausted: type[Exception]) -> int:
    """Train with the batch that was found, and return it; a little less if the search has left the memory in pieces."""
    training.resize(batch)
    try:
        assert np.isfinite(float(training()))
        return batch
    except exhausted:
        training.resize(int(RETRIED * batch))
        assert np.isfinite(float(training())), "after the search, the largest batch cannot be trained"
        return training.batch
