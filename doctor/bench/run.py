"""Run the suites in a child process; if a test hangs or dies, report it and continue with the rest in a new process."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import tfgpu_doctor.collect.workers
import tfgpu_doctor.perf_tests
from tfgpu_doctor.bench.limits import with_measured_limits
from tfgpu_doctor.host import Completed, Files, Host
from tfgpu_doctor.model.facts.bench import Bench, Comparison
from tfgpu_doctor.perf_tests.journal import Account
from tfgpu_doctor.perf_tests.variables import JOURNAL_VARIABLE, START_AGAIN

SUITES = os.path.dirname(os.path.abspath(tfgpu_doctor.perf_tests.__file__))
SUITE_VERSION = "2"  # results of different versions are not compared, because they measure different things
_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(tfgpu_doctor.collect.workers.__file__)), "run_suites.py")
_PLUGINS = ("no:cacheprovider", "pytest_benchmark.plugin", "tfgpu_doctor.perf_tests.plugin")
_PYTEST_OK, _NOTHING_COLLECTED = (0, 1), 5
_LOOK_EVERY_S = 0.2
_GRACE_S = 5.0  # beyond the end of the budget, for the running test
_MOST_STARTS = 12
_A_DAY_S = 86400.0
_LONGEST_START_S = 180.0  # TensorFlow's import on a slow disk, and the doctor's examination of the machine

OnLook = Callable[[Account, float], None]


@dataclass(frozen=True)
class Order:
    """What to run: the suites by name (empty: all), the budget, and its start time (seconds since 1970)."""

    journal: str  # the path of a file that does not exist yet
    suites: Sequence[str] = ()
    budget_s: float | None = None  # None: no limit
    started: float = field(default_factory=time.time)
    longest_s: float = (
        180.0  # for a comparison with tracing and compilation, or the test before it; after that it counts as hanging
    )
    pytest_options: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = SUITES

    def argv(self, ends: float | None, deselected: Sequence[str]) -> list[str]:
        """Return the command, without the finished tests."""
        names = [os.path.join(self.folder, f"test_{name}.py") for name in self.suites] or [self.folder]
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
        options += ["--budget", "full"] if ends is None else ["--budget", f"{self.budget_s}s", f"--budget-ends={ends}"]
        options += [word for test in deselected for word in ("--deselect", test)]
        return [sys.executable, _PROGRAM, *options, *self.pytest_options, *names]


def suite_names(folder: str = SUITES) -> list[str]:
    """Return the names of the available suites: test_pipeline.py is "pipeline"."""
    files = Files().names_if_any(folder)
    return sorted(
        name[len("test_") : -len(".py")] for name in files if name.startswith("test_") and name.endswith(".py")
    )


def run_suites(order: Order, on_look: OnLook = lambda _account, _s: None) -> Bench:
    """Run the suites and call `on_look` a few times per second. Ctrl-C kills all processes and keeps the measurements."""
    run = _Run(order, None if order.budget_s is None else order.started + order.budget_s, on_look)
    interrupted = False
    try:
        for _ in range(_MOST_STARTS):
            if not run.once():
                break
    except KeyboardInterrupt:
        interrupted = True
    account = run.account
    return Bench(
        suite_version=SUITE_VERSION,
        budget_s=order.budget_s,
        seconds=round(time.time() - order.started, 2),
        comparisons=tuple(account.comparisons),
        metrics=with_measured_limits(account.metrics),
        skipped=account.reasons_of("skipped") or _none_began(order, run),
        failed={test: why for test, why in account.reasons_of("failed").items() if not account.tells_of(test)},
        interrupted=interrupted,
        gpu_lost=account.gpu_lost,
        problems=tuple(run.problems),
    )


def _none_began(order: Order, run: _Run) -> dict[str, str]:
    """The reason why a run has no results at all, where the time budget is that reason."""
    account = run.account
    if order.budget_s is None or account.ended or account.comparisons or run.problems:
        return {}
    if time.time() < order.started + order.budget_s:
        return {}
    why = f"the time budget of {order.budget_s:g} s ended before the first test: it includes the examination and the start of "
    return {"all tests": f"{why}TensorFlow; try --budget {3 * order.budget_s:g}s"}


class _Run:
    """The child processes of one run, one after the other, and their output."""

    def __init__(self, order: Order, ends: float | None, on_look: OnLook) -> None:
        self._order, self._ends, self._on_look = order, ends, on_look
        self.account = Account()
        self.problems: list[str] = []
        self._lost: list[str] = []
        self._offset = 0

    def once(self) -> bool:
        """Run one child process until it ends; return whether another one is needed for the remaining tests."""
        stopped_for, done = self._watch()
        account = self.account
        if not account.test:
            if done.exit_code == START_AGAIN:
                return True
            # A process that is stopped while no test runs has already reported all its results.
            if not stopped_for and done.exit_code not in (*_PYTEST_OK, _NOTHING_COLLECTED):
                self.problems.append(_why_ended(done))
            return False
        why = stopped_for or _why_ended(done)
        self.problems.append(f"{account.test}: {why}")
        if account.comparison:
            known = {name: account.comparison[name] for name in ("suite", "name", "at_least", "on_gpu", "device")}
            account.comparisons.append(Comparison(verdict="not run", reason=why, started=account.began, **known))
        self._lost.append(account.test)
        account.test, account.comparison = "", {}
        return self._ends is None or time.time() < self._ends

    def _watch(self) -> tuple[str, Completed]:
        """Start a child process and read the journal until it ends; return why it was stopped, and how it ended."""
        host, ended = Host(), threading.Event()
        answer: list[Completed] = []
        argv = self._order.argv(self._ends, [*self.account.ended, *self._lost])

        def run() -> None:
            answer.append(host.run(argv, deadline_s=_A_DAY_S, variables=self._variables(host)))
            ended.set()

        threading.Thread(target=run, daemon=True).start()
        why = ""
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

    def _variables(self, host: Host) -> dict[str, str]:
        """Return the variables of the child process, without the user's own pytest options; xdist would disable benchmarks."""
        cleared = {name: "" for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS") if name in host.environment}
        own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", JOURNAL_VARIABLE: self._order.journal}
        return {**cleared, **own, **self._order.variables}

    def _why_stop(self) -> str:
        now = time.time()
        if self._ends is not None and now > self._ends + _GRACE_S:
            return f"the time budget of {self._order.budget_s:.0f} s ended while it ran"
        longest_s = self._order.longest_s if self.account.warm else max(self._order.longest_s, _LONGEST_START_S)
        if self.account.test and now - self.account.began > longest_s:
            return f"it did not finish within {longest_s:.0f} s: it hangs"
        return ""

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
