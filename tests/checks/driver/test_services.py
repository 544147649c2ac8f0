"""SVC, PRF: NVIDIA's services, and who may profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_kernel import NOT_READY, SYSTEM_NOT_READY, with_switches
from built_machines import DOCKER
from healthy import broken

from tfgpu_doctor.checks.driver.services import fabric_manager_runs, profiler_may_count
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.kernel import Services
from tfgpu_doctor.model.facts.machine import Pci, PciDevice

if TYPE_CHECKING:
    from checks.conftest import Judge

NONE = Services(visible=True, running=("nvidia-persistenced",))
REFUSED: dict[str, Any] = {"cuda_driver": SYSTEM_NOT_READY, "runtime": NOT_READY}


# SVC001


def test_a_fabric_manager_that_runs_passes(judge: Judge) -> None:
    evidence = judge.passes(fabric_manager_runs, with_switches())
    assert evidence == "nv-fabricmanager runs; its version is 560.35.03, the driver's version is 560.35.03"


def test_machines_without_switches_need_none(judge: Judge) -> None:
    assert judge.skips(fabric_manager_runs, services=NONE) == "there is no NVSwitch on the PCI bus"


def test_a_bridge_of_an_old_chipset_is_no_switch(judge: Judge) -> None:
    """The network controller of nForce chipsets is a bridge (class 0680) of NVIDIA's too."""
    nforce = PciDevice(address="0000:00:08.0", vendor="10de", device="0373", class_code="068000", driver="forcedeth")
    assert "no NVSwitch" in judge.skips(
        fabric_manager_runs, pci=Pci(devices=(nforce,)), services=NONE, cuda_driver=SYSTEM_NOT_READY
    )


def test_without_it_cuda_does_not_start(judge: Judge) -> None:
    finding = judge.finding(fabric_manager_runs, with_switches(services=NONE, **REFUSED))
    assert (finding.cause, finding.severity) == ("fabric_manager_not_running", "error")
    assert "the machine has 4 NVSwitches" in finding.message


def test_one_of_another_version_is_refused(judge: Judge) -> None:
    other = Services(visible=True, running=("nv-fabricmanager",), fabric_manager_version="550.54.15")
    finding = judge.finding(fabric_manager_runs, with_switches(services=other, **REFUSED))
    assert finding.message == "the fabric manager has version 550.54.15, but the driver has version 560.35.03"
    assert judge.passes(fabric_manager_runs, with_switches(services=other))


def test_where_cuda_works_it_is_not_missed(judge: Judge) -> None:
    assert judge.passes(fabric_manager_runs, with_switches(services=NONE)) == "the CUDA driver initialises without it"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"container": DOCKER, **REFUSED}, "not visible from inside a container"),
        ({"services": Services(visible=False), **REFUSED}, "the processes of other users are not visible"),
        ({"services": NONE, "cuda_driver": None}, "cuInit does not report that it is missing"),
    ],
)
def test_what_cannot_be_told_is_no_fault(judge: Judge, changes: dict[str, Any], reason: str) -> None:
    assert reason in judge.skips(fabric_manager_runs, with_switches(**changes))


def test_there_is_one_red_line() -> None:
    (cause,) = diagnose(with_switches(services=NONE, **REFUSED)).causes
    assert cause.id == "SVC001"
    assert "DRV008" in cause.explains


# PRF001


def test_that_root_alone_may_profile_is_a_note(judge: Judge) -> None:
    finding = judge.finding(profiler_may_count)
    assert (finding.cause, finding.severity) == ("cupti_permission_denied", "info")
    assert "RmProfilingAdminOnly: 1" in finding.evidence[0]


def test_root_may_profile(judge: Judge) -> None:
    assert judge.passes(profiler_may_count, device_nodes={"uid": 0})


def test_where_everybody_may_profile_it_passes(judge: Judge) -> None:
    assert "all users may profile" in judge.passes(
        profiler_may_count, driver={"parameters": {"RmProfilingAdminOnly": "0"}}
    )


def test_root_in_a_container_may_not_be_root(judge: Judge) -> None:
    assert "SYS_ADMIN" in judge.skips(profiler_may_count, broken(container=DOCKER, device_nodes={"uid": 0}))


def test_a_driver_that_does_not_tell_is_not_judged(judge: Judge) -> None:
    assert judge.skips(profiler_may_count, driver={"parameters": {}}) == "the driver does not report who may profile"
