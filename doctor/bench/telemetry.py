"""Sample clocks, temperature and power while the comparisons run, to explain a GPU that is slower than expected."""

from __future__ import annotations

import threading
import time
from types import TracebackType

import msgspec

from tfgpu_doctor.collect.probes.stress_samples import Sampling, readings, sample
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.bench import Bench, Comparison

_EVERY_S = 0.25
_LONGEST_S = 86400.0
_CLOCKS = "clocks and heat meanwhile"
_END_S = 5.0  # time for the child process to end after the stop request


class Telemetry:
    """Samples all GPUs from a separate child process during the block; does nothing if there are no GPUs."""

    def __init__(self, host: Host, *, gpus: bool) -> None:
        self._host, self._gpus = host, gpus
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

    def added_to(self, bench: Bench) -> Bench:
        """Return the run, each comparison with the readings of the GPUs during it."""
        if not self._gpus:
            return bench
        sampling = self._sampling
        trouble = sampling.trouble if sampling else "NVML did not finish"
        if sampling is None or trouble:
            return msgspec.structs.replace(bench, skipped={**bench.skipped, _CLOCKS: trouble})
        clock = time.time() - time.monotonic()  # comparisons use wall-clock times, samples use monotonic times
        return msgspec.structs.replace(
            bench, comparisons=tuple(_seen_during(comparison, sampling, clock) for comparison in bench.comparisons)
        )


def _seen_during(comparison: Comparison, sampling: Sampling, clock: float) -> Comparison:
    measured = comparison.spans or ((comparison.started, comparison.took_s),)
    spans = [(started - clock, started - clock + took_s) for started, took_s in measured]
    looks = {gpu: sampling.looks(gpu, spans) for gpu in sampling.gpus}
    return msgspec.structs.replace(comparison, readings={gpu: readings(found) for gpu, found in looks.items() if found})
