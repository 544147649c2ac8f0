"""GPUs that other processes use are not loaded, and the run says so."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import msgspec
import pytest
from healthy import healthy
from installed import skip_without_tensorflow
from simulated import Simulate
from stand_in_run import run_on_stand_in

from tfgpu_doctor.bench.others import used_by_others
from tfgpu_doctor.bench.result import make_result
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, Comparison
from tfgpu_doctor.perf_tests.fixtures import busy_gpus, sharing
from tfgpu_doctor.perf_tests.variables import ALTHOUGH_BUSY_VARIABLE, BUSY_VARIABLE

SUITE = """
from tfgpu_doctor.perf_tests.runner import Variant

def side(tf, name, device):
    def call():
        with tf.device(device):
            return tf.linalg.matmul(tf.ones((64, 64)), tf.ones((64, 64)))
    return Variant(name, call, lambda result: None, device)

def test_on_the_gpu(compare, tensorflow, gpu):
    compare(side(tensorflow, "GPU", gpu), side(tensorflow, "CPU", "CPU:0"))

def test_wherever(compare, tensorflow, gpu_or_cpu):
    compare(side(tensorflow, "one", gpu_or_cpu), side(tensorflow, "other", gpu_or_cpu))

def test_on_the_cpu(compare, tensorflow):
    compare(side(tensorflow, "one", "CPU:0"), side(tensorflow, "other", "CPU:0"))
"""


def found(simulate: Simulate, own: tuple[int, ...] = (), **gpu: Any) -> dict[str, str] | None:
    variables = simulate(gpu)
    return used_by_others(Host(environment={"PATH": os.environ["PATH"], **variables}), one_gpu(), own)


def one_gpu() -> Facts:
    facts = healthy()
    assert len(facts.runtime.gpus if facts.runtime else ()) == 1
    return facts


@pytest.mark.slow
def test_a_process_on_the_gpu_is_a_sign(simulate: Simulate) -> None:
    told = found(simulate, processes=[{"pid": 4242, "name": "python", "memory_bytes": 1 << 30}])
    assert told
    assert set(told) == {"GPU:0"}
    assert "computes on it" in told["GPU:0"]


@pytest.mark.slow
def test_a_process_of_the_run_itself_is_none(simulate: Simulate) -> None:
    held = 3 << 30
    ours = {"pid": 4242, "name": "python", "memory_bytes": held}
    assert found(simulate, (4242,), processes=[ours], memory_used_bytes=held) == {}
    assert found(simulate, (4243,), processes=[ours], memory_used_bytes=held)


@pytest.mark.slow
def test_an_idle_gpu_has_none(simulate: Simulate) -> None:
    assert found(simulate) == {}


def test_where_nvml_cannot_tell_it_is_not_known() -> None:
    assert used_by_others(Host(environment={"PATH": os.environ["PATH"]}), one_gpu()) is None
    without = msgspec.structs.replace(one_gpu(), nvml=None)
    assert used_by_others(Host(environment={"PATH": os.environ["PATH"]}), without) is None


@pytest.mark.parametrize(
    ("told", "is_so"),
    [(None, "not known"), ("", "not known"), ("null", "not known"), ("{}", "free"), ('{"GPU:1": "python"}', "busy")],
)
def test_what_is_told_of_the_gpus(monkeypatch: pytest.MonkeyPatch, told: str | None, is_so: str) -> None:
    monkeypatch.delenv(BUSY_VARIABLE, raising=False)
    if told is not None:
        monkeypatch.setenv(BUSY_VARIABLE, told)
    assert sharing() == is_so
    assert bool(busy_gpus()) == (is_so == "busy")


@pytest.mark.tensorflow
@pytest.mark.slow
def test_nothing_takes_all_memory_where_nvml_cannot_tell_who_uses_it(tmp_path: pathlib.Path) -> None:
    """As with `pytest --pyargs`, without the doctor that looks before the run."""
    skip_without_tensorflow()
    bench = run_on_stand_in(tmp_path, 1, ["memory_growth"], only="test_taken", variables={BUSY_VARIABLE: ""})
    assert [test.partition("::test_")[2] for test in bench.skipped] == ["taken[no growth]"], bench
    assert bench.failed == {}


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("busy", [False, True])
def test_without_the_doctor_the_session_looks_itself(tmp_path: pathlib.Path, simulate: Simulate, busy: bool) -> None:
    skip_without_tensorflow()
    gpu = {"processes": [{"pid": 4242, "name": "python", "memory_bytes": 1 << 30}]} if busy else {}
    variables = {**simulate(gpu), BUSY_VARIABLE: ""}
    bench = run_on_stand_in(tmp_path, 1, own=SUITE, only="test_wherever", variables=variables, facts=one_gpu())
    assert {each.name for each in bench.comparisons} == (set() if busy else {"wherever"}), bench
    if busy:
        assert "python (4242) computes on it" in next(iter(bench.skipped.values()))


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("even_if_busy", [False, True])
def test_what_needs_that_gpu_is_left_out_with_the_reason(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, even_if_busy: bool
) -> None:
    skip_without_tensorflow()
    monkeypatch.setenv(BUSY_VARIABLE, '{"GPU:0": "python (4242) computes on it"}')
    if even_if_busy:
        monkeypatch.setenv(ALTHOUGH_BUSY_VARIABLE, "1")
    bench = run_on_stand_in(tmp_path, 1, own=SUITE)
    ran = {comparison.name for comparison in bench.comparisons}
    assert ran == ({"on_the_gpu", "wherever", "on_the_cpu"} if even_if_busy else {"on_the_cpu"})
    told = {test.partition("::test_")[2]: why for test, why in bench.skipped.items()}
    assert set(told) == (set() if even_if_busy else {"on_the_gpu", "wherever"})
    for why in told.values():
        assert "GPU:0: python (4242) computes on it" in why
        assert "CUDA_VISIBLE_DEVICES" in why


@pytest.mark.tensorflow
@pytest.mark.slow
def test_figures_leave_that_gpu_out_too(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    suites, only = (
        ["training", "mixed_precision", "profiler"],
        "test_learning or (test_loss and not scaling) or test_cost",
    )
    busy = {BUSY_VARIABLE: '{"GPU:0": "python (4242) computes on it"}'}
    bench = run_on_stand_in(tmp_path, 1, suites, only=only, variables=busy)
    assert (bench.metrics, bench.failed, bench.problems) == ((), {}, ())
    assert {test.partition("::test_")[2].partition("[")[0] for test in bench.skipped} == {"learning", "loss", "cost"}
    assert all("GPU:0: python (4242) computes on it" in why for why in bench.skipped.values())


def test_a_run_without_the_gpus_that_others_use_is_no_pass() -> None:
    won = Comparison(suite="s", name="n", verdict="faster", ratio=2.0, interval=(1.9, 2.1))
    bench = Bench(comparisons=(won,), busy={"GPU:0": "python (4242) computes on it"})
    report = diagnose(healthy())
    assert make_result(report, bench, seconds=1.0).exit_code == 3
    assert make_result(report, msgspec.structs.replace(bench, busy={}), seconds=1.0).exit_code == 0


def test_a_lost_comparison_on_the_cpu_fails_if_asked() -> None:
    lost = Comparison(suite="s", name="n", verdict="not shown", ratio=1.0, interval=(0.98, 1.02))
    report, bench = diagnose(healthy()), Bench(comparisons=(lost,))
    assert make_result(report, bench, seconds=1.0).exit_code == 0
    assert make_result(report, bench, seconds=1.0, strict=True).exit_code == 1
