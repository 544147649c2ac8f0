"""Alternatives if no release works, or if another system could run a newer one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tfgpu_doctor.advise.installing import ABOUT_UV, install_into
from tfgpu_doctor.advise.target_spec import NEW_PYTHON, TargetSpec
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.release_needs import NEW_ENVIRONMENT, needs_of

_JETSON = "https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/index.html"
_SOURCE = "https://www.tensorflow.org/install/source"
_METAL = "https://developer.apple.com/metal/tensorflow-plugin/"
_WSL = "https://learn.microsoft.com/windows/wsl/install"


@dataclass(frozen=True)
class Alternative:
    """Another way to use a GPU, or to run without one; the commands are safe to paste."""

    text: str
    source: str
    commands: tuple[str, ...] = ()


def alternatives(spec: TargetSpec, knowledge: Knowledge, *, too_new: bool, too_old: bool) -> list[Alternative]:
    """Return the alternatives for a machine that no release fits, best first."""
    if spec.os == "macos":
        return [_metal(spec, knowledge)]
    if "jetson" in spec.board.lower() or "tegra" in spec.board.lower():
        return [
            Alternative(
                "On a Jetson, use the wheel that NVIDIA builds for its JetPack, or NVIDIA's l4t containers.", _JETSON
            )
        ]
    found = []
    if spec.os == "windows":
        found.append(
            Alternative(
                "Use WSL 2, where the Linux wheels use the GPU through the Windows driver; "
                "`tfgpu-doctor advise --os wsl` names the release.",
                _WSL,
            )
        )
    gpu = spec.gpu
    image = knowledge.boundaries["container_of_nvidia"]
    lowest = knowledge.boundaries["container_of_nvidia_capability"].value
    if gpu is None or version(gpu.compute_capability) >= version(lowest):
        command = f"docker run --rm -it --gpus all {image.value}"
        found.append(Alternative(f"Use NVIDIA's container. {image.about}.", image.source, (command,)))
    if too_new or too_old:
        capability = gpu.compute_capability if gpu else ""
        found.append(Alternative(f"Build TensorFlow from source for compute capability {capability}.", _SOURCE))
    if too_old:
        found.append(
            Alternative(
                "Without your own build, TensorFlow cannot use this GPU: `tensorflow-cpu` runs on the CPU.", _SOURCE
            )
        )
    return found


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
