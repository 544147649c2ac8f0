"""Which of NVML's reasons for lower clocks slow a GPU that has work to do; all others are normal."""

from __future__ import annotations

HEAT = ("hw_thermal_slowdown", "sw_thermal_slowdown")
POWER = ("hw_power_brake_slowdown", "hw_slowdown")  # the second alone may be heat, too
SLOWING = (*HEAT, *POWER)
