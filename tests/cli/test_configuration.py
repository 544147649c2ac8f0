"""Settings: where they are found, what they may hold, and what the command line does to them."""

from __future__ import annotations

import os
import pathlib

import pytest
from doctor_command import run_doctor
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


def test_the_command_line_replaces_select_and_adds_to_ignore() -> None:
    base = Configuration(select=("DRV",), ignore=("ENV",), fail_level="warning")
    found = base.with_options(select=["LIB, MEM"], ignore=["GPU001"])
    assert found.select == ("LIB", "MEM")
    assert found.ignore == ("ENV", "GPU001")
    assert found.fail_level == "warning"


def test_the_command_obeys_the_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tfgpu-doctor.toml").write_text('ignore = ["DRV001"]\n')
    assert run_doctor("--facts", str(FACTS), cwd=tmp_path).returncode == 0
    assert run_doctor("--facts", str(FACTS)).returncode == 1


def test_the_command_names_a_file_that_it_cannot_use(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tfgpu-doctor]\ncolour = "red"\n')
    done = run_doctor("--facts", str(FACTS), cwd=tmp_path)
    assert done.returncode == 2
    assert "pyproject.toml" in done.stderr
    assert len(done.stderr.splitlines()) == 1
