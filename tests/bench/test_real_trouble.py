"""Trouble as a real TensorFlow makes it: the one comparison ends with its reason, the rest go on."""

from __future__ import annotations

import pathlib
import textwrap

import pytest
from installed import skip_without_scipy, skip_without_tensorflow

from tfgpu_doctor.bench.run import Order, run_suites
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.perf_tests.budget import Passes

skip_without_tensorflow()
skip_without_scipy()
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

SUITE = """
import pytest
from tfgpu_doctor.perf_tests.runner import Variant

def side(tf, name, call, verify=lambda result: None):
    return Variant(name, call, verify)

def good(tf, name="good"):
    numbers = tf.ones((200, 200))
    return side(tf, name, lambda: tf.linalg.matmul(numbers, numbers))

def test_last(compare, tensorflow):
    with pytest.raises(pytest.skip.Exception):  # two sides that are the same: not shown
        compare(good(tensorflow), good(tensorflow))
"""


def trouble(folder: pathlib.Path, test: str, **order: object) -> Bench:
    suite = folder / "suites"
    suite.mkdir()
    (suite / "test_made_up.py").write_text(SUITE.replace("def test_last", textwrap.dedent(test) + "\n\ndef test_last"))
    passes = Passes(3, 0.3)  # fewer processes give no interval
    told = Order(journal=str(folder / "journal"), folder=str(suite), budget_s=600.0, passes=passes, **order)  # type: ignore[arg-type]
    return run_suites(told)


def comparisons(bench: Bench) -> dict[str, tuple[str, str]]:
    return {comparison.name: (comparison.verdict, comparison.reason) for comparison in bench.comparisons}


def test_out_of_memory(tmp_path: pathlib.Path) -> None:
    test = """
    def test_greedy(compare, tensorflow):
        tf = tensorflow
        compare(side(tf, "greedy", lambda: tf.zeros((1 << 24, 1 << 24)) + 1), good(tf))
    """
    found = comparisons(trouble(tmp_path, test))
    assert found["greedy"][0] == "not run"
    assert "out of memory" in found["greedy"][1]
    assert found["last"][0] != "not run"


def test_a_collective_that_waits_for_a_member_that_never_comes(tmp_path: pathlib.Path) -> None:
    test = """
    def test_alone(compare, tensorflow):
        tf = tensorflow
        def reduce():
            return tf.raw_ops.CollectiveReduceV2(
                input=tf.ones(4), group_size=2, group_key=1, instance_key=1, merge_op="Add", final_op="Id",
                ordering_token=[],
            )
        compare(side(tf, "one of two", reduce), good(tf))
    """
    bench = trouble(tmp_path, test, longest_s=30.0)
    found = comparisons(bench)
    assert found["alone"][0] == "not run"
    assert "it hangs" in found["alone"][1]
    assert found["last"][0] != "not run"
    assert len(bench.problems) == 1


def test_a_kernel_that_fails(tmp_path: pathlib.Path) -> None:
    test = """
    def test_divides(compare, tensorflow):
        tf = tensorflow
        nothing = tf.zeros(4, tf.int32)
        compare(side(tf, "by nothing", lambda: tf.ones(4, tf.int32) // nothing), good(tf))
    """
    found = comparisons(trouble(tmp_path, test))
    assert found["divides"][0] == "not run"
    assert "InvalidArgumentError" in found["divides"][1]
    assert found["last"][0] != "not run"
