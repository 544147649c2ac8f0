"""A node without a report is told by how `timeout` ended, which a placeholder plays: it takes more than two seconds."""

from __future__ import annotations

import pathlib

import msgspec
import pytest
from emitted_jobs import commands, run_script

from tfgpu_doctor.fleet.emitting import Emission
from tfgpu_doctor.fleet.emitting_jobs import slurm
from tfgpu_doctor.fleet.node import NodeReport
from tfgpu_doctor.fleet.order import NodeOrder

TIMEOUT = """#!/bin/bash
sleep 2.1
exit "$STAND_IN_CODE"
"""


@pytest.mark.parametrize(("code", "limit_s", "outcome", "said"), [
    (124, 60, "hung", "ended after 60 s"),
    (137, 1, "hung", "ended after 1 s"),  # it went on when it was asked to end
    (137, 60, "died", "signal 9"),
    (1, 1, "died", "exit code 1"),  # the last second before a limit may be over in whole seconds
])  # fmt: skip
def test_only_what_timeout_ended_is_hung(
    code: int, limit_s: int, outcome: str, said: str, tmp_path: pathlib.Path
) -> None:
    bin_ = commands(tmp_path / "bin", timeout=TIMEOUT)
    job = Emission(order=NodeOrder(level="quick"), out=str(tmp_path), limit_s=limit_s, command="doctor", nodes=1)
    text = slurm(job, "job")
    functions = text[text.index("# Run the doctor on a node") : text.index("# Before the nodes start")]
    done = run_script(f"{functions}\nexamine_node n1", commands=bin_, STAND_IN_CODE=str(code))
    assert done.returncode == 3
    report = msgspec.json.decode((tmp_path / "n1.json").read_bytes(), type=NodeReport)
    assert report.outcome == outcome
    assert said in report.reason
