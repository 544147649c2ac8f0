"""Extract the measurements of a node that can be compared with its peers."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tfgpu_doctor.fleet.node import Measurement
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, Metric, Side
from tfgpu_doctor.model.facts.stress import StressedGpu

_LOWER_IS_BETTER = ("s", "ms", "us", "ns", "°C", "MiB", "GiB", "B")


def measurements_of(facts: Facts) -> tuple[Measurement, ...]:
    """Return all measurements by device; empty if nothing was measured."""
    processor = facts.system.cpu_model if facts.system else ""
    found = [*_of_start(facts, processor), *_of_stress(facts)]
    if facts.bench:
        found += _of_suites(facts.bench, _models(facts), processor)
    return tuple(each for each in found if each.value > 0)


def _of_start(facts: Facts, processor: str) -> Iterator[Measurement]:
    if facts.runtime and facts.runtime.import_seconds:
        yield Measurement(
            name="import of TensorFlow", value=facts.runtime.import_seconds, unit="s", model=processor, better="lower"
        )


def _of_stress(facts: Facts) -> Iterator[Measurement]:
    for gpu in facts.stress.tested if facts.stress else ():
        yield from _of_gpu(gpu)
    for transfer in facts.stress.transfers if facts.stress else ():
        if transfer.gb_per_s:
            ends = (transfer.source, transfer.destination)
            device = next((end for end in ends if end != "host"), "")
            name = " ".join(
                ("copy", *(word.partition(":")[0] for word in (ends[0], "to", ends[1])), transfer.host_memory)
            )
            model = _models(facts).get(device, "")
            yield Measurement(name=name.strip(), value=transfer.gb_per_s, unit="GB/s", device=device, model=model)


def _of_gpu(gpu: StressedGpu) -> Iterator[Measurement]:
    """Yield medians over the rounds of the stress test."""
    device = f"GPU:{gpu.index}"
    for precision in dict.fromkeys(speed.precision for speed in gpu.speeds):
        speeds = [each.teraflops for each in gpu.speeds if each.precision == precision and each.teraflops]
        if speeds:
            yield Measurement(
                name=f"{precision} matrix product", value=median(speeds), unit="TFLOP/s", device=device, model=gpu.name
            )
    clocks = [each.sm_mhz for each in gpu.readings if each.sm_mhz]
    if clocks:
        yield Measurement(
            name="clock under load", value=median(clocks), unit="MHz", device=device, model=gpu.name, better="higher"
        )
    temperatures = [each.temperature_c for each in gpu.readings if each.temperature_c]
    if temperatures:
        yield Measurement(
            name="temperature under load", value=median(temperatures), unit="°C", device=device, model=gpu.name,
            better="lower",
        )  # fmt: skip


def _of_suites(bench: Bench, models: dict[str, str], processor: str) -> Iterator[Measurement]:
    """Yield the seconds per call of both sides of each comparison, and the metrics."""
    for comparison in bench.comparisons:
        for side in (comparison.candidate, comparison.baseline):
            if side and side.seconds:
                yield _of_side(
                    f"{comparison.suite} {comparison.name}, {side.name}", side, models.get(side.device, processor)
                )
    for metric in bench.metrics:
        yield _of_metric(metric, models.get(metric.device, processor))


def _of_side(name: str, side: Side, model: str) -> Measurement:
    device = side.device if side.device.startswith("GPU") else ""
    return Measurement(name=name, value=side.median_s, unit="s", device=device, model=model, better="lower")


def _of_metric(metric: Metric, model: str) -> Measurement:
    return Measurement(
        name=f"{metric.suite} {metric.name}", value=metric.value, unit=metric.unit, model=model,
        device=metric.device if metric.device.startswith("GPU") else "",
        better="lower" if metric.unit in _LOWER_IS_BETTER else "higher",
    )  # fmt: skip


def _models(facts: Facts) -> dict[str, str]:
    """Return GPU names by TensorFlow's device, from the stress test, or from NVML if all GPUs are of one model."""
    if facts.stress and facts.stress.gpus:
        return {f"GPU:{gpu.index}": gpu.name for gpu in facts.stress.gpus}
    names = {gpu.name for gpu in facts.nvml.gpus} if facts.nvml else set()
    listed = len(facts.runtime.gpus) if facts.runtime else 0
    return {f"GPU:{index}": next(iter(names)) for index in range(listed)} if len(names) == 1 else {}
