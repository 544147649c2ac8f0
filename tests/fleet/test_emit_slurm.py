"""`fleet emit slurm`: scripts without a complaint, run for real; a node that fails costs no other its report."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable

import msgspec
import pytest
from doctor_command import clean_environment, run_doctor
from emitted_jobs import DOCTOR, SCONTROL, SRUN, commands, run_script

from tfgpu_doctor.fleet.emitting import Emission
from tfgpu_doctor.fleet.emitting_jobs import mpi, slurm
from tfgpu_doctor.fleet.node import NodeReport
from tfgpu_doctor.fleet.order import NodeOrder
from tfgpu_doctor.fleet.slurm_hooks import Drainage, HookKind

QUICK = NodeOrder(level="quick")
FORMS = {
    "quick job": ("slurm", "--nodes", "3", "--level", "quick"),
    "deep job": ("slurm", "--nodes", "3", "--level", "deep", "--gpus", "8", "--partition", "a,b-c", "--account", "x"),
    "suites": ("slurm", "--nodes", "3", "--suite", "training", "--budget", "5m", "--gpus", "4"),
    "profile": ("slurm", "--nodes", "3", "--profile", "cluster-node", "--gpus", "8"),
    "round": ("slurm", "--at-once", "4", "--level", "quick", "--partition", "a,b-c"),
    "prolog": ("slurm", "--kind", "prolog", "--ignore", "PKG,LIB004"),
    "epilog": ("slurm", "--kind", "epilog", "--level", "deep"),
    "healthcheck": ("slurm", "--kind", "healthcheck", "--most-drained", "5"),
    "dry run": ("slurm", "--kind", "prolog", "--dry-run"),
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
    assert [path.name for path in out.rglob(".*")] == [".expected"]
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


def started_by_slurm(
    tmp_path: pathlib.Path, node: str, kind: HookKind = "prolog", drainage: Drainage | None = None, **variables: str
) -> tuple[int, str, list[str]]:
    """Exit code, what was said, and what scontrol was asked to change."""
    bin_ = commands(tmp_path / "bin", doctor=DOCTOR, scontrol=SCONTROL)
    job = Emission(order=QUICK, out=str(tmp_path), limit_s=5, command=str(bin_ / "doctor"))
    log = bin_ / "scontrol.log"
    log.unlink(missing_ok=True)
    done = run_script(slurm(job, kind, drainage=drainage), commands=bin_, SLURMD_NODENAME=node, **variables)
    lines = log.read_text().splitlines() if log.exists() else []
    return done.returncode, done.stderr, [line for line in lines if line.startswith("update")]


@pytest.mark.parametrize(("kind", "expected"), [("prolog", 1), ("epilog", 0), ("healthcheck", 0)])
def test_a_node_with_an_error_of_its_own_is_drained(tmp_path: pathlib.Path, kind: HookKind, expected: int) -> None:
    code, said, asked = started_by_slurm(tmp_path, "bad1", kind)
    assert code == expected
    assert "bad1: drained: tfgpu-doctor: hardware_ecc_error (HLT002)" in said
    (line,) = asked
    assert line.startswith("update NodeName=bad1 State=DRAIN Reason=tfgpu-doctor: hardware_ecc_error (HLT002): GPU 1")
    assert not set(line) & set("$'\"`\\")


def test_what_is_not_the_nodes_own_drains_nothing(tmp_path: pathlib.Path) -> None:
    code, said, asked = started_by_slurm(tmp_path, "user1")
    assert (code, asked) == (0, [])
    assert "user1: not drained: nothing that was found lies in the hardware or the driver of the node" in said


@pytest.mark.slow
def test_no_node_is_drained_without_proof(tmp_path: pathlib.Path) -> None:
    assert started_by_slurm(tmp_path, "good1") == (0, "", [])
    said_of = {
        "crashes1": "", "stuck1": "", "absent1": "", "hangs1": ": no response within 5 s",
        "killed1": ": the doctor was ended by signal 9",
    }  # fmt: skip
    for node, why in said_of.items():
        code, said, asked = started_by_slurm(tmp_path, node)
        assert (code, asked) == (0, []), node
        assert f"{node}: not judged, and not drained{why}" in said


def test_a_drained_node_keeps_its_reason(tmp_path: pathlib.Path) -> None:
    code, said, asked = started_by_slurm(tmp_path, "bad1", STAND_IN_STATE="IDLE+DRAIN")
    assert (code, asked) == (1, [])
    assert "keeps its reason" in said
    assert not (tmp_path / "drained").exists()


def test_where_scontrol_fails_the_exit_code_drains(tmp_path: pathlib.Path) -> None:
    kinds: tuple[HookKind, ...] = ("prolog", "epilog")
    for kind in kinds:
        code, said, _ = started_by_slurm(tmp_path, "bad1", kind, STAND_IN_UPDATE="1")
        assert code == 1
        assert "scontrol could not drain it; the exit code of this script does" in said
    # slurmd does not start before its health check ends with 0.
    code, said, _ = started_by_slurm(tmp_path, "bad1", "healthcheck", STAND_IN_UPDATE="1")
    assert (code, "scontrol could not drain it: tfgpu-doctor" in said) == (0, True)


@pytest.mark.parametrize("kind", ["prolog", "epilog", "healthcheck"])
def test_a_dry_run_says_what_it_would_drain(tmp_path: pathlib.Path, kind: HookKind) -> None:
    code, said, asked = started_by_slurm(tmp_path, "bad1", kind, Drainage(dry_run=True))
    assert (code, asked) == (0, [])
    assert "bad1: would be drained (dry run): tfgpu-doctor: hardware_ecc_error" in said
    assert not (tmp_path / "drained").exists()


def test_only_so_many_nodes_are_drained_in_an_hour(tmp_path: pathlib.Path) -> None:
    most = Drainage(most=2)
    assert [started_by_slurm(tmp_path, node, "healthcheck", most)[2] != [] for node in ("bad1", "bad2")] == [True, True]
    code, said, asked = started_by_slurm(tmp_path, "bad3", "prolog", most)
    assert (code, asked) == (0, [])
    assert "bad3: not drained: bad1, bad2 left service within this hour, and --most-drained is 2" in said
    assert started_by_slurm(tmp_path, "bad1", "healthcheck", most)[2] != []  # it has its place of this hour


def test_what_slurm_says_about_the_job_is_not_about_the_node(tmp_path: pathlib.Path) -> None:
    """In a prolog, Slurm sets the variables of the job, with its GPUs."""
    of_job = {"CUDA_VISIBLE_DEVICES": "0", "GPU_DEVICE_ORDINAL": "0", "SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0"}
    bin_ = commands(tmp_path / "bin", doctor='#!/bin/bash\nenv >"$(dirname "$0")/env"\n', scontrol=SCONTROL)
    job = Emission(order=QUICK, out=str(tmp_path), limit_s=5, command=str(bin_ / "doctor"))
    run_script(slurm(job, "prolog"), commands=bin_, SLURMD_NODENAME="n1", SLURM_CONF="/etc/slurm.conf", **of_job)
    seen = dict(line.split("=", 1) for line in (bin_ / "env").read_text().splitlines())
    assert {name: seen.get(name) for name in of_job} == dict.fromkeys(of_job)
    assert seen["SLURM_CONF"] == "/etc/slurm.conf"
    stress = msgspec.structs.replace(job, loads=True)
    for given, kept in (("0", "0"), (None, "")):
        variables = (
            of_job if given else {name: value for name, value in of_job.items() if name != "CUDA_VISIBLE_DEVICES"}
        )
        run_script(slurm(stress, "prolog"), commands=bin_, SLURMD_NODENAME="n1", **variables)
        assert f"CUDA_VISIBLE_DEVICES={kept}\n" in (bin_ / "env").read_text()


def test_a_health_check_ends_before_slurm_kills_it() -> None:
    text = emit("slurm", "--kind", "healthcheck", "--out", "/r")
    limits = [int(each) for each in re.findall(r"timeout (?:--kill-after=\d+ )?(\d+) ", text)]
    grace = [int(each) for each in re.findall(r"--kill-after=(\d+) ", text)]
    assert len(limits) == 5
    assert sum(limits) + sum(grace) < 60
    (deadline,) = map(int, re.findall(r"--level quick --deadline (\d+) ", text))
    assert max(limits) - deadline >= 9, "a driver that hangs is told, and not the whole doctor ended"
    assert "--deadline" not in emit("slurm", "--kind", "prolog", "--out", "/r")


def test_each_option_of_a_script_reaches_the_doctor(tmp_path: pathlib.Path) -> None:
    text = emit(
        "slurm",
        "--kind",
        "prolog",
        "--out",
        "/r",
        "--ignore",
        "pkg",
        "--ignore",
        "LIB004,LIB005",
        "--most-drained",
        "7",
    )
    assert "--level quick --ignore pkg,LIB004,LIB005 " in text
    assert "--most-drained 7 " in text
    assert "dry run" not in text
    done = run_doctor("fleet", "emit", "slurm", "--kind", "prolog", "--out", "/r", "--ignore", "NOPE01")
    assert (done.returncode, "no check is called 'NOPE01'" in done.stderr) == (2, True)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_script_in_a_file_can_be_executed(form: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """Slurm starts a prolog as a program: one that is no program drains each node with "Prolog error"."""
    script = tmp_path / "script.sh"
    before = os.umask(0o027)
    try:
        done = run_doctor("fleet", "emit", *form, "--out", "/r", "-o", str(script))
    finally:
        os.umask(before)
    assert done.returncode == 0
    assert script.stat().st_mode & 0o777 == 0o750
    done = run_doctor("fleet", "emit", *form, "--out", "/r", "-o", os.devnull)
    assert done.returncode == 0
    assert not pathlib.Path(os.devnull).stat().st_mode & 0o111


def test_jobs_side_by_side_lose_no_node(tmp_path: pathlib.Path) -> None:
    """One-node jobs that start together have one folder, and each adds its node to the expected ones."""
    bin_ = commands(tmp_path / "bin", doctor=DOCTOR, srun=SRUN, scontrol=SCONTROL)
    script = tmp_path / "job.sh"
    script.write_text(slurm(job(tmp_path, bin_ / "doctor"), "job"))
    (tmp_path / "expected.json").write_text('["earlier1"]\n')
    nodes = [f"good{place}" for place in range(24)]
    started = [
        subprocess.Popen(
            ["bash", str(script)], stderr=subprocess.PIPE,
            env=clean_environment() | {
                "PATH": f"{bin_}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": node, "SLURM_JOB_ID": str(place),
                "STAND_IN_NODES": node,
            },
        )
        for place, node in enumerate(nodes)
    ]  # fmt: skip
    said = [each.communicate(timeout=120)[1].decode() for each in started]
    assert [each.returncode for each in started] == [0] * len(nodes), said
    assert json.loads((tmp_path / "expected.json").read_text()) == sorted([*nodes, "earlier1"])


def test_rows_of_one_node_are_written_side_by_side(tmp_path: pathlib.Path) -> None:
    """Two jobs may miss the same node at the same moment."""
    text = slurm(job(tmp_path, tmp_path / "doctor"), "job")
    functions = text[text.index("# Run the doctor on a node") : text.index("# Before the nodes start")]
    script = f"{functions}\nfor i in {{1..40}}; do leave_row {tmp_path} n$i died why & leave_row {tmp_path} n$i hung why & done; wait"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert "No such file" not in done.stderr
    assert done.stderr.count("tfgpu-doctor: n") == 40
    assert len(list(tmp_path.iterdir())) == 40


def test_a_job_at_its_time_limit_leaves_a_row_for_each_node(tmp_path: pathlib.Path) -> None:
    for limit_s in (4, 15, 60):
        folder = tmp_path / str(limit_s)
        folder.mkdir()
        outcomes, reason, still_ran, code, last, said = ended_early(folder, limit_s)
        if outcomes["hangs1"] != "hung" and last == "reported":  # else that was too short for what the job gets
            break
    assert outcomes == {"good1": "reported", "slow1": "interrupted", "hangs1": "interrupted"}
    assert "time limit" in reason
    assert still_ran
    assert code >= 3
    assert last == "reported"
    assert "reports of 2 of 3 nodes" in said


def ended_early(folder: pathlib.Path, limit_s: int) -> tuple[dict[str, str], str, bool, int, str, str]:
    """A job gets SIGTERM, and later a node finishes: outcomes and a reason of before, whether it ran, and its end."""
    bin_ = commands(folder / "bin", doctor=DOCTOR, srun=SRUN, scontrol=SCONTROL)
    script = folder / "job.sh"
    script.write_text(slurm(job(folder, bin_ / "doctor", limit_s), "job"))
    running = subprocess.Popen(
        ["bash", str(script)], stderr=subprocess.PIPE,
        env=clean_environment() | {
            "PATH": f"{bin_}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "x", "STAND_IN_NODES": "good1 slow1 hangs1",
        },
    )  # fmt: skip
    until(lambda: (folder / "good1.json").exists() and (bin_ / "argv-hangs1").exists())
    running.terminate()
    until(lambda: (folder / "slow1.json").exists() and (folder / "hangs1.json").exists())
    outcomes: dict[str, str] = {node: report(folder, node).outcome for node in ("good1", "slow1", "hangs1")}
    reason, still_runs = report(folder, "hangs1").reason, running.poll() is None
    (folder / "go").touch()  # one node still finishes
    said = running.communicate(timeout=60 + limit_s)[1].decode()
    return outcomes, reason, still_runs, running.wait(), report(folder, "slow1").outcome, said


def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


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
    ("slurm", "--kind", "epilog", "--gpus", "2", "--out", "/r"),
    ("slurm", "--kind", "prolog", "--partition", "a", "--out", "/r"),
    ("slurm", "--kind", "healthcheck", "--level", "standard", "--out", "/r"),
    ("slurm", "--kind", "healthcheck", "--profile", "server", "--out", "/r"),
    ("slurm", "--nodes", "2", "--dry-run", "--out", "/r"),
    ("slurm", "--nodes", "2", "--at-once", "2", "--out", "/r"),
    ("slurm", "--at-once", "2", "--level", "deep", "--out", "/r"),
    ("slurm", "--kind", "prolog", "--at-once", "2", "--out", "/r"),
    ("slurm", "--nodes", "2", "--most-drained", "2", "--out", "/r"),
    ("slurm", "--nodes", "2", "--profile", "server", "--ignore", "PKG", "--out", "/r", "--gpus", "1"),
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
