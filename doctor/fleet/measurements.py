"""Extract the measurements of a node that can be compared with its peers: rates, times, clocks and temperatures."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tfgpu_doctor.accept import speed_in
from tfgpu_doctor.fleet.node import Direction, Measurement
from tfgpu_doctor.fleet.routes import FAR, is_far, numa_nodes_of
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, Metric, Side
from tfgpu_doctor.model.facts.stress import StressedGpu, Transfer

_HOST = "host"
_TIMES = ("s", "ms", "us", "ns")
_TEMPERATURE = "°C"


def measurements_of(facts: Facts) -> tuple[Measurement, ...]:
    """Return all measurements by device; empty if nothing was measured.

    The import of TensorFlow is none of them: the first one after a start reads 2 GB of files, and takes many times as long.
    """
    found = [*_of_stress(facts)]
    if facts.bench:
        found += _of_suites(facts.bench, _models(facts), facts.system.cpu_model if facts.system else "")
    return tuple(each for each in found if each.value > 0)


def better_of(unit: str) -> Direction | None:
    """Return what is better of a rate, a time or a temperature; None of anything else, which nodes are not compared by.

    Sizes, shares, errors, counts and amounts of memory have no direction that holds for each of them, and many no noise: one
    step to the next size is 100 %. A ratio ("times as fast as the CPU", "times one GPU") also depends on its other side: on a
    node with a faster CPU or fewer GPUs, it is smaller. The two sides of a comparison are measurements of their own.
    """
    if unit.endswith("/s"):
        return "higher"
    return "lower" if unit == _TEMPERATURE or unit.partition("/")[0] in _TIMES else None


def _of_stress(facts: Facts) -> Iterator[Measurement]:
    for gpu in facts.stress.tested if facts.stress else ():
        yield from _of_gpu(gpu)
    models, nodes = _models(facts), numa_nodes_of(facts)
    for transfer in facts.stress.transfers if facts.stress else ():
        if transfer.gb_per_s:
            yield _of_transfer(transfer, transfer.gb_per_s, models, nodes)


def _of_transfer(transfer: Transfer, gb_per_s: float, models: dict[str, str], nodes: dict[str, int]) -> Measurement:
    """Return the speed of a copy. The device of one between GPUs is its route, so it is compared with itself in a retest."""
    ends = transfer.source, transfer.destination
    gpus = [end for end in ends if end != _HOST]
    words = ("copy", *(word.partition(":")[0] for word in (ends[0], "to", ends[1])), transfer.host_memory)
    name = " ".join(filter(None, words)) + (FAR if is_far(ends, nodes) else "")
    return Measurement(
        name=name, value=gb_per_s, unit="GB/s", device=" to ".join(gpus),
        model=models.get(gpus[0], "") if gpus else "",
    )  # fmt: skip


def _of_gpu(gpu: StressedGpu) -> Iterator[Measurement]:
    """Yield the speeds that a GPU keeps up, and medians of the readings over the rounds of the stress test.

    A bound that `fleet learn` takes from the speeds is compared by `accept` with the same values.
    """
    device = f"GPU:{gpu.index}"
    for precision in dict.fromkeys(speed.precision for speed in gpu.speeds):
        if kept_up := speed_in(gpu, precision):
            yield Measurement(
                name=f"{precision} matrix product", value=kept_up, unit="TFLOP/s", device=device, model=gpu.name
            )
    clocks = [each.sm_mhz for each in gpu.readings if each.sm_mhz]
    if clocks:
        yield Measurement(
            name="clock under load", value=median(clocks), unit="MHz", device=device, model=gpu.name, better="higher"
        )
    temperatures = [each.temperature_c for each in gpu.readings if each.temperature_c]
    if temperatures:
        yield Measurement(
            name="temperature under load", value=median(temperatures), unit=_TEMPERATURE, device=device, model=gpu.name,
            better="lower",
        )  # fmt: skip


def _of_suites(bench: Bench, models: dict[str, str], processor: str) -> Iterator[Measurement]:
    """Yield the seconds per call of both sides of each comparison, and the metrics that are rates or times."""
    for comparison in bench.comparisons:
        for side in (comparison.candidate, comparison.baseline):
            if side and side.seconds:
                yield _of_side(
                    f"{comparison.suite} {comparison.name}, {side.name}", side, _model(side.device, models, processor)
                )
    for metric in bench.metrics:
        if better := better_of(metric.unit):
            yield _of_metric(metric, _model(metric.device, models, processor), better)


def _of_side(name: str, side: Side, model: str) -> Measurement:
    device = side.device if side.device.startswith("GPU") else ""
    return Measurement(name=name, value=side.median_s, unit="s", device=device, model=model, better="lower")


def _of_metric(metric: Metric, model: str, better: Direction) -> Measurement:
    return Measurement(
        name=f"{metric.suite} {metric.name}", value=metric.value, unit=metric.unit, model=model,
        device=metric.device if metric.device.startswith("GPU") else "", better=better,
    )  # fmt: skip


def _model(device: str, models: dict[str, str], processor: str) -> str:
    """Return the model of a device, all models of the node for its GPUs together ("GPU"), or the model of the CPU."""
    if device.startswith("GPU") and models:
        return models.get(device) or " + ".join(sorted(set(models.values())))
    return processor


def _models(facts: Facts) -> dict[str, str]:
    """Return GPU names by TensorFlow's device, from the stress test, or from NVML if all GPUs are of one model."""
    if facts.stress and facts.stress.gpus:
        return {f"GPU:{gpu.index}": gpu.name for gpu in facts.stress.gpus}
    names = {gpu.name for gpu in facts.nvml.gpus} if facts.nvml else set()
    listed = len(facts.runtime.gpus) if facts.runtime else 0
    return {f"GPU:{index}": next(iter(names)) for index in range(listed)} if len(names) == 1 else {}
