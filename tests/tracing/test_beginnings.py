"""What a program does before its first step is no step; what it only evaluates is no work beside one."""

from __future__ import annotations

import json
import pathlib

import made_trace
import pytest
from made_trace import MadeEvent, MadeLine, MadePlane, training

from tfgpu_doctor.tracing.python_samples import FILE

TENSORFLOW, KERAS = "/x/site-packages/tensorflow/python/", "/x/site-packages/keras/src/"
TRAIN, FIT = ("/home/me/train.py", 7, "train"), (KERAS + "backend/tensorflow/trainer.py", 399, "fit")
CALL = [(TENSORFLOW + "eager/execute.py", 53, "quick_execute"), FIT, TRAIN]
BUILD = [
    (TENSORFLOW + "framework/ops.py", 1078, "_create_c_op"),
    ("/tmp/__autograph_generated_file1x.py", 11, "tf__step"),
    (TENSORFLOW + "framework/func_graph.py", 900, "func_graph_from_py_func"),
    TRAIN,
]
CUT_OFF = [(TENSORFLOW + "framework/ops.py", 1078, "_create_c_op"), (KERAS + "ops/nn.py", 3, "conv")]
EVALUATE = [CALL[0], (KERAS + "backend/tensorflow/trainer.py", 510, "evaluate")]
STACK = list[tuple[str, int, str]]


def looks(folder: pathlib.Path, *stacks: STACK, every_ms: int = 10) -> None:
    """Looks at the main thread, in turn at each of these stacks, for as long as the made trainings last."""
    rows = [[round(at * 1e6), stacks[number % len(stacks)], []] for number, at in enumerate(range(0, 240, every_ms))]
    (folder / FILE).write_text(json.dumps({"began_ns": 0, "every_s": 0.01, "samples": rows}))


def eager(*round_: str, rounds: int = 13) -> list[MadePlane]:
    """Operations that Python starts, the same again and again, each 10 ms after the one before."""
    names = round_ * rounds
    events = [MadeEvent(f"EagerLocalExecute: {name}", 10.0 * at, 0.7) for at, name in enumerate(names)]
    return [MadePlane("/host:CPU", [MadeLine("python", events, number=1)])]


@pytest.mark.parametrize(
    "round_",
    [
        ("VarHandleOp",),
        ("StatelessRandomUniformV2", "Mul", "AddV2", "VarHandleOp", "AssignVariableOp"),
        ("Fill", "VarHandleOp", "AssignVariableOp"),
        ("VariableV2", "Assign"),
    ],
)
def test_making_variables_is_no_step(tmp_path: pathlib.Path, round_: tuple[str, ...]) -> None:
    """Keras' networks before their training, and their optimizers' moments: they were called launch_bound or eager."""
    made_trace.save(tmp_path, eager(*round_))
    report, _ = made_trace.judged(tmp_path)
    assert (report.verdict, report.healthy, report.causes) == ("warm_up", None, ())
    assert (
        report.why
        == "Python makes variables, 13 in this time: a model or its optimizer is built, and no step has begun"
    )


def test_the_making_of_an_optimizer_and_what_follows_it_are_no_steps(tmp_path: pathlib.Path) -> None:
    """Keras 3 makes the moments, then looks whether each has its value: 33 operations that were called launch_bound."""
    made_trace.save(tmp_path, eager(*["VarHandleOp"] * 16, *["VarIsInitializedOp"] * 16, "Pack", rounds=1))
    report, _ = made_trace.judged(tmp_path)
    assert (report.verdict, report.healthy) == ("warm_up", None)
    assert report.why.startswith("Python makes variables, 16 in this time")


def test_a_variable_now_and_then_is_no_start(tmp_path: pathlib.Path) -> None:
    made_trace.save(tmp_path, eager(*["Sin", "Mul", "Exp"] * 50, "VarHandleOp", "AssignVariableOp", rounds=4))
    report, _ = made_trace.judged(tmp_path)
    assert (report.steps.found_by, report.verdict) == ("operations", "eager")


def test_operations_that_do_not_repeat_are_no_steps(tmp_path: pathlib.Path) -> None:
    made_trace.save(tmp_path, eager(*(f"Operation{number}" for number in range(20)), rounds=1))
    report, _ = made_trace.judged(tmp_path)
    assert report.verdict == "too_short"
    assert report.why == "Python starts operations, but they do not repeat: no step of a training is seen"


@pytest.mark.parametrize("more", [(), ("VarHandleOp",)])
def test_eager_steps_are_steps_also_where_they_make_a_variable(tmp_path: pathlib.Path, more: tuple[str, ...]) -> None:
    made_trace.save(tmp_path, eager("MatMul", "ReluGrad", *more, "ResourceApplyAdam"))
    report, _ = made_trace.judged(tmp_path)
    assert (report.steps.found_by, report.verdict) == ("operations", "launch_bound")


@pytest.mark.parametrize(
    ("stacks", "verdict", "why"),
    [
        (
            [CALL],
            "too_short",
            "the program waits for one call of a function (train, train.py:7): XLA compiles it, or one step",
        ),
        ([CUT_OFF, CALL], "too_short", "the program waits for one call of a function (train, train.py:7)"),
        ([BUILD], "warm_up", "TensorFlow builds the graph of a function (train, train.py:7), and no step has begun"),
        ([CUT_OFF], "warm_up", "TensorFlow builds the graph of a function, and no step has begun"),
    ],
)
def test_a_profile_without_steps_is_told_by_the_looks_at_python(
    tmp_path: pathlib.Path, stacks: list[STACK], verdict: str, why: str
) -> None:
    """Whether a call is being compiled or is a long step, nothing tells: that is no start for certain."""
    made_trace.save(tmp_path, [MadePlane("/host:CPU", [MadeLine("python", [MadeEvent("Idle", 0.0, 0.1)])])])
    looks(tmp_path, *stacks)
    report, _ = made_trace.judged(tmp_path)
    assert report.verdict == verdict
    assert report.why.startswith(why)


@pytest.mark.parametrize("stacks", [[[TRAIN]], [CALL, [TRAIN]], []])
def test_where_python_is_elsewhere_the_profile_is_too_short(tmp_path: pathlib.Path, stacks: list[STACK]) -> None:
    made_trace.save(tmp_path, [MadePlane("/host:CPU", [MadeLine("python", [MadeEvent("Idle", 0.0, 0.1)])])])
    if stacks:
        looks(tmp_path, *stacks)
    assert made_trace.judged(tmp_path)[0].verdict == "too_short"


@pytest.mark.parametrize(
    "kernel",
    [
        "stream_executor::gpu::RedzoneAllocatorKernelImpl(unsigned char*, unsigned char, unsigned long, unsigned int*)",
        "stream_executor::gpu::(anonymous namespace)::DelayKernel(stream_executor::GpuSemaphoreState volatile*)",
        "void stream_executor::gpu::xla_fp_comparison<float>(float*, float*, float, unsigned long, int*)",
        "__xla_fp32_comparison",
        "redzone_checker",
    ],
)
def test_autotuning_is_no_step(tmp_path: pathlib.Path, kernel: str) -> None:
    """The first three names are of a recording of an H200, in which a small transformer had no step after 44 s."""
    host = MadePlane("/host:CPU", [MadeLine("tf_Compute/1", [MadeEvent("Thunks::Prepare", 0.0, 0.1)], number=1)])
    made_trace.save(
        tmp_path,
        [
            host,
            MadePlane("/device:GPU:0", [MadeLine("Stream #13(Compute)", [MadeEvent(kernel, 5.0, 0.03)], number=13)]),
        ],
    )
    report, _ = made_trace.judged(tmp_path)
    assert report.verdict == "warm_up"
    assert report.why.startswith(
        "kernels are autotuned: TensorFlow or XLA runs several and keeps the fastest, before the first step"
    )
    assert "jit_compile=False" in report.why


@pytest.mark.parametrize(
    ("stacks", "verdict"), [([BUILD], "warm_up"), ([BUILD, CALL], "compute_bound"), ([CALL], "compute_bound")]
)
def test_a_graph_that_is_built_all_the_time_computes_nothing(
    tmp_path: pathlib.Path, stacks: list[STACK], verdict: str
) -> None:
    """What is called while a graph is built looks like steps."""
    made_trace.save(tmp_path, training(step_ms=20.0, compute_ms=18.0))
    looks(tmp_path, *stacks)
    report, _ = made_trace.judged(tmp_path)
    assert report.verdict == verdict
    assert verdict != "warm_up" or report.why.startswith("TensorFlow builds the graph of a function")


@pytest.mark.parametrize(
    ("stack", "verdict", "why"),
    [
        ([*EVALUATE, FIT, TRAIN], "too_short", "it holds a validation alone, by fit, and no step of the training"),
        ([*EVALUATE, TRAIN], "compute_bound", ""),
    ],
)
def test_evaluating_is_not_work_beside_the_steps(tmp_path: pathlib.Path, stack: STACK, verdict: str, why: str) -> None:
    """A program that only evaluates, and a recording of a validation alone: both were told to evaluate less often."""
    made_trace.save(tmp_path, training(step_ms=20.0, compute_ms=18.0))
    looks(tmp_path, stack, every_ms=3)
    report, _ = made_trace.judged(tmp_path)
    assert (report.verdict, report.why) == (verdict, why)
    assert "host_python" not in {each.label for each in report.causes}


@pytest.mark.parametrize(("of_fit", "verdict"), [(0, "too_short"), (1, "host_python")])
def test_a_validation_beside_steps_of_the_training_is_not_alone(
    tmp_path: pathlib.Path, of_fit: int, verdict: str
) -> None:
    """Keras gives both calls one name: a look in twenty at a step of fit says that there are some."""
    made_trace.save(tmp_path, training(step_ms=20.0, compute_ms=18.0))
    looks(tmp_path, *[CALL] * of_fit, *[[*EVALUATE, FIT, TRAIN]] * (20 - of_fit), every_ms=1)
    assert made_trace.judged(tmp_path)[0].verdict == verdict
