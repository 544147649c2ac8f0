"""LOD: under load, does a GPU compute the same result every time, and does its memory retain data?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tfgpu_doctor.checks.devices import Row, device_of, devices_of, figures_of
from tfgpu_doctor.checks.unseen import tell_missing
from tfgpu_doctor.model import (
    UNDETERMINED,
    Confidence,
    Evidence,
    Finding,
    Fix,
    NotMeasured,
    Skip,
    Stage,
    Yielded,
    check,
)
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.stress import Exactness, Speed, StressedGpu, StressTest
from tfgpu_doctor.model.tags import STRESS, UNFIT

_DETERMINISM = "https://www.tensorflow.org/api_docs/python/tf/config/experimental/enable_op_determinism"
_CUBLAS = "https://docs.nvidia.com/cuda/cublas/#results-reproducibility"
ON_GPU = "device:GPU:"  # in TensorFlow's names of devices
REPLACE = (
    "Do not use this GPU. Remove any overclocking, check its power cables and its seating, and test it longer with "
    "`tfgpu-doctor --level soak`; if it fails again, replace it."
)
_ANOTHER_RELEASE = (
    "Try another release of TensorFlow and its CUDA libraries; if the result is still wrong, the GPU is faulty."
)


def called(gpu: StressedGpu) -> str:
    """Return the name of a GPU for messages."""
    return f"GPU {gpu.index} ({gpu.name})" if gpu.name else f"GPU {gpu.index}"


def under_stress(stress: StressTest) -> tuple[StressedGpu, ...]:
    """Return the GPUs that were stress-tested. Skip with the reason if there are none."""
    if not stress.gpus:
        raise Skip("there is no GPU")
    if not stress.tested:
        raise NotMeasured("; ".join(f"{called(gpu)} was not tested: {gpu.untouched}" for gpu in stress.gpus))
    return stress.tested


def not_measured(gpus: Iterable[StressedGpu], stress: StressTest) -> str:
    """Return which of the tested GPUs lack a measurement, and why; empty if none does."""
    reasons: dict[str, list[str]] = {}
    for gpu in gpus:
        reasons.setdefault(why_not_measured(gpu, stress), []).append(called(gpu))
    return "; ".join(
        f"{', '.join(names)} {'were' if len(names) > 1 else 'was'} not measured: {reason}"
        for reason, names in reasons.items()
    )


def why_not_measured(gpu: StressedGpu, stress: StressTest) -> str:
    """Return why a GPU lacks a measurement."""
    if stress.interrupted:
        return "the stress test was interrupted before this measurement"
    if gpu.error:
        return f"the stress test failed: {gpu.error}"
    if gpu.attempt and not gpu.attempt.answered:
        return f"the stress test {gpu.attempt.ending}"
    return "the stress test did not reach this measurement"


@check(
    "LOD001",
    "each GPU computes the same bits every time",
    family="Stress test",
    tags=(STRESS, UNFIT),
    stage=Stage.STRESS,
    after=("GPU004", "GPU005"),
    causes=("hardware_faulty_gpu",),
    sources=(_DETERMINISM, _CUBLAS),
)
def results_repeat(stress: StressTest) -> Yielded:
    """A degrading or overclocked GPU occasionally returns a different result: no error, no log line, but a model that does
    not learn. Products and convolutions of the same numbers are repeated and must be equal to the last bit. Some elements
    are compared with float64, within the rounding tolerance.

    Fix: do not use the GPU; remove overclocking, check power and seating; replace the GPU.
    """
    wrong, lacking, uncompared = False, [], []
    for gpu in under_stress(stress):
        judged, whole = False, True
        same: list[list[Exactness]] = []
        for found in _no_numbers(gpu, stress):
            wrong = True
            yield found
        for kind in dict.fromkeys((each.operation, each.precision) for each in gpu.exactness):
            rows = [each for each in gpu.exactness if (each.operation, each.precision) == kind and _counts(each)]
            mismatches = sum(each.mismatches for each in rows)
            whole = whole and bool(rows)
            if not rows or (mismatches and not gpu.deterministic):
                continue
            if not mismatches and all(each.deviation is None for each in rows):
                uncompared.append(f"the {_kind(rows[0])} of {called(gpu)}")
                continue
            judged = True
            fault = _unequal(gpu, rows, mismatches) if mismatches else _off(gpu, rows, stress)
            if fault:
                wrong = True
                yield fault
            else:
                same.append(rows)
        if same:
            yield Evidence(_same(gpu, same))
        if not (whole and _tried_all(gpu, stress)) or not (judged or uncompared):
            lacking.append(gpu)
    missing = [not_measured(lacking, stress)]
    if uncompared:
        missing.append(f"nothing shows whether {', '.join(uncompared)} is right: it was not compared with float64")
    yield from tell_missing("; ".join(filter(None, missing)), found=wrong)


def _tried_all(gpu: StressedGpu, stress: StressTest) -> bool:
    """Whether a round came to the end of its operations: what follows them was begun, or the whole test has ended."""
    ended = gpu.attempt is not None and gpu.attempt.answered and not gpu.error and not stress.interrupted
    return ended or any(each.speeds or each.memory for each in gpu.rounds)


def _no_numbers(gpu: StressedGpu, stress: StressTest) -> Iterator[Finding]:
    """Yield the findings for products whose result is no number: their factors neither grow nor fade."""
    for precision in dict.fromkeys(row.precision for row in gpu.speeds if _is_no_number(row)):
        others = [other for other in stress.tested if other.name == gpu.name and other.index != gpu.index]
        right = [called(other) for other in others if not any(map(_is_no_number, other.speeds)) and other.speeds]
        yield Finding(
            f"{called(gpu)} multiplies until the products in {precision} are no numbers any more",
            cause="hardware_faulty_gpu" if right else UNDETERMINED,
            confidence="medium" if right else "low",
            evidence=(
                "the sustained products of random matrices ended with an infinite value or NaN",
                *([f"numbers on {', '.join(right)}"] if right else ()),
            ),
            fix=Fix(REPLACE if right else _ANOTHER_RELEASE),
            devices=(device_of(gpu),),
        )


def _is_no_number(row: Speed) -> bool:
    return row.iterations > 0 and not row.error and not row.finite


def _counts(each: Exactness) -> bool:
    return each.iterations > 0 and not each.error and ON_GPU in each.placed_on


def _unequal(gpu: StressedGpu, rows: Sequence[Exactness], mismatches: int) -> Finding:
    times, each = sum(row.iterations for row in rows), rows[0]
    return Finding(
        f"{called(gpu)} does not reproduce its own results: a {each.operation} in {each.precision} of the same numbers "
        f"differed in {amount(mismatches, 'element')}",
        cause="hardware_faulty_gpu",
        evidence=(
            f"{times:,} repetitions of {each.elements:,} elements each, with TensorFlow's deterministic operations",
            f"the last result deviates from its float64 reference by {rows[-1].deviation or 0:.2g} of the rounding tolerance",
        ),
        fix=Fix(REPLACE),
        devices=(device_of(gpu),),
        figures=figures_of(
            device_of(gpu),
            [
                (f"{_kind(each)}: elements that differ", mismatches, ""),
                (f"{_kind(each)}: repetitions", times, ""),
                (f"{_kind(each)}: error in rounding tolerances", rows[-1].deviation, ""),
            ],
        ),
    )


def _kind(each: Exactness) -> str:
    return f"{each.precision} {each.operation}"


def _off(gpu: StressedGpu, rows: Sequence[Exactness], stress: StressTest) -> Finding | None:
    """Return the finding for a wrong but repeatable result: a faulty GPU if others of its model are right, else unknown."""
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
        f"{called(gpu)} computes a wrong {each.operation} in {each.precision}: "
        f"the error is {off:.3g} times the rounding tolerance",
        cause="hardware_faulty_gpu" if right else UNDETERMINED,
        confidence="medium" if right else "low",
        evidence=(
            "compared with the same sums in float64",
            f"correct on {', '.join(right)}"
            if right
            else "no other GPU of its model shows whether the GPU or a library is at fault",
        ),
        fix=Fix(REPLACE if right else _ANOTHER_RELEASE),
        devices=(device_of(gpu),),
        figures=figures_of(device_of(gpu), [(f"{_kind(each)}: error in rounding tolerances", off, "")]),
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
    return f"GPU {gpu.index}: {', '.join(done)}, all bits identical; deviation from float64: {off:.1%} of the rounding tolerance"


@check(
    "LOD002",
    "GPUs of one model compute the same bits",
    family="Stress test",
    tags=(STRESS, UNFIT),
    stage=Stage.STRESS,
    after=("LOD001",),
    causes=("hardware_faulty_gpu",),
    sources=(_CUBLAS,),
)
def gpus_agree(stress: StressTest) -> Yielded:
    """A GPU that makes the same error every time reproduces its own results. GPUs of one model with the same number of
    multiprocessors run the same kernels, and must give the same bits.

    Fix: test the GPU that differs alone, and for longer; replace it if it differs again.
    """
    judged = wrong = False
    lacking: list[StressedGpu] = []
    agreed: dict[str, list[str]] = {}
    for gpus in _of_one_model(under_stress(stress)):
        lacking += [gpu for gpu in gpus if not gpu.exactness]
        for kind in dict.fromkeys((each.operation, each.precision) for gpu in gpus for each in gpu.exactness):
            results = {gpu.index: digests for gpu in gpus if (digests := _digests(gpu, kind))}
            others = [gpu for gpu in gpus if results and gpu.index not in results and not _differs(gpu)]
            lacking += [gpu for gpu in others if gpu not in lacking]
            if len(results) < 2:
                continue
            judged = True
            what = f"the {kind[0]} in {kind[1]}"
            if len(set(results.values())) == 1:
                agreed.setdefault(", ".join(map(str, results)), []).append(what)
            else:
                wrong = True
                yield from _compare({gpu.index: gpu for gpu in gpus}, results, kind)
    for names, operations in agreed.items():
        yield Evidence(f"GPUs {names} give identical bits for {', '.join(operations)}")
    alike = [gpu for gpus in _of_one_model(stress.tested) for gpu in gpus]
    if not judged and alike and not any(gpu.deterministic for gpu in alike):
        raise Skip("this TensorFlow does not promise equal bits: the results of GPUs cannot be compared")
    if not judged:
        raise Skip("there are no two GPUs of the same model to compare")
    yield from tell_missing(not_measured(lacking, stress), found=wrong)


def _of_one_model(gpus: Sequence[StressedGpu]) -> list[list[StressedGpu]]:
    groups: dict[tuple[str, int], list[StressedGpu]] = {}
    for gpu in gpus:
        groups.setdefault((gpu.name, gpu.multiprocessors), []).append(gpu)
    return [group for group in groups.values() if len(group) > 1]


def _differs(gpu: StressedGpu) -> bool:
    """Whether a GPU cannot be compared for a reason of its own, which LOD001 tells where it is a fault."""
    return not gpu.deterministic or any(each.mismatches for each in gpu.exactness)


def _digests(gpu: StressedGpu, kind: tuple[str, str]) -> tuple[str, ...]:
    """Return the digests of the last result, if TensorFlow's operations were deterministic and the result repeated."""
    rows = [each for each in gpu.exactness if (each.operation, each.precision) == kind]
    sound = gpu.deterministic and rows and all(_counts(each) and not each.mismatches for each in rows)
    return rows[-1].digests if sound else ()


def _compare(
    gpus: dict[int, StressedGpu], results: dict[int, tuple[str, ...]], kind: tuple[str, str]
) -> Iterator[Finding]:
    """Results that differ: those of the few are named, where most agree."""
    operation, precision = kind
    what = f"the {operation} in {precision}"
    (common, count), *_ = Counter(results.values()).most_common()
    alone = [index for index, digests in results.items() if digests != common]
    if count <= len(results) / 2:
        names = " and ".join(called(gpus[index]) for index in results)
        message = f"{what} differs between {names}; which of them is wrong is unknown"
        yield _disagreement(message, "low", (), what, [gpus[index] for index in results])
        return
    for index in alone:
        parts = sum(one != other for one, other in zip(results[index], common, strict=False))
        said = (f"{parts} of {len(common)} parts of the result differ from the {count} other GPUs",)
        message = f"{what} on {called(gpus[index])} differs from the other GPUs"
        found = _disagreement(message, "medium", said, what, [gpus[index]])
        rows: list[Row] = [
            (f"{precision} {operation}: parts that differ", parts, ""),
            (f"{precision} {operation}: parts", len(common), ""),
            ("GPUs that agree", count, ""),
        ]
        yield replace(found, figures=figures_of(device_of(gpus[index]), rows))


def _disagreement(
    message: str, confidence: Confidence, evidence: tuple[str, ...], what: str, gpus: Sequence[StressedGpu]
) -> Finding:
    return Finding(
        message,
        cause="hardware_faulty_gpu",
        confidence=confidence,
        evidence=(*evidence, f"each of these GPUs repeats {what} to the last bit"),
        fix=Fix(REPLACE),
        devices=devices_of(gpus),
    )
