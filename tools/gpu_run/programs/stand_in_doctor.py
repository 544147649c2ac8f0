"""tfgpu-doctor on the stand-in: the file probes find the simulated machine, TensorFlow computes, the suites are small."""

from __future__ import annotations

import functools
import os
import pathlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.cli.entry import main
from tfgpu_doctor.collect import examination
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.rehearse.machine import read_machine
from tfgpu_doctor.rehearse.stage import simulated_facts


def stand_in() -> None:
    """Let the examination take the simulated machine for this one. TensorFlow has to compute, as on a real one."""
    content = pathlib.Path(os.environ["RECORD_GPU_MACHINE"]).read_bytes()
    facts = simulated_facts(read_machine(content, read_knowledge()))
    names = vars(examination)
    names["_Examination"] = functools.partial(_on_stage, names["_Examination"], facts)
    names["MACHINE_VARIABLE"] = "RECORD_GPU_COMPUTES"  # which nobody sets


def _on_stage(kind: Any, facts: dict[str, Any], host: Any, request: Any, probes: Any, given: Any = None) -> Any:
    return kind(host, request, probes, {**facts, **(given or {})})


def small_suites() -> None:
    """Let bench take sizes that a processor computes in seconds."""
    from tfgpu_doctor.bench import run, suites

    @dataclass(frozen=True)
    class Small(run.Order):
        pytest_options: Sequence[str] = ("-p", "small_sizes")

    vars(suites)["Order"] = Small


if __name__ == "__main__":
    stand_in()
    if {"bench", "accept"} & set(sys.argv):
        small_suites()
    sys.exit(main())
