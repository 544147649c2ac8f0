"""Settings: where they are found, what they may hold, and what the command line does to them."""

from __future__ import annotations

import os
import pathlib

import msgspec
import pytest
from doc_snippets import fenced
from doctor_command import diagnose, make_target, run_doctor
from locations import TESTS

from tfgpu_doctor.cli.configuration import Configuration, ConfigurationError, read_configuration

FACTS = TESTS / "machines/synthetic/ubuntu-without-driver/facts.json"


def test_without_a_file_there_are_defaults(tmp_path: pathlib.Path) -> None:
    assert read_configuration(str(tmp_path)) == Configuration()


def test_the_file_of_a_folder_above_counts(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tfgpu-doctor.toml").write_text('ignore = ["ENV"]\nfail-level = "warning"\ndeadline = 30\n')
    below = tmp_path / "a/b"
    below.mkdir(parents=True)
    found = read_configuration(str(below))
    assert (found.ignore, found.fail_level, found.deadline) == (("ENV",), "warning", 30)


def test_the_table_in_pyproject_counts(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tfgpu-doctor]\nselect = ["DRV"]\n')
    assert read_configuration(str(tmp_path)).select == ("DRV",)


def test_a_pyproject_without_the_table_is_passed_by(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tfgpu-doctor.toml").write_text('select = ["LIB"]\n')
    below = tmp_path / "project"
    below.mkdir()
    (below / "pyproject.toml").write_text("[tool.other]\n# tfgpu-doctor is mentioned here alone\n")
    assert read_configuration(str(below)).select == ("LIB",)


def test_the_own_file_wins_over_pyproject(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tfgpu-doctor]\nselect = ["DRV"]\n')
    (tmp_path / "tfgpu-doctor.toml").write_text('select = ["LIB"]\n')
    assert read_configuration(str(tmp_path)).select == ("LIB",)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("select = 7", "select"), ("colour = true", "colour"), ('fail-level = "awful"', "fail-level"), ("select = [", "tfgpu-doctor.toml"),
        ("fail_level = 'error'", "fail_level"),
        ('fail-level = "warn"', "fail-level is 'warn', and must be one of info, warning, error"),
        ("python = ''", "tfgpu-doctor.toml: python is empty"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_named(tmp_path: pathlib.Path, text: str, complaint: str) -> None:
    (tmp_path / "tfgpu-doctor.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=complaint):
        read_configuration(str(tmp_path))


@pytest.mark.parametrize("value", ["nan", "inf", "0.5", "-1"])
def test_a_deadline_that_is_none_is_refused(tmp_path: pathlib.Path, value: str) -> None:
    (tmp_path / "tfgpu-doctor.toml").write_text(f"deadline = {value}\n")
    with pytest.raises(ConfigurationError, match="must be 1 s or more"):
        read_configuration(str(tmp_path))
    for command in (["check"], ["rehearse"], ["accept"], ["fleet", "node", "--out", "."], ["fix"]):
        done = run_doctor(*command, "--deadline", value)
        assert done.returncode == 2, command
        assert "--deadline" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = " + "[" * 100_000, "nested too deep"),
        ("a." * 30_000 + "a = 1\n", "a key of more than 100 parts"),
        ("# " + "x" * (1 << 20), "is larger than 256 KiB"),
    ],
)
def test_a_file_that_is_made_to_be_slow_is_refused(tmp_path: pathlib.Path, text: str, words: str) -> None:
    (tmp_path / "tfgpu-doctor.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        read_configuration(str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
@pytest.mark.parametrize("name", ["tfgpu-doctor.toml", "pyproject.toml"])
def test_a_pipe_is_not_waited_for(tmp_path: pathlib.Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / name)
    if name == "pyproject.toml":
        assert read_configuration(str(tmp_path)) == Configuration()
        said = capsys.readouterr().err
        assert "pyproject.toml cannot be read (not a regular file): settings in it are not followed" in said
    else:
        with pytest.raises(ConfigurationError, match="not a regular file"):
            read_configuration(str(tmp_path))


def test_a_pyproject_that_is_too_large_costs_a_note(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tfgpu-doctor]\nselect = ["DRV"]\n# ' + "x" * (1 << 20))
    assert read_configuration(str(tmp_path)) == Configuration()
    assert "pyproject.toml is larger than 256 KiB: settings in it are not followed" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a file away")
def test_another_user_s_file_above_the_working_folder_is_not_followed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As root, a file in /tmp that names a Python to run."""
    (tmp_path / "below").mkdir()
    path = tmp_path / "tfgpu-doctor.toml"
    path.write_text('python = "/tmp/mine"\n')
    assert read_configuration(str(tmp_path / "below")).python == "/tmp/mine"
    os.chown(path, 12345, 12345)
    assert read_configuration(str(tmp_path)).python == "/tmp/mine"  # who stands in the folder has chosen it
    assert read_configuration(str(tmp_path / "below")).python is None
    assert "belongs to another user" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a link away")
@pytest.mark.parametrize("name", ["tfgpu-doctor.toml", "pyproject.toml"])
@pytest.mark.parametrize("between", ["", "between"])
def test_another_user_s_link_to_a_file_of_roots_is_not_followed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], name: str, between: str
) -> None:
    """It leads to whatever settings of another project its owner likes, also over a link of root's."""
    below = tmp_path / "up/below"
    below.mkdir(parents=True)
    table = "[tool.tfgpu-doctor]\n" if name == "pyproject.toml" else ""
    (tmp_path / "roots.toml").write_text(f'{table}python = "/root/other"\n')
    (tmp_path / "up" / name).symlink_to(f"../{between or 'roots.toml'}")
    if between:
        (tmp_path / between).symlink_to("roots.toml")
    assert read_configuration(str(below)).python == "/root/other"
    os.chown(tmp_path / (between or f"up/{name}"), 1234, 1234, follow_symlinks=False)
    assert read_configuration(str(below)).python is None
    assert "belongs to another user" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["tfgpu-doctor.toml", "pyproject.toml"])
def test_the_guide_shows_every_setting(tmp_path: pathlib.Path, name: str) -> None:
    (shown,) = fenced("docs/guide.md", "toml")
    header, settings = shown.split("\n", 1)
    (tmp_path / name).write_text(settings if name == "tfgpu-doctor.toml" else shown)
    found = read_configuration(str(tmp_path))
    defaults = msgspec.structs.asdict(Configuration())
    assert header == "[tool.tfgpu-doctor]"
    assert [each for each, value in msgspec.structs.asdict(found).items() if value == defaults[each]] == []


def test_the_command_line_replaces_select_and_adds_to_ignore() -> None:
    base = Configuration(select=("DRV",), ignore=("ENV",), fail_level="warning")
    found = base.with_options(select=["LIB, MEM"], ignore=["GPU001"])
    assert found.select == ("LIB", "MEM")
    assert found.ignore == ("ENV", "GPU001")
    assert found.fail_level == "warning"


@pytest.mark.parametrize("python", [".venv", "envs/gpu", "./.venv", "../other/.venv", "not-made-yet"])
@pytest.mark.parametrize("name", ["tfgpu-doctor.toml", "pyproject.toml"])
def test_a_path_to_python_starts_at_the_file_that_names_it(tmp_path: pathlib.Path, name: str, python: str) -> None:
    project = tmp_path / "project"
    below = project / "a/b"
    for folder in (project / ".venv", project / "envs/gpu", tmp_path / "other/.venv", below / ".venv"):
        folder.mkdir(parents=True)
    (below / "not-made-yet").mkdir()
    table = "[tool.tfgpu-doctor]\n" if name == "pyproject.toml" else ""
    (project / name).write_text(f'{table}python = "{python}"\n')
    for here in (project, below):
        found = read_configuration(str(here)).python
        assert found is not None
        assert os.path.isabs(found)
        assert os.path.normpath(found) == os.path.normpath(project / python)
        assert read_configuration(str(here)).with_options(python=".venv").python == ".venv"  # from the working folder


def test_a_path_to_python_may_start_at_home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/jane")
    monkeypatch.setenv("USERPROFILE", "/home/jane")
    (tmp_path / "tfgpu-doctor.toml").write_text('python = "~/venvs/tf"\n')
    assert read_configuration(str(tmp_path)).python == "/home/jane/venvs/tf"


def test_a_python_on_path_stays_a_name(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "python3.99").write_text("#!/bin/sh\n")
    (commands / "python3.99").chmod(0o755)
    monkeypatch.setenv("PATH", str(commands))
    (tmp_path / "tfgpu-doctor.toml").write_text('python = "python3.99"\n')
    assert read_configuration(str(tmp_path)).python == "python3.99"
    (tmp_path / "python3.99").mkdir()
    assert read_configuration(str(commands)).python == str(tmp_path / "python3.99")


def test_the_same_python_is_examined_from_every_folder_of_a_project(tmp_path: pathlib.Path) -> None:
    target = make_target(tmp_path / ".venv", None)
    make_target(tmp_path / "below/.venv", None)
    (tmp_path / "tfgpu-doctor.toml").write_text('python = ".venv"\n')
    for folder in (tmp_path, tmp_path / "below"):
        assert diagnose("--quick", cwd=folder)["target"]["python"] == str(target / "bin/python")


def test_the_command_obeys_the_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tfgpu-doctor.toml").write_text('ignore = ["DRV001"]\n')
    assert run_doctor("--facts", str(FACTS), cwd=tmp_path).returncode == 3  # what it blocks stays open
    assert run_doctor("--facts", str(FACTS)).returncode == 1


def test_the_command_names_a_file_that_it_cannot_use(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tfgpu-doctor]\ncolour = "red"\n')
    done = run_doctor("--facts", str(FACTS), cwd=tmp_path)
    assert done.returncode == 2
    assert "pyproject.toml" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_file_is_named_where_one_of_its_words_is_no_check(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tfgpu-doctor.toml").write_text('ignore = ["FOO"]\n')
    done = run_doctor("--facts", str(FACTS), cwd=tmp_path)
    assert done.returncode == 2
    assert "tfgpu-doctor.toml: no check is called 'FOO'" in done.stderr
    done = run_doctor("--facts", str(FACTS), "--select", "BAR", cwd=tmp_path)
    assert "error: no check is called 'BAR'" in done.stderr
