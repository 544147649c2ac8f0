"""Which cuDNN has code for which GPU: from one release on, cuDNN has none for GPUs before Turing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging import requirements

from tfgpu_doctor.knowledge.reading import Knowledge, version
from tfgpu_doctor.knowledge.requirements import Requirement


def needs_older_cudnn(capability: str, knowledge: Knowledge) -> bool:
    """Whether newer releases of cuDNN have no code for a compute capability; false if it is unknown."""
    least = knowledge.boundaries["least_capability_of_newer_cudnn"].value
    return version("0") < version(capability) < version(least)


def is_newer_cudnn(cudnn: str, knowledge: Knowledge) -> bool:
    """Whether a cuDNN ("9.27.0.42") is such a newer release; false if its version is unknown."""
    return version(cudnn) >= version(first_newer_cudnn(knowledge))


def first_newer_cudnn(knowledge: Knowledge) -> str:
    """The first cuDNN without code for GPUs before Turing."""
    return knowledge.boundaries["first_cudnn_without_pre_turing"].value


def cudnn_cap(needed: Requirement, capabilities: Iterable[str], knowledge: Knowledge) -> str:
    """Return what pip must install besides TensorFlow to get a cuDNN with code for all these GPUs: "nvidia-cudnn-cu12<9.11".

    Empty if no GPU needs it, or if TensorFlow's own requirement decides it: it pins an older cuDNN, or wants a newer one.
    """
    first = first_newer_cudnn(knowledge)
    if not needed.allows(first) or version(needed.lowest) >= version(first):
        return ""
    return f"{needed.name}<{first}" if any(needs_older_cudnn(each, knowledge) for each in capabilities) else ""


def cudnn_caps(extra: Iterable[str], capabilities: Sequence[str], knowledge: Knowledge) -> list[str]:
    """Return `cudnn_cap` of each cuDNN that the extra [and-cuda] of a release requires, as its metadata writes it."""
    parsed = [each for each in map(requirements.Requirement, extra) if each.name.startswith("nvidia-cudnn")]
    needed = [Requirement(each.name, str(each.specifier), "and-cuda") for each in parsed]
    return [cap for each in needed if (cap := cudnn_cap(each, capabilities, knowledge))]
