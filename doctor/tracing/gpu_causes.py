"""What holds a training up on the GPUs themselves: copies, reductions, uneven work, float32, layouts, slow kernels.

Copies, float32 and slow kernels were seen in recordings of an H200 (docs/results/h200.md), slow kernels on an H100, too
(docs/results/h100.md), each in one program; of the others no recording is known. Their confidence is medium at most.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.tracing.case import HIGH, MODERATE, Case, Found
from tfgpu_doctor.tracing.gpu_streams import COLLECTIVE, COPY, events_of, kind_of
from tfgpu_doctor.tracing.gpu_work import capability, has_tensor_cores, kernels_within
from tfgpu_doctor.tracing.intervals import clip, length, union
from tfgpu_doctor.tracing.kernel_names import FLOAT32, SIXTEEN, TF32, is_fallback, is_layout, is_product, precision
from tfgpu_doctor.tracing.recorded import Event

_WITH_TF32 = 8.0  # compute capability
_STAYS = 1 / 8  # of a product's time: V100, T4 and A100 multiply at least 8 times as fast in 16 bit as in float32
_IN_TURN = 0.2  # of the GPUs' time, at most, in which two of them compute
_SIZE = re.compile(r"\bsize:(\d{1,18})\b")
_NAME = 90  # characters of a kernel's name


def on_gpu(case: Case) -> list[Found]:
    """Return what the GPUs' streams show."""
    found = [_imbalance(case), _copies(case), _float32(case), _layout(case), _slow_kernel(case)]
    return [each for each in found if each]


def _imbalance(case: Case) -> Found | None:
    """Some GPUs compute while others do not, or wait in reductions for one that starts late."""
    window, gpus, last = case.times.window, case.times.gpus, case.times.gpu
    if len(gpus) < 2:
        return None
    whole, steps = max(length([window]), 1e-9), case.steps.count
    compute = {gpu: length(clip(times.compute, *window)) for gpu, times in gpus.items()}
    reduce = {gpu: length(clip(times.collectives, *window)) for gpu, times in gpus.items()}
    together = length(clip(union(each for times in gpus.values() for each in times.compute), *window))
    uneven = together - sum(compute.values()) / len(compute)  # what they would save by sharing the work
    waiting = max(reduce.values()) - min(reduce.values())
    late = waiting - (max(compute.values()) - min(compute.values()))  # that longer computation does not explain
    share = max(uneven, late) / whole
    if share < MODERATE:
        return None
    busy = sorted(compute, key=lambda each: -compute[each])
    others = ", ".join(f"{gpu} {compute[gpu] / steps:.1f} ms" for gpu in busy[1:4])
    evidence = [f"{busy[0]} computes {compute[busy[0]] / steps:.1f} of {case.steps.mean_ms:.1f} ms, {others}"]
    if sum(compute.values()) - together < _IN_TURN * together:
        evidence.append("they compute one after the other")
    if waiting >= MODERATE * whole:
        most = max(reduce, key=lambda each: reduce[each])
        evidence.append(
            f"{most} is {reduce[most] / steps:.1f} ms in reductions, {last} {reduce[last] / steps:.1f} ms: it comes last"
        )
    return Found("gpu_imbalance", "medium", share, evidence, words={"what": last if late > uneven else busy[0]})


def _copies(case: Case) -> Found:
    """Copies between host and GPU, which of them take most of that time, and from what memory."""
    evidence = [
        f"copies between host and GPU take {case.ms('copies'):.1f} of {case.steps.mean_ms:.1f} ms, "
        "while nothing is computed",
    ]
    low, high = case.steps.window
    times: dict[str, float] = defaultdict(float)
    moved: dict[str, int] = defaultdict(int)
    pageable = 0.0
    for stream, event in events_of(case.profile, case.times.gpu, COPY):
        if low <= event.begin < high:
            times[event.name] += event.duration
            details = str(stream.stats(event).get("memcpy_details", ""))
            size = _SIZE.search(details)
            moved[event.name] += int(size[1]) if size else 0
            pageable += event.duration if "pageable" in details else 0.0
    whole = max(sum(times.values()), 1e-9)
    if times:
        most = max(times, key=lambda each: times[each])
        evidence.append(
            f"{times[most] / whole:.0%} of the copies' time is {most}{_speed(case, moved[most], times[most])}"
        )
    words = {}
    if pageable >= HIGH * whole:
        evidence.append(f"{pageable / whole:.0%} of it from or to pageable memory, which the driver copies twice")
        words["what"] = "pageable memory"
    return Found("copies", "medium", case.share("copies"), evidence, words=words)


def _speed(case: Case, moved: int, took_ms: float) -> str:
    """How much is copied in a step, and how fast; empty if the profile does not tell."""
    if not moved or not took_ms:
        return ""
    return f": {moved / 1e6 / case.steps.count:.4g} MB a step, at {moved / 1e6 / took_ms:.3g} GB/s"


def collectives(case: Case) -> Found:
    """Reductions between replicas, by the GPUs or by the host."""
    evidence = [
        f"reductions between the replicas take {case.ms('collectives'):.1f} of {case.steps.mean_ms:.1f} ms, "
        "while nothing is computed",
    ]
    names = Counter(
        event.name.rpartition(":")[2]
        for thread in case.profile.threads
        for event in thread.events.get("collective", ())
        if ":" in event.name and kind_of(event.name) != COLLECTIVE  # an operation, and not the launch of a kernel
    )
    if names:
        name, count = names.most_common(1)[0]
        evidence.append(f"on the host: {name[:_NAME]}, {count / case.steps.count:.1f} times a step")
    return Found("collectives", "medium", case.share("collectives"), evidence)


def _float32(case: Case) -> Found | None:
    """Matrix products in float32 alone, on a GPU that has tensor cores."""
    if not has_tensor_cores(case.profile, case.times.gpu):
        return None
    able = capability(case.profile, case.times.gpu)
    products = _kernels(case, is_product)
    if any(precision(each.name) in (SIXTEEN, TF32) for each in products):
        return None
    slow = [each for each in products if precision(each.name) == FLOAT32]
    share = _share(case, slow)
    if share < MODERATE:
        return None
    words = {"what": "TF32"} if float(able) >= _WITH_TF32 else {}
    return Found("fp32", "medium", share, [
        f"{share * case.steps.mean_ms:.1f} of {case.steps.mean_ms:.1f} ms are matrix products and convolutions in float32, "
        f"most of it {_longest(slow)}",
        f"{case.times.gpu} (compute capability {able}) has tensor cores, and no kernel in TF32 or 16 bit ran",
    ], words=words, saved=(1 - _STAYS) * share)  # fmt: skip


def _layout(case: Case) -> Found | None:
    """Kernels that only change the layout of tensors."""
    turned = _kernels(case, is_layout)
    share = _share(case, turned)
    if share < MODERATE:
        return None
    return Found("layout", "medium", share, [
        f"{len(turned) / case.steps.count:.0f} kernels in a step, {share * case.steps.mean_ms:.1f} of "
        f"{case.steps.mean_ms:.1f} ms, only change the layout of tensors, most of it {_longest(turned)}",
    ])  # fmt: skip


def _slow_kernel(case: Case) -> Found | None:
    """A kernel that is there for want of a better one, and takes a part of the time for which it has no work."""
    slow = _kernels(case, is_fallback)
    share = _share(case, slow)
    if share < MODERATE:
        return None
    calls = len(slow) / case.steps.count
    return Found("slow_kernel", "medium", share, [
        f"{_longest(slow)} takes {share * case.steps.mean_ms:.1f} of {case.steps.mean_ms:.1f} ms, in "
        f"{amount(round(calls) if calls >= 1 else float(f'{calls:.1g}'), 'call')}",
        "it adds up the gradient of a bias, a small part of the layer's work, with an atomic addition for each element",
    ])  # fmt: skip


def _kernels(case: Case, wanted: Callable[[str], bool]) -> list[Event]:
    within = kernels_within(case.profile, case.times.gpu, case.times.window)
    return [event for _, event in within if wanted(event.name)]


def _share(case: Case, events: Iterable[Event]) -> float:
    return length(clip(union(each.interval for each in events), *case.times.window)) / max(
        length([case.times.window]), 1e-9
    )


def _longest(events: Iterable[Event]) -> str:
    """The name that takes the most time."""
    times: dict[str, float] = defaultdict(float)
    for event in events:
        times[event.name] += event.duration
    return max(times, key=lambda each: times[each])[:_NAME]
