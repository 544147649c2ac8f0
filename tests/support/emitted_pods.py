"""What `fleet emit kubernetes` writes, read as Kubernetes reads it."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from doctor_command import run_doctor

USUAL = ("--image", "registry.example/tensorflow:2.21-gpu@sha256:" + "0" * 64, "--out", "/mnt/shared/reports")
TOGETHER = ("--nodes", "3", "--level", "deep", "--gpus", "8", "--suite", "multi_worker", "--name", "night")
ROUND = (
    "--nodes",
    "3",
    "--level",
    "deep",
    "--gpus",
    "8",
    "--claim",
    "reports",
    "--schedule",
    "0 2 * * *",
    "--name",
    "night",
)
FORMS = {
    "quick job": ("--nodes", "4", "--level", "quick"),
    "deep job": ("--nodes", "4", "--level", "deep", "--gpus", "8", "--claim", "reports", "--name", "night"),
    "profile": ("--nodes", "100", "--profile", "cluster-node", "--gpus", "8", "--runtime-class", "nvidia"),
    "together": TOGETHER,
    "daemonset": ("--kind", "daemonset"),
    "every option": (
        "--kind", "daemonset", "--claim", "reports", "--runtime-class", "", "--kernel-log", "capability", "--shm-size", "512Mi",
        "--priority-class", "night", "--node-selector", "a.example/gpu=yes", "--node-selector", "empty=",
    ),
    "privileged": ("--nodes", "4", "--kernel-log", "privileged"),
    "by name": ("--node-names", "n1,n2,n3", "--at-once", "2", "--level", "deep", "--gpus", "8"),
    "round": ROUND,
    "round together": (*TOGETHER, "--schedule", "@daily"),
    "round by name": ("--node-names", "n1,n2,n3", "--at-once", "2", "--schedule", "0 2 * * 1-5", "--level", "quick"),
}  # fmt: skip


def emit_all(*arguments: str) -> list[dict[str, Any]]:
    done = run_doctor("fleet", "emit", "kubernetes", *USUAL, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


def emit(*arguments: str) -> dict[str, Any]:
    """The one workload; before it there may be its service."""
    (found,) = [each for each in emit_all(*arguments) if each["kind"] != "Service"]
    return found


def refused(*arguments: str) -> str:
    """What is said where nothing is written."""
    done = run_doctor("fleet", "emit", "kubernetes", *USUAL, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def job_of(document: dict[str, Any]) -> dict[str, Any]:
    """The spec of a Job, or of those that a CronJob makes."""
    spec: dict[str, Any] = document["spec"]
    if document["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return spec


def pod_of(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job_of(document)["template"]["spec"]
    return found


def containers_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    pod = pod_of(document)
    return [*pod["containers"], *pod.get("initContainers", [])]


def doctor_of(document: dict[str, Any]) -> dict[str, Any]:
    (found,) = [each for each in containers_of(document) if each["name"] == "doctor"]
    return found


def variables_of(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def workloads(form: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    yield from (each for each in emit_all(*form) if each["kind"] != "Service")


def placed(text: str, places: Mapping[str, str]) -> str:
    """A script with other paths in place of a pod's; each is replaced once."""
    return re.sub("|".join(re.escape(each) for each in places), lambda found: places[found.group()], text)


def kustomized(folder: pathlib.Path, **settings: str) -> list[dict[str, Any]]:
    """An overlay's result by the real kustomize. Skips where there is none."""
    command = next((each for each in (["kustomize", "build"], ["kubectl", "kustomize"]) if shutil.which(each[0])), None)
    if command is None:
        pytest.skip("neither kustomize nor kubectl is installed")
    overlay = folder / "overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["../base"], **settings}))
    done = subprocess.run([*command, str(overlay)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))
