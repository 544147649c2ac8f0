"""Upper limits of the hardware, from the doctor's tables and the facts of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tfgpu_doctor.gpu_demand import is_board_of
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.references import COPY, MATMUL, sustained_speed
from tfgpu_doctor.knowledge.schema import GpuModel
from tfgpu_doctor.perf_tests.variables import FACTS_VARIABLE

if TYPE_CHECKING:
    from tfgpu_doctor.model.facts.nvidia import NvmlGpu

_GAIN = 1.2  # between two peaks
PEAK_SIDE = 8192  # large enough for any GPU to come near its peak
_OF_DATA_SHEETS = {
    "bfloat16": "fp16",
    "float16": "fp16",
    "tf32": "tf32",
    "float32": "fp32",
}  # both half precisions have the same peak


def peak_name(precision: str) -> str:
    """Return the metric that shows a GPU's maximum at a precision: "bfloat16", "float16", "tf32" or "float32"."""
    return f"matmul {PEAK_SIDE} in {precision}"


def model_of(tf: Any, device: str) -> GpuModel | None:
    """Return the row of a GPU ("GPU:0") in the table; None if there is no row, or if it is a slice of a GPU."""
    physical = tf.config.list_physical_devices("GPU")[int(device.partition(":")[2])]
    name = tf.config.experimental.get_device_details(physical).get("device_name", "")
    return read_knowledge().gpu_named(name) if name else None


def memory_ceiling(tf: Any, device: str) -> dict[str, Any]:
    """Return the bandwidth limit (GB/s) of the GPU's own memory, with its source; empty if it is unknown."""
    model = model_of(tf, device)
    if model is None or model.memory_bandwidth_gb_per_s is None:
        return {}
    return {
        "limit": model.memory_bandwidth_gb_per_s,
        "limit_source": f"{model.name}: {model.source}",
        **_usual(model, COPY),
    }


def peak_teraflops(model: GpuModel | None, precision: str) -> float | None:
    """Return the peak (TFLOP/s) of a model at a precision, named as for `peak_name`; None if it is unknown."""
    return model.peak_teraflops.get(_OF_DATA_SHEETS[precision]) if model else None


def why_no_gain(tf: Any, device: str, precision: str) -> str:
    """Return why a precision need not be faster than float32 on this GPU; empty if it is to be, or if its peaks are unknown.

    Tensor cores of GeForce cards multiply in TF32 at the peak of float32.
    """
    model = model_of(tf, device)
    peak, usual = peak_teraflops(model, precision), peak_teraflops(model, "float32")
    if model is None or not peak or not usual or peak >= _GAIN * usual:
        return ""
    return f"by its data sheet, {model.name} computes {peak:g} TFLOP/s in {precision} and {usual:g} in float32: no gain is due"


def compute_ceiling(tf: Any, device: str, precision: str) -> dict[str, Any]:
    """Return the limit (TFLOP/s) at a precision, named as for `peak_name`, with its source; empty if it is unknown."""
    model = model_of(tf, device)
    peak = peak_teraflops(model, precision)
    if model is None or peak is None:
        return {}
    limit = {"limit": peak, "limit_source": f"{model.name}: {model.source}"}
    return {**limit, **_usual(model, MATMUL, precision)}


def _usual(model: GpuModel, what: str, precision: str = "") -> dict[str, Any]:
    """What many healthy GPUs of this model reach, with its source; empty if nobody is known to have measured them."""
    row = sustained_speed(read_knowledge(), model.name, what, precision)
    if row is None or row.n == 1:
        return {}
    return {"usual": row.value, "usual_source": f"{model.name}: {row.said}"}


def link_in_words() -> str:
    """Describe the bandwidth of the link to the host, if all GPUs have the same link; empty if it is unknown."""
    # An idle link runs at a low generation, so the highest supported generation counts.
    links = {(gpu.health.pcie.max_generation, gpu.health.pcie.width) for gpu in _recorded_gpus()}
    if len(links) != 1:
        return ""
    generation, width = links.pop()
    row = read_knowledge().boundaries.get(f"pcie_{generation}_lane_gb_per_s")
    if row is None or not width:
        return ""
    return f"PCIe generation {generation} x{width} provides {float(row.value) * width:.1f} GB/s"


def linked_by_nvlink() -> bool:
    """Return whether NVML reported, before the run, that each GPU that CUDA lists has an active NVLink."""
    gpus = _recorded_gpus()
    return bool(gpus) and all(any(link.active for link in gpu.health.nvlinks) for gpu in gpus)


def _recorded_gpus() -> tuple[NvmlGpu, ...]:
    from tfgpu_doctor.model.facts import decode_facts

    recorded = os.environ.get(FACTS_VARIABLE)
    if not recorded:
        return ()
    with open(recorded, "rb") as file:
        facts = decode_facts(file.read())
    boards = facts.nvml.gpus if facts.nvml else ()
    # CUDA_VISIBLE_DEVICES may leave out others, with other links.
    listed = facts.cuda_driver.gpus if facts.cuda_driver else ()
    return tuple(board for board in boards if not listed or any(is_board_of(board, gpu) for gpu in listed))
