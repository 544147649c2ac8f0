"""A made-up fleet of nodes with several GPUs, day after day, of which everything is known: noise, drifts, causes."""

from __future__ import annotations

import datetime as dt
import os
import pathlib
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from made_up_fleet import MEASURED, MODELS, sample, worse

from tfgpu_doctor.fleet.node import Cause, Measurement, encode_node, file_name
from tfgpu_doctor.fleet.reporting import missing_node

FIRST_DAY = dt.date(2026, 1, 1)
Noise = Callable[[np.random.Generator, tuple[int, ...]], Any]  # in standard deviations of 1 %; more is worse


def normal(chance: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return chance.standard_normal(shape, dtype="float32")


def student(freedom: int) -> Noise:
    return lambda chance, shape: chance.standard_t(freedom, shape).astype("float32")


def skewed(chance: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Now and then slower, as other work on a machine makes it."""
    return 1.2 * chance.standard_normal(shape, dtype="float32") + chance.standard_exponential(shape, dtype="float32")


class FleetDays:
    """`values(day)`: logarithms by node, GPU and measurement; what is planted is set before the first day is taken."""

    def __init__(
        self, nodes: int, *, gpus: int = 8, measured: int = len(MEASURED), seed: int = 1, noise: Noise = normal,
        remembered: float = 0.0, missing: float = 0.0, models: int = 1,
    ) -> None:  # fmt: skip
        self.chance = np.random.default_rng(seed)
        self.names = [f"n{place:05}" for place in range(nodes)]
        self.gpus, self.measured, self.noise = gpus, MEASURED[:measured], noise
        self.models = [MODELS[place % models] for place in range(nodes)]
        self.remembered, self.missing = remembered, missing  # share of a day's noise that the next day has as well
        self.shape = (nodes, gpus, measured)
        self.usual = np.log([usual for _, _, usual in self.measured])
        self.turns = np.array([-1 if worse(unit) > 0 else 1 for _, unit, _ in self.measured])
        self.own = 0.02 * self.chance.standard_normal(self.shape, dtype="float32")
        self.drifts: dict[tuple[int, int, int], Callable[[int], float]] = {}  # of (node, GPU, measurement), by day
        self.fleet: Callable[[int, int], float] = lambda day, measurement: 0.0  # the same on all nodes
        self.causes: Callable[[int, str], tuple[Cause, ...]] = lambda day, node: ()
        self.settings: Callable[[int, str], dict[str, str]] = lambda day, node: {}
        self.checks: Callable[[int, str], dict[str, str]] = lambda day, node: {}
        self._before: Any = 0.0

    def worse(self, day: int) -> Any:
        """How much worse than usual each value is, as a logarithm. Days must be taken in order."""
        fresh = self.noise(self.chance, self.shape)
        self._before = self.remembered * self._before + (1 - self.remembered**2) ** 0.5 * fresh
        found = self.own + 0.01 * self._before
        for place, drift in self.drifts.items():
            found[place] += drift(day)
        return found + np.array([self.fleet(day, each) for each in range(len(self.measured))])

    def values(self, day: int) -> Any:
        return np.exp(self.usual + self.turns * self.worse(day))

    def reports(self, day: int) -> list[tuple[str, bytes]]:
        """The file of every node of a day by its name."""
        return [(file_name(name), content) for name, content in self._reports(day)]

    def write(self, folder: pathlib.Path | str, day: int) -> None:
        os.makedirs(folder, exist_ok=True)
        for name, content in self.reports(day):
            pathlib.Path(folder, name).write_bytes(content)

    def _reports(self, day: int) -> Any:
        head, _ = sample()
        values, absent = self.values(day), self.chance.random(len(self.names)) < self.missing
        for place, name in enumerate(self.names):
            if absent[place]:
                yield name, encode_node(missing_node(name, "died", "the node is gone"))
                continue
            model, causes = self.models[place], self.causes(day, name)
            settings = {**head["settings"], "GPU models": f"{self.gpus} x {model}", **self.settings(day, name)}
            node = {
                **head, "node": name, "began": began(day, place), "settings": settings, "causes": causes,
                "exit_code": 1 if any(cause.severity == "error" for cause in causes) else 0,
                "checks": {**head["checks"], **self.checks(day, name)},
                "measurements": [
                    Measurement(
                        name=measurement, value=float(value), unit=unit, device=f"GPU:{gpu}", model=model,
                        better="lower" if turn > 0 else "higher",
                    )
                    for gpu in range(self.gpus)
                    for (measurement, unit, _), turn, value in zip(
                        self.measured, self.turns, values[place, gpu], strict=True
                    )
                ],
                "report": None,
            }  # fmt: skip
            yield name, msgspec.json.encode(node) + b"\n"


def date(day: int) -> dt.date:
    return FIRST_DAY + dt.timedelta(days=day)


def began(day: int, place: int = 0) -> str:
    return f"{date(day).isoformat()}T02:{place // 60 % 60:02}:{place % 60:02}Z"
