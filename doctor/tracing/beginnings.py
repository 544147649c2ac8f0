"""What a program does before its first step: it makes variables, builds graphs, autotunes kernels. None of it is a step."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from tfgpu_doctor.tracing.python_samples import Frame, Sample, of_framework, own_frames
from tfgpu_doctor.tracing.recorded import Profile

_MAKES = re.compile(r"EagerLocalExecute: (VarHandleOp|VariableV2)$")
# What a step has, and the making of a variable and its first value has not.
_OF_STEP = re.compile(r"MatMul|Conv|Grad|Einsum|Apply|AssignSub|AssignAdd|EagerLocalExecute: __")
_FEW = 3
_SOME = 0.3  # of the rounds, so many operations: some rounds are not seen whole
_RARE = 0.02  # of the operations: a model's variable and its first value take about ten
# Kernels of autotuning: the library looks whether candidates write outside of their memory, delays their start to time them, and
# compares their results. https://github.com/openxla/xla/tree/main/xla/stream_executor; three were in a recording of an H200,
# redzone_checker and xla_fp32_comparison are the names of older releases.
_TRIES = re.compile(r"RedzoneAllocatorKernel|redzone_checker|DelayKernel|xla_(fp|int)\d*_comparison")
_ALL = 0.9  # of the looks
_EXECUTES, _BUILDS = "quick_execute", ("func_graph_from_py_func", "_create_op_internal", "_create_c_op")
_TRANSLATED = "__autograph_generated_file"
Stack = tuple[Frame, ...]


def makes_variables(operations: Sequence[str], period: int) -> bool:
    """Whether operations that Python starts again and again only make variables: a model, or an optimizer's moments.

    `period`: after how many operations the same ones follow. A few others may come last, such as VarIsInitializedOp, which asks
    whether a variable has its value.
    """
    made, of_step = (sum(map(bool, map(each.search, operations))) for each in (_MAKES, _OF_STEP))
    some = _SOME * len(operations) / period
    return made >= max(some, _RARE * len(operations)) and of_step < some


def before_steps(profile: Profile) -> str:
    """Return what the program does, if the recording shows that it is not yet at a step; else nothing."""
    started = [event.name for thread in profile.threads for event in thread.events.get("eager", ())]
    made = sum(map(bool, map(_MAKES.search, started)))
    streams = [stream for each in profile.gpus.values() for stream in each]
    if any(_TRIES.search(event.name) for stream in streams for event in stream.events):
        return (
            "kernels are autotuned: TensorFlow or XLA runs several and keeps the fastest, before the first step. For two small "
            "networks that XLA compiled that took more than 40 s on an H200; jit_compile=False does without XLA"
        )
    if made >= max(_FEW, _RARE * len(started)):
        return f"Python makes variables, {made} in this time: a model or its optimizer is built, and no step has begun"
    return builds_graphs(profile.samples)


def builds_graphs(samples: list[Sample]) -> str:
    """Return where the main thread builds the graph of a function, if it does nothing else; else nothing."""
    stacks = [sample.main for sample in samples if sample.main]
    building = [stack for stack in stacks if _builds(stack)]
    if len(stacks) < _FEW or len(building) < _ALL * len(stacks):
        return ""
    return f"TensorFlow builds the graph of a function{_place(building)}, and no step has begun"


def in_one_call(samples: list[Sample]) -> str:
    """Return which call of TensorFlow the main thread is in all the time, apart from building its graph; else nothing."""
    stacks = [sample.main for sample in samples if sample.main]
    calling = [stack for stack in stacks if not _builds(stack) and _is(stack[0], _EXECUTES)]
    inside = len(calling) + sum(map(_builds, stacks))
    if len(stacks) < _FEW or not calling or inside < _ALL * len(stacks):
        return ""
    return (
        f"the program waits for one call of a function{_place(calling)}: XLA compiles it, or one step takes longer than the "
        "recording"
    )


def _builds(stack: Stack) -> bool:
    return any(_is(frame, *_BUILDS) for frame in stack)


def _is(frame: Frame, *names: str) -> bool:
    return frame[2] in names and of_framework(frame)


def _place(stacks: list[Stack]) -> str:
    """The program's own place in the first stack that is not cut off above it; not in AutoGraph's translation of it."""
    for stack in stacks:
        for file, line, name in own_frames(stack):
            if not os.path.basename(file).startswith(_TRANSLATED):
                return f" ({name}, {os.path.basename(file)}:{line})"
    return ""
