"""The checks: every one that a module of this package defines, in the order in which causes lie."""

from __future__ import annotations

import importlib

from tfgpu_doctor.model import Check, in_order

# Each module that defines checks; the others hold what several of these need.
_MODULES = [
    "activation",
    "bench",
    "computation",
    "container",
    "cpu_share",
    "cuda_libraries",
    "cudnn",
    "device_nodes",
    "driver_answers",
    "driver_libraries",
    "driver_support",
    "driver_versions",
    "engines",
    "environment",
    "gpu_counts",
    "gpu_health",
    "gpu_links",
    "gpu_sharing",
    "gpu_start",
    "gpu_throttling",
    "hardware",
    "host_memory",
    "jobs",
    "kernel_driver",
    "kernel_log",
    "kernels",
    "kubernetes",
    "library_loading",
    "limits",
    "load",
    "load_copies",
    "load_ending",
    "load_speed",
    "memory",
    "notebooks",
    "numa",
    "package_versions",
    "packages",
    "pci_bus",
    "platforms",
    "project_files",
    "services",
    "system",
    "tensorflow_build",
    "tensorflow_runs",
    "unclaimed_gpus",
    "visibility",
    "xla_compiler",
]
ALL_CHECKS: tuple[Check, ...] = in_order(
    found
    for name in _MODULES
    for found in vars(importlib.import_module(f"{__name__}.{name}")).values()
    if isinstance(found, Check)
)
