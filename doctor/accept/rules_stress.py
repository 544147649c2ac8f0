"""What is asked of the examination: how far it went, and how near to its model's peak each GPU came under load."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.accept.requirement import Asked, Case, Requirement
from tfgpu_doctor.accept.rules_machine import listed_gpus
from tfgpu_doctor.accept.terms import Precision
from tfgpu_doctor.knowledge import Knowledge, read_knowledge
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.stress import LEVELS, STRESS_LEVELS, StressedGpu, StressTest

_PEAKS = {"float32": "fp32", "tf32": "tf32", "float16": "fp16", "bfloat16": "fp16"}  # both halves go at one speed

_ALONE = "end what uses the GPU, or accept with --even-if-busy"


def stress_requirements(case: Case) -> Iterator[Requirement]:
    """The level first, then the fractions of the peak."""
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
    why = why_not_loaded(facts, case.why_unknown("stress", "no load was put on the GPUs"))
    if why or facts.stress is None:
        return asked.unmeasured(why, _ALONE)
    if wanted == "soak" and facts.stress.seconds < 60 * case.profile.minutes:
        return asked.unmeasured(f"the load lasted {facts.stress.seconds / 60:.1f} min", case.anew)
    return asked.met(f"level {reached}, a load of {facts.stress.seconds:.0f} s on {_gpus(len(facts.stress.tested))}")


def _gpus(count: int) -> str:
    return "the GPU" if count == 1 else f"all {count} GPUs"


def why_not_loaded(facts: Facts, otherwise: str) -> str:
    """Why not every GPU that is listed was put under load; empty where each was."""
    stress, listed = facts.stress, len(listed_gpus(facts))
    if stress is None or not stress.gpus:
        return otherwise
    if stress.interrupted:
        return "the load was interrupted"
    alone = [f"GPU {gpu.index} was left alone: {gpu.untouched}" for gpu in stress.gpus if gpu.untouched]
    if not alone and len(stress.gpus) != listed:
        alone = [f"a load was put on {len(stress.gpus)} of {listed} GPUs"]
    return "; ".join(alone)


def _peak(case: Case, precision: Precision, least: float, asked: Asked) -> Requirement:
    facts = case.facts
    why = why_not_loaded(facts, case.why_unknown("stress", f"it takes level deep; this is {case.report.level}"))
    if why or facts.stress is None:
        return asked.unmeasured(why, _ALONE)
    shares = peak_shares(facts.stress, precision)
    unknown = [f"GPU {index}: {share}" for index, share in shares.items() if isinstance(share, str)]
    if unknown:
        return asked.unmeasured("; ".join(unknown), "leave it out of the profile, and ask for speed-ups in its place")
    known = {index: share for index, share in shares.items() if isinstance(share, float)}
    told = ", ".join(f"GPU {index} {share:.0%}" for index, share in known.items())
    return asked.judged(min(known.values()) >= least, told)


def peak_shares(stress: StressTest, precision: Precision) -> dict[int, float | str]:
    """Of each GPU the best share of its model's peak in all rounds, or why it is not known."""
    return {gpu.index: _share(gpu, precision, read_knowledge()) for gpu in stress.tested}


def _share(gpu: StressedGpu, precision: Precision, knowledge: Knowledge) -> float | str:
    done = [each for each in gpu.speeds if each.precision == precision]
    timed = [each.teraflops for each in done if each.teraflops and each.iterations and each.finite and not each.error]
    if not timed:
        errors = [each.error for each in done if each.error]
        return errors[0] if errors else gpu.error or f"no product in {precision} was timed"
    name = gpu.name.partition(" MIG ")[0]
    model = knowledge.gpu_named(name) or next((row for row in knowledge.gpus if name in row.aliases), None)
    peak = model.peak_teraflops.get(_PEAKS[precision]) if model else None
    if model is None or not peak:
        return f"the peak of {gpu.name or 'this model'} in {precision} is not in the table of GPUs"
    # A slice of a GPU has as much of the peak as it has of the multiprocessors.
    part = min(1.0, gpu.multiprocessors / model.multiprocessors) if gpu.multiprocessors else 1.0
    return max(timed) / (peak * part)
