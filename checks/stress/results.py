"""LOD: under load, does a GPU compute the same every time, and keep what is written to its memory?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tfgpu_doctor.checks.gpu.in_use import size
from tfgpu_doctor.model import UNDETERMINED, Confidence, Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.stress import Exactness, MemoryPattern, StressedGpu, StressTest

_DETERMINISM = "https://www.tensorflow.org/api_docs/python/tf/config/experimental/enable_op_determinism"
_CUBLAS = "https://docs.nvidia.com/cuda/cublas/#results-reproducibility"
_ON_GPU = "device:GPU:"
REPLACE = (
    "Keep work off this GPU. Take back any overclocking, look at its power cables and its seat, and try again for longer "
    "with `tfgpu-doctor --level soak`; if it fails again, have it replaced."
)


def called(gpu: StressedGpu) -> str:
    """How a GPU is spoken of."""
    return f"GPU {gpu.index} ({gpu.name})" if gpu.name else f"GPU {gpu.index}"


def under_stress(stress: StressTest) -> tuple[StressedGpu, ...]:
    """The GPUs that a load was put on. Skips where there is none, with the reason."""
    if not stress.tested:
        raise Skip(
            "; ".join(f"{called(gpu)} was left alone: {gpu.untouched}" for gpu in stress.gpus) or "there is no GPU"
        )
    return stress.tested


def why_nothing(stress: StressTest) -> str:
    """Why a load measured nothing."""
    if stress.interrupted:
        return "the load was interrupted before it got so far"
    told = [gpu.error or (gpu.attempt.ending if gpu.attempt else "") for gpu in stress.tested]
    return next((f"the load {each}" for each in told if each and each != "answered"), "the load did not get so far")


@check(
    "LOD001",
    "each GPU computes the same bits every time",
    stage=Stage.STRESS,
    after=("GPU004", "GPU005"),
    causes=("hardware_faulty_gpu",),
    sources=(_DETERMINISM, _CUBLAS),
)
def results_repeat(stress: StressTest) -> Yielded:
    """A GPU that is going bad, or is clocked too high, gives another result now and then: no error, no log line, a model
    that does not learn. Products and convolutions of the same numbers are repeated, and must be equal to the last bit;
    some elements are compared with float64, within what rounding allows.

    Fix: keep work off the GPU; take overclocking back, look at power and seat; have it replaced.
    """
    judged = False
    for gpu in under_stress(stress):
        same: list[list[Exactness]] = []
        for kind in dict.fromkeys((each.operation, each.precision) for each in gpu.exactness):
            rows = [each for each in gpu.exactness if (each.operation, each.precision) == kind and _counts(each)]
            mismatches = sum(each.mismatches for each in rows)
            if not rows or (mismatches and not gpu.deterministic):
                continue
            judged = True
            found = _unequal(gpu, rows, mismatches) if mismatches else _off(gpu, rows, stress)
            if found:
                yield found
            else:
                same.append(rows)
        if same:
            yield Evidence(_same(gpu, same))
    if not judged:
        raise Skip(why_nothing(stress))


def _counts(each: Exactness) -> bool:
    return each.iterations > 0 and not each.error and _ON_GPU in each.placed_on


def _unequal(gpu: StressedGpu, rows: Sequence[Exactness], mismatches: int) -> Finding:
    times, each = sum(row.iterations for row in rows), rows[0]
    return Finding(
        f"{called(gpu)} disagrees with itself: a {each.operation} in {each.precision} of the same numbers differed in "
        f"{mismatches:,} elements",
        cause="hardware_faulty_gpu",
        evidence=(
            f"{times:,} repetitions of {each.elements:,} elements each, with TensorFlow's promise of equal bits",
            f"the last result is off its float64 reference by {rows[-1].deviation or 0:.2g} of what rounding allows",
        ),
        fix=Fix(REPLACE),
    )


def _off(gpu: StressedGpu, rows: Sequence[Exactness], stress: StressTest) -> Finding | None:
    """A result that repeats and is wrong: the GPU's fault where others of its model are right, else who knows."""
    off = max(each.deviation or 0.0 for each in rows)
    if off <= 1:
        return None
    each = rows[0]
    right = [
        called(other)
        for other in stress.tested
        if other.name == gpu.name and any(_is_right(row, each) for row in other.exactness)
    ]
    return Finding(
        f"{called(gpu)} computes a {each.operation} in {each.precision} wrongly: off by {off:.3g} times what rounding allows",
        cause="hardware_faulty_gpu" if right else UNDETERMINED,
        confidence="medium" if right else "low",
        evidence=(
            "compared with the same sums in float64",
            f"right on {', '.join(right)}"
            if right
            else "no other GPU of its model shows whether the GPU or a library errs",
        ),
        fix=Fix(
            REPLACE
            if right
            else "Try another release of TensorFlow and its CUDA libraries; if the result stays wrong, it is the GPU."
        ),
    )


def _is_right(row: Exactness, like: Exactness) -> bool:
    same = (row.operation, row.precision) == (like.operation, like.precision)
    return same and _counts(row) and row.deviation is not None and row.deviation <= 1


def _same(gpu: StressedGpu, kinds: Sequence[Sequence[Exactness]]) -> str:
    done = [
        f"{rows[0].operation} in {rows[0].precision} {sum(row.iterations for row in rows):,} times "
        f"({rows[0].elements:,} elements)"
        for rows in kinds
    ]
    off = max(row.deviation or 0.0 for rows in kinds for row in rows)
    return f"GPU {gpu.index}: {', '.join(done)}, every bit the same; off float64 by {off:.1%} of what rounding allows"


@check(
    "LOD002",
    "GPUs of one model compute the same bits",
    stage=Stage.STRESS,
    after=("LOD001",),
    causes=("hardware_faulty_gpu",),
    sources=(_CUBLAS,),
)
def gpus_agree(stress: StressTest) -> Yielded:
    """A GPU that is wrong in the same way every time agrees with itself. GPUs of one model, with as many multiprocessors,
    run the same kernels, and must give the same bits.

    Fix: test the one that stands alone by itself, and for longer; have it replaced if it differs again.
    """
    judged = False
    agreed: dict[str, list[str]] = {}
    for gpus in _of_one_model(under_stress(stress)):
        for kind in dict.fromkeys((each.operation, each.precision) for gpu in gpus for each in gpu.exactness):
            results = {gpu.index: digests for gpu in gpus if (digests := _digests(gpu, kind))}
            if len(results) < 2:
                continue
            judged = True
            what = f"the {kind[0]} in {kind[1]}"
            if len(set(results.values())) == 1:
                agreed.setdefault(", ".join(map(str, results)), []).append(what)
            else:
                yield from _compare({gpu.index: gpu for gpu in gpus}, results, what)
    for names, operations in agreed.items():
        yield Evidence(f"GPUs {names} agree in every bit of {', '.join(operations)}")
    if not judged:
        raise Skip("there are no two GPUs of one model to compare")


def _of_one_model(gpus: Sequence[StressedGpu]) -> list[list[StressedGpu]]:
    groups: dict[tuple[str, int], list[StressedGpu]] = {}
    for gpu in gpus:
        groups.setdefault((gpu.name, gpu.multiprocessors), []).append(gpu)
    return [group for group in groups.values() if len(group) > 1]


def _digests(gpu: StressedGpu, kind: tuple[str, str]) -> tuple[str, ...]:
    """Of the last result, where TensorFlow promised that it repeats, and it did."""
    rows = [each for each in gpu.exactness if (each.operation, each.precision) == kind]
    sound = gpu.deterministic and rows and all(_counts(each) and not each.mismatches for each in rows)
    return rows[-1].digests if sound else ()


def _compare(gpus: dict[int, StressedGpu], results: dict[int, tuple[str, ...]], what: str) -> Iterator[Finding]:
    """Results that differ: those of the few are named, where most agree."""
    (common, count), *_ = Counter(results.values()).most_common()
    alone = [index for index, digests in results.items() if digests != common]
    if count <= len(results) / 2:
        names = " and ".join(called(gpus[index]) for index in results)
        yield _disagreement(f"{what} differs between {names}, and which of them errs cannot be told", "low", (), what)
        return
    for index in alone:
        parts = sum(one != other for one, other in zip(results[index], common, strict=False))
        said = (f"{parts} of {len(common)} parts of the result differ from those of the {count} others",)
        yield _disagreement(f"{called(gpus[index])} stands alone: {what} differs there", "medium", said, what)


def _disagreement(message: str, confidence: Confidence, evidence: tuple[str, ...], what: str) -> Finding:
    return Finding(
        message,
        cause="hardware_faulty_gpu",
        severity="warning",
        confidence=confidence,
        evidence=(*evidence, f"each of them repeats {what} to the last bit"),
        fix=Fix(REPLACE),
    )


@check(
    "LOD003",
    "each GPU's memory keeps what is written to it",
    stage=Stage.STRESS,
    after=("GPU004",),
    causes=("hardware_faulty_gpu",),
    sources=("https://github.com/ComputationalRadiationPhysics/cuda_memtest",),
)
def memory_keeps(stress: StressTest) -> Yielded:
    """Bits of a GPU's memory that flip spoil weights without a word, on boards without ECC most of all. Patterns are
    written to the free memory, read back and compared on the GPU. It passes only for what was really compared.

    Fix: keep work off the GPU; take overclocking of its memory back; have it replaced.
    """
    judged = False
    for gpu in under_stress(stress):
        tested = [each for each in gpu.memory if each.tested_bytes and _ON_GPU in each.placed_on]
        bad = [each for each in tested if each.mismatches]
        judged = judged or bool(tested)
        if bad:
            yield _flipped(gpu, bad, tested)
        elif tested:
            free = f" of the {size(gpu.free_bytes)} that were free" if gpu.free_bytes else ""
            least, patterns = min(each.tested_bytes for each in tested), dict.fromkeys(each.pattern for each in tested)
            yield Evidence(
                f"GPU {gpu.index}: {size(least)}{free} keep every word of {', '.join(patterns)}, "
                f"{len(tested)} times written and read back"
            )
    if not judged:
        raise Skip(f"no byte of memory was tested: {why_nothing(stress)}")


def _flipped(gpu: StressedGpu, bad: Sequence[MemoryPattern], tested: Sequence[MemoryPattern]) -> Finding:
    words = sum(each.mismatches for each in bad)
    examples = tuple(f"pattern {each.pattern}: {each.example}" for each in bad if each.example)[:4]
    return Finding(
        f"the memory of {called(gpu)} does not keep what is written to it: {words:,} words came back changed",
        cause="hardware_faulty_gpu",
        evidence=(
            f"{len(bad)} of {len(tested)} passes differ, each over {size(min(each.tested_bytes for each in tested))}",
            *examples,
        ),
        fix=Fix(REPLACE),
    )
