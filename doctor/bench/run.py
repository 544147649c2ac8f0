"""Run the suites in child processes: each measures all comparisons once, and the last one the rest as well.

If a test hangs or dies, it is reported, and the rest continues in a new process.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import tfgpu_doctor.collect.workers
from tfgpu_doctor.bench.limits import with_measured_limits
from tfgpu_doctor.bench.names import SUITES, is_own, suite_of
from tfgpu_doctor.bench.processes import combined
from tfgpu_doctor.bench.ratio import LEAST_PROCESSES
from tfgpu_doctor.bench.reasons import TIME_ENDED
from tfgpu_doctor.host import Completed, Files, Host
from tfgpu_doctor.host.pauses import Pauses
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Metric
from tfgpu_doctor.perf_tests.budget import Passes, passes_for
from tfgpu_doctor.perf_tests.journal import Account
from tfgpu_doctor.perf_tests.variables import JOURNAL_VARIABLE, START_AGAIN

SUITE_VERSION = "4"  # results of different versions are not compared, because they measure different things
_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(tfgpu_doctor.collect.workers.__file__)), "run_suites.py")
_PLUGINS = ("no:cacheprovider", "pytest_benchmark.plugin", "tfgpu_doctor.perf_tests.plugin")
_OF_PYTEST = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_XDIST_WORKER")
_PYTEST_OK, _NOTHING_COLLECTED = (0, 1), 5
_LOOK_EVERY_S = 0.2
_GRACE_S = 5.0  # beyond the end of the budget, for the running test
_DOUBTED = 3  # a test that stood still for this part of the time after which it hangs may hang
_MOST_STARTS = 12  # in one pass
_SLOWER = 1.15  # a later process may take this many times as long as the first
_A_DAY_S = 86400.0
COMPILES_S = 3600.0  # without a sign of life, where the driver compiles the kernels of a GPU
_LONGEST_START_S = 180.0  # TensorFlow's import on a slow disk, and the doctor's examination of the machine

OnLook = Callable[[Account, float], None]


@dataclass(frozen=True)
class Order:
    """What to run: the suites by name (empty: all), the budget, and its start time (seconds since 1970)."""

    journal: str  # the path of a file that does not exist yet
    suites: Sequence[str] = ()  # names, or paths of a user's own suites
    comparisons: Sequence[Comparison] = ()  # only these
    budget_s: float | None = None  # None: no limit
    passes: Passes | None = None  # None: as the budget allows
    started: float = field(default_factory=time.time)
    longest_s: float = 180.0  # without a sign of life, which tracing and compilation give none of: then it hangs
    pytest_options: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = SUITES

    def argv(self, ends: float | None, more: Sequence[str], deselected: Sequence[str]) -> list[str]:
        """Return the command with more options, without the finished tests."""
        paths = {suite_of(word): self._path(word) for word in self.suites}
        names = list(paths.values()) or [self.folder]
        if self.comparisons:
            names = [
                f"{paths.get(each.suite) or self._path(each.suite)}::test_{each.name}" for each in self.comparisons
            ]
        options = [
            "-c",
            os.path.join(SUITES, "pytest.ini"),
            "--rootdir",
            self.folder,
            "--confcutdir",
            self.folder,
            "-q",
            "--no-header",
        ]
        options += [word for plugin in _PLUGINS for word in ("-p", plugin)]
        options += (
            ["--tfgpu-budget=full"]
            if ends is None
            else [f"--tfgpu-budget={self.budget_s}s", f"--tfgpu-budget-ends={ends}"]
        )
        options += more
        options += [word for test in deselected for word in ("--deselect", test)]
        return [sys.executable, _PROGRAM, *options, *self.pytest_options, *names]

    def _path(self, suite: str) -> str:
        return os.path.abspath(suite) if is_own(suite) else os.path.join(self.folder, f"test_{suite}.py")


def run_suites(order: Order, on_look: OnLook = lambda _account, _s: None) -> Bench:
    """Run the suites and call `on_look` a few times per second. Ctrl-C kills all processes and keeps the measurements."""
    run = _Run(order, None if order.budget_s is None else order.started + order.budget_s, on_look)
    interrupted = False
    try:
        run.all_passes()
    except KeyboardInterrupt:
        interrupted = True
    account = run.account
    comparisons, late = run.results(interrupted=interrupted)
    return Bench(
        suite_version=SUITE_VERSION,
        suites=tuple(map(suite_of, order.suites)),
        budget_s=order.budget_s,
        seconds=round(time.time() - order.started, 2),
        comparisons=tuple(comparisons),
        metrics=with_measured_limits(_last_of_each(account.metrics)),
        skipped=_none_began(order, run) or {**account.reasons_of("skipped"), **late, **run.left_out},
        failed=run.failed(),
        interrupted=interrupted,
        gpu_lost=account.gpu_lost,
        problems=tuple(run.problems),
    )


def _last_of_each(metrics: Sequence[Metric]) -> list[Metric]:
    """Return each metric once: the test of a comparison records its own in every process."""
    return list({(each.suite, each.name, each.device): each for each in metrics}.values())


def _none_began(order: Order, run: _Run) -> dict[str, str]:
    """The reason why a run has no results at all, where the time budget is that reason."""
    account = run.account
    if order.budget_s is None or account.outcomes or account.test or run.problems:
        return {}
    if time.time() < order.started + order.budget_s:
        return {}
    why = f"{TIME_ENDED} of {order.budget_s:g} s ended before the first test: it includes the examination and the start of "
    return {"all tests": f"{why}TensorFlow; try --budget {3 * order.budget_s:g}s"}


class _Run:
    """The child processes of one run, one after the other, and their output.

    The first pass decides which comparisons fit into the time; the others repeat these. So the values of a comparison
    come from several processes, and are apart in time.
    """

    def __init__(self, order: Order, ends: float | None, on_look: OnLook) -> None:
        self._order, self._ends, self._on_look = order, ends, on_look
        self._pauses = self._new_pauses()
        self._resumed = 0.0  # when this process went on after it had stood still
        self.account = Account()
        self.problems: list[str] = []
        self.left_out: dict[str, str] = {}  # by the end of the budget, with the reason
        self._lost: list[str] = []
        self._offset = 0
        self._passes = order.passes or passes_for(order.budget_s)
        self._start_s = 0.0  # of the last process: TensorFlow's import, mostly
        self._chosen: list[str] = []
        self._over = False

    def all_passes(self) -> None:
        """Run all passes; those between the first and the last only if the first measured something."""
        process = 1
        while process <= self._passes.processes and not self._over:
            if process == 2 or self._chosen:  # what one process did not measure again has no interval
                self._choose(process)
            if process in (1, self._passes.processes) or self._chosen:
                self._one_pass(process)
            process += 1

    def _choose(self, process: int) -> None:
        """Choose what this process and those after it measure; fewer processes if nothing fits into their time."""
        planned, seconds = self._passes
        for count in range(planned, max(process, LEAST_PROCESSES) - 1, -1):
            self._chosen = self._fitting(count + 1 - process)
            if self._chosen:
                self._passes = Passes(count, seconds)
                return

    def _one_pass(self, process: int) -> None:
        began = time.time()
        self.account.begin(process, self._passes.processes)
        for _ in range(_MOST_STARTS):
            if not self._once():
                break
        self._start_s = max(0.0, time.time() - began - math.fsum(map(self._usual_s, self.account.ended)))

    def _usual_s(self, test: str) -> float:
        """How long a test took, without the start of TensorFlow, which the first test of a process waits for."""
        return self.account.seconds[test] if test in self._measured() else 0.0

    def _fitting(self, passes: int) -> list[str]:
        """Return the measured tests, the most important first, as far as so many more processes can repeat them in time."""
        measured = self._measured()
        tests = [test for test in dict.fromkeys(self.account.tests.values()) if test in measured]
        if self._ends is None:
            return tests
        left = self._ends - time.time() - passes * self._start_s
        fitting: list[str] = []
        for test in tests:
            left -= passes * _SLOWER * self.account.seconds.get(test, 0.0)
            if left < 0:
                break
            fitting.append(test)
        return fitting

    def _measured(self) -> set[str]:
        """The tests whose comparison no process failed to measure so far."""
        account = self.account
        failed = {account.tests.get(row.key) for row in account.comparisons if not row.process_ratios}
        return {account.tests[row.key] for row in account.comparisons if row.process_ratios} - failed

    def results(self, *, interrupted: bool) -> tuple[list[Comparison], dict[str, str]]:
        """Return the comparisons, and the reasons of the tests whose comparison too few processes measured in time."""
        account, late = self.account, {}
        rows = combined(account.comparisons, self._passes.processes)
        for row in rows if not interrupted else ():
            if row.process_ratios and not row.interval:
                test = account.tests[row.key]
                told = account.outcomes.get(test) == "skipped" and account.reasons[test]
                late[test] = told or f"{TIME_ENDED} ended before enough processes measured this test: {row.reason}"
        return [row for row in rows if account.tests.get(row.key) not in late], late

    def failed(self) -> dict[str, str]:
        """Return the tests that failed, with the reason, unless the verdict of their comparison tells it.

        In one of several processes, a comparison that was measured passes: its test failed for something else.
        """
        several = self._passes.processes > 1
        account, told = self.account, set(self.account.tests.values())
        told -= self._measured() if several else set()
        return {test: why for test, why in account.reasons_of("failed").items() if test not in told}

    def _options(self) -> list[str]:
        """The options of pytest in this pass."""
        count, seconds = self._passes
        if count == 1:
            return []
        options = [f"--tfgpu-share={seconds}", *(["--tfgpu-comparisons-only"] if self.account.process < count else [])]
        return [*options, f"--tfgpu-first-of={count}"] if self.account.process == 1 else options

    def _done(self) -> list[str]:
        """The tests that this pass leaves out."""
        account = self.account
        found = [*account.ended, *self._lost]
        if account.process > 1:
            found += sorted(account.earlier - set(self._chosen))
        return list(dict.fromkeys(found))

    def _once(self) -> bool:
        """Run one child process until it ends; return whether another one is needed for the remaining tests."""
        stopped_for, done = self._watch()
        account = self.account
        if self._over:  # nothing is wrong: only the time ended, unless the test stood still for long
            if account.test and (silent_s := time.time() - account.alive) > self._patience_s() / _DOUBTED:
                self.problems.append(
                    f"{account.test}: {stopped_for}; it had not gone on for {silent_s:.0f} s: it may hang"
                )
            self._leave_out(stopped_for)
            return False
        if not account.test:
            if done.exit_code == START_AGAIN:
                return True
            # A process that is stopped while no test runs has already reported all its results.
            if not stopped_for and done.exit_code not in (*_PYTEST_OK, _NOTHING_COLLECTED):
                self.problems.append(_why_ended(done))
                self._over = True  # it would end in the same way again
            return False
        why = stopped_for or _why_ended(done)
        self.problems.append(f"{account.test}: {why}")
        if account.comparison:
            known = {name: account.comparison[name] for name in ("suite", "name", "at_least", "on_gpu", "device")}
            account.comparisons.append(Comparison(verdict="not run", reason=why, started=account.began, **known))
        self._lost.append(account.test)
        account.test, account.comparison = "", {}
        return self._ends is None or time.time() < self._ends

    def _leave_out(self, why: str) -> None:
        """Note the test that was cut off, and those that did not begin, unless they ended in an earlier process."""
        account = self.account
        told = {*account.outcomes, *self._lost}
        not_begun = f"{TIME_ENDED} of {self._order.budget_s:g} s ended before this test"
        reasons = {**dict.fromkeys(account.collected, not_begun), **({account.test: why} if account.test else {})}
        self.left_out = {test: reason for test, reason in reasons.items() if test not in told}

    def _watch(self) -> tuple[str, Completed]:
        """Start a child process and read the journal until it ends; return why it was stopped, and how it ended."""
        host, ended = Host(), threading.Event()
        answer: list[Completed] = []
        argv = self._order.argv(self._ends, self._options(), self._done())

        def run() -> None:
            answer.append(host.run(argv, deadline_s=_A_DAY_S, variables=self._variables(host), memory_bytes=math.inf))
            ended.set()

        threading.Thread(target=run, daemon=True).start()
        why, self._pauses = "", self._new_pauses()
        try:
            while not ended.wait(_LOOK_EVERY_S):
                self._read_journal()
                self._on_look(self.account, time.time() - self._order.started)
                if why := self._why_stop():
                    host.stop()
                    ended.wait()
        finally:
            host.stop()
        ended.wait()
        self._read_journal()
        return why, answer[0]

    @staticmethod
    def _new_pauses() -> Pauses:
        return Pauses(_LOOK_EVERY_S, time.time)  # the clock of the journal, which may also be set meanwhile

    def _variables(self, host: Host) -> dict[str, str]:
        """Return the variables of the child process, without the user's own pytest options.

        Where a test of the user runs the doctor beside others, pytest-benchmark would not measure.
        """
        cleared = {name: "" for name in _OF_PYTEST if name in host.environment}
        own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", JOURNAL_VARIABLE: self._order.journal}
        return {**cleared, **own, **self._order.variables}

    def _why_stop(self) -> str:
        now = time.time()
        if self._pauses.passed():
            self._resumed = time.time()
        if self._ends is not None and now > self._ends + _GRACE_S:
            self._over = True
            return f"{TIME_ENDED} of {self._order.budget_s:g} s ended while it ran"
        if self._is_still(now):
            self._read_journal()  # the doctor itself may have been held up
            if self._is_still(now):
                return f"it did not go on for {self._patience_s():.0f} s: it hangs"
        return ""

    def _is_still(self, now: float) -> bool:
        return bool(self.account.test) and now - max(self.account.alive, self._resumed) > self._patience_s()

    def _patience_s(self) -> float:
        """Seconds after which a test without a sign of life hangs."""
        return self._order.longest_s if self.account.warm else max(self._order.longest_s, _LONGEST_START_S)

    def _read_journal(self) -> None:
        """Process the lines that are new and complete."""
        try:
            with Files().open_binary(self._order.journal) as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return  # not yet
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        self.account.read(whole)


def _why_ended(done: Completed) -> str:
    """Describe how the pytest process ended unexpectedly."""
    if done.not_started:
        return f"pytest could not be started: {done.not_started}"
    if done.signal:
        return f"the process was killed by {done.signal}"
    lines = [line for line in (done.stdout.decode("utf-8", "replace") + done.stderr).splitlines() if line.strip()]
    return f"pytest ended with exit code {done.exit_code}" + (f": {lines[-1][:300]}" if lines else "")
