"""Fleets of made-up nodes out of recorded machines: healthy but for what is planted, with noise as real machines have it."""

from __future__ import annotations

import functools
import os
import pathlib
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from locations import RECORDS

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.fleet.node import Measurement, file_name
from tfgpu_doctor.fleet.reporting import node_report
from tfgpu_doctor.model.facts import decode_facts

HGX = "hgx-8-gpus-at-work"
MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S", "NVIDIA H200")
# Name, unit, what it is on a healthy node; better where higher unless it is time.
MEASURED = [(f"{suite} {side}", "s", 0.001 * (3 + place)) for place, (suite, side) in enumerate(
    (suite, side) for suite in ("matmul", "convolution", "attention", "training", "pipeline", "sparse", "fft", "linear_algebra")
    for side in ("GPU", "CPU")
)] + [
    ("float16 matrix product", "TFLOP/s", 720.0), ("bfloat16 matrix product", "TFLOP/s", 700.0), ("tf32 matrix product", "TFLOP/s", 380.0),
    ("float32 matrix product", "TFLOP/s", 50.0), ("float64 matrix product", "TFLOP/s", 60.0), ("memory bandwidth", "GB/s", 2900.0),
    ("copy host to GPU pinned", "GB/s", 52.0), ("copy GPU to host pinned", "GB/s", 51.0), ("copy host to GPU pageable", "GB/s", 11.0),
    ("copy GPU to GPU", "GB/s", 390.0), ("all-reduce", "GB/s", 420.0), ("clock under load", "MHz", 1755.0),
    ("temperature under load", "°C", 61.0), ("import of TensorFlow", "s", 4.2),
]  # fmt: skip
Noise = Callable[[random.Random], float]  # in standard deviations of 1 %


def normal(chance: random.Random) -> float:
    return chance.gauss(0, 1)


def student(freedom: int) -> Noise:
    def noise(chance: random.Random) -> float:
        found: float = chance.gauss(0, 1) / (chance.gammavariate(freedom / 2, 2) / freedom) ** 0.5
        return found

    return noise


def skewed(chance: random.Random) -> float:
    """Most of the time near what it can be, now and then slower: what other work on a machine makes of times."""
    return 1.2 * chance.gauss(0, 1) - chance.expovariate(1)


@functools.cache
def sample(machine: str = HGX) -> tuple[dict[str, Any], msgspec.Raw]:
    """What a recorded machine reports, as a dictionary without its report, and the report."""
    facts = decode_facts(RECORDS[machine].read_bytes())
    report = diagnose(facts)
    node = node_report(
        "node", facts, report, began="2026-11-21T12:00:00Z", seconds=61.0, exit_code=report.exit_code("error")
    )
    head = {"schema": 1, "kind": node.kind, **msgspec.to_builtins(msgspec.structs.replace(node, report=None))}
    return head, msgspec.Raw(msgspec.json.encode(report))


class MadeUpFleet:
    """`count` nodes of so many models; what is planted is changed in `nodes` before they are written."""

    def __init__(
        self, count: int, *, seed: int = 1, models: int = 1, noise: Noise = normal, machine: str = HGX, healthy: bool = True
    ) -> None:  # fmt: skip
        self.chance = random.Random(seed)
        head, self.report = sample(machine)
        self.nodes: dict[str, dict[str, Any]] = {}
        for place in range(count):
            name = f"n{place:05}"
            model = MODELS[place % models]
            settings = {**head["settings"], "GPU models": f"8 x {model}"} if healthy else head["settings"]
            self.nodes[name] = {
                **head, "node": name, "settings": settings, "measurements": self._measured(model, noise),
                **({"exit_code": 0, "causes": ()} if healthy else {}),
            }  # fmt: skip

    def _measured(self, model: str, noise: Noise) -> list[Measurement]:
        scale = 1 + MODELS.index(model) / 3
        return [
            Measurement(
                name=name, value=usual * scale * (1 + worse(unit) * 0.01 * noise(self.chance)), unit=unit, model=model,
                device="GPU:0", better="lower" if worse(unit) < 0 else "higher",
            )
            for name, unit, usual in MEASURED
        ]  # fmt: skip

    def slow(self, node: str, place: int, by: float = 0.1) -> None:
        """One measurement of a node is worse by that share."""
        each = self.nodes[node]["measurements"][place]
        value = each.value * (1 - by) if each.better == "higher" else each.value / (1 - by)
        self.nodes[node]["measurements"][place] = msgspec.structs.replace(each, value=value)

    def set(self, node: str, changes: Mapping[str, str]) -> None:
        """Settings of a node."""
        self.nodes[node]["settings"] = {**self.nodes[node]["settings"], **changes}

    def write(self, folder: pathlib.Path | str, *, only: Any = None, whole: bool = True) -> None:
        """A file for each node, with the whole report in it or none."""
        os.makedirs(folder, exist_ok=True)
        for name, node in self.nodes.items():
            if only is None or name in only:
                report = {"report": self.report} if whole else {"report": None}
                path = os.path.join(folder, file_name(name))
                with open(path, "wb") as file:
                    file.write(msgspec.json.encode({**node, **report}) + b"\n")


def worse(unit: str) -> int:
    """-1 where noise below 0 makes a value larger, that is, worse as well."""
    return -1 if unit in ("s", "°C") else 1
