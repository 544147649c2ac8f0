"""Settings: where they are found, what they may hold, and what the command line does to them."""

from __future__ import annotations

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
