"""What remains where no release works, or where another system would take a newer one."""

from __future__ import annotations

from dataclasses import dataclass

from tfgpu_doctor.advise.situation import Situation
from tfgpu_doctor.knowledge import Knowledge, version

_JETSON = "https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/index.html"
_SOURCE = "https://www.tensorflow.org/install/source"
_METAL = "https://developer.apple.com/metal/tensorflow-plugin/"
_WSL = "https://learn.microsoft.com/windows/wsl/install"


@dataclass(frozen=True)
class WayOut:
    """Another way to a GPU, or without one; the commands are safe to paste."""

    text: str
    source: str
    commands: tuple[str, ...] = ()


def ways_out(situation: Situation, knowledge: Knowledge, *, too_new: bool, too_old: bool) -> list[WayOut]:
    """Ways for a machine that no release fits, the best first."""
    if situation.os == "macos":
        return [_metal(situation, knowledge)]
    if "jetson" in situation.board.lower() or "tegra" in situation.board.lower():
        return [
            WayOut("On a Jetson use the wheel that NVIDIA builds for its JetPack, or NVIDIA's l4t containers.", _JETSON)
        ]
    found = []
    if situation.os == "windows":
        found.append(
            WayOut(
                "Use WSL 2, in which the wheels for Linux find the GPU through Windows' own driver; "
                "`tfgpu-doctor advise --os wsl` says which.",
                _WSL,
            )
        )
    gpu = situation.gpu
    image = knowledge.boundaries["container_of_nvidia"]
    lowest = knowledge.boundaries["container_of_nvidia_capability"].value
    if gpu is None or version(gpu.compute_capability) >= version(lowest):
        command = f"docker run --rm -it --gpus all {image.value}"
        found.append(WayOut(f"Use NVIDIA's container. {image.about}.", image.source, (command,)))
    if too_new or too_old:
        capability = gpu.compute_capability if gpu else ""
        found.append(WayOut(f"Build TensorFlow from source for compute capability {capability}.", _SOURCE))
    if too_old:
        found.append(
            WayOut(
                "Without a build of your own this GPU stays unused: `tensorflow-cpu` runs on the processor.", _SOURCE
            )
        )
    return found


def _metal(situation: Situation, knowledge: Knowledge) -> WayOut:
    last = knowledge.boundaries["last_release_for_metal"].value
    if situation.architecture == "x86_64":
        return WayOut(
            "TensorFlow's wheels for Macs with Intel processors have no GPU support; use another machine.", _METAL
        )
    python = situation.interpreter or "python"
    return WayOut(
        f"A Mac's GPU is reached through Metal, by Apple's plug-in; the newest release that it names is {last}.",
        _METAL,
        (f"{python} -m pip install 'tensorflow=={last}.*' tensorflow-metal",),
    )
