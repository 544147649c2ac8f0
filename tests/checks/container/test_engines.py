"""CNT005 to CNT007: a machine that starts containers itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_ground import TOOLKIT
from built_ground_broken import BARE, COMPOSE
from built_machines import DOCKER
from healthy import target

from tfgpu_doctor.checks.container.engines import docker_is_no_snap, toolkit_is_installed, toolkit_sets_device_rules
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts.engines import Engines
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.project import Project

if TYPE_CHECKING:
    from checks.conftest import Judge

DOCKERD: dict[str, Any] = {"docker": "/usr/bin/dockerd", "docker_runs_as_root": True}
CONFIGURED = ("/etc/docker/daemon.json",)
SNAP = Engines(docker_of_snap="/snap/bin/docker")
WITHOUT_TOOLKIT = Engines(**DOCKERD)
CLOSED = Engines(**DOCKERD, toolkit=TOOLKIT, no_cgroups=True)
FAULTS = [
    (docker_is_no_snap, SNAP, "docker_installed_as_snap"),
    (toolkit_is_installed, WITHOUT_TOOLKIT, "container_toolkit_missing"),
    (toolkit_sets_device_rules, CLOSED, "container_toolkit_misconfigured"),
]
faults = pytest.mark.parametrize(("check", "engines", "cause"), FAULTS, ids=[cause for *_, cause in FAULTS])
INACTIVE = Environment()


def severity(judge: Judge, check: Check, engines: Engines, **sections: Any) -> str:
    finding = judge.findings(check, engines=engines, **sections)[0]
    return finding.severity


@faults
def test_docker_for_other_work_is_mentioned_and_no_more(
    judge: Judge, check: Check, engines: Engines, cause: str
) -> None:
    [finding] = judge.findings(check, engines=engines)
    assert (finding.cause, finding.severity) == (cause, "info")


@faults
def test_a_runtime_that_was_set_up_for_gpus_is_meant_for_them(
    judge: Judge, check: Check, engines: Engines, cause: str
) -> None:
    from msgspec.structs import replace

    configured = replace(engines, runtime_named_in=CONFIGURED)
    assert severity(judge, check, configured) == "warning"
    assert severity(judge, check, configured, target=target(**BARE), environment=INACTIVE) == "warning"


@faults
def test_a_project_for_containers_alone_depends_on_them(
    judge: Judge, check: Check, engines: Engines, cause: str
) -> None:
    bare = {"project": COMPOSE, "target": target(**BARE), "environment": INACTIVE}
    assert severity(judge, check, engines, **bare) == "error"
    assert "driver: nvidia" in judge.findings(check, engines=engines, **bare)[0].evidence[-1]


@faults
def test_an_environment_that_is_active_is_another_way(judge: Judge, check: Check, engines: Engines, cause: str) -> None:
    active = Environment(variables={"CONDA_PREFIX": "/opt/conda/envs/tf"})
    assert severity(judge, check, engines, project=COMPOSE, target=target(**BARE), environment=active) == "warning"
    assert severity(judge, check, engines, project=COMPOSE) == "warning"


@faults
def test_inside_of_a_container_the_engine_is_out_of_sight(
    judge: Judge, check: Check, engines: Engines, cause: str
) -> None:
    """Docker in an unprivileged container of LXC needs no-cgroups = true."""
    assert judge.skips(check, engines=engines, container=DOCKER, project=COMPOSE)


@pytest.mark.parametrize("check", [docker_is_no_snap, toolkit_is_installed, toolkit_sets_device_rules])
def test_without_docker_there_is_nothing_to_judge(judge: Judge, check: Check) -> None:
    assert judge.skips(check, engines=Engines(), project=COMPOSE)


@faults
def test_without_a_gpu_there_is_nothing_to_hand_in(judge: Judge, check: Check, engines: Engines, cause: str) -> None:
    assert judge.skips(check, engines=engines, project=COMPOSE, pci=None, nvml=None)


def test_a_snap_alone_needs_no_toolkit_yet(judge: Judge) -> None:
    assert judge.skips(toolkit_is_installed, engines=SNAP, project=COMPOSE)


def test_docker_of_a_package_beside_the_snap_will_do(judge: Judge) -> None:
    both = Engines(**DOCKERD, docker_of_snap="/snap/bin/docker")
    assert "/usr/bin/dockerd" in judge.passes(docker_is_no_snap, engines=both)


def test_the_toolkit_is_named(judge: Judge) -> None:
    assert "/usr/bin/nvidia-ctk" in judge.passes(toolkit_is_installed, engines=Engines(**DOCKERD, toolkit=TOOLKIT))


@pytest.mark.parametrize(
    ("engines", "words"),
    [
        (Engines(**DOCKERD, toolkit=TOOLKIT, no_cgroups=False), "false"),
        (Engines(docker="/usr/bin/dockerd", docker_runs_rootless=True, no_cgroups=True), "rootless Docker"),
        (Engines(**DOCKERD, docker_runs_rootless=True, no_cgroups=True), "rootless Docker"),
    ],
)
def test_device_rules(judge: Judge, engines: Engines, words: str) -> None:
    assert words in judge.passes(toolkit_sets_device_rules, engines=engines)


def test_a_project_without_containers_wishes_for_none(judge: Judge) -> None:
    bare = {"project": Project(), "target": target(**BARE), "environment": INACTIVE}
    assert severity(judge, toolkit_is_installed, WITHOUT_TOOLKIT, **bare) == "info"
