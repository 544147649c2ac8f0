"""GPUs that TensorFlow lists, and that are not well: what NVML alone tells."""

from __future__ import annotations

from lab.machine import A100, H100, RTX_3090, Machine, driver, gpu

_SICK = gpu(A100["name"], ecc={"volatile_uncorrected": 2, "aggregate_uncorrected": 2},
            remapped_rows={"uncorrected": 1, "pending": True}, recovery_action="gpu_reset")  # fmt: skip
_HOT = gpu(H100["name"], temperature_c={"gpu": 89, "slowdown": 87}, clocks_mhz={"sm": 705},
           throttle_reasons=["hw_slowdown", "hw_thermal_slowdown"])  # fmt: skip
_UP, _DOWN = {"remote": "switch"}, {"active": False}
_LINKED = gpu(H100["name"], nvlinks=[_UP] * 18)
_HALF_LINKED = gpu(H100["name"], nvlinks=[_UP] * 16 + [_DOWN] * 2)
_HUNG = gpu(H100["name"], faults={"nvmlDeviceGetPowerUsage": "hang"})
_LOST = gpu(H100["name"], faults={"nvmlDeviceGetHandleByIndex": 15})
_NOTEBOOK = {"pid": 4194242, "name": "/home/anna/venv/bin/python", "memory_bytes": 14 << 30}
_AT_REST = gpu(RTX_3090["name"], performance_state=8, throttle_reasons=["gpu_idle"], clocks_mhz={"sm": 210, "max_sm": 2100},
               pcie={"generation": 1, "width": 8}, persistence_mode=False, nvlinks=[_DOWN] * 4)  # fmt: skip
_AT_WORK = gpu(H100["name"], ecc={"aggregate_corrected": 3}, remapped_rows={"corrected": 1}, recovery_action="none",
               throttle_reasons=["sw_power_cap"], utilization_percent=100, temperature_c={"gpu": 71, "margin": 14},
               nvlinks=[_UP] * 18, fabric={}, brand="nvidia", virtualization="none")  # fmt: skip

HEALTH = (
    Machine("memory-errors", "hardware_ecc_error", "uncorrectable memory errors", driver=driver(_SICK)),
    Machine("rows-wait-for-reset", "gpu_reset_required", "remapping", driver=driver(
        gpu(H100["name"], ecc={}, remapped_rows={"uncorrected": 1, "pending": True}))),
    Machine("too-hot", "gpu_thermal_or_power_throttling", "705 of 1980 MHz", driver=driver(H100, _HOT)),
    Machine("healthy-with-a-power-limit-of-its-owner", driver=driver(gpu(RTX_3090["name"], power_w={"limit": 220.0}))),
    Machine("link-of-4-lanes", "pcie_link_degraded", "x4", driver=driver(gpu(RTX_3090["name"], pcie={"width": 4}))),
    Machine("nvlinks-down", "nvlink_down", "GPU 1", driver=driver(_LINKED, _HALF_LINKED, _LINKED)),
    Machine("one-of-eight-hangs", "gpu_hang", "GPU 3", driver=driver(*[H100] * 3, _HUNG, *[H100] * 4)),
    Machine("one-of-two-is-lost", "gpu_lost", "GPU 1 at 0000:02:00.0", driver=driver(H100, _LOST)),
    Machine("notebook-holds-half", "gpu_memory_held_by_other_process", "14.0 GiB", driver=driver(
        gpu(RTX_3090["name"], memory_used_bytes=14 << 30, processes=[_NOTEBOOK]))),
    Machine("healthy-at-rest", driver=driver(_AT_REST)),
    Machine("healthy-at-work", driver=driver(*[_AT_WORK] * 8)),
)  # fmt: skip
