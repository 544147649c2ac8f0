"""The compute mode of the GPUs: whether a second process may use one beside this process, which holds them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfgpu_doctor.checks.gpu.in_use import serves_by_mps
from tfgpu_doctor.gpu_demand import is_board_of

if TYPE_CHECKING:
    from tfgpu_doctor.model.facts import Facts
    from tfgpu_doctor.model.facts.nvidia import NvmlGpu

# Where the daemon of MPS listens: https://docs.nvidia.com/deploy/mps/index.html
_PIPES, _DEFAULT_FOLDER, _CONTROL = "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps", "control"


def exclusive(facts: Facts, gpus: Sequence[str]) -> dict[str, str]:
    """Return the compute mode of each of TensorFlow's GPUs ("GPU:0") that admits one process alone.

    With MPS, the server is that process, and admits its clients. If CUDA's GPUs cannot be matched with NVML's, a GPU
    counts only if all of NVML's have such a mode.
    """
    boards = facts.nvml.gpus if facts.nvml else ()
    listed = facts.cuda_driver.gpus if facts.cuda_driver else ()
    if not boards or _mps_listens():
        return {}
    found = {}
    for place, name in enumerate(gpus):
        own = [each for each in boards if is_board_of(each, listed[place])] if len(listed) == len(gpus) else []
        modes = {_mode_of_one(each) for each in own or boards}
        if "" not in modes:
            found[name] = ", ".join(sorted(modes))
    return found


def why_no_second_process(modes: Mapping[str, str]) -> str:
    """Return why no second process may use these GPUs, by their names and compute modes."""
    are = "is" if len(modes) == 1 else "are"
    return (
        f"{', '.join(modes)} {are} in compute mode {', '.join(sorted(set(modes.values())))}: no second process can use "
        "what this one holds; MPS, or an administrator with `sudo nvidia-smi -c 0`, changes that"
    )


def _mode_of_one(board: NvmlGpu) -> str:
    """Return the compute mode of a GPU that admits one process alone; empty if it admits more, or does not tell."""
    return "" if board.compute_mode == "default" or serves_by_mps(board) else board.compute_mode


def _mps_listens() -> bool:
    """Return whether this process reaches the daemon of MPS. In a container, NVML does not name its server."""
    return os.path.exists(os.path.join(os.environ.get(_PIPES) or _DEFAULT_FOLDER, _CONTROL))
