"""A machine that is looked at again: everything that is counted or measured has moved on a little."""

from __future__ import annotations

from typing import Any

import msgspec

from tfgpu_doctor.model.facts import Facts

# What grows while a fault lasts. What is 0 has not begun, and stays so.
_GROWS = {
    "volatile_uncorrected": 9, "volatile_corrected": 9, "aggregate_uncorrected": 9, "aggregate_corrected": 9,
    "corrected": 2, "uncorrected": 2, "mismatches": 1, "replays": 1, "count": 3, "correctable": 5, "elements": 8,
    "utilization_percent": -1,
}  # fmt: skip
# What differs a little at each look.
_DRIFTS = {
    "draw_w": 0.999, "power_w": 0.999, "sm_mhz": 0.999, "memory_mhz": 0.999, "teraflops": 0.999, "gb_per_s": 0.999,
    "deviation": 1.001, "memory_free_bytes": 0.999, "last_age_s": 1.001, "first_age_s": 1.001, "value": 0.999,
}  # fmt: skip
_DEGREES = ("gpu_c", "temperature_c")


def look_again(facts: Facts) -> Facts:
    """The same machine some time later: other counts, temperatures, clocks, speeds and ages; and NVML's numbers reversed."""
    document = _moved_on(msgspec.to_builtins(facts))
    rows = [*(document.get("nvml") or {}).get("gpus", ()), *(document.get("nvml") or {}).get("troubles", ())]
    if all(row.get("uuid") or row.get("pci_address") for row in rows):
        last = max((row["index"] for row in rows), default=0)
        for row in rows:
            row["index"] = last - row["index"]
    return msgspec.convert(document, Facts)


def _moved_on(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _moved_on(each, key) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_moved_on(each) for each in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value:
        return value
    if name in _DRIFTS:
        return type(value)(value * _DRIFTS[name])
    return value + (_GROWS.get(name, 0) if name not in _DEGREES else 1)
