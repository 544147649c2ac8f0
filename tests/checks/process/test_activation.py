"""ENV: the library path that activating the environment sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import variables
from healthy import SITE, lost_library, pip_library, target, without_gpus

from tfgpu_doctor.checks.process.activation import library_path_is_inherited
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import Libraries

if TYPE_CHECKING:
    from checks.conftest import Judge

FOLDER = f"{SITE}/nvidia/cusolver/lib"
BELOW = FOLDER.removeprefix("/home/user/venv/")
LOST: dict[str, Any] = {
    "runtime": without_gpus(lost_library("libcusolver.so.11")),
    "cuda_libraries": Libraries(copies=(pip_library("libcusolver.so.11"),)),
    "environment": Environment(),
}


def saying(value: str) -> dict[str, Any]:
    return {"target": target(exports={"LD_LIBRARY_PATH": value})}


@pytest.mark.parametrize(
    "value",
    [
        FOLDER,
        f"$VIRTUAL_ENV/{BELOW}",
        f'"${{VIRTUAL_ENV}}/{BELOW}/"',
        f"$LD_LIBRARY_PATH:$CONDA_PREFIX/lib/:$CONDA_PREFIX/{BELOW}",
        f'"$VIRTUAL_ENV/{BELOW}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"',
        "$(python -c 'import nvidia.cusolver; print(nvidia.cusolver.__path__[0])')/lib",
    ],
)
def test_a_path_that_did_not_come_along(judge: Judge, value: str) -> None:
    finding = judge.finding(library_path_is_inherited, **{**LOST, **saying(value)})
    assert (finding.cause, finding.severity) == ("env_vars_not_inherited_by_ide_or_notebook", "error")
    assert f"its activation sets LD_LIBRARY_PATH={value}" in finding.evidence
    assert "LD_LIBRARY_PATH in this process is not set" in finding.evidence
    assert finding.fix and finding.fix.commands[0].startswith(f"export LD_LIBRARY_PATH={FOLDER}$")


def test_a_path_of_this_process_may_lack_it_too(judge: Judge) -> None:
    machine = {**LOST, **saying(FOLDER), "environment": variables(LD_LIBRARY_PATH="/opt/lib")}
    assert "LD_LIBRARY_PATH in this process is /opt/lib" in judge.finding(library_path_is_inherited, **machine).evidence


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": variables(LD_LIBRARY_PATH=f"/opt/lib:{FOLDER}")},
        saying("/opt/somewhere/else"),
        {"runtime": without_gpus(), "cuda_libraries": Libraries()},
    ],
    ids=["it has it", "it would not help", "nothing is lost"],
)
def test_a_path_that_explains_nothing_is_not_blamed(judge: Judge, changes: dict[str, Any]) -> None:
    assert judge.passes(library_path_is_inherited, **{**LOST, **saying(FOLDER), **changes})


def test_a_machine_that_works_is_left_in_peace(judge: Judge) -> None:
    assert "no missing library" in judge.passes(library_path_is_inherited, **saying(FOLDER))


def test_without_such_a_line_there_is_nothing_to_judge(judge: Judge) -> None:
    assert judge.skips(library_path_is_inherited, **LOST) == "activating this environment sets no LD_LIBRARY_PATH"
