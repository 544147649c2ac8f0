"""Run a comparison: verify where both sides ran, check their results, measure, judge, and write the journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tfgpu_doctor.bench import Measured, Plan, judge, measure
from tfgpu_doctor.model.facts.bench import Comparison, Side
from tfgpu_doctor.perf_tests.children import Answer
from tfgpu_doctor.perf_tests.journal import note
from tfgpu_doctor.perf_tests.other_work import Reading
from tfgpu_doctor.perf_tests.placement import devices_of, watch_placement


@dataclass(frozen=True)
class Variant:
    """One side of a comparison. `verify` gets the result of a call, and raises AssertionError if it is wrong."""

    name: str
    call: Callable[[], Any]
    verify: Callable[[Any], None]
    device: str = "CPU:0"  # the device that must run its work
    carriers: tuple[str, ...] = ()  # parts of the names of the operations that carry its work; empty: CARRIERS
    compiled: bool = False  # all of its work is one function with jit_compile=True


class NotRun(Exception):
    """Raised for a comparison without a verdict; the message says why. `fault`: something is wrong, not only missing."""

    def __init__(self, why: str, *, fault: bool) -> None:
        super().__init__(why)
        self.fault = fault


class Runner:
    """Runs the comparisons of one test session."""

    def __init__(self, synchronise: Callable[[], object]) -> None:
        self._synchronise = synchronise

    def hold(
        self, name: tuple[str, str], candidate: Variant, baseline: Variant, *, at_least: float, budget_s: float
    ) -> tuple[Comparison, NotRun | None]:
        """Run the comparison with that suite and name; return it, and the reason if it has no verdict."""
        on_gpu = "GPU" in candidate.device
        known: dict[str, Any] = {
            "suite": name[0], "name": name[1], "at_least": at_least, "on_gpu": on_gpu, "device": candidate.device,
        }  # fmt: skip
        started = time.time()
        note("start", {**known, "budget_s": budget_s})
        try:
            sides = [self._first_call(each) for each in (candidate, baseline)]
            before = Reading.now()
            measured = measure(
                candidate.call, baseline.call, plan=Plan(budget_s=budget_s), synchronise=self._synchronise,
                on_round=lambda rounds: note("round", {"rounds": rounds}) if rounds % 50 == 0 else None,
            )  # fmt: skip
        except NotRun as error:
            trouble: NotRun | None = error
            comparison = Comparison(verdict="not run", reason=str(error), **known)
        except Exception as error:  # noqa: BLE001 - any exception of a framework ends only this comparison
            trouble = NotRun(reason_of(error), fault=True)
            comparison = Comparison(verdict="not run", reason=str(trouble), **known)
        else:
            trouble = None
            after = Reading.now()
            known["other_work"] = round(after.others_since(before), 3) if before and after else None
            comparison = _judged(known, sides, measured)
        comparison = msgspec.structs.replace(comparison, started=started, took_s=round(time.time() - started, 3))
        note("comparison", {"comparison": msgspec.to_builtins(comparison)})
        return comparison, trouble

    def _first_call(self, variant: Variant) -> Side:
        """Call the variant once before timing. Raises NotRun if it runs on another device or returns a wrong result."""
        with watch_placement() as placement:
            started = time.perf_counter()
            result = variant.call()
            took_s = time.perf_counter() - started
        # Outside of the watch: TensorFlow reports what synchronises the GPUs as an operation on a GPU.
        started = time.perf_counter()
        self._synchronise()
        took_s += time.perf_counter() - started
        placement.results, placement.told = devices_of(result), isinstance(result, Answer)
        if wrong := placement.contradicts(variant.device, variant.carriers, compiled=variant.compiled):
            raise NotRun(f"{variant.name}: {wrong}", fault=True)
        try:
            variant.verify(result)
        except AssertionError as error:
            raise NotRun(f"the result of {variant.name} is wrong: {_first_line(error)}", fault=True) from error
        return Side(name=variant.name, device=placement.device or variant.device, first_call_s=round(took_s, 4))


def _judged(known: dict[str, Any], sides: list[Side], measured: Measured) -> Comparison:
    verdict, reason = judge(measured.ratio, known["at_least"])
    times = (measured.candidate_s, measured.baseline_s)
    candidate, baseline = (
        msgspec.structs.replace(side, seconds=seconds, calls_a_round=calls)
        for side, seconds, calls in zip(sides, times, measured.calls_a_round, strict=True)
    )
    return Comparison(
        verdict=verdict, reason=reason, ratio=measured.ratio.value, interval=(measured.ratio.low, measured.ratio.high),
        rounds=len(measured.candidate_s), candidate=candidate, baseline=baseline, **known,
    )  # fmt: skip


def reason_of(error: BaseException) -> str:
    """Describe briefly why an operation failed on the device."""
    kind, words = type(error).__name__, _first_line(error)
    if kind == "ResourceExhaustedError" or isinstance(error, MemoryError):
        return f"out of memory: {words}"
    return f"{kind}: {words}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
