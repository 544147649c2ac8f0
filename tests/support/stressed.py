"""A load on the healthy machine, as facts, for tests to take and break."""

from __future__ import annotations

from typing import Any

import msgspec
from healthy import ANSWERED, broken, cuda_gpu, gpu, healthy, nvml_gpu, runtime

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.stress import (
    Exactness,
    MemoryPattern,
    Readings,
    Speed,
    StressedGpu,
    StressRound,
    StressTest,
    Transfer,
)

NAME = "NVIDIA GeForce RTX 3090"
ON_GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
SPEEDS = {"float32": 24.1, "tf32": 33.2, "float16": 64.0, "bfloat16": 64.3}  # of 35.6, 35.6 and 71


def exactness(operation: str = "matmul", precision: str = "float32", **changes: Any) -> Exactness:
    """An operation repeated 900 times without a bit of difference."""
    fields = {
        "operation": operation, "precision": precision, "placed_on": ON_GPU, "iterations": 900, "elements": 1 << 24,
        "deviation": 0.04, "digests": tuple(f"{place:016x}" for place in range(16)), "seconds": 2.9,
    }  # fmt: skip
    return Exactness(**{**fields, **changes})


def speed(precision: str, **changes: Any) -> Speed:
    """Products for five seconds."""
    fields = {
        "precision": precision, "teraflops": SPEEDS[precision], "side": 8192, "iterations": 400, "seconds": 5.0,
        "began_s": 20.0, "finite": True,
    }  # fmt: skip
    return Speed(**{**fields, **changes})


def pattern(name: str, **changes: Any) -> MemoryPattern:
    """A pattern kept by 21 GiB."""
    fields = {"pattern": name, "placed_on": ON_GPU, "tested_bytes": 21 << 30, "seconds": 1.5}
    return MemoryPattern(**{**fields, **changes})


def readings(**changes: Any) -> Readings:
    """A GPU that its power limit holds a little below its highest clock."""
    fields: dict[str, Any] = {
        "samples": 90, "sm_mhz": 1740.0, "lowest_sm_mhz": 1695.0, "temperature_c": 71.0, "power_w": 348.0,
        "utilization_percent": 99.0, "reasons": {"sw_power_cap": 0.97},
    }  # fmt: skip
    return Readings(**{**fields, **changes})


def stress_round(**changes: Any) -> StressRound:
    """One round of the load, all of it right."""
    fields: dict[str, Any] = {
        "began_s": 8.0, "seconds": 43.0,
        "exactness": (exactness(), exactness("convolution"), exactness(precision="float16")),
        "speeds": tuple(map(speed, SPEEDS)), "memory": tuple(map(pattern, ("0x55", "0xAA", "address", "random"))),
        "readings": readings(),
    }  # fmt: skip
    return StressRound(**{**fields, **changes})


def soak_rounds(minutes: int, **warm: Any) -> tuple[StressRound, ...]:
    """The rounds of a soak: as many of half a minute as fit; those of its later half may differ."""
    count = 2 * minutes
    return tuple(
        stress_round(began_s=8.0 + 30 * number, seconds=30.0, **(warm if number >= count // 2 else {}))
        for number in range(count)
    )


def stressed_gpu(index: int = 0, **changes: Any) -> StressedGpu:
    """A GPU that bears its load."""
    fields: dict[str, Any] = {
        "index": index, "name": NAME, "uuid": nvml_gpu(index).uuid, "compute_capability": "8.6", "multiprocessors": 82,
        "attempt": ANSWERED, "deterministic": True, "free_bytes": 23 << 30, "max_sm_mhz": 2100.0, "power_limit_w": 350.0,
        "default_power_limit_w": 350.0, "slowdown_c": 95.0, "rounds": (stress_round(),),
    }  # fmt: skip
    return StressedGpu(**{**fields, **changes})


def hung(index: int = 0, phase: str = "matmul in float32, round 1", **changes: Any) -> StressedGpu:
    """A GPU whose process did not come to the end of its first operation, or not even to its start."""
    fields: dict[str, Any] = {
        "rounds": (), "attempt": Attempt(outcome="timed_out", seconds=72.0, phase=phase), "phase_s": 60.0,
    }  # fmt: skip
    return stressed_gpu(index, **{**fields, **changes})


def left_alone(index: int = 0, why: str = "python (4711) computes on it") -> StressedGpu:
    """A GPU that somebody else uses."""
    return stressed_gpu(index, untouched=why, busy=(why,), attempt=None, rounds=(), free_bytes=None)


def transfer(source: str, destination: str, **changes: Any) -> Transfer:
    """Copies over PCIe 4.0 x16 from or to pinned memory."""
    fields = {
        "source": source, "destination": destination, "host_memory": "pinned", "copied_bytes": 256 << 20, "copies": 12,
        "gb_per_s": 25.3, "pcie_generation": 4, "pcie_width": 16,
    }  # fmt: skip
    return Transfer(**{**fields, **changes})


def transfers(*indices: int) -> tuple[Transfer, ...]:
    """Those of all kinds."""
    found = []
    for index in indices:
        name = f"GPU:{index}"
        found += [
            transfer("host", name, host_memory="pageable", gb_per_s=9.8),
            transfer(name, "host"),
            transfer("host", name),
        ]
    across = {"host_memory": "", "gb_per_s": 11.0, "pcie_generation": None, "pcie_width": None}
    found += [transfer(f"GPU:{a}", f"GPU:{b}", **across) for a in indices for b in indices if a != b]
    return tuple(found)


def stress(*gpus: StressedGpu, **changes: Any) -> StressTest:
    """The load on those GPUs, one by default."""
    gpus = gpus or (stressed_gpu(),)
    touched = [each.index for each in gpus if not each.untouched]
    fields: dict[str, Any] = {
        "level": "deep", "seconds": 71.0, "gpus": gpus, "transfers": transfers(*touched), "sampling": ANSWERED,
        "transfers_attempt": ANSWERED if touched else None,
    }  # fmt: skip
    return StressTest(**{**fields, **changes})


def under_stress(found: StressTest | None = None) -> Facts:
    """The healthy machine, with as many GPUs as the load speaks of, examined with it."""
    found = found or stress()
    indices = [each.index for each in found.gpus]
    facts = broken(
        healthy(),
        nvml={"gpus": tuple(map(nvml_gpu, indices))},
        cuda_driver={"gpus": tuple(map(cuda_gpu, indices))},
        runtime=runtime(
            gpus=tuple(map(gpu, indices)),
            computations=tuple(
                msgspec.structs.replace(
                    each, device=f"/GPU:{index}", placed_on=f"/job:localhost/replica:0/task:0/device:GPU:{index}"
                )
                for index in indices
                for each in runtime().computations
            ),
        ),
    )
    return msgspec.structs.replace(facts, level=found.level, stress=found)
