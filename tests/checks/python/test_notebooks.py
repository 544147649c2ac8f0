"""NBK: notebooks and editors."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest
from built_ground_broken import BARE
from built_machines import variables
from healthy import distribution, target

from tfgpu_doctor.checks.python.notebooks import (
    editor_runs_target,
    kernel_runs_target,
    kernels_have_library_path,
    notebook_runs_target,
    shell_finds_kernels_python,
)
from tfgpu_doctor.model.facts.notebooks import EditorSetting, Interpreter, Kernel, Notebooks
from tfgpu_doctor.model.facts.resolution import Resolution, ResolvedLibrary

if TYPE_CHECKING:
    from checks.conftest import Judge

OTHER = Interpreter(
    path="/home/user/miniconda3/envs/tf/bin/python", prefix="/home/user/miniconda3/envs/tf", is_target=False
)
SAME = Interpreter(path="/home/user/venv/bin/python", prefix="/home/user/venv", is_target=True)
UNKNOWN = Interpreter(path="python")
GONE = Interpreter(path="/home/user/old/bin/python", exists=False, is_target=False)


def kernels(*interpreters: Interpreter, **changes: Any) -> Notebooks:
    found = (
        Kernel(name=f"k{place}", folder=f"/jupyter/kernels/k{place}", interpreter=each)
        for place, each in enumerate(interpreters)
    )
    return Notebooks(kernels=tuple(found), **changes)


# NBK001


def test_outside_of_a_notebook_there_is_nothing_to_compare(judge: Judge) -> None:
    assert (
        judge.skips(notebook_runs_target, notebooks=kernels(OTHER))
        == "this process was not started by a notebook kernel"
    )


def test_a_notebook_that_runs_the_target(judge: Judge) -> None:
    assert SAME.path in judge.passes(notebook_runs_target, notebooks=Notebooks(running=SAME))


def test_a_python_that_may_be_another_is_not_the_target(judge: Judge) -> None:
    setting = EditorSetting(file="/p/.vscode/settings.json", interpreter=UNKNOWN)
    assert "is unknown" in judge.skips(notebook_runs_target, notebooks=Notebooks(running=UNKNOWN))
    assert "is unknown" in judge.skips(kernel_runs_target, notebooks=kernels(OTHER, UNKNOWN))
    assert "is unknown" in judge.skips(editor_runs_target, notebooks=Notebooks(settings=(setting,)))
    assert judge.passes(kernel_runs_target, notebooks=kernels(UNKNOWN, SAME))


@pytest.mark.parametrize(
    ("named", "bare", "severity"), [(False, True, "error"), (False, False, "warning"), (True, True, "info"), (True, False, "info")]
)  # fmt: skip
def test_a_notebook_of_another_environment(judge: Judge, named: bool, bare: bool, severity: str) -> None:
    found = Notebooks(running=OTHER, inside="Jupyter", target_was_named=named)
    [finding] = judge.findings(notebook_runs_target, notebooks=found, target=target(**BARE) if bare else target())
    assert (finding.cause, finding.severity) == ("wrong_python_environment", severity)
    assert finding.fix and finding.fix.commands == (f"tfgpu-doctor --python {OTHER.path}",)


def test_the_command_survives_a_blank_in_the_path(judge: Judge) -> None:
    running = Interpreter(path="/home/jane doe/venv/bin/python", is_target=False)
    [finding] = judge.findings(notebook_runs_target, notebooks=Notebooks(running=running))
    assert finding.fix
    assert shlex.split(finding.fix.commands[0])[-1] == "/home/jane doe/venv/bin/python"


# NBK002


@pytest.mark.parametrize("found", [kernels(SAME), kernels(OTHER, SAME), kernels(OTHER, running=SAME)])
def test_a_kernel_that_runs_the_target(judge: Judge, found: Notebooks) -> None:
    assert "kernel 'k0' starts" in judge.passes(kernel_runs_target, notebooks=found)


def test_no_kernel_runs_the_target(judge: Judge) -> None:
    [finding] = judge.findings(kernel_runs_target, notebooks=kernels(OTHER))
    assert (finding.cause, finding.severity) == ("wrong_python_environment", "info")
    assert finding.fix and finding.fix.commands == (
        "/home/user/venv/bin/python -m pip install ipykernel",
        "/home/user/venv/bin/python -m ipykernel install --user --name venv",
    )


def test_the_doctors_own_environment_is_given_no_kernel(judge: Judge) -> None:
    own = {**BARE, "is_of_one_tool": True, "distributions": (distribution("tfgpu-doctor", "1.0.0"),)}
    assert judge.passes(kernel_runs_target, notebooks=kernels(OTHER), target=target(**own))


def test_a_python_that_refuses_pip_is_given_no_kernel(judge: Judge) -> None:
    [finding] = judge.findings(kernel_runs_target, notebooks=kernels(OTHER), target=target(externally_managed=True))
    assert finding.fix and finding.fix.commands == ()


def test_a_kernel_whose_python_is_gone(judge: Judge) -> None:
    [finding] = judge.findings(kernel_runs_target, notebooks=kernels(SAME, GONE))
    assert finding.message == "the kernel 'k1' starts /home/user/old/bin/python, which does not exist"
    assert finding.severity == "info"
    assert finding.fix and "jupyter kernelspec remove k1" in finding.fix.text


def test_who_has_no_jupyter_needs_no_kernel(judge: Judge) -> None:
    assert judge.skips(kernel_runs_target, notebooks=Notebooks())


# NBK003


def test_an_editor_with_another_python(judge: Judge) -> None:
    found = Notebooks(settings=(EditorSetting(file="/p/.vscode/settings.json", interpreter=OTHER),))
    [finding] = judge.findings(editor_runs_target, notebooks=found)
    assert (finding.cause, finding.severity) == ("wrong_python_environment", "info")
    assert "/p/.vscode/settings.json" in finding.evidence


@pytest.mark.parametrize("interpreter", [SAME])
def test_an_editor_with_the_target(judge: Judge, interpreter: Interpreter) -> None:
    found = Notebooks(settings=(EditorSetting(file="/p/.vscode/settings.json", interpreter=interpreter),))
    assert interpreter.path in judge.passes(editor_runs_target, notebooks=found)


def test_without_settings_no_editor_is_judged(judge: Judge) -> None:
    assert judge.skips(editor_runs_target, notebooks=Notebooks())


# NBK004


def library(found_by: str) -> Resolution:
    path = "/opt/cuda/lib64/libcudart.so.12"
    taken = ResolvedLibrary(
        soname="libcudart.so.12", found=True, needed_by_tensorflow=True, path=path, found_by=found_by
    )
    return Resolution(libraries=(taken,))


SHELL = variables(LD_LIBRARY_PATH="/opt/cuda/lib64")


def test_a_kernel_that_lacks_the_shells_library_path(judge: Judge) -> None:
    [finding] = judge.findings(
        kernels_have_library_path,
        notebooks=kernels(OTHER, SAME),
        environment=SHELL,
        resolution=library("LD_LIBRARY_PATH"),
    )
    assert (finding.cause, finding.severity) == ("env_vars_not_inherited_by_ide_or_notebook", "info")
    assert "kernel 'k1'" in finding.message
    assert finding.fix and '"env": {"LD_LIBRARY_PATH": "/opt/cuda/lib64"}' in finding.fix.text


@pytest.mark.parametrize("found_by", ["RUNPATH", "ld.so.cache"])
def test_libraries_that_are_found_without_it(judge: Judge, found_by: str) -> None:
    found = kernels(SAME)
    assert judge.passes(kernels_have_library_path, notebooks=found, environment=SHELL, resolution=library(found_by))


def test_a_kernel_that_sets_it(judge: Judge) -> None:
    kernel = Kernel(name="tf", folder="/k/tf", interpreter=SAME, variables={"LD_LIBRARY_PATH": "/opt/cuda/lib64"})
    found = Notebooks(kernels=(kernel,))
    assert judge.passes(
        kernels_have_library_path, notebooks=found, environment=SHELL, resolution=library("LD_LIBRARY_PATH")
    )


@pytest.mark.parametrize("found", [Notebooks(), kernels(OTHER), kernels(SAME, inside="Jupyter")])
def test_where_no_notebook_would_differ_nothing_is_judged(judge: Judge, found: Notebooks) -> None:
    reason = judge.skips(
        kernels_have_library_path, notebooks=found, environment=SHELL, resolution=library("LD_LIBRARY_PATH")
    )
    assert reason == "there is no notebook kernel to compare with"


def test_without_the_variable_nothing_is_lost(judge: Judge) -> None:
    reason = judge.skips(kernels_have_library_path, notebooks=kernels(SAME), resolution=library("RUNPATH"))
    assert reason == "LD_LIBRARY_PATH is not set"


# NBK005


def test_a_shell_that_finds_the_kernels_python(judge: Judge) -> None:
    assert "its shell finds" in judge.passes(shell_finds_kernels_python, notebooks=Notebooks(running=SAME, shell=SAME))


@pytest.mark.parametrize(
    ("has_it", "bare", "severity"), [(True, True, "error"), (True, False, "info"), (False, True, "info"), (None, True, "info")]
)  # fmt: skip
def test_a_shell_that_finds_another(judge: Judge, has_it: bool | None, bare: bool, severity: str) -> None:
    found = Notebooks(running=SAME, shell=OTHER, shell_has_tensorflow=has_it)
    [finding] = judge.findings(shell_finds_kernels_python, notebooks=found, target=target(**BARE) if bare else target())
    assert (finding.cause, finding.severity) == ("wrong_python_environment", severity)
    assert OTHER.path in finding.message
    assert SAME.path in finding.message
    assert finding.fix and "%pip" in finding.fix.text
    assert bool(finding.fix.commands) == (severity == "error")


@pytest.mark.parametrize(
    "found",
    [
        Notebooks(),
        Notebooks(running=SAME),
        Notebooks(running=OTHER, shell=OTHER),
        Notebooks(running=SAME, shell=UNKNOWN),
    ],
)
def test_where_no_shell_can_be_compared_nothing_is_judged(judge: Judge, found: Notebooks) -> None:
    assert judge.skips(shell_finds_kernels_python, notebooks=found)
