"""How much of a suite ran, and on which of the machine's GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tfgpu_doctor.accept.vocabulary import measured_names
from tfgpu_doctor.bench import IN_USE, TIME_ENDED
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric

# Those of which more than half of the tests use a GPU where there is one; tests/accept/test_extent_of_suites.py counts them.
ON_GPUS = frozenset({
    "compression", "device_placement", "graph_execution", "inference", "memory_growth", "mirrored_strategy",
    "mixed_precision", "model_architecture", "numerics", "optimization", "pictures", "profiler", "training",
})  # fmt: skip
CUT_OFF = "ended while it ran"  # no fault: earlier doctors recorded such a test as a problem
_GPU = re.compile(r"GPU:(\d+)$")
_OF_COPIES = ("GB/s", "MB/s")
_MOST_REASONS = 2  # more do not fit into a row


def left_out(bench: Bench, suite: str) -> dict[str, str]:
    """Return the tests of a suite that measured nothing, with the reason; those that are a fault have none here."""
    cut = dict(each.split(": ", 1) for each in bench.problems if each.endswith(CUT_OFF) and ": " in each)
    return {test: why for test, why in {**bench.skipped, **cut}.items() if f"test_{suite}.py::" in test}


def words_of(left: dict[str, str]) -> Iterator[str]:
    """Yield how many tests had no time, and how many were skipped for each of the other reasons."""
    waiting = sum(map(_is_late, left.values()))
    if waiting:
        yield f"{amount(waiting, 'test')} had no time"
    others = [why for why in left.values() if not _is_late(why)]
    reasons = sorted(dict.fromkeys(others), key=others.count, reverse=True)
    for why in reasons[:_MOST_REASONS]:
        yield f"{_skipped(others.count(why))}: {why}"
    if rest := sum(map(others.count, reasons[_MOST_REASONS:])):
        yield f"{_skipped(rest)} for other reasons"


def _skipped(count: int) -> str:
    return f"{amount(count, 'test')} {'was' if count == 1 else 'were'} skipped"


def _is_late(why: str) -> bool:
    return why.startswith(TIME_ENDED)


def is_busy(why: str) -> bool:
    """Return whether the reason of a skipped test is that others use a GPU: then the test uses one."""
    return why.startswith(IN_USE)


def works_on_gpus(bench: Bench, suite: str) -> bool:
    """Return whether a suite is one of GPUs. Of a user's own, only a test that was skipped for its GPU says so."""
    own = suite not in measured_names()[0]
    return suite in ON_GPUS or (own and any(map(is_busy, left_out(bench, suite).values())))


def ran_on_a_gpu(bench: Bench, suite: str) -> bool:
    """Return whether something of the suite was measured on a GPU."""
    compared = any(each.suite == suite and each.ratio and each.on_gpu for each in bench.comparisons)
    return compared or any("GPU" in each for each in devices_of(bench, suite))


def devices_of(bench: Bench, suite: str) -> set[str]:
    """Return the devices on which something of the suite was measured."""
    found = {each.device for each in bench.metrics if each.suite == suite}
    return found.union(*(ran_on(each) for each in bench.comparisons if each.suite == suite and each.ratio))


def ran_on(comparison: Comparison) -> set[str]:
    """Return the devices that ran the candidate of a comparison."""
    side = comparison.candidate
    return {comparison.device, *((side.device, *side.also) if side else ())}


def among(devices: Iterable[str], listed: int) -> str:
    """Return `GPU:0 of 8` or `2 of 8 GPUs` if these are some of the GPUs; empty if they are all, or not told apart."""
    names = {found[0] for each in devices if (found := _GPU.search(each))}
    if any(each.endswith("GPU") for each in devices) or not 0 < len(names) < listed:
        return ""
    return f"{names.pop()} of {listed}" if len(names) == 1 else f"{len(names)} of {listed} GPUs"


def where(bench: Bench, suite: str, listed: int) -> str:
    """Return on which part of the machine the suite measured; empty if on all GPUs, or if that is not known."""
    devices = devices_of(bench, suite)
    if listed and devices and all(each.startswith("CPU") for each in devices):
        return "the CPU alone"
    return among(devices, listed)


def on_devices(metrics: Sequence[Metric], said: Sequence[str], listed: int, beside: Sequence[str] = ()) -> str:
    """Return what was said of each metric, with its device, and of how many GPUs these are; `beside`: what follows each."""
    place = among((each.device for each in metrics), listed)
    alone = place.startswith("GPU:")
    words = []
    for number, (each, value) in enumerate(zip(metrics, said, strict=True)):
        of = f" of {listed}" if alone and _GPU.search(each.device) else ""
        words.append(
            value + (f" on {each.device}{of}" if each.device else "") + (f", {beside[number]}" if beside else "")
        )
    return ", ".join(words) + (f"; {place}" if place and not alone else "")


def gpus_behind(metrics: Iterable[Metric]) -> list[int]:
    """Return TensorFlow's index of the GPU behind each metric that depends on how fast one computes: a copy does not."""
    found = (_GPU.search(each.device) for each in metrics if each.unit not in _OF_COPIES)
    return [int(each[1]) for each in found if each]
