"""What the hardware could do at most, where the doctor's tables and the facts of this machine tell it."""

from __future__ import annotations

import os
from typing import Any

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import GpuModel
from tfgpu_doctor.perf_tests.variables import FACTS_VARIABLE

PEAK_SIDE = 8192  # large enough for any GPU to come near its peak
_OF_DATA_SHEETS = {
    "bfloat16": "fp16",
    "float16": "fp16",
    "tf32": "tf32",
    "float32": "fp32",
}  # both halves go at one speed


def peak_name(precision: str) -> str:
    """The metric that shows what a GPU does at most: "bfloat16", "float16", "tf32" or "float32"."""
    return f"matmul {PEAK_SIDE} in {precision}"


def model_of(tf: Any, device: str) -> GpuModel | None:
    """The row of a GPU ("GPU:0") in the table; None where it has none, or is a slice of a GPU."""
    physical = tf.config.list_physical_devices("GPU")[int(device.partition(":")[2])]
    name = tf.config.experimental.get_device_details(physical).get("device_name", "")
    return read_knowledge().gpu_named(name) if name else None


def memory_ceiling(tf: Any, device: str) -> dict[str, Any]:
    """The limit of a metric in GB/s of the GPU's own memory, with its source; nothing where it is not known."""
    model = model_of(tf, device)
    if model is None or model.memory_bandwidth_gb_per_s is None:
        return {}
    return {"limit": model.memory_bandwidth_gb_per_s, "limit_source": f"{model.name}: {model.source}"}


def compute_ceiling(tf: Any, device: str, precision: str) -> dict[str, Any]:
    """The limit of a metric in TFLOP/s at a precision, as `peak_name` takes it; nothing where it is not known."""
    model, kind = model_of(tf, device), _OF_DATA_SHEETS[precision]
    if model is None or kind not in model.peak_teraflops:
        return {}
    return {"limit": model.peak_teraflops[kind], "limit_source": f"{model.name}: {model.source}"}


def link_in_words() -> str:
    """What the link to the host carries, where all GPUs have the same one; empty where that is not known."""
    from tfgpu_doctor.model.facts import decode_facts

    recorded = os.environ.get(FACTS_VARIABLE)
    if not recorded:
        return ""
    with open(recorded, "rb") as file:
        nvml = decode_facts(file.read()).nvml
    # An idle link works at a low generation: the highest counts.
    links = {(gpu.health.pcie.max_generation, gpu.health.pcie.width) for gpu in (nvml.gpus if nvml else ())}
    if len(links) != 1:
        return ""
    generation, width = links.pop()
    row = read_knowledge().boundaries.get(f"pcie_{generation}_lane_gb_per_s")
    if row is None or not width:
        return ""
    return f"PCIe generation {generation} x{width} carries {float(row.value) * width:.1f} GB/s"
