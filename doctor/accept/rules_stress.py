"""Requirements of the examination: its level, and the share of its model's peak that each GPU reaches in the stress test."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from tfgpu_doctor.accept.power_caps import missed
from tfgpu_doctor.accept.quantities import PEAKS, QUANTITIES, speed_in
from tfgpu_doctor.accept.requirement import Asked, Case, Requirement
from tfgpu_doctor.accept.rules_machine import listed_gpus
from tfgpu_doctor.accept.terms import Precision, gpu_range
from tfgpu_doctor.accept.withheld import VARIABLE, hidden_gpus
from tfgpu_doctor.knowledge import Knowledge, read_knowledge
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.stress import LEVELS, STRESS_LEVELS, StressedGpu, StressTest

ALONE = "end the processes that use the GPU, or add --even-if-busy"


def stress_requirements(case: Case) -> Iterator[Requirement]:
    """Yield the level first, then the fractions of the peak."""
    yield _level(case)
    for precision, least in case.profile.peak_fractions.items():
        asked = case.ask(f"peak-fractions.{precision}", f"matrix products in {precision}", f"{least:.0%} of the peak")
        yield _peak(case, precision, least, asked)


def _level(case: Case) -> Requirement:
    wanted, facts = case.profile.level, case.facts
    minutes = f" for {case.profile.minutes:g} min" if wanted == "soak" else ""
    asked = case.ask("level", "level of examination", f"level {wanted}{minutes}")
    reached = case.report.level
    if LEVELS.index(reached) < LEVELS.index(wanted):
        return asked.unmeasured(f"the machine was examined at level {reached}", case.anew)
    if wanted not in STRESS_LEVELS:
        return asked.met(f"level {reached}")
    why = why_not_loaded(facts, case.why_unknown("stress", "the GPUs were not stress-tested"))
    if why or facts.stress is None:
        return asked.unmeasured(why, ALONE)
    if hidden := _hidden(case):
        return asked.unmeasured(hidden, _all_visible(case))
    if wanted == "soak" and facts.stress.seconds < 60 * case.profile.minutes:
        return asked.unmeasured(f"the stress test lasted {facts.stress.seconds / 60:.1f} min", case.anew)
    return asked.met(
        f"level {reached}, a stress test of {facts.stress.seconds:.0f} s on {_gpus(len(facts.stress.tested))}"
    )


def _hidden(case: Case) -> str:
    """Return which GPUs were not stress-tested because a variable hides them; empty if the profile does not ask for them.

    A profile that asks for fewer GPUs has the others withheld on purpose; one that asks for more is missed by their number.
    """
    listed, hidden = len(listed_gpus(case.facts)), len(hidden_gpus(case.facts, case.report))
    wanted = SpecifierSet(gpu_range(case.profile.gpus))
    if not hidden or not all(wanted.contains(str(count)) for count in (listed, listed + hidden)):
        return ""
    value = case.facts.environment.get(VARIABLE) if case.facts.environment else None
    return f"{VARIABLE}={value} hides {hidden} of {amount(listed + hidden, 'GPU')}: they were not stress-tested"


def _all_visible(case: Case) -> str:
    return (
        f"unset {VARIABLE} and examine the machine again, or set `gpus = {len(listed_gpus(case.facts))}` in the profile"
    )


def _gpus(count: int) -> str:
    return "the GPU" if count == 1 else f"all {count} GPUs"


def why_not_loaded(facts: Facts, otherwise: str) -> str:
    """Return why not every listed GPU was stress-tested; empty if each was."""
    stress, listed = facts.stress, len(listed_gpus(facts))
    if stress is None or not stress.gpus:
        return otherwise
    if stress.interrupted:
        return "the stress test was interrupted"
    alone = [f"GPU {gpu.index} was not tested: {gpu.untouched}" for gpu in stress.gpus if gpu.untouched]
    if not alone and len(stress.gpus) != listed:
        alone = [f"{len(stress.gpus)} of {listed} GPUs were stress-tested"]
    return "; ".join(alone)


def _peak(case: Case, precision: Precision, least: float, asked: Asked) -> Requirement:
    facts = case.facts
    why = why_not_loaded(facts, case.why_unknown("stress", f"it requires level deep; the level is {case.report.level}"))
    if why or facts.stress is None:
        return asked.unmeasured(why, ALONE)
    shares = peak_shares(facts.stress, precision)
    unknown = [f"GPU {index}: {share}" for index, share in shares.items() if isinstance(share, str)]
    if unknown:
        return asked.unmeasured(
            "; ".join(unknown), "remove the requirement from the profile, and require speed-ups instead"
        )
    known = {index: share for index, share in shares.items() if isinstance(share, float)}
    extent = QUANTITIES[precision].extent(facts.stress)
    told = ", ".join(f"GPU {index} {share:.0%}" for index, share in known.items()) + (f" ({extent})" if extent else "")
    slow = [index for index, share in known.items() if share < least]
    return missed(asked, facts, slow, told) if slow else asked.met(told)


def peak_shares(stress: StressTest, precision: Precision) -> dict[int, float | str]:
    """Return for each GPU the share of its model's peak that it keeps up, or why it is unknown."""
    return {gpu.index: _share(gpu, precision, read_knowledge()) for gpu in stress.tested}


def _share(gpu: StressedGpu, precision: Precision, knowledge: Knowledge) -> float | str:
    timed = speed_in(gpu, precision)
    if timed is None:
        errors = [each.error for each in gpu.speeds if each.precision == precision and each.error]
        return errors[0] if errors else gpu.error or f"no matrix product in {precision} was timed"
    model = knowledge.gpu_called(gpu.name)
    peak = model.peak_teraflops.get(PEAKS[precision]) if model else None
    if model is None or not peak:
        return f"the peak of {gpu.name or 'this model'} in {precision} is not in the table of GPUs"
    # The peak of a MIG slice is proportional to its share of the multiprocessors.
    part = min(1.0, gpu.multiprocessors / model.multiprocessors) if gpu.multiprocessors else 1.0
    return timed / (peak * part)
