"""Run a comparison: verify where both sides ran, check their results, measure, judge, and write the journal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tfgpu_doctor.bench import Measured, Plan, judge, measure
from tfgpu_doctor.model.facts.bench import Comparison, Side
from tfgpu_doctor.perf_tests.children import Answer
from tfgpu_doctor.perf_tests.notes import alive, note
from tfgpu_doctor.perf_tests.other_work import Reading
from tfgpu_doctor.perf_tests.placement import devices_of, watch_placement

WARM_UP_S = 1.5  # the clock of a cold GPU is higher; its boost ends within the first second or two
COOLS_AFTER_S = 1.0  # a GPU without work for longer boosts again, or has lowered its clocks
PART = "one of several processes measured it"
NO_MEMORY = "out of memory"  # with this begins the reason of what lacked memory: nothing else is wrong


@dataclass(frozen=True)
class Variant:
    """One side of a comparison. `verify` gets the result of a call, and raises AssertionError if it is wrong."""

    name: str
    call: Callable[[], Any]
    verify: Callable[[Any], None]
    device: str = "CPU:0"  # the device that must run its work
    carriers: tuple[str, ...] = ()  # parts of the names of the operations that carry its work; empty: CARRIERS
    compiled: bool = False  # all of its work is one function with jit_compile=True
    also: tuple[str, ...] = ()  # further GPUs that must run a part of it


class NotRun(Exception):
    """Raised for a comparison without a verdict; the message says why. `fault`: something is wrong, not only missing."""

    def __init__(self, why: str, *, fault: bool) -> None:
        super().__init__(why)
        self.fault = fault


class Runner:
    """Runs the comparisons of one test session."""

    def __init__(self, synchronise: Callable[[], object]) -> None:
        self._synchronise = synchronise
        self._worked = -math.inf  # when a GPU last had work for long

    def hold(
        self, name: tuple[str, str], candidate: Variant, baseline: Variant, *, at_least: float, plan: Plan | None,
        alone: bool = True,
    ) -> tuple[Comparison, NotRun | None]:  # fmt: skip
        """Run the comparison with that suite and name; return it, and the reason if it was not measured.

        `alone`: this process judges. Otherwise it is one of several, whose ratios are combined afterwards. Without a
        plan, both sides are verified, and nothing is measured.
        """
        on_gpu = "GPU" in candidate.device + baseline.device
        known: dict[str, Any] = {
            "suite": name[0], "name": name[1], "at_least": at_least, "on_gpu": on_gpu, "device": candidate.device,
        }  # fmt: skip
        started = time.time()
        note("start", known)
        try:
            sides = [self._first_call(each) for each in (candidate, baseline)]
            if plan is None:
                return Comparison(verdict="not run", reason="measuring is disabled", **known), None
            if on_gpu:
                self._warm_up(candidate, baseline)
            before, began = Reading.now(), time.time()
            # A wait for GPUs that have no work would only make both sides slower by the same time.
            measured = measure(
                candidate.call, baseline.call, plan=plan, synchronise=self._synchronise if on_gpu else _no_wait,
                on_round=lambda _: alive(),
            )  # fmt: skip
            known["spans"] = ((began, round(time.time() - began, 3)),)
            self._worked = time.perf_counter() if on_gpu else self._worked
        except NotRun as error:
            trouble: NotRun | None = error
            comparison = Comparison(verdict="not run", reason=str(error), harmless=not error.fault, **known)
        except Exception as error:  # noqa: BLE001 - any exception of a framework ends only this comparison
            trouble = NotRun(reason_of(error), fault=True)
            lacked = str(trouble).startswith(NO_MEMORY)
            comparison = Comparison(verdict="not run", reason=str(trouble), harmless=lacked, **known)
        else:
            trouble = None
            after = Reading.now()
            known["other_work"] = round(after.others_since(before), 3) if before and after else None
            comparison = _judged(known, sides, measured) if alone else _part(known, sides, measured)
        took_s = round(time.time() - started, 3)
        comparison = msgspec.structs.replace(comparison, started=started, took_s=took_s)
        note("comparison", {"comparison": msgspec.to_builtins(comparison)})
        return comparison, trouble

    def _warm_up(self, *variants: Variant) -> None:
        """Keep the devices as busy as in a measurement, so that they run at their lasting clocks when it begins."""
        if time.perf_counter() - self._worked < COOLS_AFTER_S:
            return
        until = time.perf_counter() + WARM_UP_S
        while time.perf_counter() < until:
            for each in variants:
                each.call()
                self._synchronise()
                alive()

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
        wrong = placement.contradicts(variant.device, variant.carriers, compiled=variant.compiled, also=variant.also)
        if wrong:
            raise NotRun(f"{variant.name}: {wrong}", fault=placement.told or not placement.blind)
        try:
            variant.verify(result)
        except AssertionError as error:
            raise NotRun(f"the result of {variant.name} is wrong: {_first_line(error)}", fault=True) from error
        device = placement.device or variant.device
        return Side(name=variant.name, device=device, also=variant.also, first_call_s=round(took_s, 4))


def _no_wait() -> None:
    """Wait for nothing."""


def _judged(known: dict[str, Any], sides: list[Side], measured: Measured) -> Comparison:
    verdict, reason = judge(measured.ratio, known["at_least"])
    part = _part(known, sides, measured)
    interval = (measured.ratio.low, measured.ratio.high)
    return msgspec.structs.replace(part, verdict=verdict, reason=reason, ratio=measured.ratio.value, interval=interval)


def _part(known: dict[str, Any], sides: list[Side], measured: Measured) -> Comparison:
    """What this process measured, without a verdict."""
    times = (measured.candidate_s, measured.baseline_s)
    candidate, baseline = (
        msgspec.structs.replace(side, seconds=seconds, calls_a_round=calls)
        for side, seconds, calls in zip(sides, times, measured.calls_a_round, strict=True)
    )
    ratio = math.exp(measured.log_ratio)
    return Comparison(
        verdict="not run", reason=PART, ratio=ratio, process_ratios=(ratio,), rounds=len(measured.candidate_s),
        candidate=candidate, baseline=baseline, **known,
    )  # fmt: skip


def reason_of(error: BaseException) -> str:
    """Describe briefly why an operation failed on the device."""
    kind, words = type(error).__name__, _first_line(error)
    if kind == "ResourceExhaustedError" or isinstance(error, MemoryError):
        return f"{NO_MEMORY}: {words}"
    return f"{kind}: {words}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
