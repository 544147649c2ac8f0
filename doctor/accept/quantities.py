"""What a profile can require of the stress test, by name: the unit, and the values of each GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tfgpu_doctor.accept.terms import PRECISIONS
from tfgpu_doctor.knowledge.references import MATMUL, number
from tfgpu_doctor.model.facts.stress import StressedGpu, StressTest, Transfer

# Both 16-bit formats have the same peak.
PEAKS: Mapping[str, str] = {"float32": "fp32", "tf32": "tf32", "float16": "fp16", "bfloat16": "fp16"}
Values = Mapping[str, float]  # by place: "GPU 0", "GPU 0 to GPU 1"
_HOST, _PINNED = "host", "pinned"


@dataclass(frozen=True)
class Quantity:
    """A value that the stress test measures on each GPU; `reference` is its name in the table of references."""

    title: str
    unit: str
    read: Callable[[StressTest], Values]
    missing: str  # why a GPU has no value
    reference: str = ""
    precision: str = ""
    of_pairs: bool = False

    def values(self, stress: StressTest) -> Values | str:
        """Return the value of every tested GPU, or why one has none."""
        found = self.read(stress)
        errors = [gpu.error for gpu in stress.tested if gpu.error and f"GPU {gpu.index}" not in found]
        places = _pairs(stress) if self.of_pairs else [f"GPU {gpu.index}" for gpu in stress.tested]
        lacking = [place for place in places if place not in found]
        if lacking or not found:
            return "; ".join(errors or [f"{place}: {self.missing}" for place in lacking]) or self.missing
        return found


def speeds_in(gpu: StressedGpu, precision: str) -> list[float]:
    """Return the speeds (TFLOP/s) of the products that completed, of all rounds."""
    done = (each for each in gpu.speeds if each.precision == precision and each.finite and not each.error)
    return [each.teraflops for each in done if each.teraflops and each.iterations]


def _products(precision: str) -> Callable[[StressTest], Values]:
    def read(stress: StressTest) -> Values:
        return {f"GPU {gpu.index}": max(found) for gpu in stress.tested if (found := speeds_in(gpu, precision))}

    return read


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


def _power(stress: StressTest) -> Values:
    watts = {gpu.index: [each.power_w for each in gpu.readings if each.power_w is not None] for gpu in stress.tested}
    return {f"GPU {index}": max(found) for index, found in watts.items() if found}


QUANTITIES: Mapping[str, Quantity] = {
    **{
        precision: Quantity(
            f"matrix products in {precision}", "TFLOP/s", _products(precision),
            f"no matrix product in {precision} was timed", MATMUL, precision,
        )
        for precision in PRECISIONS
    },
    "host-to-device": Quantity(
        "copies from the host to the GPU", "GB/s",
        _copies(lambda each: each.source == _HOST and each.host_memory == _PINNED, lambda each: _named(each.destination)),
        "no copy from pinned memory was timed", "host to device",
    ),
    "device-to-host": Quantity(
        "copies from the GPU to the host", "GB/s",
        _copies(lambda each: each.destination == _HOST and each.host_memory == _PINNED, lambda each: _named(each.source)),
        "no copy to pinned memory was timed", "device to host",
    ),
    "device-to-device": Quantity(
        "copies between GPUs", "GB/s",
        _copies(
            lambda each: _HOST not in (each.source, each.destination),
            _pair,
        ),
        "no copy between two GPUs was timed", of_pairs=True,
    ),
    "power": Quantity("power under load", "W", _power, "NVML did not report the power", "power"),
}  # fmt: skip


def said(values: Values, unit: str) -> str:
    """Return the values in words; of many places, the lowest and the highest."""
    if len(values) > 8:  # more do not fit into a row
        lowest, highest = (pick(values, key=lambda place: values[place]) for pick in (min, max))
        return f"{number(values[lowest])} {unit} ({lowest}) to {number(values[highest])} {unit} ({highest})"
    return ", ".join(f"{place} {number(value)} {unit}" for place, value in values.items())
