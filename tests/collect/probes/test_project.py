"""The probe of the files in the working folder."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

import pytest
from healthy import target

from tfgpu_doctor.collect.probe import Unavailable
from tfgpu_doctor.collect.probes.project import project
from tfgpu_doctor.model.facts.project import Project

if TYPE_CHECKING:
    from collect.probes.conftest import Machine


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """The working folder."""
    place = tmp_path / "project"
    place.mkdir()
    return place


def read(machine: Machine, folder: pathlib.Path) -> Project:
    found = machine.ask(project, target=target(working_folder=str(folder)))
    assert isinstance(found, Project)
    return found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tensorflow-gpu==2.12.0", ["tensorflow-gpu==2.12.0"]),
        ("tensorflow_gpu >= 2.8", ["tensorflow_gpu>=2.8"]),
        ("tensorflow[and-cuda]>=2.15,<2.18", ["tensorflow[and-cuda]>=2.15,<2.18"]),
        ("tensorflow-gpu; python_version < '3.11'", ["tensorflow-gpu"]),
        ("tf-keras", ["tf-keras"]),
        ("tensorboard~=2.20", ["tensorboard~=2.20"]),
        ("tensorboard-plugin-profile", []),
        ('tensorflow-gpu = "^2.8"', ["tensorflow-gpu^2.8"]),
        ('tensorflow-gpu = {version = "2.9"}', ["tensorflow-gpu={version"]),
        ("# tensorflow-gpu", []),
        ("my-tensorflow-gpu-thing", []),
        ("numpy", []),
    ],
)
def test_requirements(machine: Machine, folder: pathlib.Path, line: str, words: list[str]) -> None:
    (folder / "requirements.txt").write_text(f"numpy\n{line}\n")
    found = read(machine, folder)
    assert [each.words for each in found.requirements] == words
    assert {each.file for each in found.requirements} <= {str(folder / "requirements.txt")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements-gpu.txt", "tensorflow-gpu==2.10.1\n"),
        ("pyproject.toml", '[project]\ndependencies = ["tensorflow-gpu==2.10.1"]\n'),
        ("environment.yml", "dependencies:\n  - python=3.9\n  - pip:\n    - tensorflow-gpu==2.10.1\n"),
        ("setup.py", "install_requires=['tensorflow-gpu==2.10.1'],\n"),
        ("Pipfile", 'tensorflow-gpu = "==2.10.1"\n'),
    ],
)
def test_each_kind_of_file_names_the_package(machine: Machine, folder: pathlib.Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    words = [each.words for each in read(machine, folder).requirements]
    assert words
    assert words[0].startswith("tensorflow-gpu")
    assert "2.10.1" in words[0]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("Dockerfile", "FROM tensorflow/tensorflow:2.15.0-gpu-jupyter\n", "FROM tensorflow/tensorflow:2.15.0-gpu-jupyter"),
        ("train.Dockerfile", "FROM nvcr.io/nvidia/tensorflow:25.02-tf2-py3 AS base\n", "FROM nvcr.io/nvidia/tensorflow:25.02-tf2-py3"),
        ("docker-compose.yml", "services:\n  t:\n    runtime: nvidia\n", "runtime: nvidia"),
        ("compose.yaml", "            - driver: nvidia\n              count: 1\n", "driver: nvidia"),
        ("compose.gpu.yaml", "              capabilities: [gpu]\n", "capabilities: [gpu"),
        (".devcontainer/devcontainer.json", '{"runArgs": ["--gpus", "all"]}', "--gpus"),
        ("docker-compose.yml", "          - 'driver': 'nvidia'\n            'count': 1\n", "driver: nvidia"),
        ("compose.yml", "            - capabilities:\n              - gpu\n", "capabilities: - gpu"),
        ("compose.yml", "            - capabilities: [compute, utility, gpu]\n", "capabilities: [compute, utility, gpu"),
        ("compose.yml", "    devices:\n      - nvidia.com/gpu=all\n", "nvidia.com/gpu=all"),
        ("Dockerfile", "FROM --platform=linux/amd64 docker.io/nvidia/cuda:12.5.1-base\n",
         "FROM --platform=linux/amd64 docker.io/nvidia/cuda:12.5.1-base"),
    ],
)  # fmt: skip
def test_containers_with_a_gpu(machine: Machine, folder: pathlib.Path, name: str, text: str, words: str) -> None:
    place = folder / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    [each] = read(machine, folder).gpu_containers
    assert (each.file, each.words) == (str(place), words)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Dockerfile", "FROM python:3.12\nRUN pip install tensorflow\n"),
        ("Dockerfile", "FROM tensorflow/tensorflow:2.15.0\n"),
        ("compose.yaml", "services:\n  db:\n    image: postgres\n"),
        ("compose.yaml", "#    runtime: nvidia\n"),
        ("compose.yaml", "    runtime:\n    nvidia-x: 1\n"),
        ("compose.yaml", "    capabilities: []\n    gpu_memory: 3\n"),
        ("compose.yaml", "    capabilities:\n      - compute\n    labels:\n      - gpu\n"),
        ("notes.txt", "runtime: nvidia, tensorflow-gpu\n"),
    ],
)
def test_containers_for_other_work(machine: Machine, folder: pathlib.Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    assert read(machine, folder).gpu_containers == ()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_file_that_windows_saved(machine: Machine, folder: pathlib.Path, encoding: str) -> None:
    """PowerShell 5 writes `pip freeze > requirements.txt` in UTF-16, and pip reads it."""
    (folder / "requirements.txt").write_bytes("tensorflow-gpu==2.10.1\r\nnumpy==1.26.4\r\n".encode(encoding))
    assert [each.words for each in read(machine, folder).requirements] == ["tensorflow-gpu==2.10.1"]


def test_condas_package_of_that_name_is_another(machine: Machine, folder: pathlib.Path) -> None:
    (folder / "environment.yml").write_text("dependencies:\n  - tensorflow-gpu=2.15\n  - pip\n")
    assert read(machine, folder).requirements == ()


def test_of_a_line_nothing_else_is_kept(machine: Machine, folder: pathlib.Path) -> None:
    (folder / "requirements.txt").write_text(
        "tensorflow-gpu @ https://anna:sesame@host/x.whl\n-i https://u:sesame@i tensorflow\n"
    )
    (folder / "devcontainer.json").write_text('{"runArgs": ["--gpus", "all", "-e", "PASSWORD=sesame"]}')
    assert "sesame" not in repr(read(machine, folder))


def test_a_pipe_is_not_waited_for(machine: Machine, folder: pathlib.Path) -> None:
    os.mkfifo(folder / "requirements.txt")
    assert read(machine, folder) == Project()


def test_files_that_cannot_be_understood_ask_for_nothing(machine: Machine, folder: pathlib.Path) -> None:
    (folder / "pyproject.toml").write_bytes(b"\xff\xfe\0" * 50)
    (folder / "requirements.txt").mkdir()
    assert read(machine, folder) == Project()


def test_without_a_working_folder_there_is_nothing_to_read(machine: Machine) -> None:
    with pytest.raises(Unavailable):
        machine.ask(project, target=target(working_folder=""))
