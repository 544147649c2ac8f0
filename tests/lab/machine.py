"""What one machine of the lab is: a target, what is done to it, a simulated driver, an environment; and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.place import Change
from lab.targets import NEWEST

NEW, OLD = "550.54.15", "470.82.01"  # the driver of a made-up root, and one of CUDA 11
NO_LIBCUDA, NO_NVML = ("libcuda.so.1",), ("libnvidia-ml.so.1",)
# 2.21.0 misses pip's libcusolver; where something else is to be found broken, its folder is put on LD_LIBRARY_PATH.
CUSOLVER = "{site}/nvidia/cusolver/lib"


def gpu(name: str, **fields: Any) -> dict[str, Any]:
    """A GPU of the doctor's table, with what is special about it."""
    return {"name": name, **fields}


RTX_3090 = gpu("NVIDIA GeForce RTX 3090")
A100 = gpu("NVIDIA A100-SXM4-40GB")
H100 = gpu("NVIDIA H100 80GB HBM3")


def driver(
    *gpus: dict[str, Any], version: str = NEW, missing: tuple[str, ...] = (), **faults: int | str
) -> dict[str, Any]:
    """A driver with these GPUs, an RTX 3090 where none is named, without some library, and with calls that fail."""
    return {"driver": version, "gpus": list(gpus or (RTX_3090,)), "missing": list(missing), "faults": faults}


NO_DRIVER = driver(missing=NO_LIBCUDA + NO_NVML)
NO_GPUS = {**driver(), "gpus": []}


@dataclass(frozen=True)
class Machine:
    """One machine, and the label that must be its first cause; no label where nothing is wrong.

    In the values of `library_path`, `variables` and `under` {site} is the site-packages folder of the target, {root}
    the made-up root, {parts} the folder of spare parts, {site of 2.16.1} the site-packages folder of another target.
    """

    name: str
    label: str = ""
    says: str = ""  # what title or evidence of the first cause must hold
    done: tuple[Change, ...] = ()  # to the root and to a copy of the target
    target: str = NEWEST
    only_of: str = ""  # the one release of which the answer is expected; empty for any
    driver: Mapping[str, Any] = field(default_factory=driver)  # the machine file of the simulated driver
    libcuda: str = "driver/libcuda.so.{version}"  # the file behind libcuda.so.1, beside the root
    library_path: tuple[str, ...] = (CUSOLVER,)
    variables: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    under: tuple[str, ...] = ()  # a command that the doctor is run under
    as_root: bool = False  # whether only root can make it
