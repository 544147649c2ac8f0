"""The variables of the doctor's own children: temporary files and the settings of Keras are in the folder of the run."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest

from tfgpu_doctor.host import Host, scratch
from tfgpu_doctor.host.child_variables import child_variables


@pytest.fixture(autouse=True)
def _removed() -> Iterator[None]:
    yield
    scratch.remove_run_folder()


def home_of(variables: dict[str, str]) -> pathlib.Path:
    return pathlib.Path(variables["KERAS_HOME"])


def test_all_names_of_the_temporary_folder(tmp_path: pathlib.Path) -> None:
    variables = child_variables({"HOME": str(tmp_path)})
    assert {variables[name] for name in ("TMPDIR", "TMP", "TEMP")} == {scratch.children_folder()}
    assert variables["PYTHONDONTWRITEBYTECODE"] == "1"


def test_the_drivers_cache_stays_the_users(tmp_path: pathlib.Path) -> None:
    """Half an hour of compiling PTX is not done again each time; docs/guide.md and docs/security.md say so."""
    assert not [name for name in child_variables({"HOME": str(tmp_path)}) if name.startswith("CUDA_CACHE")]


@pytest.mark.parametrize("own", ["", "~/elsewhere", "{}/elsewhere"])
def test_the_users_settings_are_copied(tmp_path: pathlib.Path, own: str) -> None:
    place = tmp_path / ("elsewhere" if own else ".keras")
    (place / "datasets").mkdir(parents=True)
    (place / "keras.json").write_text('{"floatx": "float16"}')
    (place / "keras.json").chmod(0o444)
    home = home_of(child_variables({"HOME": str(tmp_path), "KERAS_HOME": own.format(tmp_path)}))
    assert home.parent == pathlib.Path(scratch.run_folder())
    assert (home / "keras.json").read_text() == '{"floatx": "float16"}'
    assert (home / "datasets").resolve() == place / "datasets"
    assert not (home / "models").exists()
    scratch.remove_run_folder()
    assert (place / "datasets").is_dir()


def test_without_settings_the_folder_is_empty(tmp_path: pathlib.Path) -> None:
    assert list(home_of(child_variables({"HOME": str(tmp_path)})).iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_settings_that_cannot_be_copied_stay_in_force(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".keras/keras.json").mkdir(parents=True)
    assert "KERAS_HOME" not in child_variables({"HOME": str(tmp_path)})


def test_a_fifo_in_place_of_the_settings_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".keras").mkdir()
    os.mkfifo(tmp_path / ".keras/keras.json")
    assert "KERAS_HOME" not in child_variables({"HOME": str(tmp_path)})


@pytest.mark.parametrize("exists", [True, False])
def test_without_a_temporary_folder_keras_writes_no_settings(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    """Those that exist stay in force: Keras writes none then."""

    def none() -> str:
        raise scratch.NoTemporaryFolder

    monkeypatch.setattr(scratch, "_parent", none)
    if exists:
        (tmp_path / ".keras").mkdir()
        (tmp_path / ".keras/keras.json").write_text('{"backend": "jax"}')
    variables = child_variables({"HOME": str(tmp_path)})
    assert variables.get("KERAS_HOME") == (None if exists else "/dev/null/keras")
    assert "TMPDIR" not in variables


def test_two_users_have_two_copies(tmp_path: pathlib.Path) -> None:
    first, second = (home_of(child_variables({"HOME": str(tmp_path), "KERAS_HOME": name})) for name in ("/a", "/b"))
    assert first != second


def test_a_command_that_is_not_contained_keeps_the_users(tmp_path: pathlib.Path) -> None:
    variables = {"HOME": str(tmp_path), "TMPDIR": "/x"}
    assert Host(environment=variables, contained=False).variables({"A": "1"}) == {**variables, "A": "1"}
    assert Host(environment=variables).variables({"TMPDIR": "/y"})["TMPDIR"] == "/y"
