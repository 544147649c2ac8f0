"""Alternatives if no release works, or if another system could run a newer one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tfgpu_doctor.advise.installing import ABOUT_UV, commands_for, install_into, needs_installers
from tfgpu_doctor.advise.older import newest_older
from tfgpu_doctor.advise.target_spec import NEW_PYTHON, TargetSpec
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.release_needs import NEW_ENVIRONMENT, needs_of

_JETSON = "https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/index.html"
_SOURCE = "https://www.tensorflow.org/install/source"
_METAL = "https://developer.apple.com/metal/tensorflow-plugin/"
ABOUT_WSL = "https://learn.microsoft.com/windows/wsl/install"
_CUDA_OF_CONTAINER = "12.8"
_LEAST_OF_ANY_BUILD = "3.0"  # https://github.com/tensorflow/tensorflow/blob/v2.21.0/configure.py
# The boards of NVIDIA whose GPU is a part of the processor, as people and their device trees call them.
_TEGRA = re.compile(r"(?i)jetson|tegra|orin|xavier|thor|\bdrive\b")


@dataclass(frozen=True)
class Alternative:
    """Another way to use a GPU, or to run without one; the commands are safe to paste."""

    text: str
    source: str
    commands: tuple[str, ...] = ()


def alternatives(
    spec: TargetSpec,
    knowledge: Knowledge,
    *,
    too_new: bool,
    too_old: bool,
    no_cuda: bool = False,
    wsl_told: bool = False,
) -> list[Alternative]:
    """Return the alternatives for a machine that no release fits, best first.

    `no_cuda`: no wheel for the system has CUDA; `wsl_told`: a change is to use WSL 2, which need not be told again.
    """
    if spec.os == "macos":
        return [_metal(spec, knowledge)]
    if _TEGRA.search(spec.board):
        return [
            Alternative(
                "On a Jetson, use the wheel that NVIDIA builds for its JetPack, or NVIDIA's l4t containers.", _JETSON
            )
        ]
    found = _older(spec, knowledge)
    if spec.os == "windows" and not too_old and not wsl_told:
        text = "Install WSL 2: Linux programs and containers in it use the GPU through the Windows driver."
        found.append(Alternative(text, ABOUT_WSL))
    in_container = _runs_container(spec, knowledge)
    if in_container:
        found.append(_container(spec, knowledge, too_new=too_new))
    if too_new or (no_cuda and not in_container):
        found += _own_build(spec, knowledge)
    if too_old:
        found.append(Alternative("TensorFlow cannot use this GPU: `tensorflow-cpu` runs on the CPU.", _SOURCE))
    return found


def _older(spec: TargetSpec, knowledge: Knowledge) -> list[Alternative]:
    """Return the release of years ago that works on the machine as it is, for whoever cannot change it."""
    found = newest_older(spec, knowledge)
    if found is None:
        return []
    release, wheels = found
    text = (
        f"Without any change, the newest TensorFlow that works is {release.version} (CUDA {wheels.cuda}, cuDNN "
        f"{wheels.cudnn}): it gets no fixes any more, not even of security holes."
    )
    if needs_installers(release, spec):
        text += (
            f" Install that CUDA and that cuDNN with NVIDIA's installers first "
            f"(https://developer.nvidia.com/cuda-toolkit-archive), and Python {spec.python or wheels.pythons[-1]}."
        )
    return [Alternative(text, release.source, tuple(commands_for(release, wheels, spec, knowledge)))]


def _own_build(spec: TargetSpec, knowledge: Knowledge) -> list[Alternative]:
    """Return the build of the newest release, with the CUDA whose compiler knows the GPU; none if it takes only a newer CUDA."""
    capability = spec.gpu.compute_capability if spec.gpu else ""
    target = knowledge.first_ptxas(capability)
    if target is None and version(capability) < version(_LEAST_OF_ANY_BUILD):
        return []
    last, newest = target.last_cuda if target else "", knowledge.tensorflow_releases[-1]
    if last and version(last) < version(newest.wheels[0].cuda):
        return []
    cuda = f"{last} at most" if last else f"{target.cuda} or newer" if target else "whose `nvcc --list-gpu-code` has it"
    text = f"Build TensorFlow from source{_in_wsl(spec)} for compute capability {capability}, with CUDA {cuda}."
    return [Alternative(text, _SOURCE)]


def _in_wsl(spec: TargetSpec) -> str:
    """Return the words for what Linux alone can do: no build for native Windows has GPU support after 2.10."""
    return " in WSL 2" if spec.os == "windows" else ""


def _runs_container(spec: TargetSpec, knowledge: Knowledge) -> bool:
    """Whether NVIDIA's last container supports the GPU: neither too old for it, nor too new for the compiler of its CUDA."""
    if spec.gpu is None:
        return True
    capability = spec.gpu.compute_capability
    target = knowledge.first_ptxas(capability)
    if target is None or version(target.cuda) > version(_CUDA_OF_CONTAINER):
        return False
    return version(capability) >= version(knowledge.boundaries["container_of_nvidia_capability"].value)


def _container(spec: TargetSpec, knowledge: Knowledge, *, too_new: bool) -> Alternative:
    """Return NVIDIA's container, with the driver that it needs where this one is too old or not known.

    On a GPU that is older than the container's CUDA, any driver of the same major version will do.
    """
    image = knowledge.boundaries["container_of_nvidia"]
    known = knowledge.ptx_driver if too_new else knowledge.minimum_driver
    row = known(_CUDA_OF_CONTAINER, spec.driver_os)
    needed = row.driver(spec.driver_os) if row else ""
    text = f"Use NVIDIA's container{_in_wsl(spec)}. {image.about}."
    if needed and version(spec.driver) < version(needed) and not _has_compat(spec, knowledge):
        text += f" It needs driver {needed} or newer" + (f"; this is {spec.driver}." if spec.driver else ".")
    return Alternative(text, image.source, (f"docker run --rm -it --gpus all {image.value}",))


def _has_compat(spec: TargetSpec, knowledge: Knowledge) -> bool:
    """Whether the newer libcuda that the container brings may replace a newer driver."""
    gpus = [spec.gpu.name] if spec.gpu else []
    return spec.os == "linux" and knowledge.compat_package(_CUDA_OF_CONTAINER, spec.driver, gpus) is not None


def _metal(spec: TargetSpec, knowledge: Knowledge) -> Alternative:
    last = knowledge.boundaries["last_release_for_metal"].value
    if spec.architecture == "x86_64":
        return Alternative(
            "TensorFlow's wheels for Macs with Intel CPUs have no GPU support; use another machine.", _METAL
        )
    needs = needs_of(knowledge, last, "macos", "arm64")
    assert needs is not None
    fits = spec.python in ("", *needs.pythons)
    spec = spec if fits else replace(spec, python="", **NEW_PYTHON)
    commands = install_into(spec, spec.python or needs.pythons[-1], f"tensorflow=={last}.*", "tensorflow-metal")
    text = f"To use a Mac's GPU, install Apple's Metal plug-in; the newest TensorFlow release that it lists is {last}."
    if not fits:
        text += f" That release has wheels for Python {', '.join(needs.pythons)}."
    if not spec.interpreter:
        commands.append(f"tfgpu-doctor --python {NEW_ENVIRONMENT}")
        text += "" if spec.base else f" {ABOUT_UV}"
    return Alternative(text, _METAL, tuple(commands))
