"""The fix that replaces what owns the package tensorflow: which release it installs, and how."""

from __future__ import annotations

import pytest
from healthy import broken, cuda_gpu, distribution, target

from tfgpu_doctor.checks.python.replacement import replace_with_cuda_build
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Fix

WHY = "Replace it."
PYTHON = "/home/user/venv/bin/python"


def replaced(owners: dict[str, str], python: str = "3.11.9", os: str = "Linux") -> Fix:
    there = target(version=python, distributions=[distribution(*each) for each in owners.items()])
    return replace_with_cuda_build(there, owners, read_knowledge(), WHY, broken(system={"os": os}).system)


@pytest.mark.parametrize(
    ("owners", "wanted"),
    [
        ({"tensorflow-cpu": "2.15.1"}, "'tensorflow[and-cuda]==2.15.1'"),
        ({"tensorflow": "2.15.1", "tensorflow-cpu": "2.16.1"}, "'tensorflow[and-cuda]==2.16.1'"),
        ({"tensorflow": "2.9.0", "tensorflow-cpu": "2.10.1"}, "tensorflow==2.10.1"),
        ({"tensorflow-cpu": "2.13.1"}, "tensorflow==2.13.1"),
        ({"tensorflow-cpu": "2.15.0.post1"}, "'tensorflow[and-cuda]==2.15.0.post1'"),
        ({"tensorflow-cpu": "2.17.1+local"}, "'tensorflow[and-cuda]==2.17.1'"),
        ({"tensorflow-cpu": "2.20.0rc0"}, "'tensorflow[and-cuda]==2.20.0'"),
        ({"intel-tensorflow": "2.15.0.1"}, "'tensorflow[and-cuda]==2.15.1'"),
        ({"tensorflow-cpu": "2.99.0"}, "'tensorflow[and-cuda]==2.99.0'"),
        ({"tensorflow-cpu": "2.19.9"}, "'tensorflow[and-cuda]==2.19.9'"),
        ({"tensorflow": "1.14.0"}, "tensorflow-gpu==1.14.0"),
        ({"tensorflow": "2.19.0", "tf-nightly": "2.20.0.dev20250401"}, "'tensorflow[and-cuda]==2.19.0'"),
    ],
)
def test_the_release_that_is_there_is_installed(owners: dict[str, str], wanted: str) -> None:
    assert replaced(owners).commands == (
        f"{PYTHON} -m pip uninstall -y {' '.join(owners)}",
        f"{PYTHON} -m pip install {wanted}",
    )


@pytest.mark.parametrize("number", ["2.20.0.dev20250401", "", "custom"])
@pytest.mark.parametrize(
    ("python", "wanted"),
    [
        ("3.12.3", "'tensorflow[and-cuda]==2.21.0'"), ("3.9.18", "'tensorflow[and-cuda]==2.20.0'"),
        ("3.8.10", "tensorflow==2.13.1"), ("3.99.0", "'tensorflow[and-cuda]'"), ("", "'tensorflow[and-cuda]'"),
    ],
)  # fmt: skip
def test_for_no_known_release_it_is_the_newest_for_this_python(number: str, python: str, wanted: str) -> None:
    assert replaced({"tf-nightly-cpu": number}, python).commands[1] == f"{PYTHON} -m pip install {wanted}"


def test_a_build_of_no_distribution_is_not_uninstalled() -> None:
    assert replaced({"": "2.20.0"}).commands == (f"{PYTHON} -m pip install 'tensorflow[and-cuda]==2.20.0'",)


def test_the_libraries_that_pip_cannot_install_are_named() -> None:
    assert replaced({"tensorflow-cpu": "2.13.1"}, "3.8.10").text == (
        f"{WHY} It needs the CUDA 11.8 and cuDNN 8 libraries, which pip cannot install for it."
    )


def test_a_release_that_does_not_search_a_folder_says_what_to_run_next() -> None:
    assert f"`tfgpu-doctor fix --apply --python {PYTHON}`" in replaced({"tensorflow-cpu": "2.21.0"}).text
    assert replaced({"tensorflow-cpu": "2.18.0"}).text == WHY


@pytest.mark.parametrize("os", ["Darwin", "Windows"])
@pytest.mark.parametrize(("number", "wanted"), [("2.10.1", "tensorflow==2.10.1"), ("", "tensorflow")])
def test_elsewhere_there_is_no_cuda_extra(os: str, number: str, wanted: str) -> None:
    assert replaced({"tensorflow-cpu": number}, os=os).commands[1] == f"{PYTHON} -m pip install {wanted}"


def test_a_python_that_rejects_pip_gets_no_command() -> None:
    there = target(externally_managed=True)
    fix = replace_with_cuda_build(there, {"tensorflow-cpu": "2.20.0"}, read_knowledge(), WHY)
    assert fix.commands == ()
    assert "create a virtual environment first" in fix.text


def test_an_older_gpu_gets_an_older_cudnn() -> None:
    requires = ('nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"',)
    there = target(distributions=[distribution("tensorflow-cpu", "2.20.0", requires=requires)])
    driver = broken(cuda_driver={"gpus": (cuda_gpu(compute_capability="7.0"),)}).cuda_driver
    fix = replace_with_cuda_build(there, {"tensorflow-cpu": "2.20.0"}, read_knowledge(), WHY, cuda_driver=driver)
    assert fix.commands[1].endswith("'tensorflow[and-cuda]==2.20.0' 'nvidia-cudnn-cu12<9.11'")
