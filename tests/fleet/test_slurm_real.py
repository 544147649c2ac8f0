"""What `fleet emit slurm` writes, under a real Slurm: four nodes with two GPUs each, and limits that the kernel enforces."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Iterator

import msgspec
import pytest
from doctor_command import run_doctor
from slurm_lab import NODES, Lab, running_lab, until

from tfgpu_doctor.fleet.node import NodeReport

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def started(driver_folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab"), driver_folder) as lab:
        yield lab


@pytest.fixture
def lab(started: Lab) -> Iterator[Lab]:
    yield started
    started.clean()


@pytest.fixture
def out(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "reports"
    folder.mkdir()
    return folder


def script(lab: Lab, out: pathlib.Path, *options: str) -> str:
    """The path of an emitted script. What the nodes lack on purpose is not judged: TensorFlow."""
    path = out.parent / f"script{len(list(out.parent.iterdir()))}.sh"
    done = run_doctor(
        "fleet", "emit", "slurm", "--level", "quick", "--out", str(out), "--command", str(lab.doctor), "-o", str(path),
        *options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return str(path)


def reports(out: pathlib.Path) -> dict[str, NodeReport]:
    found = (msgspec.json.decode(path.read_bytes(), type=NodeReport) for path in out.glob("n[0-9].json"))
    return {each.node: each for each in found}


def test_a_job(lab: Lab, out: pathlib.Path) -> None:
    lab.be(n2="ecc")
    number = lab.submit(script(lab, out, "--nodes", "4", "--gpus", "2", "--select", "HLT,GPU"))
    lab.wait(number)
    found = reports(out)
    assert {node: each.outcome for node, each in found.items()} == dict.fromkeys(NODES, "reported")
    assert [node for node, each in found.items() if "hardware_ecc_error" in {cause.label for cause in each.causes}] == [
        "n2"
    ]
    assert (lab.job(number, "JobState"), lab.job(number, "ExitCode")) == ("FAILED", "1:0")
    assert "reports of 4 of 4 nodes" in lab.said()


def test_one_node_jobs_side_by_side(lab: Lab, out: pathlib.Path) -> None:
    """An array of jobs that share a folder, at most one at a time on a node."""
    path = script(lab, out, "--nodes", "1", "--gpus", "2", "--select", "HLT,GPU")
    numbers = [lab.submit(f"--nodelist={node}", path) for node in NODES]
    numbers.append(lab.submit("--array=1-8", path))
    lab.wait(*numbers)
    assert json.loads((out / "expected.json").read_text()) == list(NODES)
    assert sorted(reports(out)) == list(NODES)
    assert lab.said().count("reports of 1 of 1 nodes") == 12


def test_a_job_that_asks_for_no_gpu_judges_no_node(lab: Lab, out: pathlib.Path) -> None:
    number = lab.submit(script(lab, out, "--nodes", "2"))
    lab.wait(number)
    found = reports(out)
    assert {each.outcome for each in found.values()} == {"not granted"}
    assert "--gpus N" in found["n1"].reason
    assert lab.job(number, "ExitCode") == "3:0"
    done = run_doctor("fleet", "report", str(out))
    assert done.returncode == 3
    assert "the job asked slurm for no GPU" in done.stdout


def test_a_prolog_drains_for_a_gpu_of_another_job(lab: Lab, out: pathlib.Path) -> None:
    """The error is on GPU 1, the job gets GPU 0; the node returns to service when it is repaired."""
    lab.configure(Prolog=script(lab, out, "--kind", "prolog"))
    lab.be(n3="ecc")
    number = lab.submit("--nodelist=n3", "--gres=gpu:1", "--wrap=true")
    until(lambda: lab.drained() == ["n3"])
    assert lab.reason("n3").startswith("tfgpu-doctor: hardware_ecc_error (HLT002): GPU 1 ")
    until(lambda: lab.job(number, "JobState") == "PENDING")
    assert lab.job(number, "Reason") == "launch_failed_requeued_held"
    lab.be(n3="healthy")
    lab.run("scontrol", "update", "NodeName=n3", "State=RESUME")
    after = lab.submit("--nodelist=n3", "--gres=gpu:1", "--wrap=true")
    lab.wait(after)
    assert (lab.job(after, "JobState"), lab.drained()) == ("COMPLETED", [])
    calls = (lab.folder / "calls").read_text().split()
    assert set(zip(calls[::3], calls[1::3], calls[2::3], strict=True)) == {
        ("n3", "unset", "0")
    }  # the whole node, as root


def test_a_prolog_drains_no_node_for_what_is_not_its_own(lab: Lab, out: pathlib.Path) -> None:
    """There is no TensorFlow in the examined Python: an error for its user, on all nodes."""
    lab.configure(Prolog=script(lab, out, "--kind", "prolog"))
    lab.wait(lab.submit("--nodes=4", "--gres=gpu:1", "--wrap=srun true"))
    assert {cause.label for each in reports(out).values() for cause in each.causes} == {"wrong_python_environment"}
    assert sorted(reports(out)) == list(NODES)
    assert lab.drained() == []


def test_an_epilog_drains_after_the_job(lab: Lab, out: pathlib.Path) -> None:
    lab.configure(Epilog=script(lab, out, "--kind", "epilog"))
    lab.be(n1="ecc")
    number = lab.submit("--nodes=4", "--gres=gpu:1", "--wrap=srun true")
    lab.wait(number)
    assert lab.job(number, "JobState") == "COMPLETED"
    until(lambda: lab.drained() == ["n1"])
    assert lab.reason("n1").startswith("tfgpu-doctor: hardware_ecc_error")


def test_a_health_check_drains_only_so_many_nodes(lab: Lab, out: pathlib.Path) -> None:
    """All nodes are examined at the same moment, and all have an error."""
    lab.be(**dict.fromkeys(NODES, "ecc"))
    check = out.parent / "check"  # Slurm gives it no SLURM_CONF, and this cluster's is not where scontrol looks for it
    emitted = script(lab, out, "--kind", "healthcheck", "--most-drained", "2")
    check.write_text(f"#!/bin/bash\nSLURM_CONF={lab.environment['SLURM_CONF']} exec {emitted}\n")
    check.chmod(0o755)
    lab.configure(HealthCheckProgram=str(check), HealthCheckInterval="3")
    until(lambda: len(lab.drained()) == 2)
    until(lambda: len((lab.folder / "calls").read_text().splitlines()) >= 3 * 4 * 3)  # three times on four nodes
    assert len(lab.drained()) == 2
    assert len(list((out / "drained").iterdir())) == 2


def test_a_dry_run_drains_nothing(lab: Lab, out: pathlib.Path) -> None:
    lab.be(**dict.fromkeys(NODES, "ecc"))
    lab.configure(Prolog=script(lab, out, "--kind", "prolog", "--dry-run"))
    number = lab.submit("--nodes=4", "--gres=gpu:1", "--wrap=srun true")
    lab.wait(number)
    assert (lab.job(number, "JobState"), lab.drained()) == ("COMPLETED", [])


def hanging(lab: Lab, out: pathlib.Path, *nodes: str) -> str:
    """Submit a job on four nodes, of which some never report, and wait for the others."""
    path = script(
        lab, out, "--nodes", "4", "--gpus", "2", "--select", "HLT,GPU", "--command", str(out.parent / "doctor")
    )
    slow = " ".join(nodes)
    (out.parent / "doctor").write_text(
        f'#!/bin/bash\n[[ " {slow} " == *" $SLURMD_NODENAME "* ]] && exec sleep 300\nexec {lab.doctor} "$@"\n'
    )
    (out.parent / "doctor").chmod(0o755)
    number = lab.submit(path)
    until(lambda: sorted(reports(out)) == [node for node in NODES if node not in nodes])
    return number


def test_a_job_that_is_cancelled_leaves_its_rows(lab: Lab, out: pathlib.Path) -> None:
    number = hanging(lab, out, "n2", "n4")
    lab.run("scancel", number)
    lab.wait(number)
    assert {node: each.outcome for node, each in reports(out).items()} == {
        "n1": "reported", "n2": "interrupted", "n3": "reported", "n4": "interrupted",
    }  # fmt: skip


def test_a_job_at_its_time_limit_leaves_its_rows(lab: Lab, out: pathlib.Path) -> None:
    number = hanging(lab, out, "n1")
    lab.run("scontrol", "update", f"JobId={number}", "TimeLimit=1")
    until(lambda: len(reports(out)) == 4)
    assert reports(out)["n1"].outcome == "interrupted"
    assert "time limit" in reports(out)["n1"].reason


def test_a_node_that_dies_has_a_row(lab: Lab, out: pathlib.Path) -> None:
    number = hanging(lab, out, "n4")
    lab.kill("n4")
    try:
        lab.wait(number)
        assert {node: each.outcome for node, each in reports(out).items()} == {
            "n1": "reported", "n2": "reported", "n3": "reported", "n4": "disappeared",
        }  # fmt: skip
        assert lab.job(number, "JobState") != "COMPLETED"
    finally:
        lab.revive("n4")


def test_a_node_that_does_not_exist_is_refused(lab: Lab, out: pathlib.Path) -> None:
    done = subprocess.run(
        ["sbatch", "--nodelist=n9", script(lab, out, "--nodes", "1")], capture_output=True, text=True, check=False,
        env=lab.environment, cwd=os.sep,
    )  # fmt: skip
    assert done.returncode != 0
    assert list(out.iterdir()) == []


def test_a_round_over_the_nodes_two_at_a_time(lab: Lab, out: pathlib.Path) -> None:
    """n1 works: the others are first. n4 is out of service, and left out."""
    busy = lab.submit("--nodelist=n1", "--exclusive", "--wrap=sleep 300")
    lab.run("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=repair")
    until(lambda: lab.job(busy, "JobState") == "RUNNING")
    slow = out.parent / "doctor"
    slow.write_text(f'#!/bin/bash\nsleep 2\nexec {lab.doctor} "$@"\n')
    slow.chmod(0o755)
    path = script(lab, out, "--at-once", "2", "--gpus", "2", "--select", "HLT,GPU", "--command", str(slow))
    started = subprocess.run(
        ["bash", path], capture_output=True, text=True, env=lab.environment, cwd=out.parent, check=False
    )
    assert started.returncode == 0, started.stderr
    assert "3 of 3 nodes have a job, 2 at a time" in started.stderr
    assert json.loads((out / "expected.json").read_text()) == ["n1", "n2", "n3"]
    until(lambda: sorted(reports(out)) == ["n2", "n3"])
    lab.run("scancel", busy)
    until(lambda: sorted(reports(out)) == ["n1", "n2", "n3"])
    assert lab.state("n4") == "IDLE+DRAIN"


def test_a_round_never_runs_more_at_a_time(lab: Lab, out: pathlib.Path) -> None:
    slow = out.parent / "doctor"
    slow.write_text(
        f'#!/bin/bash\ncd {out.parent} && touch "run-$SLURMD_NODENAME" && sleep 1\n'
        'echo run-* | wc -w >>most; rm "run-$SLURMD_NODENAME"\n'
        f'exec {lab.doctor} "$@"\n'
    )
    slow.chmod(0o755)
    path = script(lab, out, "--at-once", "1", "--gpus", "2", "--command", str(slow))
    subprocess.run(["bash", path], capture_output=True, env=lab.environment, cwd=out.parent, check=True)
    until(lambda: sorted(reports(out)) == list(NODES))
    assert (out.parent / "most").read_text().split() == ["1"] * 4


def test_tf_config_in_each_process_and_not_in_the_batch_script(lab: Lab, tmp_path: pathlib.Path) -> None:
    each = f"{lab.doctor} fleet tfconfig --no-look"
    lab.wait(
        lab.submit(
            "--nodes=2",
            "--ntasks-per-node=1",
            f"--wrap={each} >{tmp_path}/batch; srun sh -c '{each} >{tmp_path}/$SLURM_PROCID'",
        )
    )
    assert (tmp_path / "batch").read_text() == ""
    assert "this is the batch script of a Slurm job" in lab.said()
    found = [json.loads((tmp_path / place).read_text()) for place in "01"]
    assert [task["task"]["index"] for task in found] == [0, 1]
    assert found[0]["cluster"] == found[1]["cluster"]
    assert len(found[0]["cluster"]["worker"]) == 2
