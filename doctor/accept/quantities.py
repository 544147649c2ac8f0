"""What a profile can require of the stress test, by name: the unit, and the values of each GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tfgpu_doctor.accept.terms import PRECISIONS
from tfgpu_doctor.knowledge.references import MATMUL, number
from tfgpu_doctor.model.facts.stress import StressedGpu, StressTest, Transfer

# Both 16-bit formats have the same peak.
PEAKS: Mapping[str, str] = {"float32": "fp32", "tf32": "tf32", "float16": "fp16", "bfloat16": "fp16"}
Values = Mapping[str, float]  # by place: "GPU 0", "GPU 0 to GPU 1"
_HOST, _PINNED = "host", "pinned"
_Round = tuple[int, float]  # its number from 1 on, and the value in it


@dataclass(frozen=True)
class Quantity:
    """A value that the stress test measures on each GPU; `reference` is its name in the table of references.

    Either `rounds` gives the values of a GPU in the rounds of the test, or `copies` one value of each place.
    """

    title: str
    unit: str
    missing: str  # why a GPU has no value
    reference: str = ""
    precision: str = ""
    of_pairs: bool = False
    rounds: Callable[[StressedGpu], Sequence[_Round]] | None = None
    copies: Callable[[StressTest], Values] | None = None

    def values(self, stress: StressTest, *, highest: bool = False) -> Values | str:
        """Return the value of every tested GPU, or why one has none; of pairs, of those that were copied between.

        `highest`: for an upper limit, that of all rounds; else the one that a GPU keeps up.
        """
        found = self._read(stress, highest=highest)
        errors = [gpu.error for gpu in stress.tested if gpu.error and f"GPU {gpu.index}" not in found]
        places = _pairs(stress) if self.of_pairs else [f"GPU {gpu.index}" for gpu in stress.tested]
        lacking = [f"{place}: {self.missing}" for place in places if place not in found]
        if self.of_pairs and not lacking:
            lacking = _left_out(stress, found)
        if lacking or not found:
            return "; ".join(errors or lacking) or self.missing
        return found

    def _read(self, stress: StressTest, *, highest: bool) -> Values:
        if self.copies:
            return self.copies(stress)
        by_gpu = {f"GPU {gpu.index}": self.rounds(gpu) for gpu in stress.tested if self.rounds}
        choose = _highest if highest else _lasting
        return {place: choose(found) for place, found in by_gpu.items() if found}

    def extent(self, stress: StressTest, *, highest: bool = False) -> str:
        """Return which rounds, or which part of the routes, the values come from; empty if there are no others."""
        if self.of_pairs:
            return _routes(stress, self._read(stress, highest=highest))
        rounds = [found for gpu in stress.tested if self.rounds and (found := self.rounds(gpu))]
        if max(map(len, rounds), default=0) < 2:
            return ""
        if highest:
            return "the highest of all rounds"
        spans = {tuple(number for number, _ in _later_half(found)) for found in rounds}
        return _span(*spans) if len(spans) == 1 else "each the median of the later half of its rounds"


def _span(numbers: Sequence[int]) -> str:
    return f"round {numbers[0]}" if len(numbers) == 1 else f"the median of rounds {numbers[0]} to {numbers[-1]}"


def _later_half(rounds: Sequence[_Round]) -> Sequence[_Round]:
    """Return the rounds in which a GPU is as warm, and as limited by its power, as in long work; of one round, that one."""
    return rounds[len(rounds) // 2 :]


def _lasting(rounds: Sequence[_Round]) -> float:
    return statistics.median(value for _, value in _later_half(rounds))


def _highest(rounds: Sequence[_Round]) -> float:
    return max(value for _, value in rounds)


def speed_in(gpu: StressedGpu, precision: str) -> float | None:
    """Return the speed (TFLOP/s) that a minimum is compared with; None if no product completed."""
    found = _speeds(gpu, precision)
    return _lasting(found) if found else None


def _speeds(gpu: StressedGpu, precision: str) -> list[_Round]:
    """Return the best speed of the products that completed, in each round that has any."""
    found = []
    for place, each in enumerate(gpu.rounds, 1):
        done = (speed for speed in each.speeds if speed.precision == precision and speed.finite and not speed.error)
        if timed := [speed.teraflops for speed in done if speed.teraflops and speed.iterations]:
            found.append((place, max(timed)))
    return found


def _power(gpu: StressedGpu) -> list[_Round]:
    readings = ((number, each.readings) for number, each in enumerate(gpu.rounds, 1))
    return [(number, each.power_w) for number, each in readings if each and each.samples and each.power_w is not None]


def _copies(keep: Callable[[Transfer], bool], place: Callable[[Transfer], str]) -> Callable[[StressTest], Values]:
    def read(stress: StressTest) -> Values:
        found: dict[str, float] = {}
        for each in stress.transfers:
            if keep(each) and each.gb_per_s and each.copies and not (each.error or each.mismatches):
                found[place(each)] = max(each.gb_per_s, found.get(place(each), 0.0))
        return found

    return read


def _pairs(stress: StressTest) -> list[str]:
    """Return the pairs of GPUs between which copies were tried, in both directions."""
    return [_pair(each) for each in stress.transfers if _HOST not in (each.source, each.destination)]


def _pair(each: Transfer) -> str:
    return f"{_named(each.source)} to {_named(each.destination)}"


def _named(device: str) -> str:
    return device.replace(":", " ")


def _left_out(stress: StressTest, found: Values) -> list[str]:
    """Return which GPUs sent nothing to another, or received nothing: the test has time for that with any number of GPUs."""
    ends = [tuple(pair.split(" to ")) for pair in found]
    names = [f"GPU {gpu.index}" for gpu in stress.tested] if ends else []
    told = [f"no copy from {name} to another GPU was timed" for name in names if name not in {each[0] for each in ends}]
    return told + [
        f"no copy from another GPU to {name} was timed" for name in names if name not in {each[1] for each in ends}
    ]


def _routes(stress: StressTest, found: Values) -> str:
    """Return how many of the routes between GPUs were copied over; empty if all were."""
    count, attempt = len(stress.tested), stress.transfers_attempt
    routes = count * (count - 1)
    if len(found) >= routes:
        return ""
    complete = attempt and attempt.answered and not stress.transfers_error
    why = "no time was left for the other" if complete else "the copies ended before the other"
    return f"{len(found)} of {routes} routes; {why} {routes - len(found)}"


def _of_products(precision: str) -> Quantity:
    return Quantity(
        f"matrix products in {precision}", "TFLOP/s", f"no matrix product in {precision} was timed", MATMUL, precision,
        rounds=lambda gpu: _speeds(gpu, precision),
    )  # fmt: skip


QUANTITIES: Mapping[str, Quantity] = {
    **{precision: _of_products(precision) for precision in PRECISIONS},
    "host-to-device": Quantity(
        "copies from the host to the GPU", "GB/s", "no copy from pinned memory was timed", "host to device",
        copies=_copies(
            lambda each: each.source == _HOST and each.host_memory == _PINNED, lambda each: _named(each.destination)
        ),
    ),
    "device-to-host": Quantity(
        "copies from the GPU to the host", "GB/s", "no copy to pinned memory was timed", "device to host",
        copies=_copies(
            lambda each: each.destination == _HOST and each.host_memory == _PINNED, lambda each: _named(each.source)
        ),
    ),
    "device-to-device": Quantity(
        "copies between GPUs", "GB/s", "no copy between two GPUs was timed", of_pairs=True,
        copies=_copies(lambda each: _HOST not in (each.source, each.destination), _pair),
    ),
    "power": Quantity("power under load", "W", "NVML did not report the power", "power", rounds=_power),
}  # fmt: skip


def said(values: Values, unit: str, extent: str = "") -> str:
    """Return the values in words, with what they come from; of many places, the lowest and the highest."""
    if len(values) > 8:  # more do not fit into a row
        lowest, highest = (pick(values, key=lambda place: values[place]) for pick in (min, max))
        told = f"{number(values[lowest])} {unit} ({lowest}) to {number(values[highest])} {unit} ({highest})"
    else:
        told = ", ".join(f"{place} {number(value)} {unit}" for place, value in values.items())
    return f"{told} ({extent})" if extent else told
