"""`fleet emit mpi`: one rank a host under a real mpirun; ssh is a placeholder that starts the other hosts' part here."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess

import pytest
from emitted_jobs import DOCTOR, HOSTNAME, SSH, commands, run_script

from tfgpu_doctor.fleet.emitting import Emission
from tfgpu_doctor.fleet.emitting_jobs import mpi
from tfgpu_doctor.fleet.order import NodeOrder


@pytest.fixture
def bin_(tmp_path: pathlib.Path) -> pathlib.Path:
    found = shutil.which("mpirun")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout if found else ""
    if "HYDRA" not in version:
        pytest.skip("MPICH's mpirun is not installed")
    return commands(tmp_path / "bin", doctor=DOCTOR, ssh=SSH, hostname=HOSTNAME)


def run_on(tmp_path: pathlib.Path, bin_: pathlib.Path, hosts: str) -> tuple[int, str, dict[str, str]]:
    """Exit code, what was said, and the outcome of each host."""
    out = tmp_path / "the reports"
    out.mkdir()
    (tmp_path / "hosts").write_text(hosts)
    job = Emission(order=NodeOrder(level="quick"), out=str(out), limit_s=10, command=str(bin_ / "doctor"))
    done = run_script(mpi(job), str(tmp_path / "hosts"), commands=bin_)
    names = json.loads((out / "expected.json").read_text())
    left = sorted(path.name for path in out.iterdir() if path.name != ".expected")
    assert left == sorted(["expected.json", *(f"{name}.json" for name in names)])
    return (
        done.returncode, done.stderr,
        {name: json.loads((out / f"{name}.json").read_text())["outcome"] for name in names},
    )  # fmt: skip


def test_one_rank_a_host(tmp_path: pathlib.Path, bin_: pathlib.Path) -> None:
    code, said, outcomes = run_on(tmp_path, bin_, "# all\ngood1 slots=8\ngood2:4\n\ngood1\nbad1\n")
    assert (code, outcomes) == (1, dict.fromkeys(["bad1", "good1", "good2"], "reported"))
    assert "reports of 3 of 3 nodes" in said


@pytest.mark.slow
def test_a_host_that_fails_ends_no_other(tmp_path: pathlib.Path, bin_: pathlib.Path) -> None:
    code, said, outcomes = run_on(tmp_path, bin_, "good1\nlost1\ncrashes1\nhangs1\n")
    assert outcomes == {"good1": "reported", "lost1": "disappeared", "crashes1": "died", "hangs1": "hung"}
    assert code == 3
    # MPICH may end before it has passed on what ssh said.
    assert "no route to lost1" in said or "Launch proxy failed" in said


def test_without_hosts_it_says_what_it_needs(tmp_path: pathlib.Path, bin_: pathlib.Path) -> None:
    job = Emission(order=NodeOrder(), out=str(tmp_path), limit_s=10, command="x")
    done = run_script(mpi(job), str(tmp_path / "none"), commands=bin_)
    assert done.returncode == 2
    assert "HOSTFILE" in done.stderr
    done = run_script(mpi(job), commands=bin_, MPIRUN="no-such-mpirun", PBS_NODEFILE=__file__)
    assert (done.returncode, "no-such-mpirun is not found" in done.stderr) == (2, True)
