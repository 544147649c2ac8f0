"""A group of commands of which only the one that is called gets imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """`commands` are by name: the module below tfgpu_doctor that holds the command, and a line about it."""

    def __init__(self, *rest: Any, commands: Mapping[str, tuple[str, str]], **named: Any) -> None:
        super().__init__(*rest, **named)
        self._lazy = commands

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Their names, in the order in which they are told of."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The command, imported now; None where there is none of that name."""
        if cmd_name not in self._lazy:
            return None
        found = getattr(importlib.import_module(f"tfgpu_doctor.{self._lazy[cmd_name][0]}"), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """The list in --help, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._lazy.items()])
