"""A stress test of the GPUs: correctness of results, integrity of memory, speed and temperature.

Each GPU has its own process, so that one that crashes or hangs does not lose the measurements of others. All compute
at the same time: only then do the machine's power and cooling limits show. Copies follow, in one process and one
after the other, because they share the machine's links.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from tfgpu_doctor.collect.probe import Request, Unavailable, probe
from tfgpu_doctor.collect.probes.child import ask, understand
from tfgpu_doctor.collect.probes.stress_gpus import Candidate, candidates, who_uses
from tfgpu_doctor.collect.probes.stress_plan import IDLE_EVERY_S, IDLE_S, VARIABLES, Plan, make_plan, visible
from tfgpu_doctor.collect.probes.stress_samples import Described, Sampling, readings, sample
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.stress import StressedGpu, StressRound, StressTest, Transfer

_RAMP_S = 0.5  # until the clocks have settled under load
Answer = tuple[Attempt, dict[str, Any]]


class _Work(Fact, frozen=True):
    """A process's report about one GPU; its times are those of the machine's monotonic clock."""

    attempt: Attempt
    phase_s: float | None = None
    error: str = ""
    deterministic: bool = False
    free_bytes: int | None = None
    integrated: bool = False
    rounds: dict[str, StressRound] = {}


class _Copies(Transfer, frozen=True):
    """Copies, and when they were made."""

    began_s: float = 0.0
    ended_s: float = 0.0


class _Links(Fact, frozen=True):
    """The report of the process that copies."""

    attempt: Attempt
    phase_s: float | None = None
    error: str = ""
    transfers: dict[str, _Copies] = {}


@probe(waits_for="the stress test of the GPUs", deadline_s=lambda request: request.stress_deadline_s, keeps_part=True)
def stress(host: Host, request: Request, runtime: Runtime, nvml: Nvml, cuda_driver: CudaDriver) -> StressTest:
    """Stress-test each GPU that TensorFlow lists and no other process uses."""
    _refuse(request, runtime)
    began = time.monotonic()
    plan = make_plan(request, runtime)
    before = sample(host, seconds=IDLE_S, every_s=IDLE_EVERY_S, with_tenants=True)
    listed = candidates(runtime, cuda_driver, nvml, before, host.environment)
    busy = {each.index: who_uses(each, before) for each in listed}
    chosen = [each for each in listed if request.even_if_busy or not busy[each.index]]
    answers, copying, sampling = _Run(host, request, plan, listed, chosen).go(began) if chosen else ({}, None, before)
    gpus = tuple(_stressed(each, busy[each.index], answers.get(each.index), sampling, began) for each in listed)
    links = understand(_Links, *copying) if copying else None
    return StressTest(
        level=request.level,
        seconds=round(time.monotonic() - began, 1),
        gpus=gpus,
        transfers=tuple(_transfer(each, chosen, sampling) for each in links.transfers.values()) if links else (),
        transfers_attempt=_with_listed_names(links.attempt, chosen) if links else None,
        transfers_phase_s=links.phase_s if links else None,
        transfers_error=links.error if links else "",
        sampling=sampling.attempt,
        sampling_error=sampling.trouble,
        interrupted=host.stopped,
    )


def _refuse(request: Request, runtime: Runtime) -> None:
    if not request.stresses:
        raise Unavailable("only --level deep and --level soak stress-test the GPUs")
    if runtime.only_listed:
        raise Unavailable("a simulated driver runs no kernels")
    if not runtime.gpus:
        raise Unavailable("TensorFlow lists no GPU to stress-test")


class _Run:
    """The processes of a stress test: one for each GPU, one that samples all of them, and then one that copies."""

    def __init__(
        self, host: Host, request: Request, plan: Plan, listed: list[Candidate], chosen: list[Candidate]
    ) -> None:
        self._host, self._python, self._plan = host, request.python, plan
        self._count, self._chosen = len(listed), chosen

    def go(self, began: float) -> tuple[dict[int, Answer], Answer | None, Sampling]:
        """Run them all, and return the answer of each."""
        from concurrent.futures import ThreadPoolExecutor  # not needed at other levels

        over = threading.Event()
        with ThreadPoolExecutor(len(self._chosen) + 1) as pool:
            looking = pool.submit(
                sample, self._host, seconds=self._plan.total_s, every_s=self._plan.every_s, until=over
            )
            try:
                given = pool.map(self._stress, self._chosen)
                answers = {each.index: answer for each, answer in zip(self._chosen, given, strict=True)}
                copying = self._copy(self._plan.total_s - (time.monotonic() - began))
            finally:
                over.set()
            return answers, copying, looking.result()

    def _stress(self, candidate: Candidate) -> Answer:
        return self._ask(
            "stress_gpu", self._plan.for_gpu(candidate), self._plan.stress_deadline_s, visible([candidate], self._count)
        )

    def _copy(self, left_s: float) -> Answer | None:
        seconds = self._plan.links_s(left_s)
        if seconds <= 1 or self._host.stopped:
            return None
        plan = self._plan.for_links(len(self._chosen), seconds)
        return self._ask("stress_links", plan, left_s, visible(self._chosen, self._count))

    def _ask(self, program: str, plan: list[str], deadline_s: float, variables: Mapping[str, str]) -> Answer:
        began = time.monotonic()
        attempt, answer, _ = ask(
            self._host,
            self._python,
            program,
            plan,
            deadline_s=deadline_s,
            variables={**VARIABLES, **variables},
            until=threading.Event(),
        )
        moment = answer.pop("phase_began_s", None)
        if isinstance(moment, float) and not attempt.answered:
            answer["phase_s"] = round(max(0.0, began + attempt.seconds - moment), 1)
        return attempt, answer


def _stressed(
    candidate: Candidate, busy: tuple[str, ...], answer: Answer | None, sampling: Sampling, began: float
) -> StressedGpu:
    """The fact of one GPU."""
    limits = sampling.gpus.get(candidate.number or "", Described())
    gpu = StressedGpu(
        index=candidate.index,
        name=candidate.name,
        uuid=candidate.uuid,
        compute_capability=candidate.compute_capability,
        multiprocessors=candidate.multiprocessors,
        mig=candidate.mig,
        busy=busy,
        untouched="" if answer else "; ".join(busy),
        max_sm_mhz=limits.max_sm_mhz,
        power_limit_w=limits.power_limit_w,
        default_power_limit_w=limits.default_power_limit_w,
        slowdown_c=limits.slowdown_c,
    )
    if answer is None:
        return gpu
    done = understand(_Work, *answer)
    return msgspec.structs.replace(
        gpu,
        attempt=done.attempt,
        phase_s=done.phase_s,
        error=done.error,
        deterministic=done.deterministic,
        free_bytes=done.free_bytes,
        integrated=done.integrated,
        rounds=tuple(_with_readings(each, candidate, sampling, began) for each in done.rounds.values()),
    )


def _with_readings(row: StressRound, candidate: Candidate, sampling: Sampling, began: float) -> StressRound:
    """A round, its times relative to the start of the stress test, with NVML's readings during matrix multiplication."""
    spans = [(each.began_s + _RAMP_S, each.began_s + each.seconds) for each in row.speeds if each.iterations]
    looks = sampling.looks(candidate.number, spans) if candidate.number is not None else []
    return msgspec.structs.replace(
        row,
        began_s=round(row.began_s - began, 1),
        speeds=tuple(msgspec.structs.replace(each, began_s=round(each.began_s - began, 1)) for each in row.speeds),
        readings=readings(looks) if looks else None,
    )


def _with_listed_names(attempt: Attempt, chosen: list[Candidate]) -> Attempt:
    """The attempt to copy, with GPUs in its phase under the names that TensorFlow uses when it lists all."""
    names = {f"GPU:{place}": f"GPU:{each.index}" for place, each in enumerate(chosen)}
    phase = re.sub(r"GPU:\d+", lambda found: names.get(found.group(), found.group()), attempt.phase)
    return msgspec.structs.replace(attempt, phase=phase)


def _transfer(row: _Copies, chosen: list[Candidate], sampling: Sampling) -> Transfer:
    """Copies, with GPUs under the names that TensorFlow uses when it lists all, and the GPU's link during the copy."""
    seen = {f"GPU:{place}": each for place, each in enumerate(chosen)}
    ends = {end: seen[name] for end in ("source", "destination") if (name := getattr(row, end)) in seen}
    found = msgspec.to_builtins(row)
    found.update({end: f"GPU:{each.index}" for end, each in ends.items()})
    numbers = [each.number for each in ends.values() if each.number is not None]
    if len(ends) == len(numbers) == 1:
        looks = sampling.looks(numbers[0], [(row.began_s, row.ended_s)])
        for name in ("pcie_generation", "pcie_width"):
            found[name] = max((getattr(look, name) or 0 for look in looks), default=0) or None
    return msgspec.convert(found, Transfer)
