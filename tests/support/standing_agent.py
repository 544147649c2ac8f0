"""A process of a test's own that answers looks, always with the same stack; and what is said of its hang."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tfgpu_doctor.watching.agent import LOOK_ANSWER_S, Agent, Look
from tfgpu_doctor.watching.hanging import HangWatch
from tfgpu_doctor.watching.reading import Reading


class StandingAgent:
    """A process of the test's own that answers looks, always with the same stack."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.look: Look | None = None
        self.asked_s: float | None = None
        self.recording, self.problem, self.full, self.seconds = "", "", False, 0.0
        self.changed_s = 0.0
        self.over: str | None = None
        self.lost, self.unable, self.answer_s = False, "", LOOK_ANSWER_S

    def ask(self, *, others: bool) -> None:
        stack = (("/home/me/train.py", 31, "wait_for_data"), ("/home/me/train.py", 90, "<module>"))
        self.look = Look(time.monotonic(), stack, "k", () if others else None)

    def start(self, folder: str, most_bytes: int) -> None:
        pass

    def stop(self) -> None:
        pass


def hang_of(
    watch: HangWatch, agent: Agent, seconds: int, trained: set[int], begin: float = 0.0,
    reading: Reading | None = None, beside: Sequence[StandingAgent] = (),
) -> list[float]:  # fmt: skip
    """When a hang was found, with one look a second; `beside`: the agents of other processes."""
    found = []
    for second in range(seconds):
        if watch.tick(begin + second, [agent, *beside], trained, agent.pid, reading, []):
            found.append(begin + second)
        while watch._examining and watch._examining._thread.is_alive():
            time.sleep(0.01)
    return found


def said_of(watch: HangWatch) -> list[str]:
    """The kind and the evidence of the hang that stands."""
    return [watch.hang.kind, *watch.hang.evidence] if watch.hang else []
