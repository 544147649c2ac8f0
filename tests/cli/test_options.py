"""The options of every command are the parameters of its function."""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Iterator

import click
import pytest
from doctor_command import run_doctor

from tfgpu_doctor.cli.main import cli


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        yield f"{name} {each}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {each}")


def test_every_option_is_a_parameter_of_its_command() -> None:
    found = dict(commands(cli, "tfgpu-doctor"))
    assert {"tfgpu-doctor check", "tfgpu-doctor accept learn", "tfgpu-doctor fleet run"} <= found.keys()
    unlike = {}
    for name, command in found.items():
        assert command.callback is not None
        taken = {each.name for each in command.params if each.expose_value}
        parameters = {
            each.name
            for each in inspect.signature(inspect.unwrap(command.callback)).parameters.values()
            if each.kind is not each.VAR_KEYWORD
        }
        if parameters - taken or (taken - parameters and not takes_any(command)):
            unlike[name] = parameters ^ taken
    assert unlike == {}


def takes_any(command: click.Command) -> bool:
    """Whether its function takes further options by name."""
    assert command.callback is not None
    parameters = inspect.signature(inspect.unwrap(command.callback)).parameters.values()
    return any(each.kind is each.VAR_KEYWORD for each in parameters)


def test_a_misspelt_subcommand_is_named_as_such() -> None:
    done = run_doctor("accept", "lern")
    assert done.returncode == 2
    assert "No such command 'lern'" in done.stderr


@pytest.mark.parametrize("words", [("fleet",), ("fleet", "emit")])
def test_a_group_without_a_command_prints_its_help_as_it_is(words: tuple[str, ...]) -> None:
    done = run_doctor(*words)
    assert done.stdout + done.stderr == run_doctor(*words, "--help").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("check",), ("rehearse",), ("libraries",), ("env", "--shell", "bash"), ("fix",), ("fix", "--undo"), ("advise",),
        ("advise", "--gpu", "L4"), ("matrix",), ("ticket",), ("accept", "--profile", "server"),
        ("fleet", "node", "--out", "."), ("fleet", "run", "--out", "."),
    ],
)  # fmt: skip
def test_an_empty_python_is_refused(
    words: tuple[str, ...], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_doctor(*words, "--python", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the Python of --python is empty: is a variable not set?" in done.stderr
    assert not any(tmp_path.iterdir())
