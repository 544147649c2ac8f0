"""Shared fixtures of the suites: time budget, TensorFlow, the GPU or the root cause of its absence, comparisons, metrics."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

from tfgpu_doctor.perf_tests.budget import LEAST_S, Budget, parse_budget
from tfgpu_doctor.perf_tests.journal import note
from tfgpu_doctor.perf_tests.replay import TIMER
from tfgpu_doctor.perf_tests.variables import FACTS_VARIABLE, JOURNAL_VARIABLE, START_AGAIN

if TYPE_CHECKING:
    from types import ModuleType

    from tfgpu_doctor.model.facts import Facts
    from tfgpu_doctor.model.facts.bench import Comparison
    from tfgpu_doctor.model.report import Report
    from tfgpu_doctor.perf_tests.runner import NotRun, Runner, Variant

LOWEST_PRIORITY = 9
_LONGEST = 400  # characters of a reason
_BUDGET: pytest.StashKey[Budget] = pytest.StashKey()
_OUTCOME: pytest.StashKey[tuple[str, str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --budget and --budget-ends."""
    group = parser.getgroup("tfgpu-doctor")
    group.addoption("--budget", default="60s", help="time for all suites, 60s or 5m; full: no limit")
    group.addoption("--budget-ends", type=float, help="end of the time, in seconds since 1970; in addition to --budget")


def pytest_configure(config: pytest.Config) -> None:
    """Start the time budget."""
    config.addinivalue_line(
        "markers",
        "priority(rank, needs_s=1.5): importance of a test, 1 is highest; a short budget runs it first, if it fits",
    )
    try:
        seconds = parse_budget(config.getoption("--budget"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    ends = config.getoption("--budget-ends")
    if ends is None and seconds is not None:
        ends = time.time() + seconds
    config.stash[_BUDGET] = Budget(None if seconds is None else ends)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests by priority, and let pytest-benchmark take its times from the comparisons."""
    items.sort(key=_rank)
    for item in items:
        if "compare" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.benchmark(timer=TIMER, group=item.path.stem))
    config.stash[_BUDGET].expect(sum(_measures(item) for item in items))
    note("session", {"tests": len(items)})


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note the start of a test in the journal."""
    note("test", {"id": nodeid})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Note the outcome of a test and its reason in the journal: from its last phase, or from one that did not pass."""
    report = yield
    outcomes = item.stash.setdefault(_OUTCOME, ("passed", ""))
    if report.outcome != "passed":
        outcomes = item.stash[_OUTCOME] = (report.outcome, str(call.excinfo.value) if call.excinfo else "")
    if isinstance(
        report.longrepr, tuple
    ):  # a skip: report the test's location, not the fixture's, which skips many tests
        report.longrepr = (str(item.path), item.reportinfo()[1], report.longrepr[2])
    if report.when == "teardown":
        if _measures(item):
            item.config.stash[_BUDGET].one_is_done()
        silent = _why_silent(item) if outcomes[0] == "failed" else ""
        note(
            "test ended",
            {"id": item.nodeid, "outcome": outcomes[0], "reason": " ".join(outcomes[1].split())[:_LONGEST]},
        )
        if silent and JOURNAL_VARIABLE in os.environ:
            os._exit(START_AGAIN)
    return report


def _why_silent(item: pytest.Item) -> str:
    """Return why the GPU of a test stopped responding; empty if it responds, or if the test had no GPU."""
    from tfgpu_doctor.perf_tests.answering import why_silent

    given = getattr(item, "funcargs", {})
    return why_silent(given["tensorflow"], given["gpu"]) if {"gpu", "tensorflow"} <= set(given) else ""


def _measures(item: pytest.Item) -> bool:
    return "share_s" in getattr(item, "fixturenames", ())


def _rank(item: pytest.Item) -> int:
    marker = item.get_closest_marker("priority")
    return int(marker.args[0]) if marker else LOWEST_PRIORITY


@pytest.fixture(scope="session")
def tensorflow() -> ModuleType:
    """TensorFlow with memory growth, so that a measurement never allocates a whole GPU."""
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    module: ModuleType = pytest.importorskip("tensorflow", reason="TensorFlow is not installed in this Python")
    return module


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
def diagnosis(recorded: Facts | None) -> Report:
    """The doctor's report on this machine, including TensorFlow."""
    import tfgpu_doctor
    from tfgpu_doctor.diagnose.engine import diagnose

    return diagnose(recorded) if recorded else tfgpu_doctor.check()


@pytest.fixture(scope="session")
def gpus(tensorflow: Any) -> tuple[str, ...]:
    """The GPUs that TensorFlow lists: "GPU:0", ..."""
    return tuple(f"GPU:{place}" for place, _ in enumerate(tensorflow.config.list_physical_devices("GPU")))


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
    """Skip the test if the GPU stopped responding: a TensorFlow that cannot reach its GPU fails everywhere."""
    if "tensorflow" in request.fixturenames and (gone := request.getfixturevalue("gone")):
        pytest.skip(f"the GPU stopped responding: {gone}")


@pytest.fixture(scope="session")
def gpu(gpus: tuple[str, ...], diagnosis: Report) -> str:
    """The first GPU; without a GPU the test is skipped with the doctor's root cause."""
    if not gpus:
        pytest.skip(_root_cause(diagnosis) or "TensorFlow lists no GPU")
    return gpus[0]


def _root_cause(diagnosis: Report) -> str:
    """Return the doctor's root cause for an unused GPU; empty if there is none."""
    cause = next((each for each in diagnosis.causes if each.severity == "error"), None)
    return f"{cause.label}: {cause.title}" if cause else ""


@pytest.fixture(scope="session")
def device(gpus: tuple[str, ...]) -> str:
    """The device for work that can run anywhere: the first GPU if there is one, else the CPU."""
    return gpus[0] if gpus else "CPU:0"


@pytest.fixture(scope="session")
def runner(tensorflow: Any, gpus: tuple[str, ...]) -> Runner:
    """The runner of the comparisons; every GPU finishes its work before the clock is read."""
    from tfgpu_doctor.perf_tests.runner import Runner

    return Runner(tensorflow.test.experimental.sync_devices if gpus else lambda: None)


@pytest.fixture
def share_s(request: pytest.FixtureRequest) -> float:
    """The seconds that this test may measure; skips the test if the budget is used up."""
    marker = request.node.get_closest_marker("priority")
    needs_s = marker.kwargs.get("needs_s", LEAST_S) if marker else LEAST_S
    share: float | None = request.config.stash[_BUDGET].share_s(needs_s)
    if share is None:
        pytest.skip("the time budget ended before this test; --budget full runs all tests")
    return share


@pytest.fixture
def compare(
    request: pytest.FixtureRequest, runner: Runner, gpus: tuple[str, ...], share_s: float, benchmark: Any
) -> Callable[..., None]:
    """Run a comparison: `compare(candidate, baseline, at_least=1.0)`. Passes if the candidate is faster by that ratio.

    `on_measured` is called with the result, whatever the verdict. If the candidate is not faster, the test fails on a
    machine with a GPU. On a machine without one it is skipped, with the verdict: a result on two busy cores does not
    prove the contrary.
    """
    from tfgpu_doctor.bench import extra_info

    def hold(
        candidate: Variant,
        baseline: Variant,
        *,
        at_least: float = 1.0,
        on_measured: Callable[[Comparison], None] = lambda _: None,
    ) -> None:
        name = (request.node.path.stem.removeprefix("test_"), request.node.name.removeprefix("test_"))
        result, trouble = runner.hold(name, candidate, baseline, at_least=at_least, budget_s=share_s)
        benchmark.extra_info.update(extra_info(result))
        if trouble:
            _give_up(name[1], trouble)
        assert result.candidate
        _keep(benchmark, result.candidate.seconds)
        on_measured(result)
        if result.verdict != "faster":
            (pytest.fail if gpus else pytest.skip)(f"{result.name}: {result.verdict}, {result.reason}")

    return hold


def _give_up(name: str, trouble: NotRun) -> None:
    (pytest.fail if trouble.fault else pytest.skip)(f"{name}: {trouble}")


def _keep(benchmark: Any, seconds: tuple[float, ...]) -> None:
    """Pass the measured times to pytest-benchmark: its table, JSON and comparison show the candidate's times."""
    TIMER.replay(seconds)
    try:
        benchmark.pedantic(lambda: None, rounds=len(seconds), iterations=1)
    finally:
        TIMER.stop()


@pytest.fixture
def metric(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Record a measurement that is not a comparison: `metric(name, value, unit, device=..., limit=..., about=...)`."""
    import msgspec

    from tfgpu_doctor.model.facts.bench import Metric

    def keep(name: str, value: float, unit: str, **more: Any) -> None:
        suite = request.node.path.stem.removeprefix("test_")
        row = Metric(suite=suite, name=name, value=float(value), unit=unit, **more)
        note("metric", {"metric": msgspec.to_builtins(row)})

    return keep


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Add the GPU, the driver and TensorFlow to the document of pytest-benchmark, which does not record them."""
    import tfgpu_doctor
    from tfgpu_doctor.bench import SUITE_VERSION, machine_part

    machine_info["tfgpu_doctor"] = machine_part(tfgpu_doctor.check(quick=True), SUITE_VERSION)
