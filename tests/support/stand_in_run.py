"""The perf suites where TensorFlow takes logical CPUs for GPUs, with small sizes."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Sequence

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
from tfgpu_doctor.perf_tests.variables import FACTS_VARIABLE

HEALTHY = "cloud-vm-t4-healthy"  # a machine whose GPU works, so that the suites do not examine this one
LONG_S = 900.0  # for one test on a slow machine
_SOURCE = """
import os, pathlib, sys
import stand_in_hardware, stand_in_tensorflow
folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != folder]
del sys.modules["tensorflow"]
import tensorflow
shown = os.environ.get("CUDA_VISIBLE_DEVICES")
gpus = {count} if shown is None else len([each for each in shown.split(",") if each not in ("", "-1")])
if gpus:
    stand_in_tensorflow.take_over(gpus)
    stand_in_hardware.equip(tensorflow, pathlib.Path(folder))
sys.modules["tensorflow"] = tensorflow
"""


def write_placeholder(folder: pathlib.Path, count: int = 1) -> pathlib.Path:
    """A folder for PYTHONPATH in which TensorFlow has that many such GPUs, and NVML their memory."""
    (folder / "tensorflow").mkdir(parents=True)
    (folder / "tensorflow/__init__.py").write_text(_SOURCE.format(count=count))
    for module in (stand_in_hardware, stand_in_tensorflow):
        shutil.copy(str(module.__file__), folder)
    stand_in_hardware.write_nvml(folder)
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
    folder: pathlib.Path, count: int, suites: Sequence[str] = (), *, only: str = "", own: str = ""
) -> Bench:
    """Run suites, or the tests of them that pytest's -k finds, or the suite with the text `own`, with that many GPUs."""
    placeholder = write_placeholder(folder / "placeholder", count)
    if own:
        (folder / "suites").mkdir()
        (folder / "suites/test_made_up.py").write_text(own)
    options = ("-p", "small_sizes", *(("-k", only) if only else ()))
    recorded = folder / "facts.json"
    recorded.write_bytes(encode_facts(linked(decode_facts(RECORDS[HEALTHY].read_bytes()))))
    path = os.pathsep.join([str(placeholder), str(TESTS / "support"), os.environ.get("PYTHONPATH", "")])
    variables = {
        "PYTHONPATH": path.rstrip(os.pathsep), FACTS_VARIABLE: str(recorded), "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": ",".join(str(place) for place in range(count)),
    }  # fmt: skip
    order = Order(
        journal=str(folder / "journal"), suites=suites, longest_s=LONG_S, pytest_options=options, variables=variables,
        folder=str(folder / "suites") if own else SUITES, passes=Passes(1, SHARE_S),
    )  # fmt: skip
    return run_suites(order)
