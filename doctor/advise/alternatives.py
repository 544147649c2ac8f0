"""Alternatives if no release works, or if another system could run a newer one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tfgpu_doctor.advise.installing import ABOUT_UV, commands_for, install_into
from tfgpu_doctor.advise.older import newest_older
from tfgpu_doctor.advise.target_spec import NEW_PYTHON, TargetSpec
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.release_needs import NEW_ENVIRONMENT, needs_of

_JETSON = "https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/index.html"
_SOURCE = "https://www.tensorflow.org/install/source"
_METAL = "https://developer.apple.com/metal/tensorflow-plugin/"
_WSL = "https://learn.microsoft.com/windows/wsl/install"
_CUDA_OF_CONTAINER = "12.8"
_LEAST_OF_ANY_BUILD = "3.0"  # https://github.com/tensorflow/tensorflow/blob/v2.21.0/configure.py


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
    found = _older(spec, knowledge)
    if spec.os == "windows" and not too_old:
        text = "Install WSL 2: Linux programs and containers in it use the GPU through the Windows driver."
        found.append(Alternative(text, _WSL))
    gpu = spec.gpu
    lowest = knowledge.boundaries["container_of_nvidia_capability"].value
    if gpu is None or version(gpu.compute_capability) >= version(lowest):
        found.append(_container(spec, knowledge, too_new=too_new))
    build = _own_build(spec, knowledge) if too_new or too_old else []
    found += build
    if too_old:
        text = "TensorFlow cannot use this GPU: `tensorflow-cpu` runs on the CPU."
        found.append(Alternative(f"Without your own build, {text}" if build else text, _SOURCE))
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
    return [Alternative(text, release.source, tuple(commands_for(release, wheels, spec, knowledge)))]


def _own_build(spec: TargetSpec, knowledge: Knowledge) -> list[Alternative]:
    """Return the build from source, with the CUDA whose compiler knows the GPU; none for a GPU that no source supports."""
    capability = spec.gpu.compute_capability if spec.gpu else ""
    if version(capability) < version(_LEAST_OF_ANY_BUILD):
        return []
    text = f"Build TensorFlow from source for compute capability {capability}"
    if target := knowledge.first_ptxas(capability):
        limit = f"{target.last_cuda} at most" if target.last_cuda else f"{target.cuda} or newer"
        text += f", with CUDA {limit}"
    return [Alternative(f"{text}.", _SOURCE)]


def _container(spec: TargetSpec, knowledge: Knowledge, *, too_new: bool) -> Alternative:
    """Return NVIDIA's container, with the driver that it needs where this one is too old or not known.

    On a GPU that is older than the container's CUDA, any driver of the same major version will do.
    """
    image = knowledge.boundaries["container_of_nvidia"]
    known = knowledge.ptx_driver if too_new else knowledge.minimum_driver
    row = known(_CUDA_OF_CONTAINER, spec.driver_os)
    needed = row.driver(spec.driver_os) if row else ""
    text = f"Use NVIDIA's container. {image.about}."
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
