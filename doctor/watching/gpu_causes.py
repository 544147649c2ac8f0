"""What slows the program on the GPUs that it holds: low clocks, and other processes that compute there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.model.clock_limits import SLOWING
from tfgpu_doctor.watching.held_gpus import is_held
from tfgpu_doctor.watching.reading import GpuReading
from tfgpu_doctor.watching.units import size

Found = tuple[float, str, str] | None  # how bad (of 1), the label, the evidence
_CLOCK = 0.85  # of the highest, while the GPU works
_BUSY = 0.5
_USES = 0.1  # of the time: kernels of other processes
_FULL, _USES_CPU = 0.9, 0.5  # where NVML does not tell whose kernels run: utilisation, and CPUs of the other process
_LOOKS, _LEAST = 5, 4


@dataclass
class GpuCauses:
    """Judges the newest look at each GPU; other processes count if they compute in most of the last looks."""

    _shared: dict[int, deque[bool]] = field(default_factory=dict)  # by GPU

    def judge(self, gpus: Sequence[GpuReading]) -> list[tuple[float, str, str]]:
        """What is at work now."""
        found = [each for gpu in gpus if is_held(gpu) and (each := _slowed(gpu))]
        for gpu in gpus:
            used = _used_by_others(gpu)
            looks = self._shared.setdefault(gpu.index, deque(maxlen=_LOOKS))
            looks.append(used is not None)
            if used is not None and sum(looks) >= _LEAST:
                share, words = used
                found.append((share, "other_tenant", words))
        return found


def _slowed(gpu: GpuReading) -> Found:
    """Clocks that are low for a reason that is a fault, on a GPU that works."""
    why = set(SLOWING) & set(gpu.reasons or ())
    if not why or not gpu.sm_mhz or not gpu.max_sm_mhz or (gpu.utilization or 0.0) < _BUSY:
        return None
    if gpu.sm_mhz > _CLOCK * gpu.max_sm_mhz:
        return None
    return 1 - gpu.sm_mhz / gpu.max_sm_mhz, "gpu_slowed", (
        f"{_name(gpu)}: {gpu.sm_mhz:.0f} of {gpu.max_sm_mhz:.0f} MHz, {', '.join(sorted(why))}"
        + (f", {gpu.temperature_c:.0f} °C" if gpu.temperature_c is not None else "")
    )  # fmt: skip


def _used_by_others(gpu: GpuReading) -> tuple[float, str] | None:
    """How much of a GPU that the program holds others take, and the evidence. Memory alone slows nothing."""
    if not gpu.own_bytes or not gpu.tenants or (gpu.utilization or 0.0) < _BUSY:
        return None
    if gpu.tenants_utilization is not None:
        shares = {pid: share for pid, share in gpu.tenants_utilization.items() if share > 0}
        whole = min(1.0, sum(shares.values()))
        if whole < _USES:
            return None
        names = [f"{name or 'a process'} ({pid})" for pid, name, _ in gpu.tenants if pid in shares]
        return whole, f"{_name(gpu)}: kernels of {', '.join(names) or 'other processes'} run {whole:.0%} of the time"
    busy = [each for each in gpu.tenants if (gpu.tenants_cpu or {}).get(each[0], 0.0) >= _USES_CPU]
    if not busy or (gpu.utilization or 0.0) < _FULL:
        return None
    pid, name, held_bytes = busy[0]
    holds = f", which holds {size(held_bytes)} there," if held_bytes else ""
    cpu = (gpu.tenants_cpu or {})[pid]
    return _USES, (
        f"{_name(gpu)} is used {gpu.utilization:.0%} of the time, and {name or 'a process'} ({pid}){holds} "
        f"uses {cpu:.1f} CPUs meanwhile"
    )


def _name(gpu: GpuReading) -> str:
    return f"GPU {gpu.index} {gpu.name}".rstrip()
