"""Names after kustomize's prefixes and suffixes: what belongs together is still found by its name."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from doctor_command import run_doctor
from emitted_pods import FORMS, ROUND, TOGETHER, USUAL, doctor_of, job_of, kustomized, pod_of, variables_of

from tfgpu_doctor.fleet.launched import SERVICE, launched_by

INSTANCE = "app.kubernetes.io/instance"
ADDED = {"namePrefix": "rack7-", "nameSuffix": "-blue", "namespace": "gpus"}


def overlaid(folder: pathlib.Path, *form: str) -> list[dict[str, Any]]:
    done = run_doctor("fleet", "emit", "kubernetes", *USUAL, *form, "-o", str(folder / "base"))
    assert done.returncode == 0, done.stderr
    return kustomized(folder, **ADDED)


@pytest.mark.parametrize("schedule", [(), ("--schedule", "@daily")], ids=["job", "round"])
def test_pods_that_train_together_find_each_other(schedule: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    documents = overlaid(tmp_path, *TOGETHER, *schedule)
    (service,) = [each for each in documents if each["kind"] == "Service"]
    job = next(each for each in documents if each["metadata"]["name"] == "rack7-night-blue" and each is not service)
    name = service["metadata"]["name"]
    assert name == "rack7-night-blue"
    assert pod_of(job)["subdomain"] == name
    assert variables_of(doctor_of(job))[SERVICE] == name
    assert service["spec"]["selector"].items() <= job_of(job)["template"]["metadata"]["labels"].items()
    pod = f"{job['metadata']['name']}-29700000-1" if schedule else f"{job['metadata']['name']}-1"
    launched = launched_by({**variables_of(doctor_of(job)), "JOB_COMPLETION_INDEX": "1", "HOSTNAME": pod})
    assert launched is not None
    assert launched.hosts[1] == f"{pod}.{name}"


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_selects_pods_selects_those_of_its_own_overlay(form: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """Two overlays of one base in one namespace: a selector that they share would mix their pods."""
    for document in overlaid(tmp_path, *form):
        assert document["metadata"]["namespace"] == "gpus"
        if document["kind"] == "Service":
            continue
        labels = job_of(document)["template"]["metadata"]["labels"]
        assert document["metadata"]["name"].startswith("rack7-")
        assert document["metadata"]["name"].endswith("-blue")
        assert labels[INSTANCE].startswith("rack7-")
        assert document["metadata"]["labels"][INSTANCE] == labels[INSTANCE]
        for selector in selectors(document):
            assert selector["matchLabels"].items() <= labels.items()


def selectors(document: dict[str, Any]) -> list[dict[str, Any]]:
    affinity = pod_of(document).get("affinity", {}).get("podAntiAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    own = [document["spec"]["selector"]] if document["kind"] == "DaemonSet" else []
    return own + [term["labelSelector"] for term in terms]


def test_the_collector_finds_the_round_of_its_overlay(tmp_path: pathlib.Path) -> None:
    """Each names the folder of a round by the end of its Job's name, which a prefix or suffix leaves alone."""
    nodes, collector = overlaid(tmp_path, *ROUND)
    assert nodes["spec"]["schedule"] == collector["spec"]["schedule"]
    assert {each["metadata"]["name"] for each in (nodes, collector)} == {"rack7-night-blue", "rack7-night-report-blue"}
