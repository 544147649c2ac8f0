"""`fleet emit kubernetes`: valid against Kubernetes' own schemas, with no right more than the level needs."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
import yaml
from doctor_command import run_doctor
from emitted_pods import (
    FORMS,
    USUAL,
    containers_of,
    doctor_of,
    emit,
    emit_all,
    job_of,
    placed,
    pod_of,
    variables_of,
    workloads,
)  # fmt: skip

from tfgpu_doctor.fleet.launched import launched_by

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")

RIGHTS = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
ROOT_RIGHTS = {
    "capability": {
        **RIGHTS, "runAsNonRoot": False, "runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": ["SYSLOG"]},
    },
    "privileged": {"privileged": True, "runAsNonRoot": False, "runAsUser": 0, "readOnlyRootFilesystem": True},
}  # fmt: skip


@pytest.mark.parametrize("version", ["1.30", "1.33", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_valid_for_kubernetes(form: tuple[str, ...], version: str) -> None:
    for document in emit_all(*form):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_right_too_many(form: tuple[str, ...]) -> None:
    for document in workloads(form):
        pod = pod_of(document)
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        for container in containers_of(document):
            asked = next((each for each in ROOT_RIGHTS if each in form and container["name"] == "doctor"), "")
            assert container["securityContext"] == (ROOT_RIGHTS[asked] if asked else RIGHTS)
            assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]


def test_gpus_are_asked_for_by_levels_that_load_them() -> None:
    assert "nvidia.com/gpu" not in str(doctor_of(emit(*FORMS["quick job"]))["resources"])
    assert "limits" not in doctor_of(emit(*FORMS["daemonset"]))["resources"]
    assert doctor_of(emit(*FORMS["deep job"]))["resources"]["limits"] == {"nvidia.com/gpu": 8}


def test_an_indexed_job_has_one_pod_a_node() -> None:
    document = emit(*FORMS["deep job"])
    spec = document["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert spec["backoffLimitPerIndex"] == 1
    assert spec["activeDeadlineSeconds"] > pod_of(document)["activeDeadlineSeconds"] > 600
    (term,) = pod_of(document)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = spec["template"]["metadata"]["labels"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    assert document["metadata"]["name"] == "night"


def test_it_does_what_was_asked_for() -> None:
    doctor = doctor_of(emit(*FORMS["deep job"]))
    assert doctor["command"] == ["tfgpu-doctor"]
    assert doctor["args"] == [
        "fleet", "node", "--name", "$(NODE_NAME)", "--message", "/dev/termination-log", "--level", "deep", "--out", "/reports",
    ]  # fmt: skip
    (mount,) = [each for each in doctor["volumeMounts"] if each["name"] == "reports"]
    assert mount == {"name": "reports", "mountPath": "/reports", "subPath": "mnt/shared/reports"}
    (name,) = [each for each in doctor["env"] if each["name"] == "NODE_NAME"]
    assert name["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    (volume,) = [each for each in pod_of(emit(*FORMS["quick job"]))["volumes"] if each["name"] == "reports"]
    assert volume["hostPath"] == {"path": "/mnt/shared/reports", "type": "Directory"}


def test_pods_that_train_together_find_each_other() -> None:
    service, document = emit_all(*FORMS["together"])
    pod = pod_of(document)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() <= document["spec"]["template"]["metadata"]["labels"].items()
    assert pod["subdomain"] == service["metadata"]["name"]
    given = variables_of(doctor_of(document))
    # What Kubernetes sets in a pod of an indexed Job.
    around = {"JOB_COMPLETION_INDEX": "2", "HOSTNAME": f"{document['metadata']['name']}-2"}
    launched = launched_by({**given, **around})
    assert launched is not None
    assert (launched.hosts, launched.index) == (("night-0.night", "night-1.night", "night-2.night"), 2)
    assert len(emit_all(*FORMS["deep job"])) == 1


def test_a_profile_that_has_the_nodes_train_together(tmp_path: pathlib.Path) -> None:
    profile = tmp_path / "together.toml"
    profile.write_text('gpus = 8\nlevel = "deep"\nsuites = ["multi_worker"]\n')
    asked = ("--profile", str(profile), "--gpus", "8")
    assert [each["kind"] for each in emit_all("--nodes", "4", *asked)] == ["Service", "Job"]
    assert [each["kind"] for each in emit_all("--nodes", "1", *asked)] == ["Job"]
    done = run_doctor("fleet", "emit", "kubernetes", *USUAL, "--nodes", "4", *asked, "--name", "7night")
    assert done.returncode == 2
    assert "must begin with a letter" in done.stderr


@pytest.mark.parametrize("form", ["nodes", "names"])
def test_what_a_profile_wants_of_several_nodes(form: str, tmp_path: pathlib.Path) -> None:
    """Nodes that are started together form a cluster; those of which each has a Job of its own do not."""
    profile = tmp_path / "several.toml"
    profile.write_text('gpus = 8\nlevel = "deep"\nsuites-of-several-nodes = ["multi_worker"]\nbudget = "5m"\n')
    asked = ("--profile", str(profile), "--gpus", "8")
    if form == "names":
        assert [each["kind"] for each in emit_all("--node-names", "n1,n2", *asked)] == ["Job", "Job"]
        return
    service, job = emit_all("--nodes", "4", *asked)
    assert service["kind"] == "Service"
    assert {"TFGPU_DOCTOR_WORKERS", "TFGPU_DOCTOR_SERVICE"} <= variables_of(doctor_of(job)).keys()
    (alone,) = emit_all("--nodes", "1", *asked)
    assert job_of(job)["activeDeadlineSeconds"] > job_of(alone)["activeDeadlineSeconds"]


def test_a_base_for_kustomize(tmp_path: pathlib.Path) -> None:
    done = run_doctor("fleet", "emit", "kubernetes", *USUAL, "--nodes", "2", "-o", str(tmp_path / "base"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "kubectl apply -k" in done.stderr
    base = yaml.safe_load((tmp_path / "base/kustomization.yaml").read_text())
    assert base["kind"] == "Kustomization"
    (resource,) = base["resources"]
    assert yaml.safe_load((tmp_path / "base" / resource).read_text())["kind"] == "Job"
    alone = tmp_path / "job.yaml"
    done = run_doctor("fleet", "emit", "kubernetes", *USUAL, "--nodes", "2", "-o", str(alone))
    assert (done.returncode, yaml.safe_load(alone.read_text())["kind"]) == (0, "Job")


@pytest.mark.parametrize(("doctor", "ready", "said"), [
    ("#!/bin/sh\nexit 0\n", 0, ""),
    ("#!/bin/sh\necho 'n1: driver_too_old (DRV002)' >MESSAGE\nexit 1\n", 1, "n1: driver_too_old (DRV002)"),
    ("", 1, "the doctor left no verdict: exit code 127"),
    ("#!/bin/sh\nsleep 60\n", 1, "the doctor left no verdict: exit code 124"),
])  # fmt: skip
def test_the_daemonset_is_ready_where_nothing_is_wrong(
    doctor: str, ready: int, said: str, tmp_path: pathlib.Path
) -> None:
    """Its own shell commands, run here: the doctor's exit code ends in a file, and the probe says the cause."""
    message, command = tmp_path / "termination-log", tmp_path / "doctor"
    message.touch()  # as the kubelet makes it
    if doctor:
        command.write_text(doctor.replace("MESSAGE", str(message)))
        command.chmod(0o755)

    limit = "-k 1 1" if "sleep" in doctor else "-k 1 60"  # the others end by themselves
    places = {"/tmp": str(tmp_path), "/dev/termination-log": str(message), "-k 30 300": limit}
    document = emit(*FORMS["daemonset"])
    *start, script = doctor_of(document)["command"][:3]
    done = subprocess.run([*start, placed(script, places), "sh", str(command)], check=False, capture_output=True)
    assert done.returncode == 0
    (verdict,) = pod_of(document)["containers"]
    *start, script = verdict["readinessProbe"]["exec"]["command"]
    asked = subprocess.run([*start, placed(script, places)], check=False, capture_output=True, text=True)
    assert (asked.returncode, asked.stdout.strip()) == (ready, said)
    assert message.read_text().strip() == said
