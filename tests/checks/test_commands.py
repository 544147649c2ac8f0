"""Commands to paste: from which release on pip brings the CUDA libraries, and what stands for pip where there is none."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys

import msgspec
import pytest
from doctor_command import run_doctor
from healthy import broken, cuda_gpu, distribution, target
from made_up_wheels import make_wheel

from tfgpu_doctor.checks.commands import bring_cuda_libraries, pip
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import decode_facts
from tfgpu_doctor.model.facts.attempt import Attempt


@pytest.mark.parametrize(
    ("release", "command"),
    [("2.15.0", ""), ("2.15.1", "tensorflow[and-cuda]==2.15.1"), ("2.21.0", "tensorflow[and-cuda]==2.21.0")],
)
def test_the_extra_works_from_one_release_on(release: str, command: str) -> None:
    facts = broken()
    assert facts.tensorflow
    assert facts.target
    tensorflow = msgspec.structs.replace(facts.tensorflow, version=release, distribution="tensorflow")
    fix = bring_cuda_libraries(facts.target, tensorflow, read_knowledge(), "They are missing.")
    assert " ".join(fix.commands).rpartition(" ")[2].strip("'") == command
    assert fix.text.startswith("They are missing.")
    assert ("pip cannot install them for this release" in fix.text) is (not command)


@pytest.mark.parametrize(
    ("specifier", "capabilities", "cap"),
    [
        ("<10.0,>=9.3.0.75", ("7.0",), " 'nvidia-cudnn-cu12<9.11'"),
        ("<10.0,>=9.3.0.75", ("8.6", "6.1"), " 'nvidia-cudnn-cu12<9.11'"),
        ("<10.0,>=9.3.0.75", ("7.5", "12.0"), ""),
        ("<10.0,>=9.3.0.75", ("",), ""),
        ("<10.0,>=9.3.0.75", (), ""),
        ("==9.3.0.75", ("7.0",), ""),
        (">=9.12.0.46", ("7.0",), ""),
    ],
)
def test_a_gpu_before_turing_gets_a_cudnn_with_code_for_it(
    specifier: str, capabilities: tuple[str, ...], cap: str
) -> None:
    facts = broken()
    assert facts.tensorflow
    assert facts.cuda_driver
    requires = (f'nvidia-cudnn-cu12{specifier}; extra == "and-cuda"',)
    there = target(distributions=(distribution("tensorflow", "2.20.0", requires=requires), distribution("pip", "26.1")))
    gpus = tuple(cuda_gpu(index, compute_capability=each) for index, each in enumerate(capabilities))
    driver = msgspec.structs.replace(facts.cuda_driver, gpus=gpus)
    fix = bring_cuda_libraries(there, facts.tensorflow, read_knowledge(), "They are missing.", driver)
    assert fix.commands[0].partition(" install ")[2] == f"'tensorflow[and-cuda]==2.20.0'{cap}"


def test_in_an_environment_of_uv_uv_stands_for_pip() -> None:
    made_by_uv = [distribution("numpy", "2.1.3", installer="uv")]
    found = target(executable="/home/jane doe/.venv/bin/python", distributions=made_by_uv)
    assert pip(found, "uninstall", "-y", "numpy") == (
        "uv pip uninstall --python '/home/jane doe/.venv/bin/python' numpy",
    )
    with_pip = msgspec.structs.replace(found, distributions=(*made_by_uv, distribution("pip", "26.1", installer="uv")))
    assert pip(with_pip, "uninstall", "-y", "numpy") == ("'/home/jane doe/.venv/bin/python' -m pip uninstall -y numpy",)
    assert pip(msgspec.structs.replace(found, externally_managed=True), "install", "numpy") == ()


@pytest.mark.parametrize("installers", [("conda",), ("conda", "uv-pixi"), ("PDM 2.20",), ("",), ("", "conda")])
def test_an_environment_without_pip_first_gets_one(installers: tuple[str, ...]) -> None:
    """conda-forge's Python brings no pip any more (conda-forge/python-feedstock, 3.13), nor do pixi and PDM."""
    found = target(distributions=tuple(distribution(f"d{each}", "1.0", installer=each) for each in installers))
    assert pip(found, "install", "numpy") == (
        "/home/user/venv/bin/python -m ensurepip",
        "/home/user/venv/bin/python -m pip install numpy",
    )
    with_pip = msgspec.structs.replace(found, distributions=(*found.distributions, distribution("pip", "26.1")))
    assert pip(with_pip, "install", "numpy") == ("/home/user/venv/bin/python -m pip install numpy",)


def test_where_pip_installed_something_it_is_there() -> None:
    found = target(distributions=(distribution("numpy", "2.1.3"), distribution("six", "1.16.0", installer="conda")))
    assert pip(found, "install", "six") == ("/home/user/venv/bin/python -m pip install six",)
    systems = target(prefix="/usr", base_prefix="/usr", distributions=(distribution("six", "1.16.0", installer=""),))
    assert pip(systems, "install", "six") == ("/home/user/venv/bin/python -m pip install six",)


LAYER = "/home/user/.cache/uv/builds-v0/.tmpIUxDYD"


def test_what_is_installed_lasts_longer_than_a_layer_of_uv() -> None:
    """`uv run --with tfgpu-doctor` deletes its layer when the doctor ends."""
    mine = (distribution("tfgpu-doctor", "1.0.0", folder=f"{LAYER}/lib/python3.12/site-packages", installer="uv"),)
    found = target(executable=f"{LAYER}/bin/python", prefix=LAYER, extends="/home/jane doe/.venv", distributions=mine)
    assert pip(found, "install", "numpy") == ("uv pip install --python '/home/jane doe/.venv/bin/python3' numpy",)
    with_pip = msgspec.structs.replace(found, distributions=(*mine, distribution("pip", "26.1")))
    assert pip(with_pip, "install", "numpy") == pip(found, "install", "numpy")
    windows = msgspec.structs.replace(found, executable="C:\\layer\\Scripts\\python.exe", extends="C:/p/.venv")
    assert windows.lasting_python.startswith("C:/p/.venv")
    assert windows.lasting_python.endswith("python.exe")


def test_a_python_that_is_told_to_install_all_the_same_does() -> None:
    managed = target(executable="/usr/bin/python3", prefix="/usr", externally_managed=True)
    assert pip(managed, "install", "numpy") == ()
    told = msgspec.structs.replace(managed, breaks_system_packages=True)
    assert pip(told, "install", "numpy") == ("/usr/bin/python3 -m pip install numpy",)


def test_a_new_environment_of_uv_has_nothing_that_tells_of_it() -> None:
    new = target(distributions=())
    assert pip(new, "install", "numpy") == ("uv pip install --python /home/user/venv/bin/python numpy",)
    unread = target(distributions=(), attempt=Attempt(outcome="timed_out"))
    assert pip(unread, "install", "numpy") == ("/home/user/venv/bin/python -m pip install numpy",)


def test_the_commands_for_an_environment_of_uv_run(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("uv")
    uv = [sys.executable, "-m", "uv"]
    environment = tmp_path / "has spaces"
    for number in "12":
        make_wheel(tmp_path, "colours", f"{number}.0", {"colours.py": f"NUMBER = {number}\n"})
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(environment)], check=True)
    first = [*uv, "pip", "install", "-q", "--offline", "--find-links", str(tmp_path), "--python", str(environment)]
    subprocess.run([*first, "colours==1.0"], check=True)

    record = tmp_path / "facts.json"
    run_doctor("check", "--quick", "--python", str(environment), "--record", str(record))
    found = decode_facts(record.read_bytes()).target
    assert found
    places = {
        "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", ""))),
        "UV_FIND_LINKS": str(tmp_path),
        "UV_OFFLINE": "1",
    }
    says = [found.executable, "-c", "import colours; print(colours.NUMBER)"]
    (command,) = pip(found, "install", "--force-reinstall", "--no-deps", "colours==2.0")
    subprocess.run(shlex.split(command), check=True, env={**os.environ, **places})
    assert subprocess.run(says, capture_output=True, text=True, check=True).stdout == "2\n"
    (command,) = pip(found, "uninstall", "-y", "colours")
    subprocess.run(shlex.split(command), check=True, env={**os.environ, **places}, stdin=subprocess.DEVNULL)
    assert subprocess.run(says, capture_output=True, check=False).returncode == 1
