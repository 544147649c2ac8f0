"""The processes of the program that use TensorFlow: which there were, and which of them was recorded."""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.watching.agent import Agent

_NAMED = 8


class ProcessesSeen:
    """Asks each process once for its rank; `in_words` is a sentence for the report."""

    def __init__(self) -> None:
        self._ranks: dict[int, str] = {}
        self._asked: set[int] = set()
        self._recorded: dict[int, int] = {}

    def look(self, agents: Sequence[Agent]) -> None:
        """Take what is known now."""
        for agent in agents:
            self._ranks.setdefault(agent.pid, "")
            if agent.look is not None and agent.look.rank:
                self._ranks[agent.pid] = agent.look.rank
            elif agent.pid not in self._asked and not agent.lost:
                self._asked.add(agent.pid)
                agent.ask(others=False)

    def recorded(self, pid: int) -> None:
        """A recording of this process was read."""
        self._recorded[pid] = self._recorded.get(pid, 0) + 1

    def in_words(self) -> str:
        """Which processes there were, and how often each was recorded; empty if there was only one."""
        if len(self._ranks) < 2:
            return ""
        order = sorted(self._ranks, key=lambda pid: -self._recorded.get(pid, 0))
        named = [self._named(pid) for pid in order[:_NAMED]]
        more = [f"{len(order) - _NAMED} more"] if len(order) > _NAMED else []
        return f"{len(order)} processes used TensorFlow, and one at a time is recorded: {', '.join(named + more)}"

    def _named(self, pid: int) -> str:
        times, rank = self._recorded.get(pid, 0), self._ranks[pid]
        words = [rank, f"recorded {times} time{'s' * (times > 1)}" if times else "not recorded"]
        return f"{pid} ({', '.join(word for word in words if word)})"
