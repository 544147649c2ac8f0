"""The perf suites where TensorFlow takes logical CPUs for GPUs, with small sizes."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

import msgspec
import stand_in_hardware
import stand_in_tensorflow
from locations import RECORDS, TESTS
from small_sizes import SHARE_S

from tfgpu_doctor.bench.names import SUITES
from tfgpu_doctor.bench.run import Order, run_suites
from tfgpu_doctor.model.facts import Facts, decode_facts, encode_facts
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.model.facts.health import NvLink
from tfgpu_doctor.perf_tests.budget import Passes
from tfgpu_doctor.perf_tests.variables import BUSY_VARIABLE, FACTS_VARIABLE

HEALTHY = "cloud-vm-t4-healthy"  # a machine whose GPU works, so that the suites do not examine this one
LONG_S = 900.0  # for one test on a slow machine
_SOURCE = """
import os, pathlib, sys
import stand_in_hardware, stand_in_tensorflow
folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != folder] + {site!r}
{more}
del sys.modules["tensorflow"]
import tensorflow
seen = stand_in_hardware.visible({count})
if seen:
    stand_in_tensorflow.take_over(len(seen))
    stand_in_hardware.equip(tensorflow, pathlib.Path(folder), seen)
sys.modules["tensorflow"] = tensorflow
"""


# The scipy beside the tests needs a newer numpy than older releases have; the suites use none.
_WITHOUT_SCIPY = 'sys.modules["scipy"] = None'


def write_placeholder(folder: pathlib.Path, count: int = 1, *, site: str = "", more: str = "") -> pathlib.Path:
    """A folder for PYTHONPATH in which TensorFlow has that many such GPUs, and NVML their memory.

    `site`: where TensorFlow is, if not on the path. `more`: statements before its import.
    """
    (folder / "tensorflow").mkdir(parents=True)
    source = _SOURCE.format(count=count, site=[site] if site else [], more=more)
    (folder / "tensorflow/__init__.py").write_text(source)
    for module in (stand_in_hardware, stand_in_tensorflow):
        shutil.copy(str(module.__file__), folder)
    stand_in_hardware.write_nvml(folder, count)
    return folder


def make_stand_in(folder: pathlib.Path, count: int = 1) -> pathlib.Path:
    """A virtual environment with that many such GPUs; the TensorFlow is that of the interpreter that runs the tests."""
    import tensorflow as tf

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (place,) = folder.glob("lib/python3*/site-packages")
    write_placeholder(place, count, site=str(pathlib.Path(tf.__file__).parent.parent))
    return folder


def linked(facts: Facts) -> Facts:
    """The machine, its GPUs connected by NVLink."""
    assert facts.nvml
    gpus = tuple(
        msgspec.structs.replace(
            gpu, health=msgspec.structs.replace(gpu.health, nvlinks=(NvLink(index=0, active=True),))
        )
        for gpu in facts.nvml.gpus
    )
    return msgspec.structs.replace(facts, nvml=msgspec.structs.replace(facts.nvml, gpus=gpus))


def run_on_stand_in(
    folder: pathlib.Path, count: int, suites: Sequence[str] = (), *, only: str = "", own: str = "",
    variables: Mapping[str, str] | None = None, facts: Facts | None = None, site: pathlib.Path | None = None,
) -> Bench:  # fmt: skip
    """Run suites, or the tests of them that pytest's -k finds, or the suite with the text `own`, with that many GPUs.

    `facts`: of the machine, which nobody else uses unless `variables` say so. `site`: where another TensorFlow is.
    """
    placeholder = write_placeholder(folder / "placeholder", count, more=_WITHOUT_SCIPY if site else "")
    if own:
        (folder / "suites").mkdir()
        (folder / "suites/test_made_up.py").write_text(own)
    options = ("-p", "small_sizes", *(("-k", only) if only else ()))
    recorded = folder / "facts.json"
    recorded.write_bytes(encode_facts(linked(facts or decode_facts(RECORDS[HEALTHY].read_bytes()))))
    places = (str(placeholder), str(TESTS / "support"), str(site or ""), os.environ.get("PYTHONPATH", ""))
    given = {
        "PYTHONPATH": os.pathsep.join(filter(None, places)), FACTS_VARIABLE: str(recorded), "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": ",".join(str(place) for place in range(count)),
        BUSY_VARIABLE: os.environ.get(BUSY_VARIABLE, "{}"), **(variables or {}),
    }  # fmt: skip
    order = Order(
        journal=str(folder / "journal"), suites=suites, longest_s=LONG_S, pytest_options=options, variables=given,
        folder=str(folder / "suites") if own else SUITES, passes=Passes(1, SHARE_S),
    )  # fmt: skip
    return run_suites(order)
