"""`fleet act`: who leaves service and who returns, the commands, and that nothing happens without --apply."""

from __future__ import annotations

import datetime as dt
import json
import pathlib
import re
import shlex
import sys

import msgspec
import pytest
from doctor_command import run_doctor
from made_up_fleet import MadeUpFleet
from slurm_lab import running_lab

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from tfgpu_doctor.fleet.acting import Held, Plan, plan
from tfgpu_doctor.fleet.judged_again import Look, look_of
from tfgpu_doctor.fleet.known import KnownIssue
from tfgpu_doctor.fleet.merge import merge
from tfgpu_doctor.fleet.node import Cause, Unmet
from tfgpu_doctor.knowledge import read_knowledge

LOOKED = dt.datetime(2026, 11, 21, 12, tzinfo=dt.timezone.utc)  # when the made-up nodes were examined
HOUR = dt.timedelta(hours=1)
NOWHERE = {"PATH": "/nonexistent"}
ECC = Cause(label="hardware_ecc_error", id="HLT002", title="GPU 1 has 3 uncorrectable errors", severity="error")
LEFT_FOR_ECC = "tfgpu-doctor: hardware_ecc_error (HLT002): GPU 1 has 3 uncorrectable errors"
NO_TENSORFLOW = Cause(
    label="tensorflow_not_installed", id="TFW001", title="TensorFlow is not installed", severity="error"
)
OLD_DRIVER = Cause(label="driver_too_old", id="DRV002", title="the driver is too old", severity="warning")


def made(folder: pathlib.Path, **causes: Cause) -> MadeUpFleet:
    fleet = MadeUpFleet(40)
    for name, cause in causes.items():
        fleet.nodes[name].update(causes=(cause,), exit_code=1)
    fleet.write(folder)
    return fleet


def looks(folder: pathlib.Path) -> dict[str, Look]:
    found = {path.stem: look_of(path.read_bytes()) for path in folder.glob("*.json")}
    return {name: look for name, look in found.items() if look}


def planned(folder: pathlib.Path, held: dict[str, Held] | None = None, most: int | None = None) -> Plan:
    return plan(merge(str(folder)), held if held is not None else {}, looks(folder), read_knowledge(), most)


def test_only_what_lies_in_the_node_takes_it_out(tmp_path: pathlib.Path) -> None:
    made(tmp_path, n00003=ECC, n00004=NO_TENSORFLOW, n00005=OLD_DRIVER)
    (leaving,) = planned(tmp_path).leaving
    assert leaving.nodes == ("n00003",)
    assert leaving.reason == "tfgpu-doctor: hardware_ecc_error (HLT002): GPU 1 has 3 uncorrectable errors"


def test_a_warning_of_the_hardware_takes_no_node_out(tmp_path: pathlib.Path) -> None:
    """The node ends with findings, as its `fail-level` is warning, and is looked at again."""
    warned = msgspec.structs.replace(ECC, severity="warning")
    made(tmp_path, n00003=warned).write(tmp_path / "second", only={"n00003"})
    fleet = merge(str(tmp_path))
    assert fleet.statuses["fails"] == ("n00003",)
    assert plan(fleet, {}, {}, read_knowledge(), None).leaving == ()


def test_who_misses_a_requirement_twice_leaves_with_its_title(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(40)
    for name in ("n00003", "n00004"):
        unmet = Unmet(key="speed.copy", title="copies from the host", required="24 GB/s", measured="11 GB/s")
        fleet.nodes[name].update(unmet=(unmet,), exit_code=1)
    fleet.write(tmp_path)
    assert planned(tmp_path).leaving == ()
    fleet.nodes["n00004"].update(unmet=(), exit_code=0)
    fleet.write(tmp_path / "second", only={"n00003", "n00004"})
    (leaving,) = planned(tmp_path).leaving
    assert (leaving.nodes, leaving.cause) == (("n00003",), "requirement")
    assert re.fullmatch(r"tfgpu-doctor: .*copies from the host.* in test and retest", leaving.reason)


def test_what_fails_twice_leaves_whatever_it_is(tmp_path: pathlib.Path) -> None:
    made(tmp_path, n00004=NO_TENSORFLOW)
    (tmp_path / "second").mkdir()
    fleet = MadeUpFleet(40)
    fleet.nodes["n00004"].update(causes=(NO_TENSORFLOW,), exit_code=1)
    fleet.write(tmp_path / "second", only={"n00004", "n00007"})
    assert [each.nodes for each in planned(tmp_path).leaving] == [("n00004",)]


def test_who_is_slow_twice_leaves_with_the_figure(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(40)
    fleet.slow("n00003", 14, by=0.4)
    fleet.write(tmp_path)
    assert planned(tmp_path).leaving == ()
    (tmp_path / "second").mkdir()
    fleet.write(tmp_path / "second", only={"n00003", "n00007"})
    (leaving,) = planned(tmp_path).leaving
    assert (leaving.nodes, leaving.cause) == (("n00003",), "slow")
    assert re.fullmatch(r"tfgpu-doctor: .+ [+-]\d+% in test and retest", leaving.reason)


def test_only_the_doctor_s_own_come_back_and_only_after_a_clean_look(tmp_path: pathlib.Path) -> None:
    made(tmp_path, n00003=ECC)
    ours = Held(LEFT_FOR_ECC, ours=True, since=LOOKED - HOUR)
    theirs = Held("new fans", ours=False, since=LOOKED - HOUR)
    found = planned(tmp_path, {"n00003": ours, "n00005": ours, "n00006": theirs, "gone": ours})
    assert found.returning == ("n00005",)
    assert found.leaving == ()
    assert any("n00003" in note for note in found.notes)


@pytest.mark.parametrize("since", [None, LOOKED, LOOKED + HOUR])
def test_a_look_from_before_it_left_brings_nobody_back(tmp_path: pathlib.Path, since: dt.datetime | None) -> None:
    made(tmp_path)
    found = planned(tmp_path, {"n00005": Held(LEFT_FOR_ECC, ours=True, since=since)})
    assert found.returning == ()
    assert any("n00005; examine them again" in note for note in found.notes)


# The reason of a node that is good now, at the level `standard`: with 40 peers, and the measurements of all of them.
WHY_LEFT = [
    (LEFT_FOR_ECC, ""),
    ("tfgpu-doctor: undetermined (HLT002): what was found", ""),
    ("tfgpu-doctor: hardware_faulty_gpu (LOD003): 2 words of GPU 1 came back changed", "`fleet node --level deep`"),
    (
        "tfgpu-doctor: hardware_ecc_error (HLT002): 3 errors; gpu_lost (XID001): GPU 1 is",
        "`fleet node --level standard`",
    ),
    ("tfgpu-doctor: no_such_label (OLD001): a check of an earlier doctor", "OLD001 (not selected)"),
    ("tfgpu-doctor: float16 matrix product -40% in test and retest", ""),
    ("tfgpu-doctor: training cnn, GPU -40% in test and retest", "not in training cnn, GPU"),
    ("tfgpu-doctor: profile halls/2.toml: copies from the host: 24 GB/s required in test and retest", ""),
    (
        "tfgpu-doctor: profile ci: copies from the host: 24 GB/s required in test and retest",
        "`fleet node --profile ci`",
    ),
    ("tfgpu-doctor: copies from the host: 24 GB/s required in test and retest", "return them by hand"),
    ("tfgpu-doctor: see the ticket", "return them by hand"),
]


@pytest.mark.parametrize(("reason", "stays"), WHY_LEFT)
def test_only_who_was_judged_again_for_what_it_left_for_comes_back(
    tmp_path: pathlib.Path, reason: str, stays: str
) -> None:
    """The rule of `fleet history`: a cause is gone where its check judged the node again, not where it was skipped."""
    fleet = MadeUpFleet(40)
    fleet.nodes["n00005"].update(profile="halls/2.toml")
    fleet.write(tmp_path)
    found = planned(tmp_path, {"n00005": Held(reason, ours=True, since=LOOKED - HOUR)})
    assert found.returning == (() if stays else ("n00005",))
    assert [stays in note and "n00005" in note for note in found.notes] == ([True] if stays else [])


def test_a_note_says_why_the_check_did_not_judge(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(40, machine="workstation-healthy")
    fleet.write(tmp_path)
    reason = "tfgpu-doctor: hardware_faulty_gpu (LOD003): 2 words of GPU 1 came back changed"
    found = planned(tmp_path, {"n00005": Held(reason, ours=True, since=LOOKED - HOUR)})
    why = looks(tmp_path)["n00005"].why["LOD003"]
    assert found.notes == (
        f"good, but not known to be mended, so they stay out: n00005: not judged by LOD003 ({why}): examine them with "
        "`fleet node --level deep`",
    )


def test_a_speed_without_peers_brings_nobody_back(tmp_path: pathlib.Path) -> None:
    MadeUpFleet(1).write(tmp_path)
    reason = "tfgpu-doctor: float16 matrix product -40% in test and retest"
    found = planned(tmp_path, {"n00000": Held(reason, ours=True, since=LOOKED - HOUR)})
    assert found.returning == ()
    assert "has no peers here to compare it with" in found.notes[0]


def test_a_reason_names_every_check_that_must_judge_the_node_again(tmp_path: pathlib.Path) -> None:
    """What `plan` writes, it reads: each of a node's own errors, however long their titles, and the profile."""
    lost = Cause(label="gpu_lost", id="XID001", title="GPU 2 is lost " * 20, severity="error")
    fleet = MadeUpFleet(40)
    fleet.nodes["n00003"].update(causes=(msgspec.structs.replace(ECC, title="errors " * 40), lost), exit_code=1)
    unmet = Unmet(key="speed.copy", title="copies from the host", required="24 GB/s", measured="11 GB/s")
    fleet.nodes["n00004"].update(unmet=(unmet,), exit_code=1, profile="halls/2.toml")
    fleet.write(tmp_path)
    fleet.write(tmp_path / "second", only={"n00004"})
    reasons = {leaving.nodes[0]: leaving.reason for leaving in planned(tmp_path).leaving}
    assert re.fullmatch(r"tfgpu-doctor: gpu_lost \(XID001\): .*; hardware_ecc_error \(HLT002\): .*", reasons["n00003"])
    assert len(reasons["n00003"]) <= 200
    assert reasons["n00004"] == (
        "tfgpu-doctor: profile halls/2.toml: copies from the host: 24 GB/s required in test and retest"
    )


def test_a_known_cause_takes_no_node_out_that_fails_for_another(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(40)
    fleet.nodes["n00003"].update(causes=(ECC, NO_TENSORFLOW), exit_code=1)
    fleet.write(tmp_path)
    issue = KnownIssue(nodes=("n00003",), cause="HLT002", owner="anna", until=dt.date(2999, 1, 1))
    fleet_of = merge(str(tmp_path), issues=[issue])
    assert "n00003" in fleet_of.statuses["fails"]
    assert plan(fleet_of, {}, {}, read_knowledge(), None).leaving == ()
    assert [each.nodes for each in planned(tmp_path).leaving] == [("n00003",)]


def test_nobody_returns_where_the_state_is_unknown(tmp_path: pathlib.Path) -> None:
    made(tmp_path, n00003=ECC)
    found = plan(merge(str(tmp_path)), None, {}, read_knowledge(), None)
    assert found.returning == ()
    assert [each.nodes for each in found.leaving] == [("n00003",)]
    assert any("could not be read" in note for note in found.notes)


def test_names_that_a_shell_would_read_reach_no_command(tmp_path: pathlib.Path) -> None:
    fleet = MadeUpFleet(40)
    title = "GPU $(reboot) `x`\n; rm -rf / 'quoted' \u202e"
    fleet.nodes["n00003"].update(
        causes=(Cause(label="hardware_ecc_error", id="HLT002", title=title, severity="error"),)
    )
    fleet.nodes["$(reboot)"] = {**fleet.nodes["n00003"], "node": "$(reboot)"}
    fleet.write(tmp_path)
    found = planned(tmp_path)
    (leaving,) = found.leaving
    assert leaving.nodes == ("n00003",)
    assert not set(leaving.reason) & set('$`"\n\\|&<>*?\u202e')
    assert any("no scheduler can have" in note for note in found.notes)


CORDONED = {"tfgpu-doctor/cordoned": "true"}
KUBECTL = """#!{python}
import json, sys
with open({log!r}, "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "get":
    labels = {{"tfgpu-doctor/cause": "hardware_ecc_error", **{labels!r}}}
    condition = {{"type": "TfgpuDoctor", "status": "True", "lastTransitionTime": "2026-11-20T09:00:00Z", "message": {reason!r}}}
    item = {{"metadata": {{"name": "n00005", "labels": labels}}, "spec": {{"unschedulable": True}},
            "status": {{"conditions": [{{"type": "Ready", "status": "True"}}, condition]}}}}
    print(json.dumps({{"items": [item, {{"metadata": {{"name": "n00006"}}, "spec": {{}}}}]}}))
elif {fails!r} in sys.argv:
    sys.exit("error: nodes is forbidden")
"""


def with_kubectl(
    folder: pathlib.Path, fails: str = "never", labels: dict[str, str] = CORDONED, reason: str = LEFT_FOR_ECC
) -> tuple[dict[str, str], pathlib.Path]:
    """A kubectl that writes down how it was called: there is no cluster here."""
    log, programs = folder / "called", folder / "programs"
    programs.mkdir()
    (programs / "kubectl").write_text(
        KUBECTL.format(python=sys.executable, log=str(log), fails=fails, labels=labels, reason=reason)
    )
    (programs / "kubectl").chmod(0o755)
    return {"PATH": f"{programs}:/usr/bin:/bin"}, log


def without_time(word: str) -> str:
    return re.sub(r'"lastTransitionTime":"[^"]+"', "", word)


def calls(log: pathlib.Path) -> list[list[str]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_kubernetes_without_apply_only_reads(tmp_path: pathlib.Path) -> None:
    (tmp_path / "reports").mkdir()
    made(tmp_path / "reports", n00003=ECC)
    variables, log = with_kubectl(tmp_path)
    done = run_doctor(
        "fleet", "act", str(tmp_path / "reports"), "--on", "kubernetes", "--cordon", environment=variables
    )
    assert done.returncode == 1, done.stderr
    assert calls(log) == [["get", "nodes", "--output=json"]]
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    assert lines[0] == [
        "kubectl", "label", "node", "n00003", "tfgpu-doctor/cause=hardware_ecc_error", "tfgpu-doctor/cordoned=true",
        "--overwrite",
    ]  # fmt: skip
    assert [
        "kubectl",
        "taint",
        "node",
        "n00003",
        "tfgpu-doctor/cause=hardware_ecc_error:NoSchedule",
        "--overwrite",
    ] in lines
    assert ["kubectl", "cordon", "n00003"] in lines
    assert ["kubectl", "uncordon", "n00005"] in lines
    assert lines[-1] == ["kubectl", "label", "node", "n00005", "tfgpu-doctor/cause-"]
    patch = next(
        json.loads(word[8:]) for line in lines for word in line if word.startswith("--patch=") and "n00003" in line
    )
    assert patch["status"]["conditions"][0]["type"] == "TfgpuDoctor"
    assert patch["status"]["conditions"][0]["reason"] == "HardwareEccError"


@pytest.mark.parametrize("option", [(), ("--cordon",)])
@pytest.mark.parametrize("labels", [CORDONED, {}])
def test_only_what_the_doctor_cordoned_is_uncordoned(
    tmp_path: pathlib.Path, labels: dict[str, str], option: tuple[str, ...]
) -> None:
    """Whoever cordoned a node after it left service still has it; what the doctor cordoned does not stay for ever."""
    (tmp_path / "reports").mkdir()
    made(tmp_path / "reports")
    variables, _ = with_kubectl(tmp_path, labels=labels)
    done = run_doctor("fleet", "act", str(tmp_path / "reports"), "--on", "kubernetes", *option, environment=variables)
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    assert (["kubectl", "uncordon", "n00005"] in lines) == bool(labels)
    assert (["kubectl", "label", "node", "n00005", "tfgpu-doctor/cordoned-"] in lines) == bool(labels)
    assert lines[-1] == ["kubectl", "label", "node", "n00005", "tfgpu-doctor/cause-"]


@pytest.mark.parametrize(
    "reason", ["tfgpu-doctor: hardware_faulty_gpu (LOD003): 2 words of GPU 1 came back changed", ""]
)
def test_on_kubernetes_the_condition_says_what_a_node_left_for(tmp_path: pathlib.Path, reason: str) -> None:
    """The DaemonSet tolerates the taint and stress-tests no GPU: what it finds good may still be what the node left for."""
    (tmp_path / "reports").mkdir()
    made(tmp_path / "reports")
    variables, _ = with_kubectl(tmp_path, reason=reason)
    done = run_doctor("fleet", "act", str(tmp_path / "reports"), "--on", "kubernetes", environment=variables)
    assert (done.returncode, done.stdout) == (0, "nothing is to be done\n")
    assert ("`fleet node --level deep`" if reason else "return them by hand") in done.stderr


def test_kubernetes_with_apply_carries_out_what_it_printed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "reports").mkdir()
    made(tmp_path / "reports", n00003=ECC)
    variables, log = with_kubectl(tmp_path, fails="taint")
    printed = run_doctor("fleet", "act", str(tmp_path / "reports"), "--on", "kubernetes", environment=variables).stdout
    done = run_doctor("fleet", "act", str(tmp_path / "reports"), "--on", "kubernetes", "--apply", environment=variables)
    assert done.returncode == 1
    carried_out = [["kubectl", *map(without_time, call)] for call in calls(log)[2:]]
    assert carried_out == [list(map(without_time, shlex.split(line))) for line in printed.splitlines()]
    assert "failed: kubectl taint" in done.stdout
    assert "nodes is forbidden" in done.stdout
    assert "done: kubectl label" in done.stdout


def test_more_than_a_few_are_printed_and_not_carried_out(tmp_path: pathlib.Path) -> None:
    (tmp_path / "reports").mkdir()
    made(tmp_path / "reports", n00003=ECC, n00004=ECC, n00007=ECC)
    variables, log = with_kubectl(tmp_path)
    arguments = ("fleet", "act", str(tmp_path / "reports"), "--on", "kubernetes")
    words = "3 nodes would leave service, more than --most 2"
    printed = run_doctor(*arguments, environment=variables)
    assert (printed.returncode, words in printed.stderr) == (1, True)
    assert "n00003" in printed.stdout
    refused = run_doctor(*arguments, "--apply", environment=variables)
    assert (refused.returncode, words in refused.stderr, refused.stdout) == (2, True, "")
    assert {call[0] for call in calls(log)} == {"get"}
    assert run_doctor(*arguments, "--apply", "--most", "3", environment=variables).returncode == 0
    assert {call[0] for call in calls(log)} > {"get", "taint"}


def test_without_a_scheduler_the_commands_are_printed_and_apply_is_refused(tmp_path: pathlib.Path) -> None:
    made(tmp_path, n00003=ECC, n00012=ECC)
    done = run_doctor("fleet", "act", str(tmp_path), "--on", "slurm", environment=NOWHERE)
    assert shlex.split(done.stdout) == [
        "scontrol", "update", "NodeName=n[00003,00012]", "State=DRAIN",
        "Reason=tfgpu-doctor: hardware_ecc_error (HLT002): GPU 1 has 3 uncorrectable errors",
    ]  # fmt: skip
    assert "could not be read" in done.stderr
    refused = run_doctor("fleet", "act", str(tmp_path), "--on", "slurm", "--apply", environment=NOWHERE)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "sinfo cannot be started here" in refused.stderr


def test_a_healthy_fleet_needs_nothing(tmp_path: pathlib.Path) -> None:
    made(tmp_path)
    done = run_doctor("fleet", "act", str(tmp_path), "--on", "slurm", environment=NOWHERE)
    assert (done.returncode, done.stdout) == (0, "nothing is to be done\n")


def test_known_issues_are_left_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "reports").mkdir()
    made(tmp_path / "reports", n00003=ECC)
    (tmp_path / "known.toml").write_text(
        '[[known]]\nnodes=["n00003"]\ncause="HLT002"\nowner="anna"\nuntil=2999-01-01\n'
    )
    done = run_doctor(
        "fleet",
        "act",
        str(tmp_path / "reports"),
        "--on",
        "slurm",
        "--known",
        str(tmp_path / "known.toml"),
        environment=NOWHERE,
    )
    assert (done.returncode, done.stdout) == (0, "nothing is to be done\n")


@pytest.mark.slow
def test_on_a_real_slurm_bad_nodes_leave_and_come_back(tmp_path: pathlib.Path, driver_folder: pathlib.Path) -> None:
    """n1 has ECC errors and leaves; n2 was drained by somebody; n1 comes back once it is clean, n2 never does."""
    reports = tmp_path / "reports"
    reports.mkdir()

    def look(*causes: Cause, began: str = "2026-11-21T12:00:00Z") -> None:
        fleet = MadeUpFleet(4)
        for number, (old, node) in enumerate(list(fleet.nodes.items()), start=1):
            fleet.nodes[f"n{number}"] = {**fleet.nodes.pop(old), "node": f"n{number}", "began": began}
            assert node
        fleet.nodes["n1"].update(causes=causes, exit_code=1 if causes else 0)
        fleet.write(reports)

    with running_lab(tmp_path / "lab", driver_folder) as lab:
        lab.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=new fans")
        act = ("fleet", "act", str(reports), "--on", "slurm")
        look(ECC)
        assert run_doctor(*act, environment=lab.environment).returncode == 1
        assert lab.drained() == ["n2"]
        done = run_doctor(*act, "--apply", environment=lab.environment)
        assert (done.returncode, lab.drained()) == (0, ["n1", "n2"]), done.stderr
        assert lab.reason("n1") == "tfgpu-doctor: hardware_ecc_error (HLT002): GPU 1 has 3 uncorrectable errors"
        assert run_doctor(*act, environment=lab.environment).stdout == "nothing is to be done\n"
        look()
        stale = run_doctor(*act, environment=lab.environment)
        assert (stale.stdout, "examine them again" in stale.stderr) == ("nothing is to be done\n", True)
        later = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=2)
        look(began=later.strftime("%Y-%m-%dT%H:%M:%SZ"))
        assert shlex.split(run_doctor(*act, environment=lab.environment).stdout)[2:] == ["NodeName=n1", "State=RESUME"]
        assert run_doctor(*act, "--apply", environment=lab.environment).returncode == 0
        assert lab.drained() == ["n2"]
        assert lab.reason("n2") == "new fans"
