"""A group of commands that imports only the command that is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose `commands` map a name to a module below tfgpu_doctor and a line of help.

    `default` is the command for arguments that do not begin with a command.
    """

    def __init__(self, *rest: Any, commands: Mapping[str, tuple[str, str]], default: str = "", **named: Any) -> None:
        super().__init__(*rest, **named)
        self._lazy, self._default = commands, default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command if the arguments name none."""
        if self._default and (not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)):
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Return the names, in the order of the help."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Import and return the command; None if there is none of that name."""
        if cmd_name not in self._lazy:
            return None
        found = getattr(importlib.import_module(f"tfgpu_doctor.{self._lazy[cmd_name][0]}"), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the list for --help, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._lazy.items()])
