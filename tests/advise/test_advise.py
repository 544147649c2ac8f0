"""The advice for made-up machines: the release that must come out, why nothing newer, and what would allow more."""

from __future__ import annotations

import dataclasses

import pytest

from tfgpu_doctor.advise.advise import Advice, advise
from tfgpu_doctor.advise.alternatives import ABOUT_WSL
from tfgpu_doctor.advise.target_spec import Gpu, TargetSpec
from tfgpu_doctor.knowledge import read_knowledge, version
from tfgpu_doctor.knowledge.driver_branches import is_newer_than_branch, last_branch

KNOWLEDGE = read_knowledge()
MOST = "999"  # a driver newer than all


def machine(capability: str = "8.6", **fields: str) -> TargetSpec:
    gpu = Gpu(f"a GPU of {capability}", capability) if capability else None
    return dataclasses.replace(TargetSpec(gpu=gpu), **fields)  # type: ignore[arg-type]


def advice_for(capability: str = "8.6", **fields: str) -> Advice:
    return advise(machine(capability, **fields), KNOWLEDGE)


@pytest.mark.parametrize(
    ("capability", "fields", "release"),
    [
        ("8.6", {}, "2.21.0"),
        ("8.9", {"driver": "550.54.15", "python": "3.12", "glibc": "2.35"}, "2.21.0"),
        ("9.0", {"driver": "535.104.05", "python": "3.11"}, "2.21.0"),  # machine code: any driver for CUDA 12 will do
        ("8.0", {"driver": "525.60.13"}, "2.21.0"),
        ("8.0", {"driver": "525.60.12"}, "2.14.1"),
        ("7.0", {"driver": "470.57.02", "python": "3.10"}, "2.14.1"),
        ("7.0", {"driver": "450.80.02", "python": "3.8"}, "2.13.1"),
        ("7.0", {"driver": "450.80.01"}, "2.4.4"),  # of CUDA 11 only 11.0 runs on a driver older than 450.80.02
        ("7.0", {"driver": "450.36.05"}, None),
        ("6.1", {"driver": "580.65.06"}, "2.21.0"),
        ("5.2", {"driver": "550.54.15"}, "2.16.2"),
        ("5.0", {"driver": "470.57.02"}, "2.14.1"),
        ("3.7", {"driver": "470.57.02"}, "2.14.1"),
        ("3.5", {"python": "3.12"}, None),
        ("3.0", {"driver": "470.57.02"}, None),
        ("7.5", {"python": "3.9"}, "2.20.0"),
        ("7.5", {"python": "3.7"}, "2.11.0"),
        ("7.5", {"python": "3.6"}, "2.6.2"),
        ("7.5", {"python": "3.14"}, None),
        ("7.5", {"glibc": "2.17"}, "2.20.0"),
        ("7.5", {"glibc": "2.12"}, "2.8.4"),
        ("7.5", {"glibc": "2.5"}, None),
        ("9.0", {"driver": "470.57.02", "python": "3.10"}, "2.11.1"),  # PTX of CUDA 11.8 needs 520, that of 11.2 460
        ("9.0", {"python": "3.8", "driver": "535.104.05"}, "2.13.1"),
        ("10.0", {"driver": MOST}, None),
        ("12.0", {"driver": "570.26"}, None),
        ("8.9", {"os": "windows", "python": "3.10", "driver": "551.61"}, "2.10.1"),
        ("8.9", {"os": "windows", "python": "3.11"}, None),
        ("8.9", {"os": "wsl", "python": "3.11", "driver": "551.61"}, "2.21.0"),
        ("8.9", {"os": "wsl", "driver": "528.32"}, "2.14.1"),  # in WSL the driver is that of Windows
        ("7.5", {"os": "wsl", "driver": "470.76"}, "2.14.1"),
        ("7.5", {"os": "wsl", "driver": "461.72"}, None),  # enough for CUDA 11, but not in WSL
        ("9.0", {"architecture": "aarch64"}, None),
        ("", {"os": "macos", "architecture": "arm64"}, None),
        ("", {"driver": "550.54.15"}, "2.21.0"),
    ],
)  # fmt: skip
def test_the_newest_release_that_works(capability: str, fields: dict[str, str], release: str | None) -> None:
    advice = advice_for(capability, **fields)
    assert (advice.release.version if advice.release else None) == release
    newest_first = [each.version for each in reversed(KNOWLEDGE.tensorflow_releases)]
    assert [each.release for each in advice.newer] == newest_first[: newest_first.index(release) if release else None]
    assert all(each.obstacles for each in advice.newer)
    assert bool(advice.commands) == bool(release)
    assert release or advice.lifts or advice.alternatives


@pytest.mark.parametrize(
    ("capability", "fields", "lifts"),
    [
        ("8.0", {"driver": "470.57.02"}, {"driver 525.60.13 or newer": "2.21.0"}),
        ("8.0", {"python": "3.9"}, {"Python 3.10 to 3.13": "2.21.0"}),
        ("8.0", {"python": "3.14"}, {"Python 3.10 to 3.13": "2.21.0"}),
        ("8.0", {"glibc": "2.17"}, {"a system (or container) with glibc 2.27 or newer": "2.21.0"}),
        ("8.0", {"os": "windows", "python": "3.10"}, {f"WSL 2 instead of native Windows ({ABOUT_WSL})": "2.21.0"}),
        # neither alone allows more than what there is
        ("8.0", {"driver": "450.80.02", "python": "3.7"}, {"Python 3.9 to 3.11": "2.14.1"}),
        ("8.0", {"driver": "440.33", "python": "3.14"}, {"driver 525.60.13 or newer and Python 3.10 to 3.13": "2.21.0"}),
        ("3.7", {"driver": "470.57.02"}, {}),  # Kepler has no newer driver
        ("3.7", {"driver": "440.33"}, {"driver 450.80.02 or newer, up to branch 470": "2.14.1"}),
        ("5.2", {"driver": "550.54.15"}, {}),
        ("9.0", {"driver": "470.57.02", "python": "3.8"}, {"driver 520.61.05 or newer": "2.13.1"}),
        ("12.0", {"driver": "570.26"}, {}),
    ],
)  # fmt: skip
def test_what_would_allow_more(capability: str, fields: dict[str, str], lifts: dict[str, str]) -> None:
    found = {lift.change: lift.release for lift in advice_for(capability, **fields).lifts}
    assert lifts.items() <= found.items()
    assert lifts or not found


@pytest.mark.parametrize(
    ("capability", "fields", "branch", "lift"),
    [
        ("6.0", {"driver": "590.44.01"}, "580", {"driver 525.60.13 or newer, up to branch 580": "2.21.0"}),
        ("7.0", {"driver": "590.44.01"}, "580", {"driver 525.60.13 or newer, up to branch 580": "2.21.0"}),
        ("3.7", {"driver": "535.54.03"}, "470", {"driver 450.80.02 or newer, up to branch 470": "2.14.1"}),
        ("6.0", {"driver": "600.1", "module": "590.44.01"}, "580", {"driver 525.60.13 or newer, up to branch 580": "2.21.0"}),
        ("6.1", {"driver": "591.44", "os": "wsl"}, "580", {"driver 528.33 or newer, up to branch 580": "2.21.0"}),
    ],
)  # fmt: skip
def test_a_driver_that_left_the_gpu_behind_runs_no_release(
    capability: str, fields: dict[str, str], branch: str, lift: dict[str, str]
) -> None:
    advice = advice_for(capability, **fields)
    assert advice.release is None
    for rejected in advice.newer:
        assert f"branch {branch} is the last that supports it" in " ".join(each.text for each in rejected.obstacles)
    assert lift.items() <= {each.change: each.release for each in advice.lifts}.items()


@pytest.mark.parametrize(
    ("capability", "fields"),
    [
        ("6.0", {"driver": "580.105.08"}),
        ("7.5", {"driver": "590.44.01"}),
        ("6.1", {"driver": "582.16", "os": "wsl"}),  # on Windows, branch 580 has the numbers 580 to 582
    ],
)
def test_the_last_branch_itself_supports_the_gpu(capability: str, fields: dict[str, str]) -> None:
    assert advice_for(capability, **fields).release


HERE = "/home/jane/.venv/bin/python"


@pytest.mark.parametrize(
    ("fields", "change", "made"),
    [
        ({"os": "windows", "python": "3.12"}, f"WSL 2 instead of native Windows ({ABOUT_WSL})", "uv venv --seed --python 3.12 tensorflow-gpu"),
        ({"glibc": "2.17", "python": "3.13"}, "a system (or container) with glibc 2.27 or newer", "uv venv --seed --python 3.13 tensorflow-gpu"),
        ({"python": "3.14"}, "Python 3.10 to 3.13", "uv venv --seed --python 3.13 tensorflow-gpu"),
    ],
)  # fmt: skip
def test_another_system_or_python_does_not_have_the_environment_of_this_one(
    fields: dict[str, str], change: str, made: str
) -> None:
    here = {"interpreter": HERE, "install": f"uv pip install --python {HERE}", "base": "/usr/bin/python3"}
    lift = next(each for each in advice_for("8.0", **fields, **here).lifts if each.change == change)
    assert lift.commands[0] == made
    assert not any(HERE in command or "/usr/bin" in command for command in lift.commands)


def test_a_newer_driver_leaves_the_environment() -> None:
    advice = advice_for("8.0", driver="450.36.05", python="3.12", interpreter=HERE)
    assert [lift.commands[0].split(" ")[0] for lift in advice.lifts] == [HERE]


@pytest.mark.parametrize(
    ("name", "fields", "package"),
    [
        ("NVIDIA A100-SXM4-80GB", {"driver": "470.57.02"}, "cuda-compat-12-5 in addition to driver 470.57.02"),
        ("Tesla T4", {"driver": "470.256.02"}, "cuda-compat-12-5 in addition to driver 470.256.02"),
        ("Tesla T4", {"driver": "440.33", "python": "3.14"}, "cuda-compat-11-2 in addition to driver 440.33"),
        ("Tesla V100-SXM2-16GB", {"driver": "440.33"}, "cuda-compat-11-2 in addition to driver 440.33"),
        ("NVIDIA A100-SXM4-80GB", {"driver": "535.54.03", "module": "470.57.02", "python": "3.8"}, ""),
        ("NVIDIA A100-SXM4-80GB", {"driver": "460.27.04"}, ""),  # a branch that no package supports
        ("NVIDIA A100-SXM4-80GB", {"driver": "470.57.02", "os": "wsl"}, ""),
        ("NVIDIA GeForce RTX 3090", {"driver": "470.57.02"}, ""),
        ("NVIDIA GeForce RTX 2080 Ti", {"driver": "440.33"}, ""),
        ("NVIDIA RTX A6000", {"driver": "470.57.02"}, ""),  # some of them, in some servers: not certain
        ("a GPU of compute capability 8.0", {"driver": "470.57.02"}, ""),
        ("Tesla K80", {"driver": "450.80.02"}, ""),  # the package's own driver no longer knows Kepler
    ],
)
def test_forward_compatibility_is_offered_to_data_centre_gpus_alone(
    name: str, fields: dict[str, str], package: str
) -> None:
    model = KNOWLEDGE.gpu_named(name)
    gpu = Gpu(name, model.compute_capability if model else "8.0")
    advice = advise(dataclasses.replace(TargetSpec(gpu=gpu), **fields), KNOWLEDGE)  # type: ignore[arg-type]
    told = [lift.change for lift in advice.lifts if "cuda-compat" in lift.change]
    assert all("forward compatibility" in each for each in told)
    assert bool(told) == bool(package)
    assert all(package in each for each in told)


@pytest.mark.parametrize(
    ("capability", "fields", "words"),
    [
        ("12.0", {}, ["nvcr.io/nvidia/tensorflow:", "from source for compute capability 12.0"]),
        ("3.0", {}, ["tensorflow-cpu"]),
        ("9.0", {"architecture": "aarch64"}, ["nvcr.io/nvidia/tensorflow:"]),
        ("10.3", {"architecture": "aarch64"}, ["from source for compute capability 10.3, with CUDA 12.9 or newer"]),
        ("6.1", {"architecture": "aarch64"}, ["from source for compute capability 6.1, with CUDA 12.9 at most"]),
        ("8.7", {"architecture": "aarch64", "board": "NVIDIA Jetson AGX Orin"}, ["JetPack"]),
        ("8.7", {"architecture": "aarch64", "board": "Orin NX"}, ["JetPack"]),
        ("8.6", {"architecture": "aarch64", "board": "Raspberry Pi 5 Model B"}, ["nvcr.io/nvidia/tensorflow:"]),
        ("", {"os": "macos", "architecture": "arm64"}, ["tensorflow==2.18.*", "tensorflow-metal"]),
        ("", {"os": "macos", "architecture": "x86_64"}, ["Intel"]),
        ("12.0", {"os": "windows", "python": "3.12"}, ["WSL 2", "nvcr.io"]),
    ],
)
def test_the_way_out(capability: str, fields: dict[str, str], words: list[str]) -> None:
    advice = advice_for(capability, **fields)
    told = " ".join(f"{way.text} {' '.join(way.commands)}" for way in advice.alternatives)
    assert advice.release is None
    assert [word for word in words if word not in told] == []
    assert all(way.source.startswith("https://") for way in advice.alternatives)


PAIR = "'tensorflow==2.18.*' tensorflow-metal"
NEW = "uv venv --seed --python {} tensorflow-gpu", f"uv pip install --python tensorflow-gpu {PAIR}"
ON_MAC = {"interpreter": HERE, "install": f"{HERE} -m pip install"}


@pytest.mark.parametrize(
    ("fields", "commands"),
    [
        ({"python": "3.12", **ON_MAC}, [f"{HERE} -m pip install {PAIR}"]),
        ({"python": "3.13", **ON_MAC}, [NEW[0].format("3.12"), NEW[1]]),  # TensorFlow 2.18 has no wheel for it
        ({"python": "3.14", "base": "/opt/homebrew/bin/python3"}, [NEW[0].format("3.12"), NEW[1]]),
        ({"python": "3.11"}, [NEW[0].format("3.11"), NEW[1]]),
        ({}, [NEW[0].format("3.12"), NEW[1]]),
    ],
)
def test_a_mac_gets_a_python_that_the_release_for_metal_has_wheels_for(
    fields: dict[str, str], commands: list[str]
) -> None:
    [way] = advice_for("", os="macos", architecture="arm64", **fields).alternatives
    assert [*way.commands] == [*commands, "tfgpu-doctor --python tensorflow-gpu"][: 3 if len(commands) > 1 else 1]
    assert ("https://docs.astral.sh/uv" in way.text) == (len(commands) > 1)


def test_an_old_gpu_is_not_sent_to_a_container_that_is_too_new() -> None:
    assert not any("nvcr.io" in command for way in advice_for("3.0").alternatives for command in way.commands)


def test_the_commands_of_a_release_whose_extra_works() -> None:
    advice = advice_for(python="3.9")
    assert advice.commands == (
        "uv venv --seed --python 3.9 tensorflow-gpu",
        "uv pip install --python tensorflow-gpu 'tensorflow[and-cuda]==2.20.0'",
        "tfgpu-doctor --python tensorflow-gpu",
    )
    assert advice.notes == (
        "uv (https://docs.astral.sh/uv) creates the environment, and downloads that Python if this machine has none.",
    )


def test_an_environment_is_made_with_the_python_that_is_there() -> None:
    advice = advice_for(python="3.9", base="/opt/my python/bin/python3.9")
    assert advice.commands == (
        "'/opt/my python/bin/python3.9' -m venv tensorflow-gpu",
        "tensorflow-gpu/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0'",
        "tfgpu-doctor --python tensorflow-gpu",
    )
    assert advice.notes == ()


def test_a_library_that_is_not_found_is_linked() -> None:
    advice = advice_for(python="3.13", interpreter="/home/user/my env/bin/python")
    assert advice.commands == (
        "'/home/user/my env/bin/python' -m pip install 'tensorflow[and-cuda]==2.21.0'",
        "tfgpu-doctor fix --apply --python '/home/user/my env/bin/python'",
        "tfgpu-doctor --python '/home/user/my env/bin/python'",
    )
    assert "nvidia/cusolver" in advice.notes[0]
    assert "LD_LIBRARY_PATH" in advice.notes[0]


@pytest.mark.parametrize(
    ("capability", "lowest", "release", "cap"),
    [
        ("7.0", "", "2.21.0", " 'nvidia-cudnn-cu12<9.11'"),
        ("6.1", "", "2.21.0", " 'nvidia-cudnn-cu12<9.11'"),
        ("8.6", "6.0", "2.21.0", " 'nvidia-cudnn-cu12<9.11'"),
        ("8.6", "3.7", "2.21.0", ""),  # this release has no code for it either
        ("7.5", "", "2.21.0", ""),
        ("", "", "2.21.0", ""),
        ("5.2", "", "2.16.2", ""),  # this release pins an older cuDNN
    ],
)
def test_a_gpu_before_turing_gets_a_cudnn_with_code_for_it(
    capability: str, lowest: str, release: str, cap: str
) -> None:
    advice = advice_for(capability, lowest_capability=lowest, driver="550.54.15")
    assert advice.commands[1].endswith(f" 'tensorflow[and-cuda]=={release}'{cap}")
    assert any("no code for GPUs before Turing" in note for note in advice.notes) is bool(cap)


def test_the_packages_of_an_extra_that_does_not_work_are_named_one_by_one() -> None:
    install = advice_for("8.0", driver="470.57.02").commands[1]
    assert "tensorflow==2.14.1 nvidia-cublas-cu11==11.11.3.6" in install
    assert "nvidia-cudnn-cu11==8.7.0.84" in install
    assert "tensorrt" not in install


@pytest.mark.parametrize(("python", "caps"), [("3.7", " 'numpy<2'"), ("3.6", " 'protobuf<3.21'"), ("3.8", "")])
def test_bounds_that_a_release_forgot_are_added(python: str, caps: str) -> None:
    advice = advice_for(python=python)
    assert advice.release
    assert (
        advice.commands[1]
        == f"conda run -n tensorflow-gpu python -m pip install tensorflow=={advice.release.version}{caps}"
    )
    assert f"python={python} cudatoolkit=11." in advice.commands[0]


def test_windows_is_given_commands_for_its_own_shell() -> None:
    commands = advice_for(os="windows", python="3.10").commands
    assert commands[1].endswith('tensorflow==2.10.1 "numpy<2"')
    assert not any("LD_LIBRARY_PATH" in command for command in commands)


def test_kernels_that_are_compiled_first_are_told() -> None:
    advice = advice_for("9.0", python="3.8")
    assert (advice.kernels, advice.minimum_driver) == ("ptx", "520.61.05")
    assert "half an hour" in advice.notes[0]
    assert advice_for("9.0").kernels == "native"


@pytest.mark.parametrize(
    "capability", ["3.5", "3.7", "5.0", "5.2", "6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "12.0"]
)
def test_a_newer_driver_never_means_an_older_release(capability: str) -> None:
    last = last_branch(capability, KNOWLEDGE)
    drivers = [row.linux for row in KNOWLEDGE.cuda_toolkits if not last or not is_newer_than_branch(row.linux, last)]
    found = [advice_for(capability, driver=driver).release for driver in drivers]
    versions = [version(release.version if release else "") for release in found]
    assert versions == sorted(versions)


@pytest.mark.parametrize("os", ["linux", "wsl", "windows"])
@pytest.mark.parametrize("python", ["", "3.6", "3.8", "3.10", "3.12", "3.14"])
@pytest.mark.parametrize("driver", ["", "440.33", "470.57.02", "551.61"])
def test_a_lift_keeps_its_promise(os: str, python: str, driver: str) -> None:
    advice = advice_for("7.5", os=os, python=python, driver=driver, glibc="2.17" if os == "linux" else "")
    for lift in advice.lifts:
        assert not advice.release or version(lift.release) > version(advice.release.version)
