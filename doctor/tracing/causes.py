"""The one bottleneck of a training, from where its steps' time goes."""

from __future__ import annotations

import statistics

from tfgpu_doctor.model import Confidence
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.tracing.breakdown import eager_per_step, many_operations
from tfgpu_doctor.tracing.case import HIGH, LAUNCH_HIGH, MODERATE, Case, Found
from tfgpu_doctor.tracing.epoch_ends import place_of
from tfgpu_doctor.tracing.gpu_causes import collectives, on_gpu
from tfgpu_doctor.tracing.gpu_work import count_kernels, kernels_within, median_ms
from tfgpu_doctor.tracing.graph_work import WORK_US, most_traced, operations_within, xla_calls_alone
from tfgpu_doctor.tracing.host_causes import all_on_cpu, beside_gpu
from tfgpu_doctor.tracing.input_causes import waiting_for_input
from tfgpu_doctor.tracing.intervals import Interval, clip, length, union
from tfgpu_doctor.tracing.python_samples import callbacks, work_besides
from tfgpu_doctor.tracing.step_search import OF_TEST
from tfgpu_doctor.tracing.validation_steps import only_evaluates

_HOST_MS = 1.5  # of the program's own Python in a step; Keras itself needs less
_LEAST_STEPS = 5  # to tell a few of them from the others
_EVEN_SHARE = 0.25  # of the steps that hold most of what comes between them
_MOST = 0.75  # of what comes between all steps
_AS_LONG = 20  # times as long as in the other steps
_SAMPLES = 15
_FEW_ENDS = 2  # a short recording may hold so many by chance
_OVERHEADS = ("cpu_fallback", "memory")  # that take of what starting the step's work seems to take
_START_US = 15.0  # with less for each kernel, their number is what takes the time
_FIRST_CALLS, _TRACED = 2, 0.1  # of the steps: more of them are traced again and again


def bottlenecks(case: Case) -> list[Found]:
    """Return the bottlenecks that take a tenth of the time or more, the greatest first; of FEW_STEPS steps or more."""
    uneven, compiles = _between_steps(case), _compiles(case)
    gpu = [*on_gpu(case), *beside_gpu(case)] if case.times.gpu else []
    explained = uneven.share if uneven else 0.0
    explained += sum(each.share for each in gpu if each.label in _OVERHEADS)
    overhead = _besides(case) if not uneven else None
    if not compiles and not overhead:
        overhead = _overhead(case, explained, even=not uneven)
    host = (compiles, waiting_for_input(case), _epoch_ends(case), _new_iterators(case), uneven, all_on_cpu(case))
    found = [*host, collectives(case), *gpu, overhead]  # of causes that take as long, the first is named
    return sorted((each for each in found if each and each.share >= MODERATE), key=lambda each: -_weight(case, each))


def _weight(case: Case, found: Found) -> float:
    """The share that decides which comes first: few ends of epochs count half."""
    by_chance = found.label == "epoch_end" and len(case.times.ended) <= _FEW_ENDS
    return found.share / 2 if by_chance else found.share


def _compiles(case: Case) -> Found | None:
    """A function is traced again and again, or XLA compiles it as often."""
    share, count = case.share("compile"), case.steps.count
    name, times = most_traced(case.steps)
    if share >= MODERATE and times > _FIRST_CALLS and times >= _TRACED * count:
        return Found("retracing", "high", share, [
            f"{name} was traced {amount(times, 'time')} in {amount(count, 'step')}",
            f"building graphs takes {case.ms('compile'):.0f} ms of each step",
        ], words={"function": name})  # fmt: skip
    name, times = case.compiled_often()
    if share < MODERATE:  # before 2.18 XLA's compilation itself is not recorded, nor its runs
        alone = [] if case.times.gpu else union(xla_calls_alone(case.profile, case.steps))
        told = case.times.share_of(clip(alone, *case.times.window))
        share = max(told, case.share("launch") if case.share("compute") <= HIGH else 0.0)
    if not times or share < MODERATE:
        return None
    return Found("compile", "high", share, [
        f"XLA compiled {name} {amount(times, 'time')}",
        f"compiling takes {share * case.steps.mean_ms:.0f} of {case.steps.mean_ms:.0f} ms of each step",
    ], words={"function": name})  # fmt: skip


def _epoch_ends(case: Case) -> Found | None:
    """TensorFlow removes the iterators of epochs that ended, and waits for the threads that tune them."""
    share = case.times.share_of(case.times.ended)
    if share < MODERATE:
        return None
    (steps, longest), place = _slowed(case, case.times.ended), place_of(case.profile.samples, case.times.ended)
    return Found("epoch_end", "medium", share, [
        f"in {steps} the main thread stands still for {longest}{f', in {place}' if place else ''}",
        "it starts nothing meanwhile, and iterators were replaced (MakeIterator): each epoch has its own",
    ])  # fmt: skip


def _new_iterators(case: Case) -> Found | None:
    """A loop over a dataset inside of a graph: each call makes an iterator of its own before its first step."""
    share = case.times.share_of(case.times.made)
    if share < MODERATE:
        return None
    steps, longest = _slowed(case, case.times.made)
    return Found("new_iterators", "high", share, [
        f"in {steps} an iterator is made (MakeIterator), which takes {longest}",
        "that is before the first step of a call: each call makes its own",
    ])  # fmt: skip


def _slowed(case: Case, held_up: list[Interval]) -> tuple[str, str]:
    """How many of the steps hold some of that time, and the longest time in a step, in words."""
    steps = case.steps.intervals
    slow = [time for step in steps if (time := length(clip(held_up, *step)))]
    return f"{len(slow)} of {amount(len(steps), 'step')}", f"{max(slow):.0f} ms{' and less' * (len(slow) > 1)}"


def _between_steps(case: Case) -> Found | None:
    """Work of the host that a few steps hold: checkpoints, validation."""
    steps = case.steps.intervals
    host = case.times.parts["host"]
    if len(steps) < _LEAST_STEPS or case.share("host") < MODERATE:
        return None
    times = sorted((length(clip(host, *step)) for step in steps), reverse=True)
    few = times[: max(1, round(_EVEN_SHARE * len(times)))]
    usual = statistics.median(times)
    excess = sum(max(0.0, each - usual) for each in few) / max(length([case.steps.window]), 1e-9)
    if sum(few) < _MOST * sum(times) or excess < MODERATE or statistics.mean(few) < _AS_LONG * usual:
        return None
    long = [each for step in steps if length(inside := clip(host, *step)) > 5 * max(usual, 0.01) for each in inside]
    looks = [sample.at for sample in case.profile.samples]
    if looks and not any(low <= at <= high for at in looks for low, high in long):
        return None  # not even the looks went on: the program waited for a CPU
    what = _done_between(case)
    return Found("uneven_steps", "high", excess, [
        f"{sum(each > 5 * max(usual, 0.01) for each in few)} of {len(steps)} steps wait {statistics.mean(few):.0f} ms "
        f"for other work, the others {usual:.1f} ms",
        f"in that time: {what or 'Python between the steps'}",
    ], words={"what": what})  # fmt: skip


def _done_between(case: Case) -> str:
    """The functions that are called between the steps, and the user's Python there; empty if nothing tells."""
    host = case.times.parts["host"]
    called = {call.name for call in case.steps.calls if call.name != case.steps.name and clip(host, *call.interval)}
    places = [name for name, _ in case.host().places] or callbacks(case.profile.samples, host)
    written = case.steps.thread and case.steps.thread.events.get("checkpoint")
    saves = ["TensorFlow writes a checkpoint"] if written else []
    return ", ".join([*saves, *sorted(called)[:2], *places[:2]])


def _overhead(case: Case, explained: float, *, even: bool) -> Found | None:
    """Starting the step's work, and Python between the steps, less the share of it that other causes explain."""
    share = case.share("launch", "host") - explained
    inside = bool(case.steps.within)  # of a call that runs many steps
    if share < MODERATE or (case.steps.thread is None and not inside):
        return None
    if (operations := eager_per_step(case.steps)) >= many_operations(case.steps):
        return Found("eager", "high", share, [
            f"Python starts {operations:.0f} operations one by one in each step",
            f"their computation takes {case.ms('compute'):.1f} of {case.steps.mean_ms:.1f} ms",
        ])  # fmt: skip
    between = case.times.share_of(case.times.between)
    if case.share("host") > max(case.share("launch") - between, between) and even and (found := _host_python(case)):
        return found
    if not case.times.gpu and share <= case.share("compute"):
        return None  # a busy processor makes starting slow, too: not what such a step is called for
    small = _small_operations(case) or _small_kernels(case)
    words = _users_function(case) | ({"what": "the graph"} if small or inside else {})
    return Found("launch_bound", "medium", share, [
        f"a step takes {case.steps.mean_ms:.2f} ms, its computation {case.ms('compute'):.2f} ms",
        f"the rest starts it: {case.ms('launch'):.2f} ms inside {case.steps.name or ('the graph' if inside else 'calls')}, "
        f"{case.ms('host'):.2f} ms of Python around it",
        *small,
        *_kernels(case),
    ], words=words, high=LAUNCH_HIGH if case.times.gpu else HIGH)  # fmt: skip


def _small_operations(case: Case) -> list[str]:
    """How long TensorFlow is busy around operations that are too small, if it is that most of the time."""
    between_ms = length(case.times.between) / case.steps.count
    if between_ms < 0.5 * case.ms("launch"):
        return []
    count = operations_within(case.profile, case.times.window, WORK_US) / case.steps.count
    known = f", of which {count:.0f} or more in a step take less than {WORK_US} µs" if count >= 1 else ""
    return [f"{between_ms:.2f} ms of it go by inside of the graph, between its operations{known}"]


def _small_kernels(case: Case) -> list[str]:
    """How long each kernel takes to start, where these starts are the time: then more steps in a call save nothing.

    On an H200 9 µs for each of the 3,813 kernels of an LSTM's step (32 steps in a call: 0.98 times as fast), and 98 µs for
    each of 13 in the step of a tiny model.
    """
    count = count_kernels(case.profile, case.times.gpu, case.times.window)
    if not count or (each_us := 1000 * length(case.times.parts["launch"]) / count) >= _START_US:
        return []
    return [f"each kernel takes {each_us:.1f} µs to start: their number takes the time, not the calls"]


def _kernels(case: Case) -> list[str]:
    """How many kernels a step starts, and how long they are."""
    kernels = [event for _, event in kernels_within(case.profile, case.times.gpu, case.times.window)]
    if not kernels:
        return []
    each_us = 1000 * median_ms(kernels)
    count = len(kernels) / case.steps.count
    return [f"{case.times.gpu} runs {amount(round(count), 'kernel')} in a step, half of them under {each_us:.1f} µs"]


def _host_python(case: Case) -> Found | None:
    """The program's own Python between the steps, in a callback or not; None if it is TensorFlow's or Keras' own."""
    work, host_ms = case.host(), case.ms("host")
    sampled = work.samples >= _SAMPLES
    if work.user < 0.5 if sampled else host_ms < _HOST_MS:
        return None
    callback = work.callback > 0.5 * work.user if sampled else case.steps.keras
    evidence = [
        f"between the calls of {case.steps.name or 'its functions'} the program's Python takes "
        f"{host_ms:.1f} of {case.steps.mean_ms:.1f} ms",
        *(f"{part:.0%} of the looks at it found {name}" for name, part in work.places[:2]),
    ]
    words = _users_function(case) | ({"place": work.places[0][0]} if work.places else {})
    sure: Confidence = "high" if sampled else "medium"
    return Found("host_callback" if callback else "host_python", sure, case.share("host"), evidence, words=words)


def _besides(case: Case) -> Found | None:
    """Work after each step for which TensorFlow computes, in a callback or not: that is no step's computation."""
    steps, busy = case.steps, case.times.parts["compute"] if case.times.gpu else []
    if not steps.name or any(word in steps.name.lower() for word in OF_TEST):
        return None  # it may be a program that only predicts
    if only_evaluates(case.profile, steps):
        return None
    work = work_besides(case.profile.samples, case.times.window, busy)
    if work is None or work.samples < _SAMPLES or work.user < HIGH or work.user <= case.share("host"):
        return None
    place, asked = work.places[0][0], {call.name for call in steps.calls} - {steps.name}
    if steps.found_by != "calls":  # the step's own function is among them
        asked = {name for name in asked if any(word in name.lower() for word in OF_TEST)}
    return Found("host_callback" if work.callback > 0.5 * work.user else "host_python", "high", work.user, [
        f"{work.user:.0%} of the looks at the main thread found it in {place}, all along",
        f"that is {work.user * steps.mean_ms:.1f} of {steps.mean_ms:.1f} ms of each step"
        + (f", with what it calls of TensorFlow: {', '.join(sorted(asked)[:2])}" if asked else ""),
    ], words={"place": place})  # fmt: skip


def _users_function(case: Case) -> dict[str, str]:
    """The step's function, if it is the user's own and not Keras'."""
    return {"function": case.steps.name} if case.steps.found_by == "calls" and not case.steps.keras else {}
