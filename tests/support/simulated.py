"""The simulated driver for tests: a machine in few words, as variables that programs find it by."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import msgspec

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.rehearse.machine import read_machine
from tfgpu_doctor.rehearse.props import lay_out

DRIVER = "550.54.15"  # as made_up_root has it
GPU = "NVIDIA GeForce RTX 3090"
Simulate = Callable[..., dict[str, str]]


def machine(*gpus: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A machine file's content: one RTX 3090 with a driver of CUDA 12.4, but for what is given."""
    return {"driver": DRIVER, "gpus": [{"name": GPU, **gpu} for gpu in gpus or ({},)], **fields}


def simulate_in(folder: pathlib.Path, driver: pathlib.Path, document: dict[str, Any]) -> dict[str, str]:
    """The variables for that machine, whose files are put into a new folder."""
    folder.mkdir(parents=True)
    return lay_out(str(folder), read_machine(msgspec.json.encode(document), read_knowledge()), str(driver))
