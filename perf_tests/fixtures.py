"""Fixtures of the suites: time budget, TensorFlow, the GPU or the root cause of its absence, comparisons, metrics."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tfgpu_doctor.perf_tests.importing import without_collection
from tfgpu_doctor.perf_tests.notes import note
from tfgpu_doctor.perf_tests.plugin import BUDGET, COMPARED, METRICS
from tfgpu_doctor.perf_tests.replay import TIMER
from tfgpu_doctor.perf_tests.timing import LEAST_READING_S
from tfgpu_doctor.perf_tests.variables import (
    ALTHOUGH_BUSY_VARIABLE,
    BUSY_VARIABLE,
    COMPILES_VARIABLE,
    FACTS_VARIABLE,
    JOURNAL_VARIABLE,
)

if TYPE_CHECKING:
    from types import ModuleType

    from tfgpu_doctor.bench import Plan
    from tfgpu_doctor.model.facts import Facts
    from tfgpu_doctor.model.facts.bench import Comparison, Side
    from tfgpu_doctor.model.report import Report
    from tfgpu_doctor.perf_tests.runner import NotRun, Runner, Variant


@pytest.fixture(scope="session")
def tensorflow() -> ModuleType:
    """TensorFlow with memory growth, so that a measurement never allocates a whole GPU.

    Where it is not installed, the test is skipped. Where it is and its import fails, the test fails: a skip would let a
    broken TensorFlow pass.
    """
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with without_collection():
            return importlib.import_module("tensorflow")
    except Exception as error:  # noqa: BLE001 - whatever it raises is the reason
        absent = isinstance(error, ModuleNotFoundError) and error.name == "tensorflow"
        why = f"TensorFlow cannot be imported: {type(error).__name__}: {error}"
    if absent:
        pytest.skip("TensorFlow is not installed in this Python")
    pytest.fail(why, pytrace=False)


@pytest.fixture(scope="session")
def recorded() -> Facts | None:
    """The facts of this machine from before the run, if the doctor saved them."""
    from tfgpu_doctor.model.facts import decode_facts

    path = os.environ.get(FACTS_VARIABLE)
    if not path:
        return None
    with open(path, "rb") as file:
        return decode_facts(file.read())


@pytest.fixture(scope="session")
def examined(recorded: Facts | None) -> Facts:
    """The facts of this machine, including TensorFlow's: recorded by the doctor, or examined now."""
    from tfgpu_doctor.collect.examination import examine

    return recorded or examine()


@pytest.fixture(scope="session")
def diagnosis(examined: Facts) -> Report:
    """The doctor's report on this machine, including TensorFlow."""
    from tfgpu_doctor.diagnose.engine import diagnose

    return diagnose(examined)


@pytest.fixture(scope="session")
def gpus(tensorflow: Any, request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    """The GPUs that TensorFlow lists: "GPU:0", ... Before this process uses them, it is known who else does."""
    found = tuple(f"GPU:{place}" for place, _ in enumerate(tensorflow.config.list_physical_devices("GPU")))
    with pytest.MonkeyPatch.context() as session:
        if found and not os.environ.get(BUSY_VARIABLE):
            for name, value in _looked_at(request.getfixturevalue("examined")).items():
                session.setenv(name, value)
        yield found


def _looked_at(facts: Facts) -> dict[str, str]:
    """Return the variables that the doctor sets, where the suites run without it."""
    from tfgpu_doctor.bench import compiles, used_by_others
    from tfgpu_doctor.host import Host

    found = {BUSY_VARIABLE: json.dumps(used_by_others(Host(), facts, (os.getpid(),)))}
    return {**found, COMPILES_VARIABLE: "1"} if compiles(facts) else found


@pytest.fixture(scope="session")
def gone(tensorflow: Any, gpus: tuple[str, ...], recorded: Facts | None, diagnosis: Report) -> str:
    """Why no GPU responds although the diagnosis before the run found no error; noted once."""
    from tfgpu_doctor.perf_tests.answering import why_lost, why_silent

    if _root_cause(diagnosis):
        return ""
    before = len(recorded.runtime.gpus) if recorded and recorded.runtime else 0
    why = why_lost(before, len(gpus)) or (gpus and why_silent(tensorflow, gpus[0])) or ""
    if why:
        note("gpu lost", {"why": why})
    return why


@pytest.fixture(autouse=True)
def gpu_answers_if_there_is_one(request: pytest.FixtureRequest) -> None:
    """Skip a test of a suite if the GPU stopped responding: a TensorFlow that cannot reach its GPU fails everywhere."""
    names = request.fixturenames
    is_ours = os.path.dirname(str(request.path)) == os.path.dirname(os.path.abspath(__file__))
    if "tensorflow" in names and (is_ours or "share_s" in names) and (gone := request.getfixturevalue("gone")):
        pytest.skip(f"the GPU stopped responding: {gone}")


@pytest.fixture(scope="session")
def gpu(gpus: tuple[str, ...], diagnosis: Report, pytestconfig: pytest.Config) -> str:
    """The first GPU; without a GPU the test is skipped with the doctor's root cause, and where others use one with that."""
    if not gpus:
        pytest.skip(_root_cause(diagnosis) or "TensorFlow lists no GPU")
    return _free(gpus, pytestconfig)


@pytest.fixture(scope="session")
def exclusive_gpus(gpus: tuple[str, ...], examined: Facts) -> dict[str, str]:
    """The GPUs that no second process may use beside this one, which holds them: their compute modes, by name."""
    from tfgpu_doctor.perf_tests.compute_mode import exclusive

    return exclusive(examined, gpus)


@pytest.fixture(scope="session")
def second_process(gpu: str, exclusive_gpus: dict[str, str]) -> None:
    """Skip a test whose child processes see the first GPU alone, if its compute mode excludes them."""
    admit_second({name: mode for name, mode in exclusive_gpus.items() if name == gpu})


@pytest.fixture(scope="session")
def second_process_on_all(gpu: str, exclusive_gpus: dict[str, str]) -> None:
    """Skip a test whose child processes see all GPUs: TensorFlow opens a context on each."""
    admit_second(exclusive_gpus)


def admit_second(modes: dict[str, str]) -> None:
    """Skip the test if there is a GPU, by name and compute mode, that a second process may not use."""
    from tfgpu_doctor.perf_tests.compute_mode import why_no_second_process

    if modes:
        pytest.skip(why_no_second_process(modes))


def _free(gpus: tuple[str, ...], config: pytest.Config) -> str:
    """Return the first GPU; skip the test if others use any of them: both would slow each other down."""
    busy = {name: signs for name, signs in busy_gpus().items() if name in gpus}
    if busy and not (config.getoption("--tfgpu-even-if-busy") or ALTHOUGH_BUSY_VARIABLE in os.environ):
        told = "; ".join(f"{name}: {signs}" for name, signs in busy.items())
        option = "--even-if-busy" if JOURNAL_VARIABLE in os.environ else "--tfgpu-even-if-busy"
        pytest.skip(f"others use a GPU ({told}): end them, choose idle GPUs with CUDA_VISIBLE_DEVICES, or add {option}")
    return gpus[0]


def busy_gpus() -> dict[str, str]:
    """Return the signs that others use a GPU, by its name; empty if there are none, or none that NVML can show."""
    return _told_busy() or {}


def sharing() -> Literal["free", "busy", "not known"]:
    """Return whether others use any GPU, as seen before this run used it. Not known: what takes all memory must not run."""
    found = _told_busy()
    if found is None:
        return "not known"
    return "busy" if found else "free"


def _told_busy() -> dict[str, str] | None:
    found: dict[str, str] | None = json.loads(os.environ.get(BUSY_VARIABLE) or "null")
    return found


def _root_cause(diagnosis: Report) -> str:
    """Return the doctor's root cause for an unused GPU; empty if there is none."""
    cause = next((each for each in diagnosis.causes if each.severity == "error"), None)
    return f"{cause.label}: {cause.title}" if cause else ""


@pytest.fixture(scope="session")
def gpu_or_cpu(gpus: tuple[str, ...], pytestconfig: pytest.Config) -> str:
    """The device for work that can run anywhere: the first GPU if there is one, else the CPU."""
    return _free(gpus, pytestconfig) if gpus else "CPU:0"


@pytest.fixture(scope="session")
def runner(tensorflow: Any, gpus: tuple[str, ...]) -> Runner:
    """The runner of the comparisons; every GPU finishes its work before the clock is read."""
    from tfgpu_doctor.perf_tests.runner import Runner

    return Runner(tensorflow.test.experimental.sync_devices if gpus else lambda: None)


@pytest.fixture
def share_s(request: pytest.FixtureRequest) -> float:
    """The seconds that this test may measure; skips the test if the budget is used up."""
    if hasattr(request.config, "workerinput"):
        pytest.fail("measurements at the same time disturb each other: run pytest without -n", pytrace=False)
    marker = request.node.get_closest_marker("priority")
    needs_s = marker.kwargs.get("needs_s", 0.0) if marker else 0.0
    fixed_s = request.config.getoption("--tfgpu-share") if "compare" in request.fixturenames else None
    share: float | None = request.config.stash[BUDGET].share_s(needs_s, fixed_s)
    if share is None:
        pytest.skip("the time budget ended before this test; a budget of `full` runs all tests")
    return share


@pytest.fixture
def compare(
    request: pytest.FixtureRequest, runner: Runner, gpus: tuple[str, ...], share_s: float, benchmark: Any
) -> Callable[..., None]:
    """Run a comparison: `compare(candidate, baseline, at_least=1.0)`. Passes if the candidate is faster by that ratio.

    `on_measured` is called with the result, whatever the verdict. In one of several processes (--tfgpu-share), the test
    then passes. If the candidate is not faster, the test fails on a machine with a GPU. On a machine without one it is
    skipped, with the verdict, unless --tfgpu-strict is given: a result on two busy cores does not prove the contrary.
    """
    from tfgpu_doctor.bench import extra_info

    config = request.config
    alone = config.getoption("--tfgpu-share") is None

    def hold(
        candidate: Variant,
        baseline: Variant,
        *,
        at_least: float = 1.0,
        on_measured: Callable[[Comparison], None] = lambda _: None,
    ) -> None:
        on_gpu = "GPU" in candidate.device + baseline.device
        plan = None if benchmark.disabled else _plan(config, share_s, alone=alone, on_gpu=on_gpu)
        name = (request.node.path.stem.removeprefix("test_"), request.node.name.removeprefix("test_"))
        result, trouble = runner.hold(name, candidate, baseline, at_least=at_least, plan=plan, alone=alone)
        if trouble:
            benchmark.extra_info.update(extra_info(result))
            _give_up(name[1], trouble)
        if plan is None:
            return
        config.stash[COMPARED] = True
        assert result.candidate
        assert result.baseline
        _keep(benchmark, result.candidate, result.baseline, extra_info(result))
        on_measured(result)
        if alone and result.verdict != "faster":
            fails = gpus or config.getoption("--tfgpu-strict")
            (pytest.fail if fails else pytest.skip)(f"{result.name}: {result.verdict}, {result.reason}")

    return hold


def _plan(config: pytest.Config, share_s: float, *, alone: bool, on_gpu: bool) -> Plan:
    """Return how long to measure; options of pytest-benchmark that were given decide where this process judges alone."""
    from tfgpu_doctor.bench import Plan

    if not alone:
        plan = Plan.part(share_s)
    else:
        given = {word.partition("=")[0] for word in config.invocation_params.args}
        plan = Plan(float(config.getoption("benchmark_max_time")) if "--benchmark-max-time" in given else share_s)
        if "--benchmark-min-rounds" in given:
            rounds = max(plan.least_rounds, config.getoption("benchmark_min_rounds"))
            plan = dataclasses.replace(plan, rounds=rounds, least_rounds=rounds)
    return dataclasses.replace(plan, least_round_s=LEAST_READING_S) if on_gpu else plan


def _give_up(name: str, trouble: NotRun) -> None:
    (pytest.fail if trouble.fault else pytest.skip)(f"{name}: {trouble}")


def _keep(benchmark: Any, candidate: Side, baseline: Side, info: dict[str, Any]) -> None:
    """Pass the measured times of both sides to pytest-benchmark, as one group of its table and of its JSON."""
    test = benchmark.fullname
    beside = copy.copy(benchmark)
    beside.extra_info = {"baseline_of": test}
    beside.fullname = f"{test} (baseline)"
    benchmark.extra_info.update(info)
    for fixture, side in ((benchmark, candidate), (beside, baseline)):
        fixture.name = side.name
        TIMER.replay(side.seconds)
        try:
            fixture.pedantic(lambda: None, rounds=len(side.seconds), iterations=1)
        finally:
            TIMER.stop()


@pytest.fixture
def metric(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Record a measurement that is not a comparison: `metric(name, value, unit, device=..., limit=..., about=...)`."""
    import msgspec

    from tfgpu_doctor.model.facts.bench import Metric

    def keep(name: str, value: float, unit: str, **more: Any) -> None:
        suite = request.node.path.stem.removeprefix("test_")
        row = msgspec.to_builtins(Metric(suite=suite, name=name, value=float(value), unit=unit, **more))
        request.config.stash[METRICS].append(row)
        note("metric", {"metric": row})

    return keep
