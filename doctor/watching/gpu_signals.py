"""What NVML says about all GPUs while a program runs, about once a second; asked in a child process, for it may hang."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

import tfgpu_doctor.collect.workers
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.streamed import Streamed
from tfgpu_doctor.watching.program_environment import variables_of, visible_gpus
from tfgpu_doctor.watching.reading import GpuReading
from tfgpu_doctor.watching.thread_states import HERTZ, read_stat

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(tfgpu_doctor.collect.workers.__file__)), "sample_nvml.py")
_EVERY_S = 1.0
_FOR_EVER_S = 1e9
_CPU_EVERY_S = 1.0
_SILENT_S = 10.0  # no answer for that long: NVML hangs, and what it said before is no longer true


class _Tenant(msgspec.Struct, frozen=True):
    pid: int
    name: str = ""
    memory_bytes: int | None = None
    utilization_percent: float | None = None


class _Described(msgspec.Struct, frozen=True):
    name: str = ""
    uuid: str = ""
    max_sm_mhz: float | None = None
    power_limit_w: float | None = None


class _Sample(msgspec.Struct, frozen=True):
    sm_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    utilization_percent: float | None = None
    reasons: tuple[str, ...] | None = None
    tenants: tuple[_Tenant, ...] = ()
    used_bytes: int | None = None
    total_bytes: int | None = None


class _Line(msgspec.Struct, frozen=True):
    """One line of `sample_nvml`; it has one of these."""

    phase: str = ""
    library_error: str = ""
    gpus: dict[int, _Described] = {}
    samples: dict[str, dict[int, _Sample]] = {}  # by the time, in seconds of the machine's monotonic clock


class GpuSignals:
    """Looks at all GPUs in a child process, until it is stopped. `own_pids` are the numbers of the program's processes.

    In a container NVML may know the program by other numbers, or name no process at all. As long as none of its numbers
    was on any GPU, nobody knows what it holds there, and a process that /proc does not show may be the program itself:
    it is not among the tenants. Then CUDA_VISIBLE_DEVICES may tell which GPUs it sees.
    """

    def __init__(self, host: Host, own_pids: Callable[[], set[int]]) -> None:
        self._host, self._own_pids = host, own_pids
        self._lock = threading.Lock()
        self._described: dict[int, _Described] = {}
        self._samples: dict[int, _Sample] = {}
        self._sampled_at_s: float | None = None
        self._phase, self._error = "", ""
        self._heard_at_s: float | None = None  # None: it was not started
        self._own_was_seen = False
        self._variables: dict[int, str | None] = {}  # CUDA_VISIBLE_DEVICES, by the number of a process of the program
        self._cpu: dict[int, tuple[float, float, float]] = {}  # of other processes: when, CPU time so far, CPUs used
        self._trouble_at_end: str | None = None  # None: it was not stopped
        plan = {"seconds": _FOR_EVER_S, "every_s": _EVERY_S, "with_tenants": True}
        self._streamed = Streamed(
            # -S: the search path is given instead, so that no .pth file runs; -B: -E ignores the variable for that
            [sys.executable, "-B", "-E", "-S", _PROGRAM, json.dumps(sys.path), json.dumps(plan)],
            environment=host.variables(),
            hear=self._hear,
        )

    def start(self) -> None:
        """Start to look."""
        self._heard_at_s = time.monotonic()
        self._streamed.start()

    def stop(self) -> None:
        """End the child process; `trouble` remains what it was."""
        with self._lock:
            self._trouble_at_end = self._trouble()
        self._streamed.stop()

    def latest(self) -> list[GpuReading]:
        """The last reading of each GPU, by index; none before the first, after the end, and while there is trouble."""
        own = self._own_pids()
        with self._lock:
            if self._sampled_at_s is None or self._trouble() or self._trouble_at_end is not None:
                return []
            at_s, rows, described = self._sampled_at_s, dict(self._samples), dict(self._described)
        self._own_was_seen = self._own_was_seen or any(each.pid in own for row in rows.values() for each in row.tenants)
        readings = [
            self._reading(at_s, index, described.get(index, _Described()), row, own)
            for index, row in sorted(rows.items())
        ]
        return self._with_visible(readings, own)

    @property
    def trouble(self) -> str:
        """Why there are no readings; empty if there are, or if it is too early to say."""
        with self._lock:
            return self._trouble()

    def _trouble(self) -> str:
        if self._trouble_at_end is not None:
            return self._trouble_at_end
        if self._error:
            return self._error
        if self._streamed.ended:
            return f"the NVML query {self._streamed.ended}"
        silent_s = time.monotonic() - self._heard_at_s if self._heard_at_s is not None else 0.0
        if silent_s > _SILENT_S:
            return f"NVML has not answered for {silent_s:.0f} s" + (f": {self._phase}" if self._phase else "")
        return "NVML reports no GPU" if self._sampled_at_s is not None and not self._samples else ""

    def _hear(self, said: dict[str, Any]) -> None:
        """Take one line; called on the thread that reads."""
        try:
            line = msgspec.convert(said, _Line, str_keys=True)
        except msgspec.ValidationError as error:
            line = _Line(library_error=f"the answer of NVML is not understood: {error}")
        with self._lock:
            self._heard_at_s = time.monotonic()
            self._phase = line.phase or self._phase
            if line.library_error or line.samples:
                self._error = line.library_error
            self._described.update(line.gpus)
            for at_s, rows in line.samples.items():
                self._sampled_at_s, self._samples = float(at_s), rows

    def _with_visible(self, readings: list[GpuReading], own: set[int]) -> list[GpuReading]:
        """Note which GPUs the program sees, from the variables of its processes."""
        self._variables = {
            pid: self._variables[pid]
            if pid in self._variables
            else variables_of(self._host.files, pid).get("CUDA_VISIBLE_DEVICES")
            for pid in own
        }
        names = {each.index: (each.name, each.uuid) for each in readings}
        visible = visible_gpus(list(self._variables.values()), names)
        return [msgspec.structs.replace(each, visible=visible[each.index]) for each in readings]

    def _cpus_of(self, pid: int) -> float | None:
        """The CPUs that another process uses; None at its first look, and if /proc does not show it."""
        stat, now = read_stat(self._host.files, f"/proc/{pid}"), time.monotonic()
        if stat is None:
            return None
        used_s = stat.own_ticks / HERTZ
        at_s, before_s, cpus = self._cpu.get(pid, (now, used_s, -1.0))
        if now - at_s >= _CPU_EVERY_S:
            cpus = max(0.0, used_s - before_s) / (now - at_s)
            at_s, before_s = now, used_s
        self._cpu[pid] = at_s, before_s, cpus
        return None if cpus < 0 else cpus

    def _reading(self, at_s: float, index: int, gpu: _Described, row: _Sample, own: set[int]) -> GpuReading:
        share = row.utilization_percent
        tenants = [
            each
            for each in row.tenants
            if each.pid not in own and (self._own_was_seen or self._host.files.exists(f"/proc/{each.pid}"))
        ]
        shares = {each.pid: each.utilization_percent / 100 for each in tenants if each.utilization_percent is not None}
        told = any(each.utilization_percent is not None for each in row.tenants)
        cpus = {each.pid: used for each in tenants if (used := self._cpus_of(each.pid)) is not None}
        return GpuReading(
            at_s=at_s,
            index=index,
            name=gpu.name,
            uuid=gpu.uuid,
            utilization=None if share is None else share / 100,
            used_bytes=row.used_bytes,
            total_bytes=row.total_bytes,
            own_bytes=self._own_bytes(row, own),
            sm_mhz=row.sm_mhz,
            max_sm_mhz=gpu.max_sm_mhz,
            power_w=row.power_w,
            power_limit_w=gpu.power_limit_w,
            temperature_c=row.temperature_c,
            reasons=row.reasons,
            tenants=tuple((each.pid, each.name, each.memory_bytes) for each in tenants),
            tenants_utilization=shares if told else None,
            tenants_cpu=cpus or None,
        )

    def _own_bytes(self, row: _Sample, own: set[int]) -> int | None:
        held = [each.memory_bytes for each in row.tenants if each.pid in own]
        known = [each for each in held if each is not None]
        return sum(known) if self._own_was_seen and len(known) == len(held) else None
