"""The simulated machine as flat text for the C libraries: one `key=value` per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tfgpu_doctor.rehearse.machine import SimulatedMachine


def machine_text(machine: SimulatedMachine) -> bytes:
    """Return the whole file. A list has a line with its length and numbered lines for its entries; None has no line."""
    document = msgspec.to_builtins(machine)
    faults = [("fault", document.pop("faults"))]
    faults += [(f"fault.{place}", gpu.pop("faults")) for place, gpu in enumerate(document["gpus"])]
    del document["missing"]
    lines = [f"{key}={value}" for key, value in _flat("", document)]
    lines += [f"{prefix}.{call}={fault}" for prefix, calls in faults for call, fault in calls.items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _flat(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _flat(f"{key}.{name}" if key else name, each)
    elif isinstance(value, (list, tuple)):
        yield key, str(len(value))
        for place, each in enumerate(value):
            yield from _flat(f"{key}.{place}", each)
    elif isinstance(value, float):
        yield key, f"{value:.3f}"
    elif value is not None:
        yield key, str(int(value) if isinstance(value, bool) else value)
