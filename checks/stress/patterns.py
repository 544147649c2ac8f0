"""LOD: does the memory of a GPU retain data under load?"""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.checks.devices import device_of, figures_of
from tfgpu_doctor.checks.gpu.in_use import size
from tfgpu_doctor.checks.stress.results import ON_GPU, REPLACE, called, not_measured, under_stress, why_not_measured
from tfgpu_doctor.checks.unseen import tell_missing
from tfgpu_doctor.model import Evidence, Finding, Fix, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.stress import MemoryPattern, StressedGpu, StressTest
from tfgpu_doctor.model.tags import STRESS, UNFIT

PATTERNS = ("0x55", "0xAA", "address", "random")  # collect/workers/stress_memory.py writes them
# Of the memory that was free: the test leaves less than half of a small card, and three quarters of the host's memory.
# Chosen by this project: on an H200 the first pattern reached 46 % while its kernels were loaded, and the others 93 %.
_LEAST_SHARE, _LEAST_SHARE_OF_HOST = 0.25, 0.125

_AGAIN = "end other programs that use this GPU, and test it again, or longer with --level soak"


@check(
    "LOD003",
    "each GPU's memory retains what is written to it",
    family="Stress test",
    tags=(STRESS, UNFIT),
    stage=Stage.STRESS,
    after=("GPU004",),
    causes=("hardware_faulty_gpu",),
    sources=("https://github.com/ComputationalRadiationPhysics/cuda_memtest",),
)
def memory_keeps(stress: StressTest) -> Yielded:
    """Flipped bits in a GPU's memory silently corrupt weights, mainly on boards without ECC. Patterns are written to the free
    memory, read back and compared on the GPU. The check passes only if every pattern was compared in a good part of it.

    Fix: do not use the GPU; remove overclocking of its memory; replace the GPU.
    """
    flipped, lacking, partly = False, [], []
    for gpu in under_stress(stress):
        tested = [each for each in gpu.memory if each.tested_bytes and ON_GPU in each.placed_on]
        bad = [each for each in tested if each.mismatches]
        if bad:
            flipped = True
            yield _flipped(gpu, bad, tested)
        elif not tested:
            lacking.append(gpu)
        elif missing := _not_tested(gpu, tested, stress):
            partly.append(missing)
        else:
            yield Evidence(
                f"GPU {gpu.index}: {size(min(_most(tested).values()))} of the {size(gpu.free_bytes)} that were free retain "
                f"every word of {', '.join(_most(tested))}, written and read back {amount(len(tested), 'time')}"
            )
    yield from tell_missing("; ".join(filter(None, (not_measured(lacking, stress), *partly))), found=flipped)


def _most(tested: Sequence[MemoryPattern]) -> dict[str, int]:
    """Return the most memory that each pattern was compared in, in one round."""
    found: dict[str, int] = {}
    for each in tested:
        found[each.pattern] = max(each.tested_bytes, found.get(each.pattern, 0))
    return found


def _not_tested(gpu: StressedGpu, tested: Sequence[MemoryPattern], stress: StressTest) -> str:
    """Return which patterns, or how much of the memory, the test did not reach; empty if it reached enough."""
    most = _most(tested)
    lacking = [name for name in dict.fromkeys((*PATTERNS, *(each.pattern for each in gpu.memory))) if name not in most]
    if lacking:
        errors = dict.fromkeys(each.error for each in gpu.memory if each.pattern in lacking and each.error)
        why = "; ".join(errors) or why_not_measured(gpu, stress)
        return f"no memory of {called(gpu)} was compared with the pattern {', '.join(lacking)}: {why}; {_AGAIN}"
    if gpu.free_bytes is None:
        return f"{size(min(most.values()))} of {called(gpu)} were compared, and how much memory was free is unknown"
    least = (_LEAST_SHARE_OF_HOST if gpu.integrated else _LEAST_SHARE) * gpu.free_bytes
    few = [f"{size(number)} with {name}" for name, number in most.items() if number < least]
    if not few:
        return ""
    return (
        f"of the {size(gpu.free_bytes)} that were free on {called(gpu)}, only {', '.join(few)} were compared: {_AGAIN}"
    )


def _flipped(gpu: StressedGpu, bad: Sequence[MemoryPattern], tested: Sequence[MemoryPattern]) -> Finding:
    words, least = sum(each.mismatches for each in bad), min(each.tested_bytes for each in tested)
    examples = tuple(f"pattern {each.pattern}: {each.example}" for each in bad if each.example)[:4]
    return Finding(
        f"the memory of {called(gpu)} does not retain what is written to it: {amount(words, 'word')} changed",
        cause="hardware_faulty_gpu",
        evidence=(
            f"{len(bad)} of {len(tested)} passes differ, each over {size(least)}",
            *examples,
        ),
        fix=Fix(REPLACE),
        devices=(device_of(gpu),),
        figures=figures_of(
            device_of(gpu),
            [
                ("words changed", words, ""),
                ("memory tested", least, "B"),
                ("passes that differ", len(bad), ""),
                ("passes", len(tested), ""),
            ],
        ),
    )
