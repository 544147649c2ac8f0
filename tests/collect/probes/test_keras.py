"""The probe of keras.json."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probe import Unavailable
from tfgpu_doctor.collect.probes.keras import keras
from tfgpu_doctor.model.facts.keras import Keras

if TYPE_CHECKING:
    from collect.probes.conftest import Machine


def write(folder: pathlib.Path, content: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "keras.json").write_text(content)
    return str(folder / "keras.json")


@pytest.mark.parametrize(
    ("content", "backend", "error"),
    [
        ('{"backend": "jax", "floatx": "float32"}', "jax", ""),
        ('{"floatx": "float32"}', "", ""),
        ('{"backend": null}', "", ""),
        ('{"backend": "jax",}', "", ""),  # not JSON: Keras ignores it
        ("", "", ""),
        ('["jax"]', "", "it is no JSON object"),
        ('{"backend": 3}', "3", ""),
    ],
)
def test_the_backend_of_the_file(
    machine: Machine, tmp_path: pathlib.Path, content: str, backend: str, error: str
) -> None:
    file = write(tmp_path / ".keras", content)
    found = machine.ask(keras, environment={"HOME": str(tmp_path)})
    assert found == Keras(file=file, exists=True, backend=backend, error=error)


def test_no_file(machine: Machine, tmp_path: pathlib.Path) -> None:
    assert machine.ask(keras, environment={"HOME": str(tmp_path)}) == Keras(file=f"{tmp_path}/.keras/keras.json")


def test_keras_home_replaces_the_folder(machine: Machine, tmp_path: pathlib.Path) -> None:
    write(tmp_path / ".keras", '{"backend": "torch"}')
    file = write(tmp_path / "settings", '{"backend": "jax"}')
    for value in (str(tmp_path / "settings"), "~/settings"):
        found = machine.ask(keras, environment={"HOME": str(tmp_path), "KERAS_HOME": value})
        assert (found.file, found.backend) == (file, "jax")


def test_a_folder_in_place_of_the_file(machine: Machine, tmp_path: pathlib.Path) -> None:
    (tmp_path / ".keras/keras.json").mkdir(parents=True)
    assert "cannot be read" in machine.ask(keras, environment={"HOME": str(tmp_path)}).error


def test_a_home_that_cannot_be_written_to(machine: Machine, tmp_path: pathlib.Path) -> None:
    found = machine.ask(keras, environment={"HOME": str(tmp_path / "missing")})
    assert found.file == os.path.join("/tmp", ".keras", "keras.json")


def test_no_home(machine: Machine) -> None:
    with pytest.raises(Unavailable, match="home folder"):
        machine.ask(keras, environment={})
