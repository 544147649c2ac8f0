"""Rounds: every day by a CronJob with a collector, and over named nodes, some at once. Scripts run in a real shell."""

from __future__ import annotations

import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
from doctor_command import clean_environment
from emitted_pods import ROUND, containers_of, emit_all, job_of, placed, pod_of, refused
from locations import ROOT
from made_up_fleet import MadeUpFleet

ADDRESS = "requiredDuringSchedulingIgnoredDuringExecution"
DEEP = ("--level", "deep", "--gpus", "8")
MINUTES = 29_700_000  # as a CronJob's controller ends the names of its Jobs: since 1970
FOLDER = "2026-06-21T0000Z"


def node_of(document: dict[str, Any]) -> str:
    (term,) = pod_of(document)["affinity"]["nodeAffinity"][ADDRESS]["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    assert (field["key"], field["operator"]) == ("metadata.name", "In")
    (name,) = field["values"]
    return str(name)


class TestByName:
    """A Job chosen by the scheduler alone may visit an idle node twice and a busy one never."""

    def test_each_node_has_a_job_of_its_own(self) -> None:
        jobs = emit_all("--node-names", "n1,n2.example,n3", *DEEP)
        assert [node_of(each) for each in jobs] == ["n1", "n2.example", "n3"]
        assert len({each["metadata"]["name"] for each in jobs}) == 3
        for each in jobs:
            assert job_of(each).get("completions", 1) == 1
            assert "podAntiAffinity" not in pod_of(each)["affinity"]
            assert "nodeSelector" not in pod_of(each)
            rules = job_of(each)["podFailurePolicy"]["rules"]
            assert {"FailJob", "Ignore"} == {rule["action"] for rule in rules}

    @pytest.mark.parametrize(("count", "at_once"), [(7, 3), (3, 3), (3, 1), (2, 5)])
    def test_so_many_at_once(self, count: int, at_once: int) -> None:
        """Pods of one slot exclude each other on all nodes of the cluster."""
        names = [f"n{place}" for place in range(count)]
        jobs = emit_all("--node-names", ",".join(names), "--at-once", str(at_once), *DEEP)
        assert [node_of(each) for each in jobs] == names
        slots: collections.Counter[str] = collections.Counter()
        for each in jobs:
            labels = job_of(each)["template"]["metadata"]["labels"]
            (term,) = pod_of(each)["affinity"].get("podAntiAffinity", {}).get(ADDRESS, [None])
            if at_once >= count:
                assert term is None
                continue
            assert term["topologyKey"] == "kubernetes.io/os"
            (slot,) = term["labelSelector"]["matchLabels"].values()
            assert term["labelSelector"]["matchLabels"].items() <= labels.items()
            slots[slot] += 1
        if at_once < count:
            assert len(slots) == at_once
            assert max(slots.values()) - min(slots.values()) <= 1

    def test_the_deadline_covers_all_waves(self) -> None:
        one = job_of(emit_all("--node-names", "a,b,c,d", *DEEP)[0])["activeDeadlineSeconds"]
        two = job_of(emit_all("--node-names", "a,b,c,d", "--at-once", "2", *DEEP)[0])["activeDeadlineSeconds"]
        four = job_of(emit_all("--node-names", "a,b,c,d", "--at-once", "1", *DEEP)[0])["activeDeadlineSeconds"]
        pod = pod_of(emit_all("--node-names", "a", *DEEP)[0])["activeDeadlineSeconds"]
        assert (two - one, four - two) == (pod, 2 * pod)
        patient = job_of(emit_all("--node-names", "a,b,c,d", "--patience", "600", *DEEP)[0])["activeDeadlineSeconds"]
        assert patient - one == (600 - 60) * 60

    def test_a_file_as_kubectl_prints_it(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "nodes").write_text("node/n1\nnode/n2\n\nn3\n")
        jobs = emit_all("--node-names", str(tmp_path / "nodes"), *DEEP)
        assert [node_of(each) for each in jobs] == ["n1", "n2", "n3"]

    @pytest.mark.parametrize(("options", "said"), [
        (("--node-names", "n1,n1"), "twice"),
        (("--node-names", "n1,N_2"), "--node-names"),
        (("--node-names", ""), "names no node"),
        (("--node-names", "/nonexistent/nodes"), "--node-names"),
        (("--node-names", "n1", "--nodes", "1"), "--nodes"),
        (("--node-names", "n1", "--node-selector", "a=b"), "--node-selector"),
        (("--node-names", "n1", "--kind", "daemonset"), "daemonset"),
        (("--node-names", "n1,n2", "--suite", "multi_worker", "--gpus", "8"), "multi_worker"),
        (("--nodes", "4", "--at-once", "2"), "--node-names"),
        (("--kind", "daemonset", "--at-once", "2"), "--node-names"),
    ])  # fmt: skip
    def test_what_cannot_be_meant_is_refused(self, options: tuple[str, ...], said: str) -> None:
        assert said in refused(*options)


class TestSchedule:
    @pytest.mark.parametrize("schedule", ["0 2 * * *", "*/30 0-6,22 1 JAN-MAR mon-fri", "@daily"])
    def test_a_time_for_both(self, schedule: str) -> None:
        nodes, collector = emit_all(*ROUND[:-4], "--schedule", schedule)
        for each in (nodes, collector):
            assert each["kind"] == "CronJob"
            assert (each["spec"]["schedule"], each["spec"]["timeZone"]) == (schedule, "Etc/UTC")
            assert each["spec"]["concurrencyPolicy"] == "Forbid"

    @pytest.mark.parametrize(
        "schedule", ["0 2 * *", "0 2 * * * *", "@reboot", "TZ=UTC 0 2 * * *", "0 2 * * $(id)", "daily", " "]
    )
    def test_what_is_no_time_is_refused(self, schedule: str) -> None:
        assert "--schedule" in refused(*ROUND[:-4], "--schedule", schedule)

    def test_what_cannot_be_meant_is_refused(self) -> None:
        assert "daemonset" in refused("--kind", "daemonset", "--schedule", "@daily")
        assert "--name" in refused("--nodes", "1", "--schedule", "@daily", "--name", "n" * 46)

    def test_the_collector_takes_nothing_from_the_nodes(self) -> None:
        nodes, collector = emit_all(*ROUND)
        assert "nvidia.com/gpu" not in str(pod_of(collector))
        assert "nodeSelector" not in pod_of(collector), "with a claim, it can run anywhere"
        assert job_of(collector)["activeDeadlineSeconds"] > job_of(nodes)["activeDeadlineSeconds"]
        (claim,) = [each for each in pod_of(collector)["volumes"] if each["name"] == "reports"]
        assert claim["persistentVolumeClaim"] == {"claimName": "reports"}

    def test_on_hosts_the_collector_runs_where_the_folder_is(self) -> None:
        nodes, collector = emit_all("--nodes", "3", "--schedule", "@daily")
        assert pod_of(collector)["nodeSelector"] == pod_of(nodes)["nodeSelector"]
        named, *_, collector = emit_all("--node-names", "n1,n2", "--schedule", "@daily")
        assert "nodeSelector" not in pod_of(named)
        assert pod_of(collector)["nodeSelector"] == {"nvidia.com/gpu.present": "true"}


class Round:
    """The scripts of both CronJobs with `folder` as /reports, as they run in the pods of one night."""

    def __init__(self, folder: pathlib.Path, *form: str) -> None:
        self.folder, self.message = folder / "reports", folder / "message"
        self.folder.mkdir()
        self.places = {
            "/reports": str(self.folder), "/dev/termination-log": str(self.message), "/tmp": str(folder), "$(NODE_NAME)": "n1", "sleep 30": "sleep 0.1",
        }  # fmt: skip
        *self.nodes, self.collector = emit_all("--schedule", "@daily", "--claim", "c", *form)

    def run(self, document: dict[str, Any], job: str) -> subprocess.CompletedProcess[str]:
        (container,) = containers_of(document)
        argv = [placed(each, self.places) for each in [*container["command"], *container.get("args", [])]]
        path = f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=60,
            env=clean_environment(JOB_NAME=job, PATH=path, PYTHONPATH=":".join(sys.path)),
        )  # fmt: skip

    def collect(self, minutes: int = MINUTES) -> subprocess.CompletedProcess[str]:
        return self.run(self.collector, f"a-night-report-b-{minutes}")


@pytest.fixture(autouse=True)
def _extra() -> None:
    pytest.importorskip("duckdb", reason="the extra fleet is not installed")


@pytest.mark.parametrize(
    "form", [("--nodes", "8"), ("--node-names", "n1,n2", "--at-once", "1")], ids=["nodes", "names"]
)
def test_no_complaint(form: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    for document in emit_all("--schedule", "@daily", *form):
        script = tmp_path / "script.sh"
        script.write_text('#!/bin/sh\n: "${JOB_NAME:?}"\n' + containers_of(document)[0]["command"][2])
        done = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")


class TestOneNight:
    def test_a_node_reports_into_the_folder_of_its_round(self, tmp_path: pathlib.Path) -> None:
        night = Round(tmp_path, "--nodes", "1", "--level", "quick")
        done = night.run(night.nodes[0], f"a-night-{MINUTES}")
        assert json.loads((night.folder / FOLDER / "n1.json").read_text("utf-8"))["node"] == "n1", done.stderr
        assert night.message.read_text("utf-8") == done.stdout
        mode = (night.folder / FOLDER).stat().st_mode & 0o777
        assert mode == 0o775, "for the kernel log, the doctor is root, and the collector is another user of the group"

    def test_a_round_that_is_started_by_hand(self, tmp_path: pathlib.Path) -> None:
        night = Round(tmp_path, "--nodes", "1", "--level", "quick")
        night.run(night.nodes[0], "night-now")
        assert (night.folder / "now/n1.json").exists()

    def test_a_word_names_one_round(self, tmp_path: pathlib.Path) -> None:
        """Reports of the round before are in its folder, and its nodes may be dead by now."""
        night = Round(tmp_path, "--nodes", "8")
        MadeUpFleet(8).write(night.folder / "now", whole=False)
        assert night.run(night.collector, "a-night-report-now").returncode == 0
        done = night.run(night.collector, "a-night-report-now")
        assert (done.returncode, done.stdout) == (2, "")
        assert "the round now was compared before" in night.message.read_text("utf-8")
        assert done.stderr == night.message.read_text("utf-8")

    def test_the_documented_commands_start_a_round_with_a_folder_of_its_own(self, tmp_path: pathlib.Path) -> None:
        page = (ROOT / "docs/fleet.md").read_text("utf-8")
        (script,) = [each for each in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "--from=cronjob" in each]
        words = subprocess.run(
            ["sh", "-c", 'kubectl() { echo "$@"; }\n' + script], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        first, second = (line.split()[-1] for line in words)
        assert [line.split()[2].removeprefix("--from=cronjob/") for line in words] == [
            first.rpartition("-")[0], second.rpartition("-")[0],
        ]  # fmt: skip
        night = Round(tmp_path, "--nodes", "1", "--level", "quick")
        night.run(night.nodes[0], first)
        night.run(night.collector, second)
        (folder,) = [each for each in night.folder.iterdir() if each.is_dir()]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d{4}Z", folder.name)
        assert (folder / "n1.json").exists()
        assert folder.with_suffix(".html").exists()

    def test_a_healthy_fleet(self, tmp_path: pathlib.Path) -> None:
        night = Round(tmp_path, "--nodes", "8")
        MadeUpFleet(8).write(night.folder / FOLDER, whole=False)
        done = night.collect()
        assert done.returncode == 0, done.stderr + done.stdout
        assert done.stdout.startswith(night.message.read_text("utf-8")[:40])
        assert "8 nodes" in night.message.read_text("utf-8")
        assert "8 nodes" in (night.folder / f"{FOLDER}.html").read_text("utf-8")

    def test_a_named_node_that_is_silent(self, tmp_path: pathlib.Path) -> None:
        names = ",".join(f"n{place:05}" for place in range(8))
        night = Round(tmp_path, "--node-names", names, "--level", "quick")
        MadeUpFleet(8).write(night.folder / FOLDER, whole=False, only=names.split(",")[:7])
        done = self._impatient(night)
        assert done.returncode == 1
        assert "n00007" in done.stdout

    def test_a_node_of_an_earlier_round_that_is_silent(self, tmp_path: pathlib.Path) -> None:
        night = Round(tmp_path, "--nodes", "8")
        fleet = MadeUpFleet(8)
        fleet.write(night.folder / "2026-06-20T0000Z", whole=False)
        fleet.write(night.folder / FOLDER, whole=False, only=[f"n{place:05}" for place in range(7)])
        done = self._impatient(night)
        assert done.returncode == 1
        assert "n00007" in done.stdout

    def test_too_few_nodes_in_the_first_round(self, tmp_path: pathlib.Path) -> None:
        night = Round(tmp_path, "--nodes", "9")
        MadeUpFleet(8).write(night.folder / FOLDER, whole=False)
        done = self._impatient(night)
        assert done.returncode == 3
        assert "8 of 9 nodes" in done.stderr
        assert "8 of 9 nodes" in night.message.read_text("utf-8")

    def test_nobody(self, tmp_path: pathlib.Path) -> None:
        night = Round(tmp_path, "--nodes", "2")
        assert self._impatient(night).returncode == 3

    def test_the_same_node_slower_than_the_night_before(self, tmp_path: pathlib.Path) -> None:
        night = Round(tmp_path, "--nodes", "8")
        for place in range(1, 5):
            MadeUpFleet(8, seed=place).write(night.folder / f"2026-06-1{place}T0000Z", whole=False)
        slow = MadeUpFleet(8, seed=9)
        slow.slow("n00003", 16, by=0.3)
        slow.write(night.folder / FOLDER, whole=False)
        done = night.collect()
        assert done.returncode == 1
        assert "n00003" in done.stdout
        assert "against its own history" in done.stdout

    def test_it_waits_for_the_last_node(self, tmp_path: pathlib.Path) -> None:
        night = Round(tmp_path, "--nodes", "8")
        fleet = MadeUpFleet(8)
        fleet.write(night.folder / FOLDER, whole=False, only=[f"n{place:05}" for place in range(7)])
        (night.folder / FOLDER / ".n00007.json.new").touch()
        night.places["sleep 30"] = f"mv {tmp_path}/late {night.folder}/{FOLDER}/n00007.json"
        fleet.write(tmp_path / "other", whole=False, only=["n00007"])
        (tmp_path / "other/n00007.json").rename(tmp_path / "late")
        done = night.collect()
        assert done.returncode == 0, done.stderr + done.stdout
        assert not (tmp_path / "late").exists()

    @staticmethod
    def _impatient(night: Round) -> subprocess.CompletedProcess[str]:
        """Its time is over at once."""
        limit_s = job_of(night.nodes[0])["activeDeadlineSeconds"]
        night.places[f"limit_s={limit_s}"] = "limit_s=0"
        return night.collect()
