"""Prepend folders to LD_LIBRARY_PATH: the line for each shell, with every character literal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

# The characters that PowerShell treats as single quotes (about_Quoting_Rules): the straight and the typographic ones.
_QUOTES = re.compile("(['\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
                     "\N{SINGLE LOW-9 QUOTATION MARK}\N{SINGLE HIGH-REVERSED-9 QUOTATION MARK}])")  # fmt: skip


class Unwritable(ValueError):
    """Folders that the syntax of a shell cannot express; the message says why."""


def bash(folders: Sequence[str]) -> str:
    """Return the line for bash, zsh and any POSIX shell."""
    listed = ":".join(shlex.quote(folder) for folder in folders)
    return f'export LD_LIBRARY_PATH={listed}"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'


def fish(folders: Sequence[str]) -> str:
    """Return the line for fish 3.0 and newer, where --path makes a list that is joined by colons on export."""
    listed = " ".join("'" + folder.replace("\\", "\\\\").replace("'", "\\'") + "'" for folder in folders)
    line = f"set -gx --path LD_LIBRARY_PATH {listed}"
    return f'if test -n "$LD_LIBRARY_PATH"; {line} $LD_LIBRARY_PATH; else; {line}; end'


def powershell(folders: Sequence[str]) -> str:
    """Return the line for PowerShell on Linux."""
    listed = "'" + _QUOTES.sub(r"\1\1", ":".join(folders)) + "'"
    return f"$env:LD_LIBRARY_PATH = {listed} + $(if ($env:LD_LIBRARY_PATH) {{ ':' + $env:LD_LIBRARY_PATH }})"


def docker(folders: Sequence[str]) -> str:
    """Return the ENV instruction for a Dockerfile; it keeps the base image's value. Raises Unwritable."""
    listed = ":".join(folders)
    if "\n" in listed or "\r" in listed:
        raise Unwritable(f"a Dockerfile cannot contain the folder name {listed!r}")
    quoted = re.sub(r'(["\\$])', r"\\\1", listed)
    return f'ENV LD_LIBRARY_PATH="{quoted}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'


SHELLS: Mapping[str, Callable[[Sequence[str]], str]] = {
    "bash": bash,
    "zsh": bash,
    "fish": fish,
    "powershell": powershell,
    "docker": docker,
}
