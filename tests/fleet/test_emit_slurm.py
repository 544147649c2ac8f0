"""`fleet emit slurm`: scripts without a complaint, run for real; a node that fails costs no other its report."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess

import msgspec
import pytest
from doctor_command import run_doctor
from emitted_jobs import DOCTOR, SCONTROL, SRUN, commands, run_script

from tfgpu_doctor.fleet.emitting import Emission
from tfgpu_doctor.fleet.emitting_jobs import mpi, slurm
from tfgpu_doctor.fleet.node import NodeReport
from tfgpu_doctor.fleet.order import NodeOrder

QUICK = NodeOrder(level="quick")
FORMS = {
    "quick job": ("slurm", "--nodes", "3", "--level", "quick"),
    "deep job": ("slurm", "--nodes", "3", "--level", "deep", "--gpus", "8", "--partition", "a,b-c", "--account", "x"),
    "suites": ("slurm", "--nodes", "3", "--suite", "training", "--budget", "5m", "--gpus", "4"),
    "profile": ("slurm", "--nodes", "3", "--profile", "cluster-node", "--gpus", "8"),
    "prolog": ("slurm", "--kind", "prolog"),
    "mpi": ("mpi", "--level", "soak", "--minutes", "3"),
}


def emit(*arguments: str) -> str:
    done = run_doctor("fleet", "emit", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def report(folder: pathlib.Path, node: str) -> NodeReport:
    return msgspec.json.decode((folder / f"{node}.json").read_bytes(), type=NodeReport)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_complaint(form: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.sh").write_text(emit(*form, "--out", "/shared/it's a folder"))
    subprocess.run(["bash", "-n", "script.sh"], cwd=tmp_path, check=True)
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    subprocess.run(["shellcheck", "script.sh"], cwd=tmp_path, check=True)


def sbatch_lines(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def test_who_loads_gpus_asks_for_them_alone() -> None:
    quick, deep = (sbatch_lines(emit(*FORMS[name], "--out", "/r")) for name in ("quick job", "deep job"))
    assert not any(line.startswith(("--gres", "--exclusive")) for line in quick)
    assert {"--gres=gpu:8", "--exclusive", "--mem=0", "--partition=a,b-c", "--account=x"} <= set(deep)
    for lines in (quick, deep):
        assert {"--nodes=3", "--ntasks-per-node=1", "--no-kill", "--no-requeue"} <= set(lines)


def minutes(*arguments: str) -> int:
    lines = sbatch_lines(emit("slurm", "--nodes", "1", "--gpus", "1", "--out", "/r", *arguments))
    return next(int(line.removeprefix("--time=")) for line in lines if line.startswith("--time="))


def test_the_time_follows_the_level() -> None:
    quick, standard, deep = (minutes("--level", level) for level in ("quick", "standard", "deep"))
    assert quick < standard < deep < minutes("--level", "soak") < minutes("--level", "soak", "--minutes", "60")
    assert minutes("--profile", "cluster-node") > 15 + minutes("--level", "quick")
    assert minutes("--suite", "training", "--budget", "20m") > 20


def job(out: pathlib.Path, doctor: pathlib.Path, limit_s: int = 60) -> Emission:
    return Emission(order=QUICK, out=str(out), limit_s=limit_s, command=str(doctor), nodes=1)


def test_each_node_has_its_row_whatever_becomes_of_it(tmp_path: pathlib.Path) -> None:
    bin_ = commands(tmp_path / "bin", doctor=DOCTOR, srun=SRUN, scontrol=SCONTROL)
    out = tmp_path / "reports of 'all'"
    out.mkdir()
    (out / "lost1.json").write_text("an old report")
    (out / "expected.json").write_text('["elsewhere"]\n')
    nodes = ["good1", "bad1", "hangs1", "killed1", "crashes1", "absent1", "stuck1", "lost1"]
    done = run_script(
        slurm(job(out, bin_ / "doctor", 5), "job"), commands=bin_, nodes=nodes,
        SLURM_JOB_NODELIST="whatever", SLURM_JOB_ID="7",
    )  # fmt: skip
    assert done.returncode == 3
    found = {node: report(out, node) for node in nodes}
    assert {node: each.outcome for node, each in found.items()} == {
        "good1": "reported", "bad1": "reported", "hangs1": "hung", "killed1": "died", "crashes1": "died",
        "absent1": "not started", "stuck1": "died", "lost1": "disappeared",
    }  # fmt: skip
    assert "5 s" in found["hangs1"].reason
    assert "signal 9" in found["killed1"].reason
    assert "exit code 1" in found["crashes1"].reason
    assert json.loads((out / "expected.json").read_text()) == sorted([*nodes, "elsewhere"])
    assert (out / "earlier/7-0/lost1.json").read_text() == "an old report"
    assert sorted(path.name for path in out.iterdir() if path.name.startswith(".")) == []
    assert "reports of 7 of 8 nodes" in done.stderr


def test_the_job_ends_as_the_worst_node(tmp_path: pathlib.Path) -> None:
    bin_ = commands(tmp_path / "bin", doctor=DOCTOR, srun=SRUN, scontrol=SCONTROL)
    script = slurm(job(tmp_path, bin_ / "doctor"), "job")
    codes = [
        run_script(script, commands=bin_, nodes=nodes, SLURM_JOB_NODELIST="x").returncode
        for nodes in (["good1", "good2"], ["good1", "bad1"], [])
    ]
    assert codes == [0, 1, 3]
    script = slurm(job(tmp_path / "none", bin_ / "doctor"), "job")
    done = run_script(script, commands=bin_, nodes=["good1"], SLURM_JOB_NODELIST="x")
    assert done.returncode == 2
    assert "there is no folder" in done.stderr


def test_the_real_doctor_on_two_nodes(tmp_path: pathlib.Path) -> None:
    bin_ = commands(tmp_path / "bin", srun=SRUN, scontrol=SCONTROL)
    script = emit("slurm", "--nodes", "2", "--level", "quick", "--out", str(tmp_path))
    done = run_script(script, commands=bin_, nodes=["n1", "n2"], SLURM_JOB_NODELIST="n[1-2]")
    found = [report(tmp_path, node) for node in ("n1", "n2")]
    assert [each.outcome for each in found] == ["reported", "reported"]
    assert found[0].report is not None
    assert done.returncode == max(each.exit_code or 0 for each in found)


def prolog(tmp_path: pathlib.Path, node: str, **variables: str) -> tuple[int, str, str]:
    """Exit code, what was said, and what scontrol was asked to change."""
    bin_ = commands(tmp_path / "bin", doctor=DOCTOR, scontrol=SCONTROL)
    text = slurm(Emission(order=QUICK, out=str(tmp_path), limit_s=5, command=str(bin_ / "doctor")), "prolog")
    done = run_script(text, commands=bin_, SLURMD_NODENAME=node, **variables)
    log = bin_ / "scontrol.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return done.returncode, done.stderr, "\n".join(line for line in lines if line.startswith("update"))


def test_a_prolog_drains_a_bad_node_and_says_so(tmp_path: pathlib.Path) -> None:
    code, said, asked = prolog(tmp_path, "bad1")
    assert code == 1
    assert "drained: tfgpu-doctor: driver_too_old (DRV002)" in said
    assert asked.startswith("update NodeName=bad1 State=DRAIN Reason=tfgpu-doctor: driver_too_old (DRV002)")
    assert not set(asked) & set("$'\"`\\")


@pytest.mark.slow
def test_a_prolog_drains_no_node_without_proof(tmp_path: pathlib.Path) -> None:
    assert prolog(tmp_path, "good1") == (0, "", "")
    for node in ("crashes1", "stuck1", "absent1", "hangs1", "killed1"):
        code, said, asked = prolog(tmp_path, node)
        assert (code, asked) == (0, ""), node
        assert f"{node}: not judged, and not drained" in said


def test_a_prolog_leaves_a_reason_that_is_there(tmp_path: pathlib.Path) -> None:
    code, said, asked = prolog(tmp_path, "bad1", STAND_IN_STATE="IDLE+DRAIN")
    assert (code, asked) == (1, "")
    assert "keeps its reason" in said


def test_where_scontrol_fails_the_exit_code_drains(tmp_path: pathlib.Path) -> None:
    code, said, _ = prolog(tmp_path, "bad1", STAND_IN_UPDATE="1")
    assert code == 1
    assert "scontrol could not drain it" in said


@pytest.mark.parametrize("arguments", [
    ("slurm", "--nodes", "2", "--out", "reports"),
    ("slurm", "--nodes", "2", "--level", "deep", "--out", "/r"),
    ("slurm", "--out", "/r"),
    ("slurm", "--nodes", "2", "--out", "/r", "--partition", "a --wrap=id"),
    ("slurm", "--nodes", "2", "--out", "/r\n#SBATCH --wrap=id"),
    ("slurm", "--nodes", "2", "--out", "/r", "--suite", "no-such"),
    ("slurm", "--nodes", "2", "--out", "/r", "--profile", "no-such"),
    ("slurm", "--nodes", "2", "--out", "/r", "--profile", "server", "--level", "deep"),
    ("slurm", "--nodes", "2", "--out", "/r", "--suite", "training", "--gpus", "1", "--budget", "soon"),
    ("slurm", "--kind", "prolog", "--nodes", "2", "--out", "/r"),
    ("mpi", "--out", "/r", "--minutes", "2"),
    ("kubernetes", "--nodes", "2", "--out", "/r/../etc", "--image", "a"),
    ("kubernetes", "--nodes", "2", "--out", "/r", "--image", "a b"),
    ("kubernetes", "--nodes", "2", "--out", "/r", "--image", "a", "--name", "A_b"),
    ("kubernetes", "--kind", "daemonset", "--level", "deep", "--out", "/r", "--image", "a"),
    ("kubernetes", "--kind", "daemonset", "--nodes", "2", "--out", "/r", "--image", "a"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...]) -> None:
    done = run_doctor("fleet", "emit", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tfgpu-doctor: error: ")
    assert len(done.stderr.splitlines()) == 1


def test_no_script_is_made_of_a_template_alone() -> None:
    for text in (
        slurm(job(pathlib.Path("/r"), pathlib.Path("d")), "job"),
        mpi(job(pathlib.Path("/r"), pathlib.Path("d"))),
    ):
        assert "{{" not in text
        assert "{%" not in text
