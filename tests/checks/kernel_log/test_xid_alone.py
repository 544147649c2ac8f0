"""XID001, XID002: what the kernel log says where nothing else is known, and the words of a message that change its meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_kernel import GSP, ILLEGAL, OFF_THE_BUS, log, sxid, xid
from healthy import cuda_gpu

from tfgpu_doctor.checks.kernel_log.kernel_messages import gpus_report_no_fault
from tfgpu_doctor.checks.kernel_log.nvswitches import switches_report_no_fault

if TYPE_CHECKING:
    from checks.conftest import Judge

UNKNOWN: dict[str, Any] = {"nvml": None, "cuda_driver": None, "runtime": None, "pci": None, "driver": None}
REMAP = "Row Remapper: New row marked for remapping, reset gpu to activate."
CAUSED = "Ch 00000001 caused by previous Xid 149"


@pytest.mark.parametrize(
    ("code", "said", "severity", "cause"),
    [
        (119, GSP, "error", "gpu_hang"),
        (62, "2023b230 20238a3a", "error", "gpu_hang"),
        (79, OFF_THE_BUS, "error", "gpu_lost"),
        (13, ILLEGAL, "warning", "gpu_kernel_fault"),
        (63, REMAP, "warning", "gpu_reset_required"),
        (63, "Dynamic Page Retirement: New retired page", "warning", "hardware_ecc_error"),
        (45, "Ch 00000008", "info", "undetermined"),
        (45, CAUSED, "error", "nvlink_down"),
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 02", "error", "nvlink_down"),
        (149, "NETIR_INT Nonfatal XC1 i0 Link 08", "info", "undetermined"),
    ],
)
def test_what_the_log_says_stands_where_nothing_else_is_known(
    judge: Judge, code: int, said: str, severity: str, cause: str
) -> None:
    finding = judge.finding(gpus_report_no_fault, **UNKNOWN, kernel_log=log(xid(code, said)))
    assert (finding.severity, finding.cause) == (severity, cause)


@pytest.mark.parametrize("code", [13, 119])
def test_a_gpu_that_computes_is_something_known(judge: Judge, code: int) -> None:
    assert judge.finding(gpus_report_no_fault, kernel_log=log(xid(code, "x"))).severity == "info"


def test_the_reason_that_a_message_names_is_told(judge: Judge) -> None:
    finding = judge.finding(gpus_report_no_fault, **UNKNOWN, kernel_log=log(xid(45, CAUSED)))
    assert "reported Xid 149" in finding.message
    assert CAUSED in finding.evidence[0]


@pytest.mark.parametrize(("limit", "cause"), [(True, "display_watchdog_timeout"), (False, "undetermined")])
def test_a_kernel_that_ran_too_long_on_the_gpu_of_a_display(judge: Judge, limit: bool, cause: str) -> None:
    card = cuda_gpu(kernel_time_limit=limit)
    fails = {"cuda_driver": {"gpus": (card,), "init_code": 999, "init_name": "CUDA_ERROR_UNKNOWN"}, "runtime": None}
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(xid(8, "Ch 00000008")), **fails)
    assert (finding.severity, finding.cause) == ("warning", cause)


@pytest.mark.parametrize(
    ("said", "severity"),
    [("Fatal, Link 30", "error"), ("Severity 1 Engine instance 12", "error"), ("Severity 0 Engine instance 12", "info"),
     ("Non-fatal, Link 30", "info")],
)  # fmt: skip
def test_a_fatal_sxid_alone_is_an_error(judge: Judge, said: str, severity: str) -> None:
    assert judge.finding(switches_report_no_fault, **UNKNOWN, kernel_log=log(sxid(24007, said))).severity == severity


def test_without_bus_and_sxid_there_is_no_switch_to_judge(judge: Judge) -> None:
    assert judge.skips(switches_report_no_fault, **UNKNOWN, kernel_log=log()) == "the PCI bus cannot be read"
