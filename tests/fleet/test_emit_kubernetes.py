"""`fleet emit kubernetes`: valid against Kubernetes' own schemas, with no right more than the level needs."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from doctor_command import run_doctor

from tfgpu_doctor.fleet.launched import launched_by

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")

USUAL = ("--image", "registry.example/tensorflow:2.21-gpu@sha256:" + "0" * 64, "--out", "/mnt/shared/reports")
FORMS = {
    "quick job": ("--nodes", "4", "--level", "quick"),
    "deep job": ("--nodes", "4", "--level", "deep", "--gpus", "8", "--claim", "reports", "--name", "night"),
    "profile": ("--nodes", "100", "--profile", "cluster-node", "--gpus", "8", "--runtime-class", "nvidia"),
    "together": ("--nodes", "3", "--level", "deep", "--gpus", "8", "--suite", "multi_worker", "--name", "night"),
    "daemonset": ("--kind", "daemonset",),
}  # fmt: skip


def emit_all(*arguments: str) -> list[dict[str, Any]]:
    done = run_doctor("fleet", "emit", "kubernetes", *USUAL, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


def emit(*arguments: str) -> dict[str, Any]:
    """The workload; before it there may be its service."""
    return emit_all(*arguments)[-1]


def pod_of(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["template"]["spec"]
    return found


def doctor_of(document: dict[str, Any]) -> dict[str, Any]:
    pod = pod_of(document)
    (found,) = [each for each in pod["containers"] + pod.get("initContainers", []) if each["name"] == "doctor"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_valid_for_kubernetes(form: tuple[str, ...], version: str) -> None:
    for document in emit_all(*form):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_right_too_many(form: tuple[str, ...]) -> None:
    pod = pod_of(emit(*form))
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    for container in pod["containers"] + pod.get("initContainers", []):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in pod["tolerations"]


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
        "fleet", "node", "--name", "$(NODE_NAME)", "--out", "/reports/mnt/shared/reports", "--level", "deep",
    ]  # fmt: skip
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
    given = {each["name"]: each["value"] for each in doctor_of(document)["env"] if "value" in each}
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


def test_the_daemonset_is_ready_where_nothing_is_wrong(tmp_path: pathlib.Path) -> None:
    """Its own shell commands, run here: the doctor's exit code ends in a file, which the probe reads."""
    import subprocess

    document = emit(*FORMS["daemonset"])
    start, script = doctor_of(document)["command"][:2], doctor_of(document)["command"][2]
    (verdict,) = pod_of(document)["containers"]
    probe = verdict["readinessProbe"]["exec"]["command"]
    for doctor, ready in (("true", 0), ("false", 1), ("/nonexistent", 1)):
        here = [script.replace("/tmp/", f"{tmp_path}/"), "sh", doctor]
        assert subprocess.run([*start, *here], check=False, capture_output=True).returncode == 0
        asked = [*probe[:2], probe[2].replace("/tmp/", f"{tmp_path}/")]
        assert subprocess.run(asked, check=False).returncode == ready
