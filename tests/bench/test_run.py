"""The suites' runner with real children: tests that hang, die, and go on."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

from tfgpu_doctor.bench.names import suite_names
from tfgpu_doctor.bench.run import OnLook, Order, _Run, run_suites
from tfgpu_doctor.model.facts.bench import Bench, Comparison
from tfgpu_doctor.perf_tests.budget import Passes
from tfgpu_doctor.perf_tests.journal import Account

# A comparison as the runner notes it, without TensorFlow.
SUITE = """
import os, time
import pytest
from tfgpu_doctor.perf_tests.notes import note

def start(name):
    note("start", {"suite": "made_up", "name": name, "at_least": 1.0, "on_gpu": False, "device": "CPU:0"})

def measured(name):
    start(name)
    note("comparison", {"comparison": {"suite": "made_up", "name": name, "verdict": "faster", "ratio": 2.0, "rounds": 12}})

def test_first():
    measured("first")
"""
# Times of a test grow by these factors until the start of pytest, which takes seconds on a busy machine, is short beside them.
SCALES = (1, 3, 9)


def run(
    folder: pathlib.Path, tests: str, *, scale: int = 1, on_look: OnLook = lambda *_: None, **order: object
) -> Bench:
    suite = folder / "suites"
    suite.mkdir(parents=True)
    (suite / "test_made_up.py").write_text(f"{SUITE}\nSCALE = {scale}\n{textwrap.dedent(tests)}")
    return run_suites(Order(journal=str(folder / "journal"), folder=str(suite), **order), on_look)  # type: ignore[arg-type]


def verdicts(bench: Bench) -> dict[str, str]:
    return {comparison.name: comparison.verdict for comparison in bench.comparisons}


def test_what_was_measured_comes_back(tmp_path: pathlib.Path) -> None:
    bench = run(tmp_path, "import pytest\ndef test_second():\n    pytest.skip('no GPU')\n")
    assert verdicts(bench) == {"first": "faster"}
    assert bench.skipped == {"test_made_up.py::test_second": "no GPU"}
    assert bench.problems == ()


@pytest.mark.slow
def test_a_hanging_comparison_ends_alone(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_hangs():
        start("hangs")
        time.sleep(600)

    def test_last():
        measured("last")
    """
    for scale in SCALES:
        bench = run(tmp_path / str(scale), tests, longest_s=10.0 * scale)
        if len(bench.problems) == 1:  # else this machine held up another one, too
            break
    assert verdicts(bench) == {"first": "faster", "hangs": "not run", "last": "faster"}
    (hanging,) = [comparison for comparison in bench.comparisons if comparison.name == "hangs"]
    assert "it hangs" in hanging.reason
    assert len(bench.problems) == 1


@pytest.mark.slow
def test_what_takes_long_and_goes_on_is_no_hang(tmp_path: pathlib.Path) -> None:
    tests = """
    from tfgpu_doctor.perf_tests.notes import alive

    def test_long():
        start("long")
        until = time.time() + 12 * SCALE
        while time.time() < until:
            alive()
            time.sleep(0.1)
        measured("long")

    def test_hangs_in_the_end():
        start("hangs")
        until = time.time() + 6 * SCALE
        while time.time() < until:
            alive()
            time.sleep(0.1)
        time.sleep(600)
    """
    for scale in SCALES:
        bench = run(tmp_path / str(scale), tests, scale=scale, longest_s=5.0 * scale)
        if verdicts(bench) == (expected := {"first": "faster", "long": "faster", "hangs": "not run"}):
            break  # else this machine held up what goes on, too
    assert verdicts(bench) == expected
    (why,) = bench.problems
    assert f"it did not go on for {5 * scale} s: it hangs" in why


@pytest.mark.slow
def test_the_time_in_which_the_doctor_stood_still_is_no_hang(tmp_path: pathlib.Path) -> None:
    """It was stopped with its job: what it waits for stood still as well."""
    tests = "def test_long():\n    start('long')\n    time.sleep(9 * SCALE)\n    measured('long')\n"
    for scale in SCALES:
        paused: list[float] = []

        def pause(account: Account, seconds: float, paused: list[float] = paused, scale: int = scale) -> None:
            if account.test.endswith("test_long") and not paused:
                paused.append(time.monotonic())
                time.sleep(7 * scale)

        bench = run(tmp_path / str(scale), tests, scale=scale, longest_s=5.0 * scale, on_look=pause)
        if not bench.problems:  # else this machine held up the test itself
            break
    assert len(paused) == 1
    assert verdicts(bench) == {"first": "faster", "long": "faster"}
    assert bench.problems == ()


@pytest.mark.slow
def test_what_comes_before_the_first_comparison_has_its_own_time(tmp_path: pathlib.Path) -> None:
    tests = """
    del test_first

    def test_imports_for_long():
        time.sleep(4 * SCALE)
        measured("late")
    """
    for scale in SCALES:
        bench = run(tmp_path / str(scale), tests, scale=scale, longest_s=2.0 * scale)
        if not bench.problems:  # else this machine held it up after its start
            break
    assert verdicts(bench) == {"late": "faster"}
    assert bench.problems == ()


def test_a_dying_comparison_ends_alone(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_dies():
        start("dies")
        os.kill(os.getpid(), 11)

    def test_last():
        measured("last")
    """
    bench = run(tmp_path, tests)
    assert verdicts(bench) == {"first": "faster", "dies": "not run", "last": "faster"}
    assert "SIGSEGV" in bench.problems[0]


def test_a_failing_test_is_no_crash(tmp_path: pathlib.Path) -> None:
    bench = run(tmp_path, "def test_fails():\n    measured('fails')\n    assert False, 'slower'\n")
    assert verdicts(bench) == {"first": "faster", "fails": "faster"}
    assert bench.problems == ()


def test_a_suite_that_cannot_be_imported_is_a_problem(tmp_path: pathlib.Path) -> None:
    bench = run(tmp_path, "import nowhere_to_be_found\n")
    assert bench.comparisons == ()
    assert "exit code 2" in bench.problems[0]


@pytest.mark.slow
def test_what_the_budget_cuts_off_or_leaves_no_time_for_is_left_out(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_long():
        note("start", {"suite": "made_up", "name": "long", "at_least": 1.0, "on_gpu": True, "device": "GPU:0"})
        time.sleep(600)

    def test_last():
        measured("last")
    """
    for scale in SCALES:
        started = time.monotonic()
        bench = run(tmp_path / str(scale), tests, budget_s=15.0 * scale, longest_s=180.0 * scale)
        assert time.monotonic() - started < 120 * scale
        if "first" in verdicts(bench) and "while it ran" in bench.skipped.get("test_made_up.py::test_long", ""):
            break
    assert (verdicts(bench), bench.problems, bench.failed) == ({"first": "faster"}, (), {})
    assert bench.skipped == {
        "test_made_up.py::test_long": f"the time budget of {15 * scale} s ended while it ran",
        "test_made_up.py::test_last": f"the time budget of {15 * scale} s ended before this test",
    }


@pytest.mark.slow
def test_what_stood_still_for_long_when_the_budget_ended_may_hang(tmp_path: pathlib.Path) -> None:
    """The default budget is shorter than the time after which a test hangs: a GPU that hangs would be no finding."""
    tests = "def test_hangs():\n    start('hangs')\n    time.sleep(600)\n"
    for scale in SCALES:
        bench = run(tmp_path / str(scale), tests, budget_s=15.0 * scale, longest_s=24.0 * scale)
        if bench.problems:  # else it did not stand still for long yet
            break
    (problem,) = bench.problems
    ended = f"the time budget of {15 * scale} s ended while it ran"
    assert re.fullmatch(rf"test_made_up.py::test_hangs: {ended}; it had not gone on for \d+ s: it may hang", problem)
    assert bench.skipped == {"test_made_up.py::test_hangs": ended}


@pytest.mark.slow
def test_a_budget_that_ends_in_the_first_test_is_the_reason(tmp_path: pathlib.Path) -> None:
    tests = "del test_first\ndef test_long():\n    time.sleep(600)\n"
    for scale in SCALES:
        bench = run(tmp_path / str(scale), tests, budget_s=15.0 * scale, longest_s=180.0 * scale)
        if list(bench.skipped) != ["all tests"]:  # the first test began
            break
    assert bench.skipped == {"test_made_up.py::test_long": f"the time budget of {15 * scale} s ended while it ran"}


@pytest.mark.slow
def test_what_was_measured_before_the_budget_cut_it_off_stays(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_one(compare):
        compare("one", 2.0)
        if processes("one") == 3:
            time.sleep(600)

    def test_figure():
        pass
    """
    for scale in SCALES:
        bench, _ = in_passes(tmp_path / str(scale), tests, budget_s=25.0 * scale, longest_s=180.0 * scale)
        if "one" in verdicts(bench):  # else three processes did not fit
            break
    assert verdicts(bench)["one"] == "faster"
    assert bench.problems == ()
    left_out = {"test_made_up.py::test_first", "test_made_up.py::test_figure"}
    assert bench.skipped == dict.fromkeys(left_out, f"the time budget of {25 * scale} s ended before this test")


def test_the_suites_that_were_ordered_are_recorded(tmp_path: pathlib.Path) -> None:
    own = tmp_path / "test_ingest.py"
    own.write_text("import nowhere_to_be_found")
    assert run(tmp_path, "", suites=["made_up", str(own)]).suites == ("made_up", "ingest")


def test_the_settings_of_the_users_own_tests_do_not_count(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conftest.py").write_text("raise SystemExit('not meant for these')\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    assert verdicts(run(tmp_path, "")) == {"first": "faster"}


def test_the_shipped_suites_are_found() -> None:
    assert {"device_placement", "pipeline"} <= set(suite_names())


def runs(pid: str) -> bool:
    """Whether there is such a process, and no zombie."""
    try:
        return "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return False


@pytest.mark.usefixtures("own_tmpdir")
def test_when_the_doctor_is_killed_no_suite_runs_on(tmp_path: pathlib.Path) -> None:
    suite = tmp_path / "suites"
    suite.mkdir()
    (suite / "test_made_up.py").write_text(
        SUITE + "def test_long():\n    open(os.environ['PID_FILE'], 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
    )
    pid_file = tmp_path / "pid"
    code = (
        "from tfgpu_doctor.bench.run import Order, run_suites;"
        f"run_suites(Order(journal={str(tmp_path / 'journal')!r}, folder={str(suite)!r}))"
    )
    doctor = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PID_FILE": str(pid_file)})
    until = time.monotonic() + 120
    while not (pid_file.exists() and pid_file.read_text()):
        assert time.monotonic() < until
        time.sleep(0.1)
    doctor.send_signal(signal.SIGKILL)
    doctor.wait()
    while runs(pid_file.read_text()):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_after_an_interrupt_what_was_measured_is_there(tmp_path: pathlib.Path) -> None:
    suite = tmp_path / "suites"
    suite.mkdir()
    (suite / "test_made_up.py").write_text(SUITE + "def test_long():\n    start('long')\n    time.sleep(600)\n")

    def press_ctrl_c(account: Account, seconds: float) -> None:
        if account.comparison:
            raise KeyboardInterrupt

    bench = run_suites(Order(journal=str(tmp_path / "journal"), folder=str(suite)), press_ctrl_c)
    assert bench.interrupted
    assert verdicts(bench) == {"first": "faster"}


PASSES = """
@pytest.fixture
def compare():
    return lambda name, ratio: part(name, ratio)

def part(name, ratio):
    start(name)
    with open(os.environ["COUNTED"], "a") as file:
        file.write(f"{name} {os.getpid()}\\n")
    row = {"suite": "made_up", "name": name, "verdict": "not run", "ratio": ratio, "process_ratios": [ratio], "rounds": 3}
    note("comparison", {"comparison": row})

def processes(name):
    with open(os.environ["COUNTED"]) as file:
        return len({line for line in file if line.startswith(name + " ")})
"""


def in_passes(folder: pathlib.Path, tests: str, *, scale: int = 1, **order: Any) -> tuple[Bench, list[list[str]]]:
    """Run a suite in three processes; return also which comparison ran in which process."""
    counted = folder / "counted"
    variables = {"COUNTED": str(counted)}
    bench = run(
        folder, PASSES + textwrap.dedent(tests), scale=scale, variables=variables, **{"passes": Passes(3, 0.1), **order}
    )
    counted.touch()  # by nobody, if no time was left
    return bench, [line.split() for line in counted.read_text().splitlines()]


def test_each_comparison_is_measured_in_several_processes_and_the_rest_in_the_last(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_figure():
        assert processes("one") == processes("two") == 3

    def test_one(compare):
        note("metric", {"metric": {"suite": "made_up", "name": "operations", "value": processes("one"), "unit": ""}})
        compare("one", 2.0)

    def test_two(compare):
        compare("two", 0.5)
    """
    (tmp_path / "counted").touch()
    bench, ran = in_passes(tmp_path, tests)
    assert [(each.name, each.value) for each in bench.metrics] == [("operations", 2.0)]  # the last of three
    assert verdicts(bench) == {"one": "faster", "two": "slower", "first": "faster"}
    assert (bench.failed, bench.skipped, bench.problems) == ({}, {}, ())
    assert [name for name, _ in ran] == ["one", "two"] * 3
    assert len({process for _, process in ran}) == 3
    assert [len(each.process_ratios) for each in bench.comparisons] == [3, 3, 0]


def test_what_a_measured_comparison_finds_wrong_beside_speed_is_told(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_one(compare):
        compare("one", 2.0)
        assert processes("one") != 2, "it was traced twice"
    """
    bench, _ = in_passes(tmp_path, tests)
    assert verdicts(bench)["one"] == "faster"
    assert list(bench.failed) == ["test_made_up.py::test_one"]
    assert "it was traced twice" in bench.failed["test_made_up.py::test_one"]


def test_what_was_not_measured_at_first_is_not_tried_again(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_one(compare):
        compare("one", 2.0)

    def test_skips(compare):
        part("never", 1.0) if processes("one") > 1 else pytest.skip("no time")
    """
    bench, _ = in_passes(tmp_path, tests)
    assert verdicts(bench) == {"one": "faster", "first": "faster"}
    assert bench.skipped == {"test_made_up.py::test_skips": "no time"}


@pytest.mark.slow
def test_a_comparison_that_dies_in_a_later_process_has_no_verdict(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_dies(compare):
        compare("dies", 2.0)
        start("dies")
        processes("dies") == 2 and os.kill(os.getpid(), 11)

    def test_one(compare):
        compare("one", 2.0)
    """
    bench, ran = in_passes(tmp_path, tests)
    assert verdicts(bench) == {"dies": "not run", "one": "faster", "first": "faster"}
    assert len([name for name, _ in ran if name == "one"]) == 3
    assert len(bench.problems) == 1
    assert "SIGSEGV" in bench.problems[0]


@pytest.mark.slow
def test_what_does_not_fit_into_all_processes_is_left_out(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_one(compare):
        compare("one", 2.0)

    def test_slow(compare):
        time.sleep(14 * SCALE)
        compare("slow", 2.0)
    """
    for scale in SCALES:
        bench, ran = in_passes(tmp_path / str(scale), tests, scale=scale, budget_s=30.0 * scale)
        if "one" in verdicts(bench):  # else three processes did not fit
            break
    assert verdicts(bench)["one"] == "faster"
    assert "slow" not in verdicts(bench)
    assert "time budget" in bench.skipped["test_made_up.py::test_slow"]
    assert [name for name, _ in ran] == ["one", "slow", "one", "one"]
    assert bench.problems == ()


@pytest.mark.slow
def test_what_fits_into_one_more_process_of_two_is_not_measured_again(tmp_path: pathlib.Path) -> None:
    tests = """
    @pytest.mark.priority(1)
    def test_slow(compare):
        time.sleep(10 * SCALE)
        compare("slow", 2.0)
    """
    for scale in SCALES:
        bench, ran = in_passes(tmp_path / str(scale), tests, scale=scale, budget_s=26.0 * scale)
        if ran:  # else not even one process fitted
            break
    assert [name for name, _ in ran] == ["slow"]
    assert "slow" not in verdicts(bench)
    assert "1 of 3 processes" in bench.skipped["test_made_up.py::test_slow"]


def test_after_an_interrupt_a_comparison_without_an_interval_has_no_verdict(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_one(compare):
        compare("one", 2.0)
        if processes("one") == 2:
            time.sleep(600)
    """

    def press_ctrl_c(account: Account, seconds: float) -> None:
        if len(account.comparisons) == 2:
            raise KeyboardInterrupt

    suite = tmp_path / "suites"
    suite.mkdir()
    (suite / "test_made_up.py").write_text(SUITE + PASSES + textwrap.dedent(tests))
    variables = {"COUNTED": str(tmp_path / "counted")}
    order = Order(journal=str(tmp_path / "journal"), folder=str(suite), passes=Passes(3, 0.1), variables=variables)
    bench = run_suites(order, press_ctrl_c)
    assert bench.interrupted
    (comparison,) = bench.comparisons
    assert (comparison.verdict, comparison.interval, comparison.ratio) == ("not run", None, 2.0)
    assert "2 of 3 processes" in comparison.reason


def test_what_a_suite_finds_wrong_beside_speed_is_told(tmp_path: pathlib.Path) -> None:
    bench = run(tmp_path, "def test_sums():\n    assert 1 + 1 == 3, 'the GPU adds up wrongly'\n")
    assert list(bench.failed) == ["test_made_up.py::test_sums"]
    assert "the GPU adds up wrongly" in bench.failed["test_made_up.py::test_sums"]
    assert bench.skipped == {}


def test_a_process_whose_gpu_answers_no_more_is_followed_by_a_new_one(tmp_path: pathlib.Path) -> None:
    tests = """
    def test_loses_its_gpu():
        note("test ended", {"id": "test_made_up.py::test_loses_its_gpu", "outcome": "failed", "reason": "lost"})
        os._exit(75)

    def test_last():
        measured("last")
    """
    bench = run(tmp_path, tests)
    assert verdicts(bench) == {"first": "faster", "last": "faster"}
    assert bench.problems == ()
    assert bench.failed == {"test_made_up.py::test_loses_its_gpu": "lost"}


def test_a_budget_that_ends_before_the_first_test_is_the_reason(tmp_path: pathlib.Path) -> None:
    bench = run(
        tmp_path, "import time; time.sleep(30)\ndef test_first(): pass", budget_s=1.0, started=time.time() - 1.0
    )
    assert (bench.comparisons, bench.problems) == ((), ())
    ((name, why),) = bench.skipped.items()
    assert name == "all tests"
    assert why.startswith("the time budget of 1 s ended before the first test")
    assert why.endswith("try --budget 3s")


def planned(processes: int, left_s: float, *, start_s: float, test_s: float, tests: int = 4) -> tuple[int, int]:
    """How many processes a run plans, and how many comparisons fit, after its first process measured some."""
    order = Order(journal="", budget_s=1.0, passes=Passes(processes, 0.3))
    run = _Run(order, time.time() + left_s, lambda _account, _s: None)
    for number in range(tests):
        part = Comparison(suite="s", name=str(number), verdict="not run", ratio=2.0, process_ratios=(2.0,))
        run.account.comparisons.append(part)
        run.account.tests[part.key] = f"test_s.py::test_{number}"
        run.account.seconds[f"test_s.py::test_{number}"] = test_s
    run._start_s = start_s
    run._choose(2)
    return run._passes.processes, len(run._chosen)


@pytest.mark.parametrize(
    ("left_s", "processes", "fitting"),
    [
        (1000.0, 5, 4),
        (4 * (5 + 2 * 1.15 * 2) + 1, 5, 2),  # two of the four comparisons fit into four more processes
        (4 * (5 + 2 * 1.15) - 1, 4, 1),  # not even one does, but into three
        (3 * (5 + 2 * 1.15) - 1, 3, 2),
        (2 * (5 + 2 * 1.15) - 1, 5, 0),  # not into the fewest: nothing is measured
    ],
)
def test_a_run_that_is_short_of_time_first_leaves_out_comparisons_and_then_processes(
    left_s: float, processes: int, fitting: int
) -> None:
    assert planned(5, left_s, start_s=5.0, test_s=2.0) == (processes, fitting)
