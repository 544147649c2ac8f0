"""The perf suites where TensorFlow takes logical CPUs for GPUs, with small sizes."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from locations import RECORDS, TESTS
from stand_in_gpu import write_placeholder
from stand_in_hardware import write_nvml

from tfgpu_doctor.bench.run import SUITES, Order, run_suites
from tfgpu_doctor.model.facts.bench import Bench
from tfgpu_doctor.perf_tests.variables import FACTS_VARIABLE

HEALTHY = "cloud-vm-t4-healthy"  # a machine whose GPU works, so that the suites do not examine this one
LONG_S = 900.0  # for one test on a slow machine


def run_on_stand_in(
    folder: pathlib.Path, count: int, suites: Sequence[str] = (), *, only: str = "", own: str = ""
) -> Bench:
    """Run suites, or the tests of them that pytest's -k finds, or the suite with the text `own`, with that many GPUs."""
    placeholder = write_placeholder(folder / "placeholder", count)
    write_nvml(placeholder)
    if own:
        (folder / "suites").mkdir()
        (folder / "suites/test_made_up.py").write_text(own)
    options = ("-p", "small_sizes", *(("-k", only) if only else ()))
    path = os.pathsep.join([str(placeholder), str(TESTS / "support"), os.environ.get("PYTHONPATH", "")])
    variables = {
        "PYTHONPATH": path.rstrip(os.pathsep), FACTS_VARIABLE: str(RECORDS[HEALTHY]), "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": ",".join(str(place) for place in range(count)),
    }  # fmt: skip
    order = Order(
        journal=str(folder / "journal"), suites=suites, longest_s=LONG_S, pytest_options=options, variables=variables,
        folder=str(folder / "suites") if own else SUITES,
    )  # fmt: skip
    return run_suites(order)
