"""The commands of the advice, in the environment for which they are."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys

import pytest
from doctor_command import run_doctor
from healthy import distribution, target
from made_up_wheels import make_wheel

from tfgpu_doctor.advise.advise import advise
from tfgpu_doctor.advise.target_spec import spec_of
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import Facts, decode_facts
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.python import Distribution

KNOWLEDGE = read_knowledge()
NUMPY = distribution("numpy", "2.1.3", installer="uv")
PYTHON = "/home/jane doe/.venv/bin/python"


@pytest.mark.parametrize(
    ("distributions", "command"),
    [
        ((NUMPY,), f"uv pip install --python '{PYTHON}'"),
        ((), f"uv pip install --python '{PYTHON}'"),
        ((NUMPY, distribution("pip", "26.1", installer="uv")), f"'{PYTHON}' -m pip install"),
        ((distribution("pip", "26.1"),), f"'{PYTHON}' -m pip install"),
        ((distribution("numpy", "2.1.3", installer="conda"),), f"'{PYTHON}' -m ensurepip && '{PYTHON}' -m pip install"),
    ],
)
def test_uv_stands_for_pip_where_there_is_no_pip(distributions: tuple[Distribution, ...], command: str) -> None:
    linux = System(os="Linux", release="6.1", architecture="x86_64", glibc="2.36")
    found = target(executable=PYTHON, version="3.11.7", distributions=distributions)
    first, *_ = advise(spec_of(Facts(system=linux, target=found), KNOWLEDGE), KNOWLEDGE).commands
    assert first == f"{command} 'tensorflow[and-cuda]==2.21.0'"


@pytest.mark.parametrize("before", [(), ("colours",)])
def test_the_command_for_an_environment_of_uv_runs(before: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    pytest.importorskip("uv")
    uv = [sys.executable, "-m", "uv"]
    environment = tmp_path / "has spaces"
    for name in ("colours", "tensorflow"):
        make_wheel(tmp_path, name, "2.21.0", {f"{name}.py": ""})
    places = {
        "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", ""))),
        "UV_FIND_LINKS": str(tmp_path),
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),  # what an index said of TensorFlow before would count
    }
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(environment)], check=True)
    for name in before:
        command = [*uv, "pip", "install", "-q", "--python", str(environment), name]
        subprocess.run(command, check=True, env={**os.environ, **places})

    record = tmp_path / "facts.json"
    run_doctor("check", "--quick", "--python", str(environment), "--record", str(record))
    found = decode_facts(record.read_bytes()).target
    assert found
    linux = System(os="Linux", release="6.1", architecture="x86_64", glibc="2.36")
    spec = spec_of(Facts(system=linux, target=found), KNOWLEDGE)
    if spec.python not in {"3.10", "3.11", "3.12", "3.13"}:
        pytest.skip(f"the newest release has no wheel for Python {spec.python}")
    first, *_ = advise(spec, KNOWLEDGE).commands
    subprocess.run(shlex.split(first), check=True, env={**os.environ, **places})
    subprocess.run([environment / "bin/python", "-c", "import tensorflow"], check=True)
