"""PKG: is this the right Python, with one TensorFlow in it?"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_machines import conda, failed_import, packages, variables
from healthy import SITE, broken, cuda_gpu, distribution, runtime, target

from tfgpu_doctor.checks.python.environment import (
    one_distribution_owns_tensorflow,
    one_installer,
    python_answers,
    tensorflow_is_installed,
)
from tfgpu_doctor.checks.python.import_order import no_local_file_hides_modules, user_site_hides_nothing
from tfgpu_doctor.diagnose.engine import diagnose, run_checks
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.notebooks import Notebooks
from tfgpu_doctor.model.facts.python import Runtime, Target

if TYPE_CHECKING:
    from checks.conftest import Judge

PYTHON = "/home/user/venv/bin/python"
UNUSED = runtime(gpus=(), computations=())
JANES = "/home/jane doe/venv/bin/python"


# PKG001


def test_a_python_that_answers_passes(judge: Judge) -> None:
    assert judge.passes(python_answers) == f"Python 3.12.7 at {PYTHON}"


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (Attempt(outcome="failed", exit_code=1, error="ImportError: no json", stderr=("ImportError",)), "exit code 1"),
        (Attempt(outcome="killed_by_signal", signal="SIGSEGV", stderr=("Fatal",)), "was killed by SIGSEGV"),
        (Attempt(outcome="timed_out", seconds=20.0, stderr=("...",)), "did not respond within 20 s"),
    ],
)
def test_a_python_that_does_not_answer_is_the_wrong_one(judge: Judge, attempt: Attempt, words: str) -> None:
    finding = judge.finding(python_answers, target=Target(attempt=attempt, executable="/opt/python"), runtime=None)
    assert (finding.cause, finding.severity) == ("wrong_python_environment", "error")
    assert finding.message.startswith("the Python /opt/python ")
    assert words in finding.message
    assert finding.evidence == attempt.stderr
    assert finding.fix and "(`tfgpu-doctor --python PATH` examines it)" in finding.fix.text


def test_a_python_that_is_not_there_has_its_evidence(judge: Judge) -> None:
    attempt = Attempt(outcome="not_started", error="No such file or directory")
    finding = judge.finding(python_answers, target=Target(attempt=attempt, executable="/opt/python"))
    assert "No such file or directory" in finding.message


@pytest.mark.parametrize(
    "attempt",
    [
        Attempt(outcome="not_started", error="Resource temporarily unavailable"),
        Attempt(outcome="not_started", error="Too many open files"),
        Attempt(outcome="not_started", error="Cannot allocate memory"),
        Attempt(outcome="failed", exit_code=1, error="MemoryError"),
    ],
)
def test_what_the_doctor_lacks_is_no_fault_of_the_python(judge: Judge, attempt: Attempt) -> None:
    """The limits have checks of their own, and nothing can be said of the packages."""
    unread = Target(attempt=attempt, executable="/opt/python")
    assert attempt.ending in judge.skips(python_answers, target=unread, runtime=None)
    facts = broken(target=unread, runtime=None, tensorflow=None)
    results = run_checks(facts, [python_answers, tensorflow_is_installed])
    assert [each.outcome for each in results.values()] == ["skip", "skip"]


def test_packages_that_take_too_long_are_not_measured_where_tensorflow_ran(judge: Judge) -> None:
    """On a slow file system, the metadata of many packages takes longer than TensorFlow's own import."""
    unread = Target(attempt=Attempt(outcome="timed_out", seconds=120.0), executable="/opt/python")
    assert "TensorFlow 2.20.0 ran in it" in judge.skips(python_answers, target=unread)
    phase = "importing TensorFlow: 1240 modules after 118 s"
    importing = Runtime(attempt=Attempt(outcome="timed_out", seconds=120.0, phase=phase))
    assert "it was importing TensorFlow meanwhile" in judge.skips(python_answers, target=unread, runtime=importing)
    report = diagnose(broken(target=unread, tensorflow=None))
    assert report.computes
    assert [each.id for each in report.results if each.outcome in ("fail", "crash")] == []


PROGRAM = "/home/user/.local/lib/python3.12/site-packages/tfgpu_doctor/collect/workers/describe_target.py"


def unread(error: str, *lines: str) -> Attempt:
    return Attempt(outcome="failed", exit_code=1, error=error, stderr=(*lines, error))


@pytest.mark.parametrize(
    ("error", "line", "words", "last"),
    [
        ("SyntaxError: future feature annotations is not defined", "    from __future__ import annotations",
         "/usr/bin/python3 is Python 3.6: too old", "TensorFlow 2.6.2 is the last release with wheels for Python 3.6"),
        ("SyntaxError: invalid syntax", "    def canonical(name: str) -> str:", "/usr/bin/python3 is a Python before 3.6: too old", ""),
    ],
)  # fmt: skip
def test_a_python_that_is_too_old_for_the_doctor_is_not_broken(
    judge: Judge, error: str, line: str, words: str, last: str
) -> None:
    """RHEL 8's /usr/bin/python3 is 3.6."""
    attempt = unread(error, f'  File "{PROGRAM}", line 3', line, "    ^")
    finding = judge.finding(python_answers, target=Target(attempt=attempt, executable="/usr/bin/python3"), runtime=None)
    assert (finding.cause, finding.severity, finding.confidence) == ("unsupported_python_version", "error", "medium")
    assert finding.message.startswith(words)
    assert (last in finding.evidence) is bool(last)
    assert (
        finding.fix and "(`tfgpu-doctor --python PATH` examines it); it must be Python 3.7 or newer" in finding.fix.text
    )
    assert finding.fix.commands[0] == "uv venv --seed --python 3.13 tensorflow-gpu"
    on_arm = judge.finding(
        python_answers, system=ARM, target=Target(attempt=attempt, executable="/usr/bin/python3"), runtime=None
    )
    assert on_arm.fix and on_arm.fix.commands == ()


@pytest.mark.parametrize(
    "attempt",
    [
        unread(
            "SyntaxError: invalid syntax", f'  File "{PROGRAM}", line 5, in <module>', '  File "/proj/json.py", line 1'
        ),
        unread("SyntaxError: invalid syntax"),
        unread("ImportError: no json", f'  File "{PROGRAM}", line 5'),
    ],
)
def test_a_python_that_cannot_read_another_file_is_not_old(judge: Judge, attempt: Attempt) -> None:
    finding = judge.finding(python_answers, target=Target(attempt=attempt, executable="/usr/bin/python3"), runtime=None)
    assert finding.cause == "wrong_python_environment"


def test_a_python_that_does_not_answer_is_not_evidence(judge: Judge) -> None:
    attempt = Attempt(outcome="timed_out", seconds=20.0, stderr=("...",))
    unread = Target(attempt=attempt, executable="/opt/python")
    assert len(judge(python_answers, target=unread, runtime=None)) == 1


# PKG002

BARE: dict[str, Any] = {
    "tensorflow_file": "",
    "tensorflow_owners": (),
    "distributions": (distribution("pip", "24.0"),),
    "nvidia_libraries": (),
}
DEACTIVATED = Environment()


@pytest.mark.parametrize("version", ["3.12.7", "3.7.17", "3.14.2", "4.0.0", ""])
def test_a_tensorflow_that_is_there_is_installed(judge: Judge, version: str) -> None:
    assert judge.passes(tensorflow_is_installed, target=target(version=version)) == f"{SITE}/tensorflow/__init__.py"


@pytest.mark.parametrize("version", ["3.9.1", "3.10.14", "3.12.7", "3.13.0"])
def test_a_python_without_tensorflow_is_the_wrong_one(judge: Judge, version: str) -> None:
    finding = judge.finding(tensorflow_is_installed, target=target(version=version, **BARE), environment=DEACTIVATED)
    assert (finding.cause, finding.severity) == ("wrong_python_environment", "error")
    assert finding.evidence == (f"no tensorflow on the search path of {PYTHON}",)
    assert finding.fix and finding.fix.commands == (f"{PYTHON} -m pip install 'tensorflow[and-cuda]'",)
    assert "(`tfgpu-doctor --python PATH` examines it)" in finding.fix.text


@pytest.mark.parametrize(
    ("capabilities", "cap"),
    [(("6.1",), " 'nvidia-cudnn-cu12<9.11'"), (("8.6", "7.0"), " 'nvidia-cudnn-cu12<9.11'"), (("7.5",), "")],
)
def test_what_is_installed_has_code_for_the_gpus(judge: Judge, capabilities: tuple[str, ...], cap: str) -> None:
    listed = {"gpus": tuple(cuda_gpu(index, compute_capability=each) for index, each in enumerate(capabilities))}
    finding = judge.finding(tensorflow_is_installed, target=target(**BARE), environment=DEACTIVATED, cuda_driver=listed)
    assert finding.fix and finding.fix.commands == (f"{PYTHON} -m pip install 'tensorflow[and-cuda]'{cap}",)
    there = target(**BARE, bits=32)
    finding = judge.finding(tensorflow_is_installed, target=there, environment=DEACTIVATED, cuda_driver=listed)
    assert finding.fix and finding.fix.commands[1].endswith(f" 'tensorflow[and-cuda]'{cap}")


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_another_environment_that_is_active_is_the_one_to_diagnose(judge: Judge, variable: str) -> None:
    there = target(executable="/opt/pipx/doctor/bin/python", prefix="/opt/pipx/doctor", **BARE)
    environment = Environment(variables={variable: "/home/user/project/.venv"})
    finding = judge.finding(tensorflow_is_installed, target=there, environment=environment)
    assert finding.cause == "wrong_python_environment"
    assert "another environment is active: /home/user/project/.venv" in finding.evidence
    assert finding.fix and finding.fix.commands == ("tfgpu-doctor --python /home/user/project/.venv",)


def test_a_python_that_was_named_is_the_one_to_install_into(judge: Judge) -> None:
    """Conda activates its base in every shell; whoever names a virtual environment does not mean conda's base."""
    base = Environment(variables={"CONDA_PREFIX": "/home/user/miniconda3"})
    named = Notebooks(target_was_named=True)
    finding = judge.finding(tensorflow_is_installed, target=target(**BARE), environment=base, notebooks=named)
    assert (finding.cause, finding.confidence) == ("wrong_python_environment", "high")
    assert finding.fix and finding.fix.commands == (f"{PYTHON} -m pip install 'tensorflow[and-cuda]'",)
    assert "another environment is active: /home/user/miniconda3" in finding.evidence
    assert "`tfgpu-doctor --python /home/user/miniconda3` examines the active one" in finding.fix.text


def test_a_python_that_was_named_may_refuse_pip(judge: Judge) -> None:
    there = target(executable="/usr/bin/python3", prefix="/usr", externally_managed=True, **BARE)
    finding = judge.finding(tensorflow_is_installed, target=there, notebooks=Notebooks(target_was_named=True))
    assert finding.cause == "externally_managed_python"
    assert finding.fix and finding.fix.commands == ()
    assert "`tfgpu-doctor --python /home/user/venv` examines the active one" in finding.fix.text


@pytest.mark.parametrize(
    ("changes", "words", "use"),
    [
        ({"implementation": "pypy", "version": "3.11.13"}, "PyPy (Python 3.11.13)", "Use CPython 3.12 or 3.13 for"),
        (
            {"implementation": "other"},
            "another implementation than CPython (Python 3.12.7)",
            "Use CPython 3.12 or 3.13 for",
        ),
        (
            {"free_threaded": True, "version": "3.13.1"},
            "free-threaded Python 3.13.1",
            "Use a Python 3.12 or 3.13 with the GIL",
        ),
    ],
)
def test_a_python_of_another_kind_has_no_wheel(judge: Judge, changes: dict[str, Any], words: str, use: str) -> None:
    finding = judge.finding(tensorflow_is_installed, target=target(**{**BARE, **changes}))
    assert (finding.cause, finding.confidence) == ("unsupported_python_version", "high")
    assert finding.message == f"TensorFlow is not installed and has no wheel for {words}"
    assert finding.fix and use in finding.fix.text
    assert finding.fix.commands[0] == "uv venv --seed --python 3.13 tensorflow-gpu"


@pytest.mark.parametrize("implementation", ["", "cpython"])  # records of older doctors do not tell
def test_a_python_of_the_usual_kind_may_have_a_wheel(judge: Judge, implementation: str) -> None:
    there = target(implementation=implementation, **BARE)
    assert judge.finding(tensorflow_is_installed, target=there).cause == "wrong_python_environment"


@pytest.mark.parametrize(
    ("system", "words", "advice"),
    [
        ({"glibc": "", "distribution": "Alpine Linux v3.22"}, "a Linux without glibc", "python:3.13-slim has it"),
        ({"architecture": "ppc64le"}, "Linux on ppc64le", "a build for this processor"),
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_a_machine_for_which_there_is_no_wheel(
    judge: Judge, system: dict[str, Any], words: str, advice: str, own: bool
) -> None:
    there = target(**(OWN if own else BARE))
    finding = judge.finding(tensorflow_is_installed, system=system, target=there, environment=DEACTIVATED)
    certain = "medium" if words == "a Linux without glibc" else "high"  # the target may have another C library
    assert (finding.cause, finding.confidence) == ("unsupported_python_version", certain)
    assert finding.message == f"TensorFlow is not installed and has no wheel for {words}"
    assert finding.fix and finding.fix.commands == ()
    assert advice in finding.fix.text


def test_where_there_is_no_wheel_another_environment_may_have_a_build(judge: Judge) -> None:
    environment = Environment(variables={"CONDA_PREFIX": "/home/user/miniconda3/envs/open-ce"})
    there = target(prefix="/opt/doctor", **BARE)
    finding = judge.finding(
        tensorflow_is_installed, system={"architecture": "ppc64le"}, target=there, environment=environment
    )
    assert finding.fix and finding.fix.commands == ("tfgpu-doctor --python /home/user/miniconda3/envs/open-ce",)


def left_behind(*owners: tuple[str, str], **changes: Any) -> Target:
    """What is left after `pip uninstall tensorflow-cpu` beside another: names, and no files."""
    listed = (distribution("pip", "24.0"), *(distribution(name, number) for name, number in owners))
    return target(
        **{**BARE, "distributions": listed, "tensorflow_owners": tuple(name for name, _ in owners), **changes}
    )


def test_a_package_whose_files_are_gone_is_installed_again(judge: Judge) -> None:
    """https://github.com/tensorflow/tensorflow/issues/20499: a plain `pip install tensorflow` then says "already satisfied"."""
    there = left_behind(("tensorflow", "2.15.1"))
    finding = judge.finding(tensorflow_is_installed, target=there, environment=DEACTIVATED)
    assert (finding.cause, finding.severity) == ("wrong_python_environment", "error")
    assert finding.message == (
        f"tensorflow 2.15.1 is listed as installed in {SITE}, but its package tensorflow is missing there"
    )
    assert "pip uninstall tensorflow-cpu" in finding.evidence[0]
    assert finding.fix and finding.fix.commands == (
        f"{PYTHON} -m pip install --force-reinstall --no-deps tensorflow==2.15.1",
    )


def test_of_builds_whose_files_are_gone_one_with_cuda_is_installed(judge: Judge) -> None:
    for owners in ((("tensorflow-cpu", "2.20.0"),), (("tensorflow", "2.20.0"), ("tensorflow-cpu", "2.20.0"))):
        finding = judge.finding(tensorflow_is_installed, target=left_behind(*owners), environment=DEACTIVATED)
        names = " ".join(sorted((name for name, _ in owners), reverse=True))
        assert finding.fix and finding.fix.commands == (
            f"{PYTHON} -m pip uninstall -y {names}",
            f"{PYTHON} -m pip install 'tensorflow[and-cuda]==2.20.0'",
        )


def test_files_that_are_gone_are_not_pips_where_pip_is_refused_or_has_no_cuda(judge: Judge) -> None:
    managed = left_behind(("tensorflow", "2.15.1"), externally_managed=True)
    finding = judge.finding(tensorflow_is_installed, target=managed, environment=DEACTIVATED)
    assert finding.fix and finding.fix.commands == ()
    assert "python3 -m venv" in finding.fix.text
    there = left_behind(("tensorflow", "2.15.1"))
    finding = judge.finding(tensorflow_is_installed, system=ARM, target=there, environment=DEACTIVATED)
    assert finding.fix and finding.fix.commands == ()
    assert "nvcr.io/nvidia/tensorflow" in finding.fix.text


def test_before_files_that_are_gone_the_active_environment_counts(judge: Judge) -> None:
    there = left_behind(("tensorflow", "2.15.1"), prefix="/opt/conda")
    finding = judge.finding(tensorflow_is_installed, target=there)
    assert finding.fix and finding.fix.commands == ("tfgpu-doctor --python /home/user/venv",)


def test_a_python_that_is_told_to_install_all_the_same_is_installed_into(judge: Judge) -> None:
    """Images set PIP_BREAK_SYSTEM_PACKAGES=1; a virtual environment would lack the image's packages."""
    there = target(
        executable="/usr/bin/python3", prefix="/usr", externally_managed=True, breaks_system_packages=True, **BARE
    )
    finding = judge.finding(tensorflow_is_installed, target=there, environment=DEACTIVATED)
    assert finding.cause == "wrong_python_environment"
    assert "rejects pip" not in finding.message
    assert finding.fix and finding.fix.commands == ("/usr/bin/python3 -m pip install 'tensorflow[and-cuda]'",)


LAYER: dict[str, Any] = {
    **BARE,
    "executable": "/home/user/.cache/uv/builds-v0/.tmpIUxDYD/bin/python",
    "prefix": "/home/user/.cache/uv/builds-v0/.tmpIUxDYD",
    "extends": "/home/user/project/.venv",
    "distributions": (distribution("tfgpu-doctor", "1.0.0", installer="uv"),),
}


def test_below_a_layer_of_uv_the_project_is_installed_into(judge: Judge) -> None:
    environment = variables(VIRTUAL_ENV=LAYER["prefix"])
    finding = judge.finding(tensorflow_is_installed, target=target(**LAYER), environment=environment)
    assert "tfgpu-doctor's own" not in finding.message
    assert finding.fix and finding.fix.commands == (
        "uv pip install --python /home/user/project/.venv/bin/python3 'tensorflow[and-cuda]'",
    )
    too_new = target(version="3.14.2", **LAYER)
    assert judge.finding(tensorflow_is_installed, target=too_new).cause == "unsupported_python_version"


OWN: dict[str, Any] = {
    **BARE,
    "executable": "/home/user/.local/share/pipx/venvs/tfgpu-doctor/bin/python",
    "prefix": "/home/user/.local/share/pipx/venvs/tfgpu-doctor",
    "distributions": (distribution("tfgpu-doctor", "1.0.0"),),
    "is_of_one_tool": True,
}


@pytest.mark.parametrize("version", ["3.12.7", "3.14.2"])
@pytest.mark.parametrize("named", [False, True])
def test_tensorflow_is_not_installed_into_the_doctors_own_environment(judge: Judge, version: str, named: bool) -> None:
    """Nobody trains in it: TensorFlow there would make the diagnosis healthy, and the user's Python would still have none."""
    finding = judge.finding(
        tensorflow_is_installed,
        target=target(version=version, **OWN),
        environment=DEACTIVATED,
        notebooks=Notebooks(target_was_named=named),
    )
    assert finding.cause == "wrong_python_environment"
    assert finding.message == "TensorFlow is not installed in this Python, which is tfgpu-doctor's own"
    assert finding.fix and "(`tfgpu-doctor --python PATH` examines it)" in finding.fix.text
    assert "https://docs.astral.sh/uv" in finding.fix.text
    assert finding.fix.commands == (
        "uv venv --seed --python 3.13 tensorflow-gpu",
        "uv pip install --python tensorflow-gpu 'tensorflow[and-cuda]'",
        "tfgpu-doctor --python tensorflow-gpu",
    )


def test_beside_the_doctors_own_environment_that_of_the_working_folder_counts(judge: Judge) -> None:
    """`uvx tfgpu-doctor` in a project of uv, whose environment nobody activates."""
    there = target(**OWN, beside="/home/user/project/.venv")
    finding = judge.finding(tensorflow_is_installed, target=there, environment=DEACTIVATED)
    assert finding.cause == "wrong_python_environment"
    assert finding.fix and finding.fix.commands == ("tfgpu-doctor --python /home/user/project/.venv",)
    assert "another environment is in the working folder: /home/user/project/.venv" in finding.evidence
    active = judge.finding(tensorflow_is_installed, target=there)
    assert active.fix and active.fix.commands == ("tfgpu-doctor --python /home/user/venv",)


@pytest.mark.parametrize("version", ["3.12.7", "3.14.2"])
def test_beside_the_doctors_own_environment_the_active_one_counts(judge: Judge, version: str) -> None:
    finding = judge.finding(tensorflow_is_installed, target=target(version=version, **OWN))
    assert finding.cause == "wrong_python_environment"
    assert finding.fix and finding.fix.commands == ("tfgpu-doctor --python /home/user/venv",)


def test_a_project_that_has_the_doctor_among_its_packages_is_not_the_doctors_own(judge: Judge) -> None:
    for changes in ({"is_of_one_tool": False}, {"distributions": (distribution("pip", "24.0"),)}):
        there = target(**{**OWN, **changes})
        finding = judge.finding(tensorflow_is_installed, target=there, environment=DEACTIVATED)
        assert finding.fix and "pip install" in finding.fix.commands[0]
        assert OWN["executable"] in finding.fix.commands[0]


@pytest.mark.parametrize("active", ["/home/user/venv", "/home/user/venv/", "/home/user/./venv", ""])
def test_an_environment_that_is_the_target_itself_is_no_other(judge: Judge, active: str) -> None:
    environment = Environment(variables={"VIRTUAL_ENV": active})
    finding = judge.finding(tensorflow_is_installed, target=target(**BARE), environment=environment)
    assert finding.fix and "pip install" in finding.fix.commands[0]


@pytest.mark.parametrize(
    ("version", "confidence"), [("3.7.17", "high"), ("2.7.18", "high"), ("3.14.0", "medium"), ("4.0.1", "medium")]
)
def test_a_python_without_a_wheel_is_not_supported(judge: Judge, version: str, confidence: str) -> None:
    finding = judge.finding(tensorflow_is_installed, target=target(version=version, **BARE))
    assert (finding.cause, finding.severity) == ("unsupported_python_version", "error")
    assert finding.confidence == confidence
    assert f"Python {version}" in finding.message
    assert ("may have no wheel" in finding.message) == (confidence == "medium")
    assert "3.10, 3.11, 3.12, 3.13" in finding.evidence[0]
    assert finding.fix and "3.12 or 3.13" in finding.fix.text
    assert finding.fix.commands == (
        "uv venv --seed --python 3.13 tensorflow-gpu",
        "uv pip install --python tensorflow-gpu 'tensorflow[and-cuda]'",
        "tfgpu-doctor --python tensorflow-gpu",
    )


@pytest.mark.parametrize("version", ["3.12.7", "3.14.0"])
def test_a_python_of_32_bits_is_not_supported(judge: Judge, version: str) -> None:
    finding = judge.finding(tensorflow_is_installed, target=target(bits=32, version=version, **BARE))
    assert (finding.cause, finding.confidence) == ("unsupported_python_version", "high")
    assert f"has no wheel for 32-bit Python {version}" in finding.message


def test_a_venv_inside_of_conda_is_the_active_one(judge: Judge) -> None:
    environment = Environment(variables={"VIRTUAL_ENV": "/home/user/venv", "CONDA_PREFIX": "/opt/conda"})
    finding = judge.finding(tensorflow_is_installed, target=target(**BARE), environment=environment)
    assert finding.fix and finding.fix.commands == (f"{PYTHON} -m pip install 'tensorflow[and-cuda]'",)


def test_a_python_of_unknown_version_is_not_called_unsupported(judge: Judge) -> None:
    there = target(version="", **BARE)
    assert (
        judge.finding(tensorflow_is_installed, target=there, environment=DEACTIVATED).cause
        == "wrong_python_environment"
    )


def test_an_externally_managed_python_is_not_told_to_install_into(judge: Judge) -> None:
    there = target(executable="/usr/bin/python3", prefix="/usr", externally_managed=True, **BARE)
    finding = judge.finding(tensorflow_is_installed, target=there, environment=DEACTIVATED)
    assert (finding.cause, finding.confidence) == ("externally_managed_python", "medium")
    assert finding.fix
    assert not any(command.startswith("/usr/bin/python3 -m pip install") for command in finding.fix.commands)


def test_an_environment_that_is_active_counts_more_than_a_python_that_refuses_pip(judge: Judge) -> None:
    there = target(executable="/usr/bin/python3", prefix="/usr", externally_managed=True, **BARE)
    finding = judge.finding(tensorflow_is_installed, target=there)
    assert (finding.cause, finding.confidence) == ("wrong_python_environment", "high")


@pytest.mark.parametrize("os", ["Darwin", "Windows"])
def test_the_cuda_extra_is_for_linux(judge: Judge, os: str) -> None:
    machine = broken(system={"os": os}, target=target(**BARE), environment=DEACTIVATED)
    finding = judge.finding(tensorflow_is_installed, machine)
    assert finding.fix
    assert not any("and-cuda" in command for command in finding.fix.commands)


ARM: dict[str, Any] = {"architecture": "aarch64", "cpu_flags": ("asimd",)}


@pytest.mark.parametrize(
    "version", ["3.8.10", "3.10.12", "3.12.7", "3.14.0"]
)  # NVIDIA's wheels have Pythons of their own
@pytest.mark.parametrize("managed", [False, True])
def test_on_arm_the_build_with_cuda_is_nvidias(judge: Judge, version: str, managed: bool) -> None:
    there = target(version=version, externally_managed=managed, **BARE)
    finding = judge.finding(tensorflow_is_installed, system=ARM, target=there, environment=DEACTIVATED)
    assert finding.cause == ("externally_managed_python" if managed else "wrong_python_environment")
    assert finding.fix and finding.fix.commands == ()
    assert "(`tfgpu-doctor --python PATH` examines it)" in finding.fix.text
    assert "https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/" in finding.fix.text
    assert "nvcr.io/nvidia/tensorflow" in finding.fix.text


def test_a_python_of_32_bits_on_arm_is_not_told_to_install_a_wheel_without_cuda(judge: Judge) -> None:
    finding = judge.finding(tensorflow_is_installed, system=ARM, target=target(bits=32, **BARE))
    assert finding.cause == "unsupported_python_version"
    assert finding.fix and finding.fix.commands == ()
    assert "64-bit Python" in finding.fix.text
    assert "nvcr.io/nvidia/tensorflow" in finding.fix.text


def test_on_arm_too_nothing_is_installed_into_the_doctors_own_environment(judge: Judge) -> None:
    finding = judge.finding(tensorflow_is_installed, system=ARM, target=target(**OWN), environment=DEACTIVATED)
    assert finding.fix and finding.fix.commands == ()
    assert "nvcr.io/nvidia/tensorflow" in finding.fix.text


def test_another_environment_counts_on_arm_too(judge: Judge) -> None:
    finding = judge.finding(
        tensorflow_is_installed,
        system=ARM,
        target=target(prefix="/opt/pipx/doctor", **BARE),
        environment=variables(VIRTUAL_ENV="/v"),
    )
    assert finding.fix and finding.fix.commands == ("tfgpu-doctor --python /v",)


def test_the_commands_survive_a_blank_in_the_path(judge: Judge) -> None:
    there = target(executable=JANES, prefix="/home/jane doe/venv", **BARE)
    for active, words in (
        ("", [JANES, "-m", "pip", "install", "tensorflow[and-cuda]"]),
        ("/home/jane doe/.venv", ["tfgpu-doctor", "--python", "/home/jane doe/.venv"]),
    ):
        environment = Environment(variables={"VIRTUAL_ENV": active})
        finding = judge.finding(tensorflow_is_installed, target=there, environment=environment)
        assert finding.fix
        assert [shlex.split(command) for command in finding.fix.commands] == [words]


# PKG003


@pytest.mark.parametrize("times", [1, 2])  # a distribution may be found twice
@pytest.mark.parametrize("owner", ["tensorflow", "tf-nightly", "tensorflow-intel", "tensorflow-cpu"])
def test_one_owner_passes(judge: Judge, owner: str, times: int) -> None:
    there = target(tensorflow_owners=(owner,) * times)
    assert judge.passes(one_distribution_owns_tensorflow, target=there) == f"{owner} owns it"


def test_files_that_nobody_lists_are_not_judged(judge: Judge) -> None:
    reason = judge.skips(one_distribution_owns_tensorflow, target=target(tensorflow_owners=()))
    assert "no distribution lists" in reason


@pytest.mark.parametrize(
    ("other", "confidence"),
    [("tensorflow-cpu", "high"), ("intel-tensorflow", "high"), ("tf-nightly", "medium"), ("tensorflow-gpu", "medium")],
)
@pytest.mark.parametrize("run", [None, UNUSED])
def test_two_owners_are_one_too_many(judge: Judge, other: str, confidence: str, run: Runtime | None) -> None:
    there = packages((other, "2.19.0"), tensorflow_owners=("tensorflow", other))
    finding = judge.finding(one_distribution_owns_tensorflow, target=there, runtime=run)
    assert (finding.cause, finding.severity) == ("cpu_package_shadows_gpu_package", "error")
    assert finding.confidence == confidence
    assert finding.message == f"2 distributions installed the same package: tensorflow 2.20.0, {other} 2.19.0"
    assert f"tensorflow, {other}" in finding.evidence[0]
    assert finding.fix and finding.fix.commands == (
        f"{PYTHON} -m pip uninstall -y tensorflow {other}",
        f"{PYTHON} -m pip install 'tensorflow[and-cuda]==2.20.0'",
    )


IMAGES = "/usr/local/lib/python3.12/dist-packages"


def in_two_folders(first: str, *imported: tuple[str, str]) -> Target:
    """An image with tensorflow-gpu, and one's own TensorFlow in ~/.local or in a venv with --system-site-packages."""
    mine = tuple(distribution(name, number, folder=first) for name, number in imported)
    images = distribution("tensorflow-gpu", "2.10.1", folder=IMAGES)
    owners = (*(name for name, _ in imported), "tensorflow-gpu")
    return target(
        distributions=(*mine, images), tensorflow_owners=owners, tensorflow_file=f"{SITE}/tensorflow/__init__.py"
    )


@pytest.mark.parametrize("folder", [SITE, f"{SITE}/"])
@pytest.mark.parametrize("run", [None, UNUSED])
def test_a_tensorflow_in_another_folder_is_hidden_as_a_whole(judge: Judge, folder: str, run: Runtime | None) -> None:
    """https://github.com/tensorflow/models/issues/9911; uninstalling both would take the image's too."""
    there = in_two_folders(folder, ("tensorflow", "2.20.0"))
    evidence = judge.passes(one_distribution_owns_tensorflow, target=there, runtime=run)
    assert evidence == f"tensorflow owns it\nit hides tensorflow-gpu 2.10.1 in {IMAGES}"


def test_a_folder_that_is_a_link_to_another_hides_nothing(judge: Judge) -> None:
    twice = (
        distribution("tensorflow", "2.20.0"),
        distribution("tensorflow", "2.20.0", folder="/home/user/venv/lib64/x"),
    )
    there = target(distributions=twice, tensorflow_owners=("tensorflow", "tensorflow"))
    assert judge.passes(one_distribution_owns_tensorflow, target=there) == "tensorflow owns it"


def test_of_the_owners_those_in_the_imported_folder_count(judge: Judge) -> None:
    there = in_two_folders(SITE, ("tensorflow", "2.20.0"), ("tensorflow-cpu", "2.19.0"))
    finding = judge.finding(one_distribution_owns_tensorflow, target=there, runtime=UNUSED)
    assert finding.message == "2 distributions installed the same package: tensorflow 2.20.0, tensorflow-cpu 2.19.0"
    assert finding.fix and finding.fix.commands[0] == f"{PYTHON} -m pip uninstall -y tensorflow tensorflow-cpu"


def test_one_name_in_two_folders_counts_with_the_imported_version(judge: Judge) -> None:
    older = distribution("tensorflow-cpu", "2.10.1", folder=IMAGES)
    mine = (distribution("tensorflow", "2.20.0"), distribution("tensorflow-cpu", "2.19.0"))
    there = target(distributions=(older, *mine), tensorflow_owners=("tensorflow-cpu", "tensorflow", "tensorflow-cpu"))
    finding = judge.finding(one_distribution_owns_tensorflow, target=there, runtime=UNUSED)
    assert finding.message == "2 distributions installed the same package: tensorflow-cpu 2.19.0, tensorflow 2.20.0"


def test_of_two_owners_on_arm_no_wheel_without_cuda_is_installed(judge: Judge) -> None:
    there = packages(("tensorflow-cpu", "2.19.0"), tensorflow_owners=("tensorflow", "tensorflow-cpu"))
    finding = judge.finding(one_distribution_owns_tensorflow, system=ARM, target=there, runtime=UNUSED)
    assert finding.fix and finding.fix.commands == ()
    assert "nvcr.io/nvidia/tensorflow" in finding.fix.text


@pytest.mark.parametrize("os", ["Darwin", "Windows"])
def test_of_two_owners_elsewhere_the_one_without_the_cuda_extra_is_installed(judge: Judge, os: str) -> None:
    there = packages(("tensorflow-cpu", "2.19.0"), tensorflow_owners=("tensorflow", "tensorflow-cpu"))
    finding = judge.finding(one_distribution_owns_tensorflow, system={"os": os}, target=there, runtime=UNUSED)
    assert finding.fix and finding.fix.commands[1] == f"{PYTHON} -m pip install tensorflow==2.20.0"


def test_two_owners_are_a_warning_where_the_gpu_is_listed(judge: Judge) -> None:
    there = packages(("tf-nightly", "2.21.0"), tensorflow_owners=("tensorflow", "tf-nightly"))
    assert judge.finding(one_distribution_owns_tensorflow, target=there).severity == "warning"


def test_the_uninstall_survives_a_blank_in_the_path(judge: Judge) -> None:
    there = target(executable=JANES, tensorflow_owners=("tensorflow", "tensorflow-cpu"))
    finding = judge.finding(one_distribution_owns_tensorflow, target=there, runtime=None)
    assert finding.fix
    assert [shlex.split(command)[0] for command in finding.fix.commands] == [JANES, JANES]


# PKG004

PROJECT = "/home/user/project"


@pytest.mark.parametrize("here", [PROJECT, SITE, "/", ""])
def test_a_tensorflow_in_site_packages_is_hidden_by_nothing(judge: Judge, here: str) -> None:
    evidence = judge.passes(no_local_file_hides_modules, target=target(working_folder=here))
    assert evidence == f"`import tensorflow` runs {SITE}/tensorflow/__init__.py"


@pytest.mark.parametrize("here", [PROJECT, "", "/", "/home/user"])
def test_a_tensorflow_that_is_not_there_is_hidden_by_nothing(judge: Judge, here: str) -> None:
    there = target(tensorflow_file="", working_folder=here)
    assert judge.passes(no_local_file_hides_modules, target=there, runtime=None) == "no such file found"


@pytest.mark.parametrize("file", [f"{PROJECT}/tensorflow.py", f"{PROJECT}/tensorflow/__init__.py"])
@pytest.mark.parametrize(
    "run", [None, UNUSED, failed_import("AttributeError: module 'tensorflow' has no attribute 'data'")]
)
def test_a_file_of_ones_own_hides_tensorflow(judge: Judge, file: str, run: Runtime | None) -> None:
    there = target(tensorflow_file=file, local_modules=(file,))
    finding = judge.finding(no_local_file_hides_modules, target=there, runtime=run)
    assert (finding.cause, finding.severity) == ("local_module_shadows_tensorflow", "error")
    assert finding.message == f"{file} is imported instead of the library of that name"
    assert PROJECT in finding.evidence[0]
    assert bool(run and run.import_error) == ("AttributeError" in str(finding.evidence))
    assert finding.fix and f"Rename {file}" in finding.fix.text


def test_a_file_of_ones_own_that_the_traceback_names_hides_a_module(judge: Judge) -> None:
    own = f"{PROJECT}/inspect.py"
    run = failed_import("AttributeError: module 'inspect' has no attribute 'signature'", f'  File "{own}", line 1')
    there = target(local_modules=(f"{PROJECT}/random.py", own))
    finding = judge.finding(no_local_file_hides_modules, target=there, runtime=run)
    assert finding.cause == "local_module_shadows_tensorflow"
    assert finding.message.startswith(own)


@pytest.mark.parametrize(
    "run", [None, runtime(), failed_import("ImportError: numpy", '  File "/usr/lib/python3/x.py"')]
)
def test_a_file_of_ones_own_that_no_traceback_names_is_no_fault(judge: Judge, run: Runtime | None) -> None:
    there = target(local_modules=(f"{PROJECT}/inspect.py",))
    assert judge.passes(no_local_file_hides_modules, target=there, runtime=run)


@pytest.mark.parametrize("file", ["/opt/mine/tensorflow.py", "/opt/mine/tensorflow/__init__.py"])
def test_a_file_earlier_on_the_search_path_hides_tensorflow(judge: Judge, file: str) -> None:
    there = target(tensorflow_file=file)
    assert judge.passes(no_local_file_hides_modules, target=there, runtime=None)  # it may be meant
    finding = judge.finding(
        no_local_file_hides_modules, target=there, runtime=failed_import("ImportError: half of an installation")
    )
    assert finding.cause == "local_module_shadows_tensorflow"
    assert finding.message == f"{file} is imported instead of the TensorFlow in {SITE}"
    assert "half of an installation" in str(finding.evidence)
    assert finding.fix and "remove /opt/mine from" in finding.fix.text


def test_a_tensorflow_that_is_broken_itself_is_hidden_by_nothing(judge: Judge) -> None:
    run = failed_import("ImportError: libtensorflow_framework.so.2: cannot open shared object file")
    assert judge.passes(no_local_file_hides_modules, target=target(), runtime=run)
    file = "/opt/built/tensorflow/__init__.py"
    elsewhere = target(tensorflow_file=file, tensorflow_owners=())
    assert judge.passes(no_local_file_hides_modules, target=elsewhere, runtime=run)
    built = (distribution("tensorflow-gpu", "2.11.0", folder="/opt/built"), *target().distributions)
    assert judge.passes(
        no_local_file_hides_modules, target=target(tensorflow_file=file, distributions=built), runtime=run
    )


def test_the_package_itself_may_be_the_working_folder(judge: Judge) -> None:
    assert judge.passes(no_local_file_hides_modules, target=target(working_folder=f"{SITE}/tensorflow"))


def test_in_site_packages_no_library_hides_itself(judge: Judge) -> None:
    numpy = f"{SITE}/numpy/__init__.py"
    run = failed_import("ImportError: numpy.core.multiarray failed to import", f'  File "{numpy}", line 5')
    there = target(working_folder=SITE, local_modules=(numpy,))
    assert judge.does_not_object(no_local_file_hides_modules, target=there, runtime=run)


# PKG005

USER_SITE = "/home/user/.local/lib/python3.12/site-packages"


def with_user_site(*mine: tuple[str, str], **changes: Any) -> Target:
    found = tuple(distribution(name, version, folder=USER_SITE) for name, version in mine)
    return target(user_site=USER_SITE, distributions=(*found, *target().distributions), **changes)


def test_a_user_site_that_is_switched_off_hides_nothing(judge: Judge) -> None:
    assert judge.skips(user_site_hides_nothing) == "the user site is disabled"


@pytest.mark.parametrize(
    "mine",
    [(), (("requests", "2.1"),), (("numpy", "2.1.3"),), (("pip", "1.0"), ("tensorflow", "2.20.0"))],
    ids=["empty", "another package", "the same version", "the same tensorflow"],
)
@pytest.mark.parametrize("run", [None, UNUSED])
def test_a_user_site_that_hides_nothing_passes(judge: Judge, mine: Any, run: Runtime | None) -> None:
    assert judge.passes(user_site_hides_nothing, target=with_user_site(*mine), runtime=run)


def test_packages_that_tensorflow_does_not_need_may_be_hidden(judge: Judge) -> None:
    there = with_user_site(("black", "1.0"))
    there = msgspec.structs.replace(there, distributions=(*there.distributions, distribution("black", "2.0")))
    evidence = judge.passes(user_site_hides_nothing, target=there, runtime=UNUSED)
    assert evidence.startswith("1 package in the user site differs")


def test_what_an_older_version_left_in_the_user_site_is_not_hidden_by_it(judge: Judge) -> None:
    there = with_user_site(("h5py", "3.1"), ("numpy", "1.0.0"), ("numpy", "2.1.3"))
    assert judge.passes(user_site_hides_nothing, target=there, runtime=UNUSED)


@pytest.mark.parametrize("name", ["numpy", "protobuf", "keras", "tensorflow", "nvidia-cudnn-cu12"])
@pytest.mark.parametrize(
    ("run", "severity"), [(None, "warning"), (UNUSED, "warning"), (failed_import("ImportError: numpy"), "error")]
)
def test_a_package_of_tensorflows_that_is_hidden_is_named(
    judge: Judge, name: str, run: Runtime | None, severity: str
) -> None:
    finding = judge.finding(user_site_hides_nothing, target=with_user_site((name, "1.0.0")), runtime=run)
    assert (finding.cause, finding.severity) == ("user_site_shadowing", severity)
    assert USER_SITE in finding.message
    assert finding.evidence[0].startswith(f"{name} 1.0.0 hides ")
    assert finding.fix and finding.fix.commands == ("export PYTHONNOUSERSITE=1",)


def test_a_tensorflow_that_lists_gpus_may_come_from_anywhere(judge: Judge) -> None:
    assert judge.passes(user_site_hides_nothing, target=with_user_site(("numpy", "1.0.0")))


@pytest.mark.parametrize("run", [None, UNUSED])
def test_a_tensorflow_of_the_user_site_may_have_its_numpy_there(judge: Judge, run: Runtime | None) -> None:
    system = "/usr/lib/python3/dist-packages"
    there = target(
        executable="/usr/bin/python3",
        prefix="/usr",
        base_prefix="/usr",
        user_site=USER_SITE,
        tensorflow_file=f"{USER_SITE}/tensorflow/__init__.py",
        distributions=(
            *(msgspec.structs.replace(each, folder=USER_SITE) for each in target().distributions),
            distribution("numpy", "1.26.4", folder=system, installer="debian"),
        ),
    )
    assert judge.does_not_object(user_site_hides_nothing, target=there, runtime=run)


# PKG008


def test_a_machine_without_conda_is_not_judged(judge: Judge) -> None:
    assert "not a conda environment" in judge.skips(one_installer)


def test_a_tensorflow_of_pip_beside_condas_cuda_passes(judge: Judge) -> None:
    there = target(conda_packages={"cudatoolkit": "11.8.0 h1", "cudnn": "8.9 h2"})
    assert judge.passes(one_installer, target=there) == "TensorFlow was installed by pip"


@pytest.mark.parametrize("installer", ["conda", ""])
def test_a_tensorflow_of_conda_passes(judge: Judge, installer: str) -> None:
    base = conda("cuda120py312_0")
    found = tuple(msgspec.structs.replace(each, installer=installer) for each in base.distributions)
    there = msgspec.structs.replace(base, distributions=found)
    assert judge.passes(one_installer, target=there) == "TensorFlow was installed by conda"


@pytest.mark.parametrize(("run", "severity"), [(None, "error"), (UNUSED, "error"), (runtime(), "warning")])
def test_a_tensorflow_of_pip_over_condas_is_mixed(judge: Judge, run: Runtime | None, severity: str) -> None:
    finding = judge.finding(one_installer, target=conda("cuda120py312_0"), runtime=run)
    assert (finding.cause, finding.severity, finding.confidence) == ("mixed_conda_pip_install", severity, "medium")
    assert "pip installed TensorFlow 2.20.0 over conda's tensorflow, tensorflow-base" in finding.message
    assert finding.evidence == (
        "conda-meta lists tensorflow 2.17.0 cuda120py312_0",
        "conda-meta lists tensorflow-base 2.17.0 cuda120py312_0",
    )
    assert finding.fix and "new environment" in finding.fix.text


def test_the_installer_of_tensorflow_itself_counts(judge: Judge) -> None:
    base = conda("cuda120py312_0")
    installers = {"tensorflow": "conda"}
    found = tuple(
        msgspec.structs.replace(each, installer=installers.get(each.name, "pip")) for each in base.distributions
    )
    there = msgspec.structs.replace(base, distributions=found)
    assert judge.passes(one_installer, target=there, runtime=UNUSED) == "TensorFlow was installed by conda"


@pytest.mark.parametrize("name", ["tensorflow-datasets", "tensorflow-metadata", "tensorflow-hub"])
def test_a_library_of_conda_for_tensorflow_is_not_tensorflow(judge: Judge, name: str) -> None:
    there = target(conda_packages={name: "4.9.7 pyhd8ed1ab_0"})
    assert judge.does_not_object(one_installer, target=there, runtime=UNUSED)
