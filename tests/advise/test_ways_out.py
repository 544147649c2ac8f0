"""What the advice says beside the release: ways out of a dead end that lead out, and commands that run where they are pasted."""

from __future__ import annotations

import dataclasses

import pytest

from tfgpu_doctor.advise.advise import Advice, advise
from tfgpu_doctor.advise.alternatives import _CUDA_OF_CONTAINER
from tfgpu_doctor.advise.page import render_advice
from tfgpu_doctor.advise.target_spec import Gpu, TargetSpec
from tfgpu_doctor.knowledge import read_knowledge

KNOWLEDGE = read_knowledge()


def advice_for(capability: str = "8.6", **fields: str) -> Advice:
    gpu = Gpu(f"a GPU of {capability}", capability)
    return advise(dataclasses.replace(TargetSpec(gpu=gpu), **fields), KNOWLEDGE)  # type: ignore[arg-type]


def test_the_driver_of_the_container_is_that_of_its_cuda() -> None:
    assert f"CUDA {_CUDA_OF_CONTAINER}," in KNOWLEDGE.boundaries["container_of_nvidia"].about


@pytest.mark.parametrize(("capability", "branch"), [("3.7", "470"), ("6.1", "580"), ("7.5", "")])
def test_the_last_branch_is_told_before_a_newer_driver_is_installed(capability: str, branch: str) -> None:
    assert advice_for(capability).last_branch == branch
    assert (f"or newer, up to branch {branch}\n" in render_advice(advice_for(capability))) is bool(branch)


@pytest.mark.parametrize(
    ("capability", "fields", "release", "package"),
    [
        ("7.5", {"driver": "440.33"}, "2.3.4", "tensorflow==2.3.4"),
        ("3.7", {"driver": "410.72", "python": "3.7"}, "2.0.4", "tensorflow-gpu==2.0.4"),
        ("3.5", {"python": "3.5"}, "2.3.0", "tensorflow==2.3.0"),
        ("7.0", {"driver": "418.96", "os": "windows", "python": "3.7"}, "2.3.4", "tensorflow==2.3.4"),
        ("7.5", {"driver": "461.72", "os": "wsl"}, "", ""),  # which has no CUDA for WSL
        ("7.5", {"driver": "396.37"}, "", ""),  # older than the CUDA of any that the tables know the driver of
        ("8.6", {"driver": "440.33"}, "", ""),  # its libraries have no code for this GPU
        ("7.5", {"python": "3.14"}, "", ""),
        ("3.0", {}, "", ""),
        ("6.1", {"driver": "590.44.01"}, "", ""),  # which does not support the GPU
    ],
)
def test_an_older_release_is_the_way_out_for_a_machine_that_cannot_change(
    capability: str, fields: dict[str, str], release: str, package: str
) -> None:
    advice = advice_for(capability, **fields)
    assert advice.release is None
    older = [way for way in advice.alternatives if "Without any change" in way.text]
    assert [f"that works is {release} " in way.text for way in older] == [True] * bool(release)
    assert all(f"pip install {package} " in way.commands[-1 if "os" in fields else 1] for way in older)


@pytest.mark.parametrize(
    ("capability", "fields", "told", "untold"),
    [
        ("12.0", {}, ["It needs driver 570.26 or newer."], []),
        ("12.0", {"driver": "570.86"}, [], ["It needs driver"]),
        ("12.0", {"os": "wsl", "driver": "551.76"}, ["It needs driver 570.65 or newer; this is 551.76."], []),
        ("7.5", {"driver": "440.33"}, ["It needs driver 525.60.13 or newer; this is 440.33."], []),
        ("8.9", {"driver": "550.54.15", "python": "3.14"}, [], ["It needs driver"]),
        ("12.0", {"os": "windows"}, ["Install WSL 2", "source in WSL 2", "container in WSL 2"], ["advise --os wsl"]),
        ("12.0", {}, ["with CUDA 12.8 or newer"], ["WSL 2"]),
        ("3.0", {"os": "windows"}, ["tensorflow-cpu"], ["WSL 2", "nvcr.io", "from source"]),
        ("3.0", {}, ["TensorFlow cannot use this GPU"], ["from source", "own build"]),
        ("11.0", {}, ["from source", "with CUDA 13.0 or newer"], ["nvcr.io"]),
        ("12.1", {}, ["with CUDA 12.9 or newer"], ["nvcr.io"]),
        ("13.0", {}, ["nvcc --list-gpu-code"], ["nvcr.io"]),  # which the tables do not know yet
        ("6.1", {"architecture": "aarch64"}, ["with CUDA 12.9 at most"], ["nvcr.io"]),
        ("3.5", {"architecture": "aarch64"}, [], ["from source"]),  # no release of today builds with CUDA 11.8
        ("2.1", {}, ["TensorFlow cannot use this GPU"], ["from source", "nvcr.io"]),
        ("8.9", {"os": "windows", "python": "3.12"}, ["container in WSL 2"], ["from source", "Install WSL 2"]),
    ],
)
def test_a_way_out_leads_out(capability: str, fields: dict[str, str], told: list[str], untold: list[str]) -> None:
    words = " ".join(f"{way.text} {' '.join(way.commands)}" for way in advice_for(capability, **fields).alternatives)
    assert [each for each in told if each not in words] == []
    assert [each for each in untold if each in words] == []


@pytest.mark.parametrize(("capability", "limit"), [("5.2", True), ("6.1", False)])
def test_wsl_without_support_is_told(capability: str, limit: bool) -> None:
    words = "NVIDIA does not officially support GPUs before Pascal there"
    assert any(words in note for note in advice_for(capability, os="wsl").notes) is limit
    assert any(words in lift.change for lift in advice_for(capability, os="windows").lifts) is limit


def test_wsl_is_proposed_once() -> None:
    told = render_advice(advice_for("8.9", os="windows", python="3.12"))
    assert told.count("learn.microsoft.com/windows/wsl/install") == 1
    assert "Install WSL 2" not in told
    assert "Install WSL 2" in render_advice(advice_for("12.0", os="windows", python="3.12"))


@pytest.mark.parametrize(
    ("fields", "least"),
    [({"os": "wsl", "python": "3.8"}, "470.76"), ({"os": "windows"}, "452.39"), ({"os": "wsl"}, "528.33")],
)
def test_wsl_needs_the_first_driver_that_has_cuda_for_it(fields: dict[str, str], least: str) -> None:
    assert advice_for("7.5", **fields).minimum_driver == least


def test_the_driver_that_wsl_needs_is_the_reason_and_the_change() -> None:
    advice = advice_for("7.5", os="wsl", driver="461.72", python="3.8")
    assert advice.newer[-1].obstacles[0].text == "CUDA in WSL 2 requires driver 470.76 or newer, this is 461.72"
    assert advice.lifts[0].change == "driver 470.76 or newer"


def test_nothing_of_conda_is_proposed_where_it_is_not_known_to_have_the_libraries() -> None:
    windows, linux = (
        next(way for way in advice_for("7.5", os=os, driver=driver, python="3.7").alternatives if "2.3.4" in way.text)
        for os, driver in (("windows", "418.96"), ("linux", "418.39"))
    )
    assert windows.commands == ('python -m pip install tensorflow==2.3.4 "numpy<2" "protobuf<3.21"',)
    assert "(CUDA 10.1, cuDNN 7)" in windows.text
    assert "https://developer.nvidia.com/cuda-toolkit-archive), and Python 3.7." in windows.text
    assert linux.commands[0].startswith("conda create ")
    assert "installers" not in linux.text
    assert advice_for("7.5", os="windows", driver="461.72").commands[0].startswith("conda create ")


def test_what_to_do_comes_before_why_nothing_works() -> None:
    told = render_advice(advice_for("8.9", os="windows", python="3.12"))
    assert told.index("Changes that allow a release:") < told.index("Other ways:") < told.index("Why no release works:")
    told = render_advice(advice_for("8.9", python="3.9"))
    assert told.index("Why no newer release works:") < told.index("Changes that allow a newer release:")


def test_the_reasons_that_nothing_removes_stand_alone() -> None:
    advice = advice_for("12.0", python="3.12", driver="570.86")
    told = render_advice(advice)
    assert "\n  • 2.4.0 to 2.14.1: no machine code for compute capability 12.0" in told
    assert "Python" not in told.partition("Why no release works:")[2]
    each = render_advice(advice, verbose=True)
    assert "  • 2.4.0: no wheel for Python 3.12, only for 3.6 to 3.8; no machine code" in each


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"glibc": "2.17"}, "--only-binary :all: 'tensorflow[and-cuda]==2.20.0'"),
        ({"glibc": "2.27", "interpreter": "/v/bin/python"}, "/v/bin/python -m pip install --only-binary :all: '"),
        ({"glibc": "2.17", "python": "3.8"}, "pip install --prefer-binary tensorflow==2.13.1"),
        ({"glibc": "2.28"}, ""),
        ({"glibc": "2.17", "os": "windows", "python": "3.8"}, ""),
        ({}, ""),
    ],
)
def test_nothing_is_compiled_where_the_newest_packages_have_no_wheels(fields: dict[str, str], words: str) -> None:
    advice = advice_for(**fields)
    commands = " && ".join(advice.commands)
    assert words in commands
    assert ("-binary" in commands) is bool(words)
    assert any("would have to be compiled" in note for note in advice.notes) is bool(words)
