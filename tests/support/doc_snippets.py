"""What documents show, to be tried: their fenced blocks, and the calls of the doctor in scripts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from locations import ROOT

from tfgpu_doctor.cli.main import cli

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ENDS = {"&&", "||", ";", "|", "(", ")", "&", ">", ">>", "<"}


def fenced(document: str, language: str) -> list[str]:
    """The blocks of that language in one of the project's documents."""
    text = (ROOT / document).read_text("utf-8")
    return [block for found, block in _FENCE.findall(text) if found == language]


def calls(script: str) -> Iterator[list[str]]:
    """The arguments of each call of `tfgpu-doctor` in a script of a shell."""
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] = []
        for word in (*words, ";"):
            if word not in _ENDS:
                command.append(word)
                continue
            while command and (command[0] == "RUN" or "=" in command[0]):
                command.pop(0)
            if command and command[0].rpartition("/")[2] == "tfgpu-doctor":
                yield command[1:]
            command = []


def refuse_unknown(arguments: list[str]) -> None:
    """Raise what click raises where a command, an option or a choice does not exist; nothing runs."""
    arguments = list(arguments)
    if not arguments or arguments[0].startswith("-"):
        arguments.insert(0, "check")
    context = cli.make_context("tfgpu-doctor", arguments)
    name, command, rest = cli.resolve_command(context, [*context._protected_args, *context.args])
    assert command is not None
    command.make_context(name, rest, parent=context)


def scripts_of(document: Any) -> Iterator[str]:
    """Every script in a workflow, an action or a pipeline that was read from YAML."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name in ("run", "script", "before_script"):
                yield value if isinstance(value, str) else "\n".join(value)
            else:
                yield from scripts_of(value)
    elif isinstance(document, list):
        for each in document:
            yield from scripts_of(each)
