"""Examine a machine: run every probe concurrently, each with a deadline, and collect their facts."""

from __future__ import annotations

import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor._exhaustion import exhausted, may_work_at_once
from tfgpu_doctor._project import __version__
from tfgpu_doctor.collect.probe import Probe, Request, Unavailable
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.pauses import Pauses
from tfgpu_doctor.model.facts import Facts, writable
from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.facts.stress import Level

MACHINE_VARIABLE = "TFGPU_DOCTOR_MACHINE"  # names the file from which the simulated driver reads its machine
_MARGIN_S = 15.0  # added to the deadline of a probe's own child, so that the child can be killed and read
_LOOK_EVERY_S = 0.2
_GRACE_S = (
    12.0  # after an interruption, to collect the results of a stress test that was just killed: its end may take 10 s
)

OnWait = Callable[[Sequence[str], float], None]


@dataclass(frozen=True)
class Stage:
    """A simulated machine for the target: facts that are given instead of probed, and variables for its processes."""

    facts: Mapping[str, Fact]
    variables: Mapping[str, str]


class Interrupted(Exception):
    """The user stopped the examination; `facts` are those known so far."""

    def __init__(self, facts: Facts) -> None:
        super().__init__("interrupted")
        self.facts = facts


def examine(
    *,
    python: str | None = None,
    quick: bool = False,
    level: Level = "standard",
    soak_s: float = 600.0,
    even_if_busy: bool = False,
    root: str = "/",
    deadline_s: float = 120.0,
    on_wait: OnWait | None = None,
    only: Collection[str] | None = None,
    stage: Stage | None = None,
    answering: AbstractContextManager[None] = nullcontext(),  # noqa: B008 - it has no state
) -> Facts:
    """Return the facts of this machine and of the target `python` (this interpreter by default).

    `quick` is an alias for the level of that name; `soak_s` and `even_if_busy` apply to the levels with a stress test.
    `only` names the facts to collect, all by default; the facts that they need are included. On a `stage`, and
    wherever the simulated driver responds, TensorFlow lists the GPUs and computes nothing.
    `answering` lasts while an interrupt leads to a result.
    `on_wait` is called a few times a second with what is being waited for and the seconds since the start.
    Raises Interrupted on Ctrl-C, after every child has been killed.
    """
    from tfgpu_doctor.collect.probes import ALL_PROBES

    host = Host(root, additions=stage.variables if stage else None)
    computes = stage is None and MACHINE_VARIABLE not in host.environment
    request = Request(
        python=find_python(python), level="quick" if quick else level, deadline_s=deadline_s, computes=computes,
        soak_s=soak_s, even_if_busy=even_if_busy,
    )  # fmt: skip
    probes = ALL_PROBES if only is None else _needed_for(only, ALL_PROBES)
    examination = _Examination(host, request, probes, stage.facts if stage else None)
    try:
        with answering:
            examination.run(on_wait)
    except KeyboardInterrupt:
        host.stop()
        examination.keep_parts(_GRACE_S)
        examination.give_up("interrupted")
        raise Interrupted(examination.facts()) from None
    finally:
        host.stop()
    return examination.facts()


def _needed_for(names: Collection[str], probes: Sequence[Probe]) -> list[Probe]:
    """The probes of those facts, and of all facts that they depend on."""
    by_name = {each.name: each for each in probes}
    wanted: dict[str, Probe] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        wanted[name] = by_name[name]
        waiting += [each for each in by_name[name].needs if each not in wanted]
    return [each for each in probes if each.name in wanted]


def find_python(python: str | None) -> str:
    """The selected interpreter: a path, the folder of a virtual environment, a name on $PATH, or this one."""
    if python is None:
        return sys.executable
    if os.path.isdir(python):
        inside = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
        return os.path.abspath(os.path.join(python, *inside))
    if os.sep not in python and not os.path.exists(python):
        return shutil.which(python) or python
    return os.path.abspath(python)


class _Examination:
    """A run of probes: those that are done, those that wait for a fact, and those that are running."""

    def __init__(
        self, host: Host, request: Request, probes: Sequence[Probe], given: Mapping[str, Fact] | None = None
    ) -> None:
        self._host, self._request = host, request
        self._probes = tuple(probe for probe in probes if probe.name not in (given or {}))
        self._waiting = list(self._probes)
        self._due: dict[str, tuple[Probe, float]] = {}
        self._known: dict[str, Any] = dict(given or {})
        self._unknown: dict[str, str] = {}
        self._answers: queue.SimpleQueue[tuple[str, Any, str]] = queue.SimpleQueue()

    def run(self, on_wait: OnWait | None) -> None:
        started, pauses = time.monotonic(), Pauses(_LOOK_EVERY_S)
        self._start_ready()
        while self._due:
            answer = self._next_answer()
            if paused_s := pauses.passed():
                self._put_off(paused_s)
            elif answer is None:
                self._drop_overdue()
            if answer is not None:
                self._settle(*answer)
            self._start_ready()
            if on_wait and self._due:
                on_wait([probe.waits_for for probe, _ in self._due.values()], time.monotonic() - started)

    def keep_parts(self, within_s: float) -> None:
        """Wait a moment for the probes that return a partial result although their children were killed."""
        end = time.monotonic() + within_s
        while any(probe.keeps_part for probe, _ in self._due.values()) and time.monotonic() < end:
            answer = self._next_answer()
            if answer is not None and answer[0] in self._due and self._due[answer[0]][0].keeps_part:
                self._settle(*answer)

    def give_up(self, why: str) -> None:
        """Mark every fact that is not known as unknown, for that reason."""
        for probe in [*self._waiting, *(probe for probe, _ in self._due.values())]:
            if probe.name not in self._known:
                self._unknown[probe.name] = why

    def facts(self) -> Facts:
        return Facts(
            doctor=__version__,
            recorded=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            quick=self._request.quick,
            level=self._request.level,
            simulated=not self._request.computes,
            unknown=dict(self._unknown),
            **self._known,
        )

    def _start_ready(self) -> None:
        """Start each probe whose facts are all known; a probe that needs an unavailable fact is unavailable too."""
        while lost := [(probe, name) for probe in self._waiting for name in probe.needs if name in self._unknown]:
            probe, name = lost[0]
            self._waiting.remove(probe)
            self._unknown[probe.name] = self._unknown[name]
        for probe in [each for each in self._waiting if all(name in self._known for name in each.needs)]:
            self._waiting.remove(probe)
            self._due[probe.name] = (probe, time.monotonic() + probe.limit_s(self._request) + _MARGIN_S)
            self._begin(probe)

    def _begin(self, probe: Probe) -> None:
        """Run a probe on a thread; here and now if limits of this process do not allow that."""
        if may_work_at_once():
            try:
                threading.Thread(target=self._answer, args=(probe,), daemon=True, name=probe.name).start()
            except (RuntimeError, MemoryError):
                pass
            else:
                return
        self._answer(probe)

    def _answer(self, probe: Probe) -> None:
        given = {"host": self._host, "request": self._request, **{name: self._known[name] for name in probe.needs}}
        try:
            fact = probe.function(**{name: given[name] for name in probe.parameters})
        except Unavailable as error:
            self._answers.put((probe.name, None, str(error)))
        except Exception as error:  # noqa: BLE001 - a failing probe loses its fact, not the report
            failed = f"the probe failed ({type(error).__name__}: {error}); please report it"
            self._answers.put((probe.name, None, exhausted(error) or failed))
        else:
            self._answers.put((probe.name, fact, ""))

    def _settle(self, name: str, fact: Any, why: str) -> None:
        if self._due.pop(name, None) is None:
            return  # it arrived after its deadline
        if fact is not None:
            self._known[name] = writable(fact)
            known = [each for each in self._probes if each.name in self._known and each.name != name]
            self._waiting += [each for each in known if each.again_if and each.again_if(fact)]
        elif name not in self._known:  # otherwise the earlier fact remains
            self._unknown[name] = why

    def _next_answer(self) -> tuple[str, Any, str] | None:
        try:
            return self._answers.get(timeout=_LOOK_EVERY_S)
        except queue.Empty:
            return None

    def _put_off(self, paused_s: float) -> None:
        """Add a pause of this process: a probe that has its answer by now may not have told it yet."""
        self._due = {name: (probe, due + paused_s + _MARGIN_S) for name, (probe, due) in self._due.items()}

    def _drop_overdue(self) -> None:
        now = time.monotonic()
        for name, (_, due) in list(self._due.items()):
            if now >= due:
                self._settle(name, None, "no response before the deadline: the read operation is blocked")
