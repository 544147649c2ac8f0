"""A machine without a GPU that stands in for one: a simulated driver, and a TensorFlow that takes logical CPUs for GPUs.

It shows that everything runs to its end, and nothing of how fast a GPU is. Its pieces are those of the tests.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

from gpu_run.workbench import PROGRAMS, SMALL, TOOLS

SUPPORT = TOOLS.parent / "tests/support"
FULL = "RECORD_GPU_FULL_MACHINE"  # the simulated machine whose memory another process holds
MACHINE = "RECORD_GPU_MACHINE"  # the description of the simulated machine, for the stand-in's doctor

_ON_GPU = """
from tensorflow.python.framework import ops
behind = ops.EagerTensor.device
ops.EagerTensor.device = property(lambda self: stand_in_tensorflow.outward(behind.__get__(self)))
"""


def lay_out(folder: pathlib.Path) -> dict[str, str | None]:
    """Make the stand-in below a folder; return the variables by which programs find it."""
    sys.path[:0] = [str(SUPPORT)]
    import msgspec
    from simulated import machine, simulate_in
    from stand_in_run import write_placeholder

    from tfgpu_doctor.host import Host
    from tfgpu_doctor.rehearse.build import build_driver

    driver = build_driver(Host(environment={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}))
    simulated = simulate_in(folder / "machine", pathlib.Path(driver), machine())
    full = simulate_in(folder / "full", pathlib.Path(driver), machine(_full()))
    (folder / "machine.json").write_bytes(msgspec.json.encode(machine()))
    placeholder = write_placeholder(folder / "placeholder")
    (placeholder / "pynvml.py").unlink(missing_ok=True)  # the simulated driver answers
    _complete(placeholder)
    path = [str(placeholder), str(SUPPORT), os.environ.get("PYTHONPATH", "")]
    return {
        **simulated,
        "LD_LIBRARY_PATH": os.pathsep.join(
            filter(None, (simulated["LD_LIBRARY_PATH"], os.environ.get("LD_LIBRARY_PATH")))
        ),
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        FULL: full["TFGPU_DOCTOR_MACHINE"],
        MACHINE: str(folder / "machine.json"),
        SMALL: "1",
    }


def _full() -> dict[str, Any]:
    """A GPU of which this process holds all memory but 100 MB."""
    held = {"pid": os.getpid(), "name": "python", "memory_bytes": 25_600_000_000}
    return {"memory_used_bytes": 25_660_000_000, "processes": [held]}


def _complete(placeholder: pathlib.Path) -> None:
    """Results say that they lie on the GPU; and the placeholder looks like the installed package, to who reads its files."""
    with open(placeholder / "tensorflow/__init__.py", "a") as file:
        file.write(_ON_GPU)
    import importlib.util

    spec = importlib.util.find_spec("tensorflow")
    real = pathlib.Path(str(spec and spec.origin)).parent
    for each in [*real.iterdir(), *real.parent.glob("tensorflow-*.dist-info")]:
        place = (placeholder if each.parent == real.parent else placeholder / "tensorflow") / each.name
        if not place.exists() and each.name != "__pycache__":
            place.symlink_to(each)


def doctor() -> tuple[str, ...]:
    """The command of the doctor on the stand-in."""
    return (sys.executable, str(PROGRAMS / "stand_in_doctor.py"))
