"""The probe of notebooks and editors: files under a made-up home, and processes above a real one."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from healthy import target
from locations import TESTS

from tfgpu_doctor.collect.probe import Request
from tfgpu_doctor.collect.probes.notebooks import notebooks
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.notebooks import Notebooks
from tfgpu_doctor.model.facts.python import Target

if TYPE_CHECKING:
    from collect.probes.conftest import Machine


class Home:
    """A home folder with environments, kernels and a project."""

    def __init__(self, place: pathlib.Path) -> None:
        self.place = place
        self.own = self.environment("venv")

    def environment(self, name: str, mark: str = "pyvenv.cfg") -> str:
        """A virtual environment, as far as files tell; its interpreter."""
        python = self.place / name / "bin/python"
        python.parent.mkdir(parents=True)
        python.touch()
        (self.place / name / mark).mkdir() if mark == "conda-meta" else (self.place / name / mark).touch()
        return str(python)

    def kernel(
        self, name: str, *argv: str, data: str = ".local/share/jupyter", language: str = "python", **row: Any
    ) -> str:
        """A kernel of Jupyter in some data folder."""
        folder = self.place / data / "kernels" / name
        folder.mkdir(parents=True)
        (folder / "kernel.json").write_text(
            json.dumps(
                {"argv": [*argv, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": language, **row}
            )
        )
        return str(folder)

    def target(self, **changes: Any) -> Target:
        """The environment that is examined: ~/venv, from ~/project."""
        prefix = str(self.place / "venv")
        return target(executable=self.own, prefix=prefix, working_folder=str(self.place / "project"), **changes)


@pytest.fixture
def home(tmp_path: pathlib.Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


def look(machine: Machine, home: Home, **variables: str) -> Notebooks:
    found = machine.ask(notebooks, environment={"HOME": str(home.place), **variables}, target=home.target())
    assert isinstance(found, Notebooks)
    return found


def test_where_jupyter_was_never_used_there_is_nothing(machine: Machine, home: Home) -> None:
    found = look(machine, home)
    assert (found.kernels, found.settings, found.inside, found.running) == ((), (), "", None)


def test_kernels_of_the_user(machine: Machine, home: Home) -> None:
    folder = home.kernel("tf", home.own, display_name="TensorFlow")
    home.kernel("other", home.environment("other"))
    home.kernel("conda", home.environment("miniconda3/envs/x", mark="conda-meta"))
    home.kernel("gone", str(home.place / "old/bin/python"))
    home.kernel("ir", "R", language="R")
    found = {kernel.name: kernel for kernel in look(machine, home).kernels}
    assert set(found) == {"tf", "other", "conda", "gone"}
    assert found["tf"].folder == folder
    assert [(name, found[name].interpreter.is_target, found[name].interpreter.exists) for name in sorted(found)] == [
        ("conda", False, True), ("gone", False, False), ("other", False, True), ("tf", True, True),
    ]  # fmt: skip
    assert found["other"].interpreter.prefix == str(home.place / "other")


def test_a_bare_name_is_the_servers_own_python(machine: Machine, home: Home) -> None:
    home.kernel("python3", "python", data="venv/share/jupyter")
    home.kernel("elsewhere", "python3.12")
    found = {kernel.name: kernel.interpreter.is_target for kernel in look(machine, home).kernels}
    assert found == {"python3": True, "elsewhere": None}


def test_of_two_kernels_with_one_name_jupyter_takes_the_users(machine: Machine, home: Home) -> None:
    home.kernel("python3", "python", data="venv/share/jupyter")
    home.kernel("python3", home.environment("other"))
    [kernel] = look(machine, home).kernels
    assert kernel.interpreter.is_target is False


def test_of_a_kernels_variables_only_those_that_matter_are_kept(machine: Machine, home: Home) -> None:
    home.kernel("tf", home.own, env={"LD_LIBRARY_PATH": "/opt/cuda/lib64", "API_TOKEN": "sesame"})
    [kernel] = look(machine, home).kernels
    assert kernel.variables == {"LD_LIBRARY_PATH": "/opt/cuda/lib64"}


def test_variables_move_jupyters_folders(machine: Machine, home: Home) -> None:
    home.kernel("a", home.own, data="data")
    home.kernel("b", home.own, data="path")
    found = look(machine, home, JUPYTER_DATA_DIR=str(home.place / "data"), JUPYTER_PATH=str(home.place / "path"))
    assert {kernel.name for kernel in found.kernels} == {"a", "b"}


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"argv": [], "language": "python"}', '{"argv": 3, "language": "python"}', "\0"]
)
def test_a_damaged_kernel_is_left_out(machine: Machine, home: Home, content: str) -> None:
    folder = pathlib.Path(home.kernel("bad", home.own))
    (folder / "kernel.json").write_text(content)
    assert look(machine, home).kernels == ()


@pytest.mark.parametrize("program", ["/usr/bin/env", "/bin/sh", "conda", "{resource_dir}/helper.sh"])
def test_a_program_that_is_no_python_may_start_any(machine: Machine, home: Home, program: str) -> None:
    """`env python`, `conda run -n tf python`, a container, a script of the site that loads modules first."""
    home.kernel("site", program)
    [kernel] = look(machine, home).kernels
    assert (kernel.interpreter.path, kernel.interpreter.is_target) == (program, None)
    assert kernel.interpreter.exists


def test_a_script_that_is_gone_starts_none(machine: Machine, home: Home) -> None:
    home.kernel("site", "/opt/site/launch.sh")
    [kernel] = look(machine, home).kernels
    assert (kernel.interpreter.exists, kernel.interpreter.is_target) == (False, None)


def test_a_shim_may_stand_for_any_python(machine: Machine, home: Home) -> None:
    home.kernel("pyenv", str(home.place / ".pyenv/shims/python"))
    [kernel] = look(machine, home).kernels
    assert kernel.interpreter.is_target is None


def test_two_names_of_one_plain_python_are_one(machine: Machine, home: Home, tmp_path: pathlib.Path) -> None:
    (tmp_path / "python3.12").touch()
    (tmp_path / "python3").symlink_to("python3.12")
    home.kernel("system", str(tmp_path / "python3"))
    plain = target(executable=str(tmp_path / "python3.12"), prefix=str(tmp_path), base_prefix=str(tmp_path))
    found = machine.ask(notebooks, environment={"HOME": str(home.place)}, target=plain)
    assert [kernel.interpreter.is_target for kernel in found.kernels] == [True]


@pytest.mark.parametrize(
    ("value", "is_target"),
    [
        ("${workspaceFolder}/../venv/bin/python", True),
        ("~/other/bin/python", False),
        ("${env:HOME}/other", False),
        ("python", None),
        ("${command:python.interpreterPath}", None),
    ],
)
def test_the_editors_settings(machine: Machine, home: Home, value: str, is_target: bool | None) -> None:
    home.environment("other")
    file = home.place / "project/.vscode/settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(f'{{\n  // chosen by hand\n  "python.defaultInterpreterPath": "{value}",\n}}\n')
    [setting] = look(machine, home).settings
    assert (setting.file, setting.interpreter.is_target) == (str(file), is_target)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"python.defaultInterpreterPath": "/x/python"}', "/x/python"),
        ('{"editor.tabSize": 4, "python.pythonPath": "/x/python"}\r\n', "/x/python"),
        ('{\n  // "python.pythonPath": "/x/python"\n}\n', None),
        ('{\n  "a": 1, // "python.pythonPath": "/x/python"\n}\n', None),
        ('{\n  "a": "http://x", "python.pythonPath": "/x/python"\n}\n', "/x/python"),
    ],
    ids=["one line", "behind another", "a comment", "a comment behind another", "behind an address"],
)
def test_settings_in_other_forms(machine: Machine, home: Home, text: str, path: str | None) -> None:
    file = home.place / "project/.vscode/settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert [each.interpreter.path for each in look(machine, home).settings] == ([path] if path else [])


@pytest.mark.parametrize(
    ("variables", "inside"),
    [
        ({"JPY_PARENT_PID": "5"}, "Jupyter"), ({"PYCHARM_HOSTED": "1"}, "PyCharm"), ({"VSCODE_PID": "7"}, "VS Code"),
        ({"TERM_PROGRAM": "vscode"}, "VS Code"), ({"TERM_PROGRAM": "tmux"}, ""), ({}, ""),
    ],
)  # fmt: skip
def test_who_started_this(machine: Machine, home: Home, variables: dict[str, str], inside: str) -> None:
    assert look(machine, home, **variables).inside == inside


def processes(machine: Machine, *argvs: tuple[str, ...]) -> None:
    """The processes above this one, the nearest first."""
    machine.file("/proc/self/status", "Name:\tpython\nPPid:\t100\n")
    for place, argv in enumerate(argvs):
        above = 101 + place if place + 1 < len(argvs) else 1
        machine.file(f"/proc/{100 + place}/status", f"Name:\tx\nPPid:\t{above}\n")
        machine.file(f"/proc/{100 + place}/cmdline", "\0".join(argv) + "\0")


@pytest.mark.parametrize("program", ["ipykernel_launcher", "/usr/lib/python3/dist-packages/ipykernel_launcher.py", "colab_kernel_launcher", "db_ipykernel_launcher.py"])  # fmt: skip
def test_the_kernel_that_started_this(machine: Machine, home: Home, program: str) -> None:
    other = home.environment("other")
    processes(machine, ("/bin/sh", "-c", "tfgpu-doctor"), (other, "-m", program, "-f", "/x.json"), ("jupyter-lab",))
    found = look(machine, home)
    assert found.running is not None
    assert (found.running.path, found.running.is_target, found.inside) == (other, False, "Jupyter")


def kernel_itself(machine: Machine) -> None:
    """Make this process the kernel."""
    machine.file("/proc/self/status", "Name:\tpython\nPPid:\t100\n")
    machine.file("/proc/self/cmdline", f"{sys.executable}\0-m\0ipykernel_launcher\0-f\0/x.json\0")


def test_the_kernel_itself_and_what_its_shell_finds(machine: Machine, home: Home) -> None:
    kernel_itself(machine)
    other = home.environment("other")
    (home.place / "other/lib/python3.12/site-packages/tensorflow").mkdir(parents=True)
    (home.place / "other/lib/python3.12/site-packages/tensorflow/__init__.py").touch()
    found = look(machine, home, PATH=f"{home.place}/nothing:{home.place}/other/bin:{home.place}/venv/bin")
    assert found.running is not None
    assert found.shell is not None
    assert (found.running.path, found.inside) == (sys.executable, "Jupyter")
    assert (found.shell.path, found.shell.is_target, found.shell_has_tensorflow) == (other, False, True)
    found = look(machine, home, PATH=f"{home.place}/venv/bin:{home.place}/other/bin")
    assert found.shell is not None
    assert (found.shell.path, found.shell.is_target, found.shell_has_tensorflow) == (home.own, True, False)


def test_the_plain_python_below_a_virtual_environment_is_another(machine: Machine, home: Home) -> None:
    kernel_itself(machine)
    plain = home.place / "usr/bin/python3"
    plain.parent.mkdir(parents=True)
    plain.touch()
    link = pathlib.Path(home.own)
    link.unlink()
    link.symlink_to(plain)
    below = home.target(base_prefix=str(home.place / "usr"))
    found = machine.ask(notebooks, environment={"HOME": str(home.place), "PATH": str(plain.parent)}, target=below)
    assert (found.shell.path, found.shell.is_target) == (str(plain), False)


@pytest.mark.parametrize("path", ["", "bin", "/there/is/nothing"])
def test_a_kernel_whose_shell_finds_no_python(machine: Machine, home: Home, path: str) -> None:
    kernel_itself(machine)
    assert look(machine, home, PATH=path).shell is None


def test_a_shell_under_a_notebook_server_is_no_notebook(machine: Machine, home: Home) -> None:
    processes(machine, ("bash",), ("/usr/bin/python3", "/usr/local/bin/jupyter-lab", "--port=8888"))
    assert look(machine, home).running is None


def test_a_ring_of_parents_comes_to_an_end(machine: Machine, home: Home) -> None:
    machine.file("/proc/self/status", "PPid:\t100\n")
    machine.file("/proc/100/status", "PPid:\t100\n")
    assert look(machine, home).running is None


def test_the_target_was_named(machine: Machine, home: Home) -> None:
    named = machine.ask(notebooks, target=home.target(), request=Request(python="/elsewhere/python"))
    assert named.target_was_named
    assert not look(machine, home).target_was_named


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows who started whom")
def test_a_real_process_sees_its_kernel(tmp_path: pathlib.Path) -> None:
    """A program called as a kernel is, which runs the doctor's probe as `!command` in a cell does: by a shell."""
    (tmp_path / "ipykernel_launcher.py").write_text(
        "import subprocess, sys; subprocess.run(sys.argv[1], shell=True, check=True)"
    )
    probe = (
        "from healthy import target; from tfgpu_doctor.host import Host; from tfgpu_doctor.collect.probe import Request;"
        "from tfgpu_doctor.collect.probes.notebooks import notebooks; import sys;"
        "found = notebooks.function(Host(), Request(python=sys.executable), target(executable=sys.executable, prefix=sys.prefix));"
        "print(found.running.path, found.running.is_target)"
    )
    (tmp_path / "probe.py").write_text(probe)
    paths = os.pathsep.join([str(tmp_path), str(TESTS / "support")])
    done = subprocess.run(
        [sys.executable, "-m", "ipykernel_launcher", f"{sys.executable} {tmp_path}/probe.py"],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [sys.executable, "True"]


def test_this_process_runs_in_no_notebook() -> None:
    found = notebooks.function(Host(environment={}), Request(python=sys.executable), target())
    assert found.running is None
