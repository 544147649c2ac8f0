"""A group of commands of which only the one that is called gets imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """Commands by name with a line about each; `place` is what their modules' names begin with."""

    def __init__(self, *rest: Any, place: str, about: Mapping[str, str], **named: Any) -> None:
        super().__init__(*rest, **named)
        self._place, self._about = place, about

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Their names, in the order in which they are told of."""
        return list(self._about)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The command, imported now; None where there is none of that name."""
        if cmd_name not in self._about:
            return None
        found = getattr(importlib.import_module(self._place + cmd_name), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """The list in --help, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._about.items()))
