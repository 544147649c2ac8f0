"""The only access to the outside world: files, commands and the environment of one machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence

from tfgpu_doctor.host.child_variables import child_variables
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.processes import Completed, Processes

__all__ = ["Completed", "Files", "Host", "Processes"]


class Host:
    """A machine: its files under `root`, its processes, and the environment that they inherit.

    `additions` are variables for the commands only: `environment` remains the user's own. Commands that are `contained`
    write temporary files only into the folder of this run, and nothing that they start outlives them; others find what
    the user keeps in the temporary folder, and what they start in a session of its own stays.
    """

    def __init__(
        self,
        root: str = "/",
        environment: Mapping[str, str] | None = None,
        additions: Mapping[str, str] | None = None,
        *,
        contained: bool = True,
    ) -> None:
        self.files = Files(root)
        self.target_files = Files()  # of the target's Python and environment, which `root` does not affect
        self.environment: Mapping[str, str] = dict(os.environ if environment is None else environment)
        self.child_environment: Mapping[str, str] = {**self.environment, **(additions or {})}
        self._contained = contained
        self._processes = Processes()

    def variables(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """All variables of a command; `more` are added, and override others."""
        own = child_variables(self.environment) if self._contained else {}
        return {**self.child_environment, **own, **(more or {})}

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        variables: Mapping[str, str] | None = None,
        until: threading.Event | None = None,
        memory_bytes: float | None = None,
    ) -> Completed:
        """Run a command in a separate process group, and kill the whole group at the deadline.

        `variables` are added to the environment of all commands. With `until`, its standard input closes when that
        is set, or when the doctor exits for any reason: a command that watches it can then end. It is also killed if it
        takes more than `memory_bytes` (None: more than any healthy command needs).
        Never raises: the answer contains any error.
        """
        try:
            return self._processes.run(
                argv, deadline_s=deadline_s, environment=self.variables(variables), until=until,
                memory_bytes=memory_bytes, family_ends=self._contained,
            )  # fmt: skip
        except KeyboardInterrupt:
            self.stop()  # it was waited for on the main thread, which now ends the command
            raise

    @property
    def stopped(self) -> bool:
        """Whether every command was killed because the user stopped the doctor."""
        return self._processes.stopped

    def stop(self) -> None:
        """Kill every running command, and start no more."""
        self._processes.stop()
