"""The only access to the outside world: files, commands and the environment of one machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence

from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.processes import Completed, Processes

__all__ = ["Completed", "Files", "Host", "Processes"]


class Host:
    """A machine: its files under `root`, its processes, and the environment that they inherit.

    `additions` are variables for the commands only: `environment` remains the user's own.
    """

    def __init__(
        self,
        root: str = "/",
        environment: Mapping[str, str] | None = None,
        additions: Mapping[str, str] | None = None,
    ) -> None:
        self.files = Files(root)
        self.target_files = Files()  # of the target's Python and environment, which `root` does not affect
        self.environment: Mapping[str, str] = dict(os.environ if environment is None else environment)
        self.child_environment: Mapping[str, str] = {**self.environment, **(additions or {})}
        self._processes = Processes()

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        variables: Mapping[str, str] | None = None,
        until: threading.Event | None = None,
    ) -> Completed:
        """Run a command in a separate process group, and kill the whole group at the deadline.

        `variables` are added to the environment of all commands. With `until`, its standard input closes when that
        is set, or when the doctor exits for any reason: a command that watches it can then end.
        Never raises: the answer contains any error.
        """
        environment = {**self.child_environment, **(variables or {})}
        return self._processes.run(argv, deadline_s=deadline_s, environment=environment, until=until)

    @property
    def stopped(self) -> bool:
        """Whether every command was killed because the user stopped the doctor."""
        return self._processes.stopped

    def stop(self) -> None:
        """Kill every running command, and start no more."""
        self._processes.stop()
