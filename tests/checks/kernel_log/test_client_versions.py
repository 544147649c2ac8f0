"""XID006: a program that the kernel module rejected because its libraries are of another driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_kernel import UNREADABLE, log, message
from built_machines import cuda_that_fails
from healthy import ANSWERED

from tfgpu_doctor.checks.kernel_log.client_versions import programs_have_the_modules_version
from tfgpu_doctor.model.facts.nvidia import Nvml

if TYPE_CHECKING:
    from checks.conftest import Judge

UNKNOWN: dict[str, Any] = {"nvml": None, "cuda_driver": None}
END = "has the version 595.84, but this kernel module has the version 595.80.  Please make sure that they are the same."
OLD = message("api_mismatch", f"NVRM: API mismatch: the client {END}")
NAMED = message("api_mismatch", f"NVRM: API mismatch: the client 'Xorg' (pid 1005) {END}", process="Xorg")


def test_a_log_without_a_mismatch_passes(judge: Judge) -> None:
    assert "no API mismatch in dmesg" in judge.passes(programs_have_the_modules_version, kernel_log=log(), **UNKNOWN)
    assert "cannot be read" in judge.skips(programs_have_the_modules_version, kernel_log=UNREADABLE)


@pytest.mark.parametrize(("said", "confidence"), [(OLD, "high"), (NAMED, "medium")])
@pytest.mark.parametrize(
    "sections",
    [UNKNOWN, {"nvml": Nvml(attempt=ANSWERED, error_code=18), "cuda_driver": cuda_that_fails(803, "CUDA_ERROR")}],
    ids=["nothing known", "they fail"],
)
def test_libraries_of_another_driver(judge: Judge, said: Any, confidence: str, sections: dict[str, Any]) -> None:
    finding = judge.finding(programs_have_the_modules_version, kernel_log=log(said), **sections)
    assert (finding.cause, finding.severity) == ("driver_library_version_mismatch", "error")
    assert finding.confidence == confidence
    assert "its libraries are of 595.84, the module is 595.80" in finding.message
    assert finding.fix
    assert not finding.fix.text.startswith("Restart that program")


def test_where_the_driver_works_only_that_program_is_to_be_started_again(judge: Judge) -> None:
    finding = judge.finding(programs_have_the_modules_version, kernel_log=log(NAMED))
    assert finding.severity == "info"
    assert "the program 'Xorg'" in finding.message
    assert finding.fix
    assert finding.fix.text == "Restart that program; if it is rejected again, reboot."


def test_what_was_long_ago_or_before_a_new_load_is_over(judge: Judge) -> None:
    for age_s in (90_000.0, 7199.0):
        old = log(message("api_mismatch", OLD.text, age_s))
        assert judge.passes(programs_have_the_modules_version, kernel_log=old, **UNKNOWN)
