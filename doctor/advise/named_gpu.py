"""The GPU that --gpu means: its name as people and tools write it, or its compute capability."""

from __future__ import annotations

import re

from tfgpu_doctor.advise.target_spec import Gpu
from tfgpu_doctor.cli.output import refuse
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model.plain_text import shortened

_CAPABILITY = re.compile(r"\d{1,2}\.\d")
_OF_OTHERS = re.compile(r"(?i)\b(?:amd|radeon|instinct|firepro|intel|iris|arc|apple|macbook|imac)\b")
_OF_NVIDIA = re.compile(r"(?i)\b(?:nvidia|geforce|quadro|tesla|titan|[rg]tx)(?![a-z])")
_CPU = re.compile(r"(?i)\b(?:intel|amd)\W+(?:core|xeon|i\d|ryzen|epyc|threadripper)\b")
_CHIP_OF_APPLE = re.compile(r"(?i)(?:apple )?m[1-5](?: (?:pro|max|ultra))?")  # not M4, which the table knows as a Tesla
# The profile of a vGPU, which the driver in a virtual machine reports as the GPU's name: "GRID V100D-8Q", "NVIDIA A100-1-5C".
# Letters after the board's number are its form: memory, connector.
_VGPU = re.compile(
    r"(?:nvidia |grid )?(?P<line>rtx)?(?P<board>[a-z]{0,2}\d+)(?P<form>[a-z]{0,2})(?P<ada>-ada)?(?:-\d{1,3}){1,2}[abcq](?:me)?"
)
_OTHERWISE = (
    "instead of a name, you can give the compute capability, as in --gpu 8.6: `nvidia-smi --query-gpu=compute_cap --format=csv` "
    "prints it, and https://developer.nvidia.com/cuda-gpus lists it"
)


def find(name: str, knowledge: Knowledge) -> tuple[Gpu, str]:
    """Return the GPU of that name or compute capability ("8.6"), and the board that it is part of, for example a Jetson;
    reject an unknown name, and one that fits GPUs of several compute capabilities."""
    from tfgpu_doctor.rehearse import UnknownGpu, find_gpu

    if _CAPABILITY.fullmatch(name):
        return Gpu(f"a GPU of compute capability {name}", name), ""
    try:
        model = find_gpu(name, knowledge.gpus)
    except UnknownGpu as error:
        capabilities = {each.compute_capability for each in error.matches}
        if len(capabilities) == 1:
            return Gpu(shortened(name), capabilities.pop()), ""
        if error.matches:
            refuse(f"{error}; {_OTHERWISE}")
        return _in_text(name, str(error), knowledge)
    board = next((alias for alias in model.aliases if "jetson" in alias.lower()), "")
    return Gpu(model.name, model.compute_capability), board


def _in_text(name: str, why_unknown: str, knowledge: Knowledge) -> tuple[Gpu, str]:
    """Return the GPU that the name contains beside other words ("2x RTX 3090 24GB"), or of whose series it is."""
    from tfgpu_doctor.log import find_gpus

    if _is_of_others(name):
        refuse(
            f"{shortened(name)!r} is not a GPU of NVIDIA, and TensorFlow's wheels use no other; for a Mac, give --os macos alone"
        )
    found = next((gpus for text in (name, *_boards(name)) if (gpus := find_gpus(text, knowledge))), [])
    if not found:
        refuse(f"{why_unknown}; {_OTHERWISE}")
    if len({gpu.compute_capability for gpu in found}) > 1:
        refuse(f"{shortened(name)!r} names several GPUs, {' and '.join(gpu.name for gpu in found)}: give one of them")
    model = knowledge.gpu_called(found[0].name)
    is_jetson = "jetson" in name.lower() or (model is not None and model.line == "Jetson")
    return Gpu(shortened(name), found[0].compute_capability), shortened(name) if is_jetson else ""


def _is_of_others(name: str) -> bool:
    """Whether the name is of another maker's GPU: "Radeon 780M" has a number of NVIDIA's, and "Core i7, A100" is one."""
    if _CHIP_OF_APPLE.fullmatch(name.strip()):
        return True
    return bool(_OF_OTHERS.search(_CPU.sub("", name))) and not _OF_NVIDIA.search(name)


def _boards(name: str) -> list[str]:
    """Return the names that the board of a vGPU may have: V100D and V100 of "GRID V100D-8Q"."""
    found = _VGPU.fullmatch(name.strip().lower())
    if not found:
        return []
    boards = [found["board"] + found["form"], found["board"]]
    if not found["line"]:
        return boards
    line = "rtx" if found["ada"] or found["board"][0].isalpha() else "quadro rtx"
    return [f"{line} {board}{' ada' if found['ada'] else ''}" for board in boards]
