"""Correctness of results: each element against float64, bit-equal repeats, equal GPUs. No timing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.perf_tests.children import Child, children
from tfgpu_doctor.perf_tests.networks import why_no_tensor_cores
from tfgpu_doctor.perf_tests.operations import TF32_UNIT, UNIT, Operation, operations
from tfgpu_doctor.perf_tests.placement import prove, short_device
from tfgpu_doctor.perf_tests.tf32 import tf32
from tfgpu_doctor.perf_tests.visibility import NO_GPU

Keep = Callable[..., None]
REPEATS = 5
OPERATIONS = operations()
WITH_TF32 = tuple(each for each in operations(turned=True) if each.may_use_tf32)  # of shapes of their own


def answer_of(tf: Any, operation: Operation, device: str) -> np.ndarray[Any, Any]:
    """Return the result from a device; raises AssertionError if another device computed it."""

    def call() -> Any:
        with tf.device(device):
            return operation.call(tf, [tf.constant(each) for each in operation.inputs])

    result = prove(call, device, operation.carriers)
    assert short_device(result.backing_device) == device
    answer: np.ndarray[Any, Any] = result.numpy()
    return answer


@pytest.mark.priority(5)
def test_cpu_against_float64(tensorflow: Any, metric: Keep) -> None:
    judge(tensorflow, metric, OPERATIONS, "CPU:0", UNIT)


@pytest.mark.priority(2)
def test_gpu_against_float64(tensorflow: Any, gpu: str, metric: Keep) -> None:
    """Check the errors in full float32, with TF32 disabled."""
    with tf32(tensorflow, on=False):
        judge(tensorflow, metric, OPERATIONS, gpu, UNIT)


@pytest.mark.priority(5)
def test_tf32_against_float64(tensorflow: Any, gpu: str, metric: Keep) -> None:
    """Check the errors with TF32, which products and convolutions use by default on Ampere and newer."""
    if why := why_no_tensor_cores(tensorflow, gpu, "tf32"):
        pytest.skip(why)
    if not tensorflow.config.experimental.tensor_float_32_execution_enabled():
        pytest.skip("TF32 is disabled")
    judge(tensorflow, metric, WITH_TF32, gpu, TF32_UNIT)


def judge(tf: Any, metric: Keep, asked: Sequence[Operation], device: str, unit: float) -> None:
    """Run operations on a device, record the errors, and raise AssertionError if one is larger than rounding allows."""
    errors = {}
    for operation in asked:
        name, answer = operation.name, answer_of(tf, operation, device)
        assert answer.shape == operation.exact.shape
        assert np.all(np.isfinite(answer)), f"the result of {name} has values that are not finite"
        errors[name] = operation.error(answer, unit)
        about = "relative to the maximum rounding error, for the worst element, against float64"
        if unit == TF32_UNIT:
            about = f"TF32 {'used' if operation.error(answer) > 1 else 'allowed, but not used'}, {about}"
        metric(f"error of {name}", errors[name], "of the allowed", device=device, limit=1.0, about=about)
    wrong = [f"{name} {error:.3g} times" for name, error in errors.items() if error > 1]
    assert not wrong, f"on {device} these errors exceed the allowed rounding error: {', '.join(wrong)}"


def _digests(child: Child) -> tuple[set[str], set[str], float]:
    """Return the digests of the weights after repeated training, the devices, and the loss."""
    answers = [child.ask() for _ in range(REPEATS)]
    devices = {device for answer in answers for device in answer.devices}
    return {answer.values["digest"] for answer in answers}, devices, answers[0].values["loss"]


@pytest.mark.priority(5, needs_s=15)
@pytest.mark.parametrize("kind", ["CPU", "GPU"])
def test_repeats_are_equal(share_s: float, request: pytest.FixtureRequest, metric: Keep, kind: str) -> None:
    """Check that with op determinism the same training from the same seed gives the same bits each time."""
    device, seen = "CPU:0", NO_GPU
    if kind == "GPU":
        request.getfixturevalue("second_process_on_all")
        device, seen = request.getfixturevalue("gpu"), {}
    order = {"work": "repeats", "device": f"/{device}", "deterministic": True}
    with children("work_on_request", (order, seen)) as (child,):
        digests, devices, loss = _digests(child)
    assert devices == {device}
    assert np.isfinite(loss)
    metric("different results of repeats", len(digests), "results", device=device, limit=1.0, about=f"{REPEATS} runs")
    assert len(digests) == 1, f"{len(digests)} different results in {REPEATS} runs with op determinism"


@pytest.mark.priority(4, needs_s=15)
@pytest.mark.usefixtures("second_process_on_all")
def test_gpus_agree(tensorflow: Any, gpu: str, gpus: tuple[str, ...], metric: Keep) -> None:
    """Check that GPUs of one model give the same bits; one that differs is damaged or configured differently.

    With op determinism, in a process of its own: otherwise TensorFlow times the algorithms of a convolution on each GPU,
    and two healthy GPUs may choose different ones.
    """
    details = tensorflow.config.experimental.get_device_details
    models = [details(each).get("device_name") for each in tensorflow.config.list_physical_devices("GPU")]
    alike = [each for each, model in zip(gpus, models, strict=True) if model == models[0]]
    if len(alike) < 2:
        pytest.skip(f"there is no second GPU of model {models[0]}")
    order = {"work": "answers", "device": ",".join(alike), "deterministic": True}
    with children("work_on_request", (order, {})) as (child,):
        digests: dict[str, dict[str, str]] = child.ask().values["digests"]
    wrong = [
        f"{device} on {name}" for device in alike for name, due in digests[gpu].items() if digests[device][name] != due
    ]
    about = f"of {len(alike)} GPUs, with op determinism"
    metric("answers that differ", len(wrong), "answers", device=gpu, limit=0.0, about=about)
    assert not wrong, f"these results differ from {gpu}: {', '.join(wrong)}"
