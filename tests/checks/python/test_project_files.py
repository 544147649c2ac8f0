"""PKG010, PKG011: what the project asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from built_ground_broken import BARE, without_tensorflow
from built_machines import packages, variables
from healthy import distribution, target

from tfgpu_doctor.checks.python.project_files import legacy_keras_is_installed, requirements_exist
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.project import Project, ProjectRequirement

if TYPE_CHECKING:
    from checks.conftest import Judge


def project(*words: str) -> Project:
    return Project(requirements=tuple(ProjectRequirement(file="/p/requirements.txt", words=each) for each in words))


@pytest.mark.parametrize(
    "words",
    ["tensorflow-gpu", "tensorflow_gpu", "Tensorflow-GPU", "tensorflow-gpu>=2.8", "tensorflow-gpu==2.12", "tensorflow-gpu==2.12.0",
     "tensorflow-gpu==2.15.1", "tensorflow-gpu>=2.13,<2.16", "tensorflow-gpu==2.13.*", "tensorflow-gpu~=2.12"],
)  # fmt: skip
def test_a_package_that_holds_nothing(judge: Judge, words: str) -> None:
    finding = judge.finding(requirements_exist, project=project("numpy", words), target=target(**BARE))
    assert (finding.cause, finding.severity) == ("tensorflow_gpu_package_removed", "error")
    assert words in finding.message
    assert finding.fix and finding.fix.commands == ("/home/user/venv/bin/python -m pip install 'tensorflow[and-cuda]'",)


@pytest.mark.parametrize(
    ("words", "python", "wanted"),
    [
        ("tensorflow-gpu==2.15.1", "3.11.9", "'tensorflow[and-cuda]==2.15.1'"),
        ("tensorflow_gpu == 2.16.1", "3.12.3", "'tensorflow[and-cuda]==2.16.1'"),
        ("tensorflow-gpu==2.12", "3.11.9", "tensorflow==2.12.0"),
        ("tensorflow-gpu==2.14.1", "3.11.9", "tensorflow==2.14.1"),
        ("tensorflow-gpu==2.15.99", "3.11.9", "'tensorflow[and-cuda]'"),
        ("tensorflow-gpu>=2.13", "3.8.10", "tensorflow==2.13.1"),
    ],
)
def test_the_release_that_the_project_names_is_required(judge: Judge, words: str, python: str, wanted: str) -> None:
    there = target(**{**BARE, "version": python})
    finding = judge.finding(requirements_exist, project=project(words), target=there)
    assert finding.fix and finding.fix.commands == (f"/home/user/venv/bin/python -m pip install {wanted}",)
    assert f"`{wanted.strip(chr(39))}`" in finding.fix.text


def test_nothing_of_the_project_is_installed_into_the_doctors_own_environment(judge: Judge) -> None:
    own = {**BARE, "is_of_one_tool": True, "distributions": (distribution("tfgpu-doctor", "1.0.0"),)}
    reason = judge.skips(requirements_exist, project=project("tensorflow-gpu"), target=target(**own))
    assert "tfgpu-doctor's own" in reason
    facts = without_tensorflow(target=target(**own), project=project("tensorflow-gpu"))
    assert [each.label for each in diagnose(facts).causes] == ["wrong_python_environment"]


def test_a_python_without_a_release_is_replaced(judge: Judge) -> None:
    there = target(**{**BARE, "version": "3.99.0"})
    finding = judge.finding(requirements_exist, project=project("tensorflow-gpu"), target=there)
    assert finding.fix and finding.fix.commands[0].startswith("uv venv --seed --python 3.13 ")
    assert "no wheel for Python 3.99" in finding.fix.text


def test_on_arm_the_package_to_require_is_nvidias(judge: Judge) -> None:
    system = {"architecture": "aarch64", "cpu_flags": ("asimd",)}
    finding = judge.finding(requirements_exist, system=system, project=project("tensorflow-gpu"), target=target(**BARE))
    assert finding.fix and finding.fix.commands == ()
    assert "nvcr.io/nvidia/tensorflow" in finding.fix.text
    assert "and-cuda" not in finding.fix.text


@pytest.mark.parametrize("os", ["Darwin", "Windows"])
def test_the_cuda_extra_is_for_linux(judge: Judge, os: str) -> None:
    finding = judge.finding(
        requirements_exist, system={"os": os}, project=project("tensorflow-gpu"), target=target(**BARE)
    )
    assert finding.fix and finding.fix.text == "Replace it with `tensorflow`, and install again."
    assert finding.fix.commands == ("/home/user/venv/bin/python -m pip install tensorflow",)


@pytest.mark.parametrize(
    "words",
    ["tensorflow-gpu==2.10.1", "tensorflow-gpu<2.12", "tensorflow-gpu>=2.4,<2.11", "tensorflow-gpu~=2.8.0", "tensorflow-gpu^2.8",
     "tensorflow-gpu={version", "tensorflow[and-cuda]", "tensorflow>=2.15", "keras"],
)  # fmt: skip
def test_packages_that_can_be_had(judge: Judge, words: str) -> None:
    assert words in judge.passes(requirements_exist, project=project(words), target=target(**BARE))


def test_where_tensorflow_is_installed_an_old_line_is_no_fault(judge: Judge) -> None:
    assert judge.passes(requirements_exist, project=project("tensorflow-gpu"))


def test_a_project_that_asks_for_nothing_is_not_judged(judge: Judge) -> None:
    assert judge.skips(requirements_exist, project=Project())


# PKG011


@pytest.mark.parametrize("value", ["1", "true", "True"])
def test_legacy_keras_without_its_package(judge: Judge, value: str) -> None:
    finding = judge.finding(legacy_keras_is_installed, environment=variables(TF_USE_LEGACY_KERAS=value))
    assert (finding.cause, finding.severity) == ("keras3_incompatible_code", "warning")
    assert finding.fix and finding.fix.commands == ("/home/user/venv/bin/python -m pip install 'tf_keras~=2.20.0'",)


def test_legacy_keras_with_its_package(judge: Judge) -> None:
    environment = variables(TF_USE_LEGACY_KERAS="1")
    assert "tf_keras 2.20.1" in judge.passes(
        legacy_keras_is_installed, environment=environment, target=packages(("tf-keras", "2.20.1"))
    )


@pytest.mark.parametrize("value", [None, "", "0", "false", "yes", "TRUE"])
def test_values_that_tensorflow_does_not_know_ask_for_nothing(judge: Judge, value: str | None) -> None:
    environment = variables(**({} if value is None else {"TF_USE_LEGACY_KERAS": value}))
    assert judge.passes(legacy_keras_is_installed, environment=environment)


def test_before_keras_3_there_is_no_other(judge: Judge) -> None:
    environment = variables(TF_USE_LEGACY_KERAS="1")
    assert judge.skips(legacy_keras_is_installed, environment=environment, tensorflow={"version": "2.15.1"})
