"""The pods of `fleet emit kubernetes`: on which nodes, with what of the machine, and what they say when they end."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from doctor_command import start_doctor
from emitted_pods import FORMS, containers_of, doctor_of, emit, emit_all, pod_of, refused, variables_of, workloads

from tfgpu_doctor.fleet.acting import Leaving
from tfgpu_doctor.fleet.schedulers import Kubernetes

DAEMONSET = ("--kind", "daemonset")
DEEP = ("--nodes", "4", "--level", "deep", "--gpus", "8")


def volume(document: dict[str, Any], name: str) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = pod_of(document)["volumes"]
    (found,) = [each for each in volumes if each["name"] == name]
    return found


def mount(container: dict[str, Any], name: str) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = container["volumeMounts"]
    (found,) = [each for each in mounts if each["name"] == name]
    return found


@pytest.mark.parametrize("form", [DAEMONSET, DEEP], ids=["daemonset", "job"])
def test_only_nodes_with_gpus_are_examined(form: tuple[str, ...]) -> None:
    assert pod_of(emit(*form))["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    other = emit(*form, "--node-selector", "cloud.google.com/gke-accelerator=nvidia-l4", "--node-selector", "rack=")
    assert pod_of(other)["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-l4", "rack": ""}
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in pod_of(other)["tolerations"]


@pytest.mark.parametrize("form", [DAEMONSET, DEEP, ("--node-names", "n1", "--schedule", "@daily")])
def test_a_node_that_the_doctor_took_out_is_examined_again(form: tuple[str, ...]) -> None:
    (taint,) = [
        word for command in Kubernetes().leave(Leaving(("n1",), "hardware_ecc_error", "why")) if "taint" in command
        for word in command if word.endswith(":NoSchedule")
    ]  # fmt: skip
    key = taint.partition("=")[0]
    assert {"key": key, "operator": "Exists"} in pod_of(emit_all(*form)[0])["tolerations"]


@pytest.mark.parametrize("selector", [
    "rack", "=a", "a b=c", "a=b c", "a/b/c=d", "/a=b", "A.Example/x=y", "a=" + "b" * 64, "a" * 64 + "=b", "-a=b", "a=b-", "a=b\n",
])  # fmt: skip
def test_what_is_no_label_is_refused(selector: str) -> None:
    assert "--node-selector" in refused(*DAEMONSET, "--node-selector", selector)


def test_one_label_with_two_values_is_refused() -> None:
    assert "rack" in refused(*DAEMONSET, "--node-selector", "rack=a", "--node-selector", "rack=b")


def test_who_only_looks_sees_the_gpus_and_holds_none() -> None:
    """A GPU that a DaemonSet requests is lost to all others for as long as the pod lives."""
    for form in (DAEMONSET, ("--nodes", "4", "--level", "standard")):
        document = emit(*form)
        assert not any("nvidia.com/gpu" in str(each.get("resources")) for each in containers_of(document))
        assert variables_of(doctor_of(document))["NVIDIA_VISIBLE_DEVICES"] == "all"
        assert pod_of(document)["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in pod_of(emit(*DAEMONSET, "--runtime-class", ""))


def test_who_requests_gpus_gets_those_of_the_device_plugin() -> None:
    """NVIDIA_VISIBLE_DEVICES in the manifest would override the device plugin's choice."""
    document = emit(*DEEP)
    assert "NVIDIA_VISIBLE_DEVICES" not in variables_of(doctor_of(document))
    assert "runtimeClassName" not in pod_of(document)
    assert pod_of(emit(*DEEP, "--runtime-class", "nvidia"))["runtimeClassName"] == "nvidia"


@pytest.mark.parametrize(("options", "size"), [((), "1Gi"), (("--shm-size", "512Mi"), "512Mi")])
def test_shared_memory_for_nccl_and_keras_workers(options: tuple[str, ...], size: str) -> None:
    for form in (DAEMONSET, DEEP):
        document = emit(*form, *options)
        name = next(each["name"] for each in doctor_of(document)["volumeMounts"] if each["mountPath"] == "/dev/shm")
        assert volume(document, name) == {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


@pytest.mark.parametrize("size", ["", "0", "1", "1G", "-1Gi", "1.5Gi", "1Gi "])
def test_what_is_no_size_is_refused(size: str) -> None:
    assert "--shm-size" in refused(*DAEMONSET, "--shm-size", size)


def test_the_kernel_log_is_read_only_where_it_is_allowed() -> None:
    plain = emit(*DAEMONSET)
    assert "kmsg" not in str(plain)
    capable = doctor_of(emit(*DAEMONSET, "--kernel-log", "capability"))
    assert capable["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYSLOG"]}
    assert capable["securityContext"]["runAsUser"] == 0, "another user's program loses an added capability"
    document = emit(*DAEMONSET, "--kernel-log", "privileged")
    privileged = doctor_of(document)
    assert privileged["securityContext"]["privileged"] is True
    assert "allowPrivilegeEscalation" not in privileged["securityContext"], "Kubernetes rejects it beside privileged"
    assert mount(privileged, "kmsg") == {"name": "kmsg", "mountPath": "/dev/kmsg", "readOnly": True}
    assert volume(document, "kmsg")["hostPath"] == {"path": "/dev/kmsg", "type": "CharDevice"}
    (verdict,) = [each for each in containers_of(document) if each["name"] == "verdict"]
    assert "privileged" not in verdict["securityContext"]


def test_a_claim_is_mounted_at_the_folder_alone() -> None:
    asked = ("--claim", "reports")
    assert mount(doctor_of(emit(*DAEMONSET, *asked)), "reports")["subPath"] == "mnt/shared/reports"
    assert mount(doctor_of(emit(*DAEMONSET, *asked, "--out", "//night/")), "reports")["subPath"] == "night"
    assert "subPath" not in mount(doctor_of(emit(*DAEMONSET, *asked, "--out", "/")), "reports")
    assert "subPath" not in mount(doctor_of(emit(*DAEMONSET)), "reports")


def test_a_priority_class() -> None:
    for form in (DAEMONSET, DEEP):
        assert "priorityClassName" not in pod_of(emit(*form))
        assert pod_of(emit(*form, "--priority-class", "low.night"))["priorityClassName"] == "low.night"
    assert "--priority-class" in refused(*DAEMONSET, "--priority-class", "Night")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_container_ends_with_a_message(form: tuple[str, ...]) -> None:
    for document in workloads(form):
        for container in containers_of(document):
            assert container["terminationMessagePath"] == "/dev/termination-log"
            assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_the_message_is_the_doctors_line(tmp_path: pathlib.Path) -> None:
    """Written in place: the kubelet mounts the file, so another file cannot replace it."""
    message = tmp_path / "termination-log"
    message.touch()
    inode = message.stat().st_ino
    done = start_doctor(
        "fleet", "node", "--out", str(tmp_path), "--name", "n1", "--level", "quick", "--message", str(message)
    )
    assert message.read_text("utf-8") == done.stdout
    assert message.read_text("utf-8").startswith("n1: ")
    assert message.stat().st_ino == inode
