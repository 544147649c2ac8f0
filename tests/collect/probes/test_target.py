"""The probe of the target's interpreter; see tests/collect/workers for what its program finds."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tfgpu_doctor.collect.probe import Request
from tfgpu_doctor.collect.probes.target import target
from tfgpu_doctor.host import Completed
from tfgpu_doctor.model.facts import Facts, decode_facts, encode_facts, writable

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

ANSWER: dict[str, Any] = {
    "executable": "/venv/bin/python", "version": "3.12.7", "bits": 64, "prefix": "/venv", "base_prefix": "/usr",
    "search_path": ["/usr/lib/python3.12", "/venv/lib/python3.12/site-packages"], "working_folder": "/home/user",
    "user_site": "", "externally_managed": False, "conda_packages": {},
    "distributions": [
        {"name": "tensorflow", "version": "2.20.0", "folder": "/venv/x", "installer": "pip", "requires": ["numpy>=1.26.0"]},
        {"name": "numpy", "version": "2.1.3", "folder": "/venv/x", "installer": "uv"},
    ],
    "tensorflow_owners": ["tensorflow"], "tensorflow_file": "/venv/x/tensorflow/__init__.py", "local_modules": [],
    "nvidia_libraries": ["/venv/x/nvidia/cudnn/lib/libcudnn.so.9"],
}  # fmt: skip


def answered(answer: Any) -> Completed:
    return Completed(json.dumps(answer).encode() + b"\n", "", 0.2, exit_code=0)


@pytest.fixture
def venv(tmp_path: pathlib.Path) -> pathlib.Path:
    """A virtual environment without any package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    return tmp_path / "venv"


def test_an_answer_becomes_the_fact(machine: Machine) -> None:
    found = machine.ask(target, done=answered(ANSWER))
    assert found.attempt.answered
    assert (found.version, found.bits, found.prefix) == ("3.12.7", 64, "/venv")
    assert found.find("tensorflow").requires == ("numpy>=1.26.0",)
    assert found.find("numpy").installer == "uv"
    assert found.find("torch") is None
    assert found.nvidia_libraries == ("/venv/x/nvidia/cudnn/lib/libcudnn.so.9",)


@pytest.mark.parametrize(
    ("done", "outcome"),
    [
        (Completed(b"", "", 0.0, not_started="No such file or directory"), "not_started"),
        (Completed(b"", "", 20.0, timed_out=True), "timed_out"),
        (Completed(b"", "", 0.1, exit_code=-4, signal="SIGILL"), "killed_by_signal"),
        (Completed(b"", "SyntaxError: invalid syntax\n", 0.1, exit_code=1), "failed"),
        (Completed(b"Python 2.7.18\n", "", 0.1, exit_code=0), "unparsable"),
        (answered([1]), "unparsable"),
        (answered({"distributions": [{"version": "1"}]}), "unparsable"),
        (answered({**ANSWER, "search_path": 3}), "unparsable"),
    ],
)
def test_an_interpreter_that_does_not_answer_is_still_named(machine: Machine, done: Completed, outcome: str) -> None:
    found = machine.ask(target, done=done, request=Request(python="/gone/bin/python"))
    assert found.attempt.outcome == outcome
    assert found.executable in ("/gone/bin/python", "/venv/bin/python")
    assert found.distributions == ()


def test_a_slow_file_system_has_the_users_patience(machine: Machine) -> None:
    for level in ("standard", "quick"):
        machine.ask(
            target, done=answered(ANSWER), request=Request(python="/venv/bin/python", level=level, deadline_s=200)
        )
    standard, quick = (each.deadline_s for each in machine.asked)
    assert standard == 200
    assert quick < standard
    assert target.limit_s(Request(python="", deadline_s=200)) >= standard


def test_an_executable_of_another_kind_is_unparsable_too(machine: Machine) -> None:
    found = machine.ask(target, done=answered({"executable": 5}), request=Request(python="/gone/bin/python"))
    assert found.attempt.outcome == "unparsable"


def test_a_real_environment_is_described(machine: Machine, venv: pathlib.Path) -> None:
    found = machine.ask(target, environment=dict(os.environ), request=Request(python=str(venv / "bin/python")))
    assert found.attempt.answered
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert os.path.realpath(found.prefix) == os.path.realpath(venv)
    assert found.executable == str(venv / "bin/python")
    assert found.working_folder == os.getcwd()
    assert found.tensorflow_file == ""


def test_names_of_undecodable_bytes_are_described_and_recorded(machine: Machine, venv: pathlib.Path) -> None:
    (site,) = venv.glob("lib/python3*/site-packages")
    try:
        os.makedirs(os.fsencode(site) + b"/caf\xe9-1.0.dist-info")
        os.makedirs(os.fsencode(site) + b"/nvidia/caf\xe9/lib/libcudnn.so.9")
    except OSError:
        pytest.skip("the file system takes no such names")
    found = machine.ask(target, environment=dict(os.environ), request=Request(python=str(venv / "bin/python")))
    assert found.attempt.answered
    assert any(each.name.startswith("caf") and each.version == "1.0" for each in found.distributions)
    facts = Facts(target=writable(found))
    assert decode_facts(encode_facts(facts)) == facts


def test_what_a_hook_prints_first_does_not_hide_the_answer(machine: Machine, venv: pathlib.Path) -> None:
    (site,) = venv.glob("lib/python3*/site-packages")
    (site / "greeting.pth").write_text("import sys; sys.stdout.write('Welcome to the cluster\\n')\n")
    found = machine.ask(target, environment=dict(os.environ), request=Request(python=str(venv / "bin/python")))
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert found.attempt.answered
