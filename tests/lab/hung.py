"""A training on a machine of the lab that has raised an exception, does not end, and holds the GPU's memory."""

from __future__ import annotations

from hung_training import copy_of_its_files, hung_training
from lab.machine import RTX_3090, Machine, driver, gpu
from lab.place import Place

_PID = 4194242
_HELD_BYTES = 23 << 30  # of 24 GiB
_TENANT = {"pid": _PID, "name": "/home/anna/venv/bin/python", "memory_bytes": _HELD_BYTES}


def with_hung_training(place: Place) -> None:
    """Run the training with the target's TensorFlow until it hangs; the root keeps what /proc showed of it."""
    with hung_training(str(place.environment / "bin/python"), place.folder) as pid:
        copy_of_its_files(pid, place.root, as_pid=_PID)


HUNG = (
    Machine("training-hangs-at-its-end", "gpu_memory_held_by_other_process", f"process {_PID} seems to hang",
            done=(with_hung_training,),
            driver=driver(gpu(RTX_3090["name"], memory_used_bytes=_HELD_BYTES + (1 << 29), processes=[_TENANT]))),
)  # fmt: skip
