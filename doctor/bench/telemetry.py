"""Sample clocks, temperature and power while the comparisons run, to explain a GPU that is slower than expected."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from types import TracebackType

import msgspec

from tfgpu_doctor.bench.verdict import CLOCK_FELL
from tfgpu_doctor.collect.probes.stress_gpus import candidates
from tfgpu_doctor.collect.probes.stress_samples import Look, Sampling, readings, sample
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, Comparison

_EVERY_S = 0.25
_LONGEST_S = 86400.0
_CLOCKS = "clocks and heat meanwhile"
_FELL = 0.03  # a share of the SM clock: it varies by one step, of 1 %, under a steady load
_IDLE, _LOCKED = "gpu_idle", "applications_clocks_setting"
_END_S = 5.0  # time for the child process to end after the stop request


class Telemetry:
    """Samples all GPUs of a machine from a separate child process during the block; does nothing if there are none."""

    def __init__(self, host: Host, facts: Facts) -> None:
        self._host, self._facts = host, facts
        self._gpus = bool(facts.nvml and facts.nvml.gpus)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._sampling: Sampling | None = None

    def __enter__(self) -> Telemetry:  # noqa: PYI034 - Self came with Python 3.11
        if self._gpus:
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread:
            self._thread.join(_END_S)
        self._host.stop()

    def _look(self) -> None:
        self._sampling = sample(self._host, seconds=_LONGEST_S, every_s=_EVERY_S, until=self._over)

    def conditions_of(self, bench: Bench) -> dict[str, str]:
        """Return whether a setting of the administrator's limited the clocks of a GPU while it was measured."""
        limited: dict[str, list[bool]] = {}
        for comparison in bench.comparisons:
            for gpu, seen in comparison.readings.items():
                limited.setdefault(gpu, []).append(_LOCKED in seen.reasons)
        return {f"locked clocks of GPU {gpu}": "on" if any(told) else "off" for gpu, told in sorted(limited.items())}

    def added_to(self, bench: Bench) -> Bench:
        """Return the run, each comparison with the readings of the GPUs that it used."""
        if not self._gpus:
            return bench
        sampling = self._sampling
        trouble = sampling.trouble if sampling else "NVML did not finish"
        if sampling is None or trouble:
            return msgspec.structs.replace(bench, skipped={**bench.skipped, _CLOCKS: trouble})
        boards = self._boards(sampling)
        clock = time.time() - time.monotonic()  # comparisons use wall-clock times, samples use monotonic times
        return msgspec.structs.replace(
            bench,
            comparisons=tuple(
                _seen_during(comparison, sampling, [boards[gpu] for gpu in _used(comparison) if gpu in boards], clock)
                for comparison in bench.comparisons
            ),
        )

    def _boards(self, sampling: Sampling) -> dict[str, str]:
        """Return NVML's index of each GPU that TensorFlow lists ("GPU:0"), or has a slice of, as far as it is known."""
        runtime, cuda, nvml = self._facts.runtime, self._facts.cuda_driver, self._facts.nvml
        if not (runtime and cuda and nvml):
            return {}
        listed = candidates(runtime, cuda, nvml, sampling, {})
        return {f"GPU:{each.index}": each.number for each in listed if each.number is not None}


def _used(comparison: Comparison) -> list[str]:
    """Return the devices of both sides."""
    sides = [side for side in (comparison.candidate, comparison.baseline) if side]
    devices = [comparison.device, *(device for side in sides for device in (side.device, *side.also))]
    return list(dict.fromkeys(devices))


def _seen_during(comparison: Comparison, sampling: Sampling, gpus: Sequence[str], clock: float) -> Comparison:
    measured = comparison.spans or ((comparison.started, comparison.took_s),)
    spans = [(started - clock, started - clock + took_s) for started, took_s in measured]
    looks = {gpu: sampling.looks(gpu, spans) for gpu in dict.fromkeys(gpus)}
    told = [_fall(gpu, [sampling.looks(gpu, [span]) for span in spans]) for gpu in looks] if comparison.on_gpu else []
    return msgspec.structs.replace(
        comparison,
        readings={gpu: readings(found) for gpu, found in looks.items() if found},
        reason="; ".join(filter(None, (comparison.reason, *told))),
    )


def _fall(gpu: str, spans: Sequence[Sequence[Look]]) -> str:
    """Say by how much the SM clock of a GPU fell within a measurement, in the process where it fell most; else nothing."""
    falls = [fall for looks in spans if (fall := _from_half_to_half(looks)) and 1 - fall[1] / fall[0] > _FELL]
    if not falls:
        return ""
    before, after = max(falls, key=lambda fall: fall[0] / fall[1])
    why = f"{CLOCK_FELL} {gpu} fell from {before:.0f} to {after:.0f} MHz during the measurement"
    return f"{why}: its boost ended, or it became too hot"


def _from_half_to_half(looks: Sequence[Look]) -> tuple[float, float] | None:
    """Return the mean SM clock of the first and of the second half of the samples with work."""
    clocks = [look.sm_mhz for look in looks if look.sm_mhz and _IDLE not in (look.reasons or ())]
    half = len(clocks) // 2
    return (statistics.fmean(clocks[:half]), statistics.fmean(clocks[-half:])) if half else None
