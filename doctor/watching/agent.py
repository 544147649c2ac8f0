"""What a process of the training can be asked: to record itself, and what its main thread does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tfgpu_doctor.host.janitor import start_time
from tfgpu_doctor.host.listening import Listener
from tfgpu_doctor.host.talk import ProgramLost, Talk

Frame = tuple[str, int, str]  # file, line, function
Stack = tuple[Frame, ...]  # innermost first


@dataclass(frozen=True)
class Look:
    """What the main thread did at a moment (monotonic, in s); `key` stays only while it executes one call."""

    at_s: float
    stack: Stack
    key: str
    others: tuple[Stack, ...] | None = None  # of the other threads with Python, if they were asked for
    workers: int = 0  # that TF_CONFIG names
    own_thread: int = 0  # the kernel's id of the thread that answered
    rank: str = ""  # which process of several it is: "SLURM_PROCID 3", "worker 1 of TF_CONFIG"


LOOK_ANSWER_S = 5.0


class Agent(Protocol):
    """One process with TensorFlow. Nothing here waits; answers come later."""

    pid: int
    look: Look | None  # the newest
    asked_s: float | None  # since when a look is not answered
    recording: str  # "", "asked", "running", "ending"
    changed_s: float  # when it was told to begin or to end
    problem: str  # why the last recording failed
    full: bool  # the last recording ended by itself: it needed the memory that it may
    seconds: float  # how long the last recording was; 0 if that is not known
    over: str | None  # the program is over: of what exception it died, or ""
    lost: bool  # the process has ended, or its connection
    unable: str  # why nobody can look into it; empty if it can be asked
    answer_s: float  # the time that an answer may take; with none by then, its Python does not run

    def ask(self, *, others: bool) -> None:
        """Ask for a look, unless one is awaited."""

    def start(self, folder: str, most_bytes: int) -> None:
        """Begin to record, until the program holds so much more memory."""

    def stop(self) -> None:
        """Write what was recorded; `recording` is empty then."""


class SocketAgent:
    """A process of a program that was launched."""

    def __init__(self, talk: Talk) -> None:
        self.talk, self.pid = talk, talk.pid
        self.look: Look | None = None
        self.asked_s: float | None = None
        self.recording, self.problem, self.full, self.seconds = "", "", False, 0.0
        self.changed_s = 0.0  # when it was told to begin or to end
        self.over: str | None = None
        self.lost, self.unable, self.answer_s = False, "", LOOK_ANSWER_S

    def ask(self, *, others: bool) -> None:
        """Ask for a look, unless one is awaited."""
        if self.asked_s is None and self.over is None:
            self.asked_s = time.monotonic()
            self._send(do="look", others=others)

    def start(self, folder: str, most_bytes: int) -> None:
        """Begin to record, until the program holds so much more memory."""
        self.recording, self.problem, self.full, self.seconds = "asked", "", False, 0.0
        self.changed_s = time.monotonic()
        self._send(do="start", folder=folder, most_bytes=most_bytes)

    def stop(self) -> None:
        """Write what was recorded; `recording` is empty then."""
        self.recording, self.changed_s = "ending", time.monotonic()
        self._send(do="stop")

    def hear(self) -> None:
        """Take the answers that have come."""
        try:
            while not self.lost and (told := self.talk.heard()) is not None:
                self._take(told)
        except (ProgramLost, ValueError):
            self._lose()

    def _send(self, **request: object) -> None:
        try:
            self.talk.send(**request)
        except ProgramLost:
            self._lose()

    def _lose(self) -> None:
        self.lost = True
        self.unable = "the connection to its Python is lost (a program that closes all open files closes it, too)"

    def _take(self, told: dict[str, Any]) -> None:
        did = told.get("did")
        if did == "look":
            self.look, self.asked_s = make_look(told, time.monotonic()), None
            self.full = self.full or bool(told.get("recorded"))
        elif did == "ending":
            self.over = str(told.get("error", ""))
        elif did == "start":
            self.problem = str(told.get("error", ""))
            self.recording = "" if self.problem else "running"
        elif did == "stop":
            self.problem, self.recording = str(told.get("error", "")), ""
            self.full, self.seconds = bool(told.get("full")), float(told.get("seconds", 0.0))


def recording_under_way(agent: Agent, now: float) -> str:
    """In words, that the doctor is recording a process, or that TensorFlow owes it an answer; empty if neither is so."""
    if agent.recording == "running":
        return "the doctor records it at this moment"
    if agent.recording not in ("asked", "ending"):
        return ""
    what = "begin a recording" if agent.recording == "asked" else "write a recording"
    return f"the doctor's part in it has waited for {now - agent.changed_s:.0f} s for TensorFlow to {what}"


def make_look(told: dict[str, Any], at_s: float) -> Look:
    """A look from the answer of the recorder."""
    others = told.get("others")
    return Look(
        at_s, _stack(told["stack"]), str(told["key"]),
        None if others is None else tuple(_stack(each) for each in others), int(told.get("workers", 0)),
        int(told.get("own_thread", 0)), str(told.get("rank", ""))[:80],
    )  # fmt: skip


def _stack(rows: Sequence[Sequence[Any]]) -> Stack:
    return tuple((str(file), int(line), str(name)) for file, line, name in rows)


class Agents:
    """The processes of a launched program that have imported TensorFlow, in the order in which they came."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._known: dict[Talk, SocketAgent] = {}

    def hear(self) -> list[Agent]:
        """Take what has come, and return those that run; one that is over may have no connection any more."""
        self._listener.accept()
        for talk in list(self._listener.talks):
            if talk not in self._known and self._ready(talk):
                self._known[talk] = SocketAgent(talk)
        for talk, agent in list(self._known.items()):
            agent.hear()
            if agent.lost and self._is_gone(agent):
                del self._known[talk]
                self._listener.drop(talk)
        return list(self._known.values())

    def _is_gone(self, agent: SocketAgent) -> bool:
        """Whether the process has ended, or has become another program, which has a connection of its own."""
        anew = any(each.pid == agent.pid and not each.lost for each in self._known.values())
        return anew or not start_time(agent.pid)

    def _ready(self, talk: Talk) -> bool:
        try:
            return talk.ready()
        except (ProgramLost, ValueError):
            self._listener.drop(talk)
            return False


class AttachedAgent:
    """A process that listens, and was found running."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._agent: SocketAgent | None = None

    def hear(self) -> list[Agent]:
        """Take what has come; empty until it has imported TensorFlow."""
        try:
            if self._agent is None and self._talk.ready():
                self._agent = SocketAgent(self._talk)
        except (ProgramLost, ValueError):
            return []
        if self._agent is None:
            return []
        self._agent.hear()
        return [self._agent]
