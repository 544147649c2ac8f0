"""What is seen of a running program from outside, about once a second. All rates are of the time since the look before."""

from __future__ import annotations

import msgspec


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the program (with all of its descendants) and at its machine; None where the machine does not say.

    `cpu` and the like count CPUs: 1.5 is one CPU and a half. Shares are of 1.
    """

    at_s: float  # of the monotonic clock
    processes: int = 0
    threads: int = 0
    cpu: float = 0.0  # used by the program
    queued: float | None = None  # threads of the program that could run and wait for a CPU (schedstat), in CPUs
    cpus: float | None = None  # that the program may use: affinity, and the quota of its control group
    allowed_cpus: int | None = None  # that it may run on: affinity alone
    others_cpu: float | None = None  # used by all other processes, on the CPUs that the program may run on
    machine_cpus: int | None = None
    throttled: float | None = None  # share of the time in which the control group had used up its quota (cpu.stat)
    cpu_stalled: float | None = None  # PSI "some", of the program's control group or of the machine
    io_stalled: float | None = None
    memory_stalled: float | None = None
    blocked: int = 0  # threads in the state D: they wait for a disk or a driver
    read_bytes_per_s: float | None = None  # from storage (/proc/PID/io read_bytes)
    written_bytes_per_s: float | None = None
    called_bytes_per_s: float | None = None  # by read calls, from the page cache too (rchar)
    major_faults_per_s: float | None = None
    memory_bytes: int = 0  # resident, summed
    memory_limit_bytes: int | None = None  # of the control group
    machine_memory_bytes: int | None = None
    memory_events: dict[str, int] = {}  # high, max, oom, oom_kill since the first look


class GpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """One look at one GPU; None where NVML does not say."""

    at_s: float
    index: int
    name: str = ""
    uuid: str = ""
    utilization: float | None = None  # share of the time in which a kernel ran
    used_bytes: int | None = None
    total_bytes: int | None = None
    own_bytes: int | None = None  # held by the program's processes
    sm_mhz: float | None = None
    max_sm_mhz: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    reasons: tuple[str, ...] | None = None  # why clocks are low, as in sample_nvml
    tenants: tuple[tuple[int, str, int | None], ...] = ()  # other processes: pid, name, bytes
    tenants_utilization: dict[int, float] | None = None  # share of the time in which kernels of each of them ran
    tenants_cpu: dict[int, float] | None = None  # CPUs that each uses, of those that /proc shows
    visible: bool | None = None  # whether CUDA_VISIBLE_DEVICES shows it to the program; None if it is not set
