"""The machine, before the first part: is there a GPU, do others use it, and what stands in the report's head."""

from __future__ import annotations

import json
import pathlib
import platform
import sys
from typing import Any

from gpu_run.workbench import Workbench, document_of

_BUSY = """
import json, pathlib, sys
from tfgpu_doctor.bench.others import used_by_others
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import decode_facts
print(json.dumps(used_by_others(Host(), decode_facts(pathlib.Path(sys.argv[1]).read_bytes()))))
"""


def recorded_at(bench: Workbench) -> pathlib.Path:
    """Where the record lies until it is known that the folder takes it."""
    return bench.folder / "facts.json"


def record(bench: Workbench) -> dict[str, Any] | None:
    """Examine the machine; return its facts, or None if there is no record. One of an earlier call is no record of now."""
    file = recorded_at(bench)
    file.unlink(missing_ok=True)
    bench.doctor("record", "check", "--record", str(file), "--format", "json", limit_s=150)
    found: dict[str, Any] | None = json.loads(file.read_bytes()) if file.exists() else None
    return found


def keep_record(bench: Workbench) -> None:
    """The record becomes that of the folder."""
    recorded_at(bench).replace(bench.setting.record)


def gpus(facts: dict[str, Any]) -> list[str]:
    """The NVIDIA GPUs that the bus, NVML or CUDA list: their names, or their places on the bus."""
    for fact in ("nvml", "cuda_driver"):
        found = [gpu.get("name", "a GPU") for gpu in (facts.get(fact) or {}).get("gpus", ())]
        if found:
            return found
    devices = (facts.get("pci") or {}).get("devices", ())
    return [
        each["address"]
        for each in devices
        if each.get("vendor") == "10de" and each.get("class_code", "").startswith("03")
    ]


def used_by_tensorflow(facts: dict[str, Any]) -> int:
    """How many GPUs TensorFlow lists."""
    return len((facts.get("runtime") or {}).get("gpus", ()))


def others(bench: Workbench) -> dict[str, str]:
    """The signs that other processes use a GPU, by its name."""
    done = bench.run("others", [sys.executable, "-c", _BUSY, str(bench.setting.record)], 60)
    found = document_of(done.output)
    if found is None:
        bench.found(f"whether others use the GPU could not be seen: {done.complaint}")
    return found or {}


def head(facts: dict[str, Any]) -> dict[str, Any]:
    """What the report says of the machine."""
    nvml, runtime = facts.get("nvml") or {}, facts.get("runtime") or {}
    first: dict[str, Any] = next(iter(nvml.get("gpus", ())), {})
    memory = first.get("memory_total_bytes")
    said = {
        "GPUs": gpus(facts),
        "memory of the first, GiB": round(memory / (1 << 30), 1) if memory else None,
        "driver": nvml.get("driver_version") or (facts.get("driver") or {}).get("version"),
        "CUDA of the driver": (facts.get("cuda_driver") or {}).get("cuda_version"),
        "TensorFlow": runtime.get("version"),
        "GPUs of TensorFlow": used_by_tensorflow(facts),
        "Python": platform.python_version(),
        "system": platform.platform(),
    }
    return {
        key: value if isinstance(value, (str, int, float, list)) else json.dumps(value) for key, value in said.items()
    }
