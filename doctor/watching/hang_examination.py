"""What a program that stands still is asked: its threads' Python, their states, and its native stack."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import replace

from tfgpu_doctor.host import Host
from tfgpu_doctor.watching.agent import Agent, Look
from tfgpu_doctor.watching.hang_diagnosis import Diagnosis, HangEvidence, diagnose_hang
from tfgpu_doctor.watching.program_environment import cluster_size, job_size, variables_of
from tfgpu_doctor.watching.thread_states import ThreadState, thread_states

_SPY_S = 40.0
_NATIVE_LINE = re.compile(r"^\s+(?P<name>.+?) \((?P<where>[^()]*)\)\s*$")


class HangExamination:
    """Asks once more, with all threads, and for native stacks, without waiting for either."""

    def __init__(
        self, host: Host, agent: Agent, now: float, *, native: bool, held_gpus: int = 0, stepped: bool = False
    ) -> None:
        self._held_gpus, self._stepped = held_gpus, stepped
        self.agent, self._host, self._began_s, self._with_native = agent, host, now, native
        self._asked_s: float | None = None
        self._native: list[str] = []
        self._thread = threading.Thread(target=self._spy, daemon=True)

    def tick(self, now: float) -> Diagnosis | None:
        """Return the answer once it is there."""
        agent = self.agent
        if agent.unable and not agent.lost:
            return self._diagnosed(None, 0.0)
        if self._asked_s is None:
            if agent.asked_s is None or now - self._began_s > agent.answer_s:
                self._asked_s = now
                agent.ask(others=True)
            return None
        look = agent.look if agent.look and agent.look.others is not None else None
        if look is None and agent.over is None and now - self._asked_s < agent.answer_s:
            return None
        if self._thread.ident is None:  # it stops the program: only once that has answered
            self._thread.start()
        if self._thread.is_alive():
            return None
        if agent.lost and agent.over is None:  # what it said before says nothing of now
            return self._diagnosed(None, 0.0)
        answered = look is not None or agent.over is not None or agent.asked_s is None
        unanswered_s = 0.0 if answered else now - (agent.asked_s or self._asked_s)
        return self._diagnosed(look or agent.look, unanswered_s)

    def _diagnosed(self, look: Look | None, unanswered_s: float) -> Diagnosis:
        agent = self.agent
        states = main_first(thread_states(self._host, agent.pid), agent.pid)
        variables = variables_of(self._host.files, agent.pid)
        if look is not None and look.workers < 2:
            look = replace(look, workers=cluster_size(variables))  # seen from outside
        evidence = HangEvidence(
            look, unanswered_s, states, agent.over, self._native, job=job_size(variables), held_gpus=self._held_gpus,
            unable=agent.unable if agent.over is None else "", stepped=self._stepped,
        )  # fmt: skip
        return diagnose_hang(evidence)

    def _spy(self) -> None:
        """py-spy stops the program for some seconds: of one that hangs nothing is lost by that."""
        if not self._with_native:
            return
        argv = ["py-spy", "dump", "--native", "--pid", str(self.agent.pid)]
        done = self._host.run(argv, deadline_s=_SPY_S)
        if done.exit_code == 0:
            self._native = native_functions(done.stdout.decode("utf-8", "replace"), self.agent.pid)


def native_functions(dump: str, pid: int) -> list[str]:
    """The functions of the process's main thread in a dump of py-spy, innermost first, with the library or file of each."""
    found: list[str] = []
    inside = False
    for line in dump.splitlines():
        if line.startswith("Thread "):
            inside = '"MainThread"' in line or line.startswith(f"Thread {pid} ")
        elif inside and (row := _NATIVE_LINE.match(line)):
            found.append(f"{row['name']} ({row['where']})")
    return found


def main_first(states: Sequence[ThreadState], pid: int) -> list[ThreadState]:
    """The main thread first."""
    return sorted(states, key=lambda each: each.tid != pid)
