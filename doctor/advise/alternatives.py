"""What remains where no release works, or where another system would take a newer one."""

from __future__ import annotations

from dataclasses import dataclass

from tfgpu_doctor.advise.target_spec import TargetSpec
from tfgpu_doctor.knowledge import Knowledge, version

_JETSON = "https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/index.html"
_SOURCE = "https://www.tensorflow.org/install/source"
_METAL = "https://developer.apple.com/metal/tensorflow-plugin/"
_WSL = "https://learn.microsoft.com/windows/wsl/install"


@dataclass(frozen=True)
class Alternative:
    """Another way to a GPU, or without one; the commands are safe to paste."""

    text: str
    source: str
    commands: tuple[str, ...] = ()


def alternatives(spec: TargetSpec, knowledge: Knowledge, *, too_new: bool, too_old: bool) -> list[Alternative]:
    """Ways for a machine that no release fits, the best first."""
    if spec.os == "macos":
        return [_metal(spec, knowledge)]
    if "jetson" in spec.board.lower() or "tegra" in spec.board.lower():
        return [
            Alternative(
                "On a Jetson use the wheel that NVIDIA builds for its JetPack, or NVIDIA's l4t containers.", _JETSON
            )
        ]
    found = []
    if spec.os == "windows":
        found.append(
            Alternative(
                "Use WSL 2, in which the wheels for Linux find the GPU through Windows' own driver; "
                "`tfgpu-doctor advise --os wsl` says which.",
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
                "Without a build of your own this GPU stays unused: `tensorflow-cpu` runs on the processor.", _SOURCE
            )
        )
    return found


def _metal(spec: TargetSpec, knowledge: Knowledge) -> Alternative:
    last = knowledge.boundaries["last_release_for_metal"].value
    if spec.architecture == "x86_64":
        return Alternative(
            "TensorFlow's wheels for Macs with Intel processors have no GPU support; use another machine.", _METAL
        )
    python = spec.interpreter or "python"
    return Alternative(
        f"A Mac's GPU is reached through Metal, by Apple's plug-in; the newest release that it names is {last}.",
        _METAL,
        (f"{python} -m pip install 'tensorflow=={last}.*' tensorflow-metal",),
    )
