"""NVML readings of all GPUs several times a second: users before a stress test; clocks, temperature and power during it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Sequence

from tfgpu_doctor.collect.probes.child import ask, understand
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.facts.stress import Readings

_START_S = 20.0  # for an interpreter and NVML to start, and for a GPU to respond
_LIMITS_NOTHING = ("gpu_idle",)


class Tenant(Fact, frozen=True):
    """A process that computes on a GPU."""

    pid: int
    name: str = ""
    memory_bytes: int | None = None


class Look(Fact, frozen=True):
    """One GPU at one moment; None if NVML does not report the value."""

    sm_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    utilization_percent: float | None = None
    reasons: tuple[str, ...] | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    tenants: tuple[Tenant, ...] = ()
    used_bytes: int | None = None
    drawing_bytes: int = 0  # used by processes that only draw


class Described(Fact, frozen=True):
    """The constant properties of a GPU."""

    uuid: str = ""
    pci_address: str = ""
    max_sm_mhz: float | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    slowdown_c: float | None = None


class Sampling(Fact, frozen=True):
    """All samples of all GPUs, by NVML's index of each."""

    attempt: Attempt
    library_error: str = ""
    gpus: dict[str, Described] = {}
    samples: dict[str, dict[str, Look]] = {}  # by the time, in seconds of the machine's monotonic clock

    def looks(self, gpu: str, spans: Sequence[tuple[float, float]]) -> list[Look]:
        """The samples of one GPU within any of the spans."""
        return [
            looks[gpu]
            for moment, looks in self.samples.items()
            if gpu in looks and any(began <= float(moment) <= ended for began, ended in spans)
        ]

    @property
    def trouble(self) -> str:
        """Why there are no samples; empty if there are."""
        if self.samples:
            return ""
        return self.library_error or f"the NVML query {self.attempt.ending}"


def sample(
    host: Host,
    *,
    seconds: float,
    every_s: float,
    with_tenants: bool = False,
    until: threading.Event | None = None,
) -> Sampling:
    """Sample for that long, or until the event is set, in a child process with the doctor's own interpreter."""
    plan = {"seconds": seconds, "every_s": every_s, "with_tenants": with_tenants}
    attempt, answer, _ = ask(
        host,
        sys.executable,
        "sample_nvml",
        [json.dumps(sys.path), json.dumps(plan)],
        deadline_s=seconds + _START_S,
        options=("-E", "-S"),
        until=until or threading.Event(),
    )
    return understand(Sampling, attempt, answer)


def readings(looks: Sequence[Look]) -> Readings:
    """The samples, summarized."""
    clocks = [look.sm_mhz for look in looks if look.sm_mhz is not None]
    told = [look.reasons for look in looks if look.reasons is not None]
    words = {word for reasons in told for word in reasons if word not in _LIMITS_NOTHING}
    return Readings(
        samples=len(looks),
        sm_mhz=_mean(clocks),
        lowest_sm_mhz=min(clocks, default=None),
        temperature_c=max((look.temperature_c for look in looks if look.temperature_c is not None), default=None),
        power_w=_mean(look.power_w for look in looks),
        utilization_percent=_mean(look.utilization_percent for look in looks),
        reasons={word: round(sum(word in each for each in told) / len(told), 3) for word in sorted(words)},
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 1) if known else None
