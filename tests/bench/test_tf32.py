"""TF32 and full float32: no convolution has the same shapes in both states, for TensorFlow keeps its plan by the shapes."""

from __future__ import annotations

import importlib
import json
import pathlib
from typing import Any

import conv_states
import pytest
from installed import skip_without_scipy, skip_without_tensorflow
from stand_in_run import run_on_stand_in

skip_without_tensorflow()
skip_without_scipy()
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


@pytest.fixture(scope="module")
def tf() -> Any:
    return importlib.import_module("tensorflow")


def test_no_convolution_has_the_same_shapes_in_both_states(tmp_path: pathlib.Path) -> None:
    told = tmp_path / "convolutions"
    suites = ["mixed_precision", "model_architecture", "numerics"]
    only = "speed and convolution or separable or stride or kernel_size or axes or gpu_against or tf32_against"
    variables = {conv_states.VARIABLE: str(told), "PYTEST_ADDOPTS": "-p conv_states"}
    bench = run_on_stand_in(tmp_path, 1, suites, only=only, variables=variables)
    assert not bench.problems
    assert not bench.failed
    states: dict[tuple[str, ...], set[bool]] = {}
    for line in told.read_text().splitlines():
        row = json.loads(line)
        states.setdefault((row["kind"], *row["shapes"]), set()).add(row["tf32"])
    assert {state for seen in states.values() for state in seen} == {True, False}
    assert [shapes for shapes, seen in states.items() if len(seen) == 2] == []


def test_transposed_pictures_have_the_transposed_result(tf: Any) -> None:
    from tfgpu_doctor.perf_tests.tf32 import sides, turned, turned_kernel

    wide, high = sides(8, on=True), sides(8, on=False)
    assert wide == high[::-1]
    pictures, kernel = (tf.random.stateless_normal(shape, (1, 2)) for shape in ((2, *wide, 3), (3, 3, 3, 4)))
    due = tf.nn.conv2d(pictures, kernel, 1, "SAME")
    seen = tf.nn.conv2d(turned(tf, pictures), turned_kernel(tf, kernel), 1, "SAME")
    assert seen.shape == (2, *high, 4)
    tf.debugging.assert_near(turned(tf, seen), due, atol=1e-4)


def test_the_loss_of_a_step_is_the_same_with_transposed_pictures(tf: Any) -> None:
    from tfgpu_doctor.perf_tests.test_mixed_precision import Step

    shape = (2, 6, 8, 16)
    due, seen = (Step(tf, "CPU:0", "convolution", each, shape)() for each in ("tf32", "float32"))
    for one, other in zip(due, seen, strict=True):
        tf.debugging.assert_near(one, other, rtol=1e-4)


def test_the_switch_returns_to_what_the_user_has_chosen(tf: Any) -> None:
    from tfgpu_doctor.perf_tests.tf32 import tf32

    options = tf.config.experimental
    before = options.tensor_float_32_execution_enabled()
    try:
        options.enable_tensor_float_32_execution(False)
        with tf32(tf, on=True):
            assert options.tensor_float_32_execution_enabled()
        assert not options.tensor_float_32_execution_enabled()
    finally:
        options.enable_tensor_float_32_execution(before)
