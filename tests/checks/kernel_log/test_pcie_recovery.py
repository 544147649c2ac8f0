"""XID005: a GPU that the kernel gave up after a fatal error of its link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_kernel import UNREADABLE, log, message
from healthy import ANSWERED

from tfgpu_doctor.checks.kernel_log.pcie_recovery import links_recover
from tfgpu_doctor.model.facts.nvidia import Nvml

if TYPE_CHECKING:
    from checks.conftest import Judge

UNKNOWN: dict[str, Any] = {"nvml": None, "cuda_driver": None, "pci": None}
GIVEN_UP = message(
    "pci_unrecovered",
    "nvidia 0000:01:00.0: AER: can't recover (no error_detected callback)",
    pci_address="0000:01:00.0",
)
FATAL = message(
    "pci_fatal", "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Fatal)", pci_address="0000:00:01.0"
)


def test_a_log_without_such_errors_passes(judge: Judge) -> None:
    assert "no GPU was given up" in judge.passes(links_recover, kernel_log=log())
    assert "cannot be read" in judge.skips(links_recover, kernel_log=UNREADABLE)


@pytest.mark.parametrize(
    ("sections", "confidence"), [(UNKNOWN, "medium"), ({"nvml": Nvml(attempt=ANSWERED), "cuda_driver": None}, "high")]
)
def test_a_gpu_that_was_given_up_is_lost(judge: Judge, sections: dict[str, Any], confidence: str) -> None:
    finding = judge.finding(links_recover, kernel_log=log(GIVEN_UP, FATAL), **sections)
    assert (finding.cause, finding.severity, finding.confidence) == ("gpu_lost", "error", confidence)
    assert GIVEN_UP.text in finding.evidence


def test_a_gpu_that_is_listed_recovered(judge: Judge) -> None:
    assert judge.passes(links_recover, kernel_log=log(GIVEN_UP, FATAL))


def test_after_an_error_that_is_not_fatal_the_gpu_goes_on(judge: Judge) -> None:
    assert judge.passes(links_recover, kernel_log=log(GIVEN_UP), **UNKNOWN)
