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
from tfgpu_doctor.model.facts.stress import LEVELS, STRESS_LEVELS, StressedGpu, StressRound, StressTest
from tfgpu_doctor.model.soak import least_load_s

ALONE = "end the processes that use the GPU, or add --even-if-busy"
_SLOWLY = "if TensorFlow takes minutes to start there, with a longer --deadline"


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
        return asked.unmeasured(why, how_to_load(case))
    if hidden := _hidden(case):
        return asked.unmeasured(hidden, _all_visible(case))
    index, seconds = min(((gpu.index, _load_s(gpu)) for gpu in facts.stress.tested), key=lambda each: each[1])
    if wanted == "soak" and seconds < least_load_s(60 * case.profile.minutes):
        told = f"GPU {index} was under load for {seconds / 60:.1f} of {case.profile.minutes:g} min"
        return asked.unmeasured(told, f"{case.anew}; {_SLOWLY}")
    return asked.met(f"level {reached}, {seconds:.0f} s of load on {_gpus(len(facts.stress.tested))}")


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
    told = [f"GPU {gpu.index} was not tested{why}" for gpu in stress.gpus if (why := _why_untested(gpu))]
    if not told and len(stress.gpus) != listed:
        told = [f"{len(stress.gpus)} of {listed} GPUs were stress-tested"]
    return "; ".join(told)


def _why_untested(gpu: StressedGpu) -> str:
    if gpu.untouched:
        return f": {gpu.untouched}"
    if stopped := why_stopped(gpu):
        return f" to the end: {stopped}"
    return "" if any(map(_measured, gpu.rounds)) else ": nothing was measured on it"


def why_stopped(gpu: StressedGpu) -> str:
    """Return what ended the stress test of a GPU before its time; empty if nothing did."""
    if gpu.attempt and not gpu.attempt.answered:
        return f"its process {gpu.attempt.ending}"
    return gpu.error


def _measured(round_: StressRound) -> bool:
    """Return whether anything of a round has a result: one whose steps all raised an exception put no load on the GPU."""
    repeated = any(each.iterations for each in round_.exactness) or any(each.iterations for each in round_.speeds)
    return repeated or any(each.tested_bytes for each in round_.memory)


def _load_s(gpu: StressedGpu) -> float:
    """Return for how long a GPU was under load: the starts of TensorFlow and the copies are not."""
    return sum(each.seconds for each in gpu.rounds if _measured(each))


def how_to_load(case: Case) -> str:
    """Return how to have every GPU stress-tested."""
    stress = case.facts.stress
    return ALONE if stress and len(stress.tested) < len(stress.gpus) else case.anew


def _peak(case: Case, precision: Precision, least: float, asked: Asked) -> Requirement:
    facts = case.facts
    why = why_not_loaded(facts, case.why_unknown("stress", f"it requires level deep; the level is {case.report.level}"))
    if why or facts.stress is None:
        return asked.unmeasured(why, how_to_load(case))
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
