"""XID: the kernel log's reports about the GPUs, their switches and the power."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_kernel import (
    DBE,
    GSP,
    ILLEGAL,
    LOADED,
    NO_DEVICE,
    OFF_THE_BUS,
    SYSTEM_NOT_READY,
    UNREADABLE,
    built,
    log,
    message,
    sxid,
    with_switches,
    xid,
)
from built_machines import DOCKER, cuda_that_fails, several, variables
from healthy import ANSWERED, broken, computation, cuda_gpu, node, nvml_gpu, runtime

from tfgpu_doctor.checks.driver.answers import cuda_driver_initialises
from tfgpu_doctor.checks.kernel_log.kernel_messages import gpus_report_no_fault, power_held
from tfgpu_doctor.checks.kernel_log.nvswitches import switches_report_no_fault
from tfgpu_doctor.checks.kernel_log.xids import ago, same_place
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.health import Fabric, GpuHealth, GpuTrouble
from tfgpu_doctor.model.facts.kernel import KernelLog, LogSource
from tfgpu_doctor.model.facts.machine import Pci, PciDevice, Scheduler
from tfgpu_doctor.model.facts.nvidia import DeviceNodes, Nvml

if TYPE_CHECKING:
    from checks.conftest import Judge

HOUR, DAY = 3600.0, 86400.0
RESET = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
FAILS: dict[str, Any] = {
    "cuda_driver": NO_DEVICE,
    "nvml": Nvml(attempt=ANSWERED, error_code=15, error_text="GPU is lost"),
}


def failing(error: str) -> Any:
    return runtime(computations=(computation("matmul", largest_error=None, placed_on="", error=error),))


# XID001


def test_a_log_without_a_xid_passes_and_says_how_far_it_reaches(judge: Judge) -> None:
    assert judge.passes(gpus_report_no_fault, kernel_log=log()) == "no Xid in dmesg, read from the boot on"
    short = log(tried=(LogSource(name="dmesg", oldest_age_s=7200.0),))
    assert judge.passes(gpus_report_no_fault, kernel_log=short) == "no Xid in dmesg, read from 2 hours ago on"


def test_a_log_that_cannot_be_read_is_no_clean_log(judge: Judge) -> None:
    reason = judge.skips(gpus_report_no_fault, kernel_log=UNREADABLE)
    assert "dmesg: read kernel buffer failed: Operation not permitted" in reason
    assert "/var/log/kern.log: Permission denied" in reason
    assert "as root, run `dmesg | grep -i -e xid -e NVRM`" in reason
    for check in (switches_report_no_fault, power_held):
        assert "cannot be read" in judge.skips(check, with_switches(kernel_log=UNREADABLE))
    assert judge.skips(gpus_report_no_fault, kernel_log=KernelLog()).startswith("the kernel log cannot be read; ")


def test_in_wsl_the_log_is_not_that_of_the_gpus_driver(judge: Judge) -> None:
    assert "Windows" in judge.skips(gpus_report_no_fault, kernel_log=log(), system={"wsl": 2})


@pytest.mark.parametrize(
    ("version", "address", "told"),
    [("560.35.03", "0000:01:00", True), ("", "0000:01:00", False), ("560.35.03", "0000:02:00", False)],
)
def test_a_fault_is_told_with_the_firmware_of_its_gpu(judge: Judge, version: str, address: str, told: bool) -> None:
    gpus = {"gpus": (nvml_gpu(health=GpuHealth(gsp_firmware=version)),)}
    said = log(xid(119, GSP, address=address))
    finding = judge.finding(gpus_report_no_fault, kernel_log=said, nvml=gpus, cuda_driver=None, runtime=None)
    assert ("the GPU runs GSP firmware 560.35.03" in finding.evidence) == told


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 69, 108, 137])
def test_what_a_program_did_wrong_is_no_fault_of_a_machine_that_works(judge: Judge, code: int) -> None:
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(xid(code, ILLEGAL)))
    assert (finding.severity, finding.cause) == ("info", "undetermined")
    assert "TensorFlow nevertheless computes on the GPUs" in finding.evidence


@pytest.mark.parametrize(("version", "known"), [("525.147.05", True), ("525.147.04", False)])
def test_a_code_has_the_meaning_that_it_has_from_a_driver_on(judge: Judge, version: str, known: bool) -> None:
    driver = {"version": version}
    finding = judge.finding(
        gpus_report_no_fault, kernel_log=log(xid(137, ILLEGAL)), runtime=None, driver=driver, **FAILS
    )
    assert (finding.cause == "gpu_kernel_fault") is known


@pytest.mark.parametrize("code", [13, 31, 43, 69, 108, 137])
def test_what_a_program_did_wrong_is_mentioned_where_nothing_works(judge: Judge, code: int) -> None:
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(xid(code, ILLEGAL)), runtime=None, **FAILS)
    assert (finding.severity, finding.cause, finding.confidence) == ("warning", "gpu_kernel_fault", "medium")


@pytest.mark.parametrize(
    ("code", "cause"),
    [(48, "hardware_ecc_error"), (64, "hardware_ecc_error"), (95, "hardware_ecc_error"),
     (79, "gpu_lost"), (54, "hardware_power_supply"), (62, "gpu_hang"), (119, "gpu_hang"), (120, "gpu_hang"),
     (109, "gpu_hang"), (143, "gpu_start_failed"), (74, "undetermined"), (46, "undetermined")],
)  # fmt: skip
def test_a_fault_of_the_hardware_is_an_error_where_the_gpu_fails(judge: Judge, code: int, cause: str) -> None:
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(xid(code, "...")), runtime=None, **FAILS)
    assert (finding.severity, finding.cause) == ("error", cause)
    assert f"reported Xid {code}, last 5 minutes ago" in finding.message
    assert "NVML fails: GPU is lost" in finding.evidence
    works = judge.finding(gpus_report_no_fault, kernel_log=log(xid(code, "...")))
    assert works.severity == ("info" if code in (46, 109, 119, 120) else "warning"), "a driver that went on is no fault"


def test_a_contained_memory_error_ended_one_program(judge: Judge) -> None:
    """NVIDIA's catalog: start it again; reset the GPU when convenient."""
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(xid(94, "Contained: CE User Channel (0x9).")), **FAILS)
    assert (finding.severity, finding.cause) == ("warning", "hardware_ecc_error")
    assert finding.fix and finding.fix.text.startswith("Start the program again")


@pytest.mark.parametrize(
    ("code", "said", "confidence"),
    [(79, OFF_THE_BUS, "high"), (119, GSP, "high"), (154, RESET, "high"), (48, DBE, "high"), (143, "GPU_INIT_ERROR", "high"),
     (54, "power cables", "medium"), (31, "MMU Fault", "medium"), (46, "the GPU stopped", "medium")],
)  # fmt: skip
def test_what_the_driver_states_is_certain(judge: Judge, code: int, said: str, confidence: str) -> None:
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(xid(code, said)), runtime=None, **FAILS)
    assert finding.confidence == confidence


def test_that_a_gpu_is_lost_does_not_say_why(judge: Judge) -> None:
    """The power supply is only to be looked at, together with the other possible reasons."""
    lost = judge.finding(gpus_report_no_fault, kernel_log=log(xid(79, OFF_THE_BUS)), runtime=None, **FAILS)
    assert lost.cause == "gpu_lost"
    assert lost.fix
    assert all(word in lost.fix.text for word in ("Reboot", "power cables", "seating", "temperature", "another slot"))


@pytest.mark.parametrize(
    ("said", "severity", "cause"),
    [("from 0x0 (None) to 0x1 (GPU Reset Required)", "warning", "gpu_reset_required"),
     ("from 0x0 (None) to 0x2 (OS Reboot)", "warning", "gpu_reset_required"),
     ("from 0x0 (None) to 0x4 (Drain and Reset)", "warning", "gpu_reset_required"),
     ("from 0x0 (None) to 0x3 (Drain P2P)", "info", "undetermined"),
     ("from 0x1 (GPU Reset Required) to 0x0 (None)", "info", "undetermined")],
)  # fmt: skip
def test_a_reset_is_required_as_long_as_the_driver_asks_for_it(
    judge: Judge, said: str, severity: str, cause: str
) -> None:
    asked = log(xid(154, f"GPU recovery action changed {said}"))
    finding = judge.finding(gpus_report_no_fault, kernel_log=asked, runtime=None, **FAILS)
    assert (finding.severity, finding.cause) == (severity, cause)
    assert finding.fix and finding.fix.text.startswith("The driver itself requests: ") == (not said.endswith("(None)"))
    assert judge.finding(gpus_report_no_fault, kernel_log=asked).severity == "info", "a GPU that computes needs none"


@pytest.mark.parametrize("age", [DAY + 1, 30 * DAY])
def test_an_old_xid_is_a_note(judge: Judge, age: float) -> None:
    for trouble in ({}, {"runtime": None, **FAILS}):
        finding = judge.finding(
            gpus_report_no_fault,
            kernel_log=log(xid(79, OFF_THE_BUS, age), messages=(xid(79, OFF_THE_BUS, age),)),
            **trouble,
        )
        assert finding.severity == "info"


def test_what_was_before_the_driver_was_loaded_anew_is_a_note(judge: Judge) -> None:
    reloaded = msgspec.structs.replace(LOADED, first_age_s=7190.0, last_age_s=100.0, count=2)
    machine = broken(kernel_log=log(messages=(xid(119, GSP, 4000.0), reloaded)), runtime=None, **FAILS)
    assert judge.finding(gpus_report_no_fault, machine).severity == "info"


def test_what_was_before_the_boot_does_not_count(judge: Judge) -> None:
    before = log(xid(79, OFF_THE_BUS, 8000.0, boots_ago=1))
    assert judge.passes(gpus_report_no_fault, kernel_log=before).startswith("no Xid in dmesg")


def test_a_xid_without_a_date_is_a_note(judge: Judge) -> None:
    undated = xid(79, OFF_THE_BUS, first_age_s=None, last_age_s=None)
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(undated), runtime=None, **FAILS)
    assert finding.severity == "info"
    assert "at an unknown time" in finding.message


def test_of_several_xids_the_gravest_explains_the_others(judge: Judge) -> None:
    rows = (xid(45, "Ch 8", 260.0, count=9), xid(154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
            xid(79, OFF_THE_BUS, 300.0), xid(119, GSP, 310.0, count=3))  # fmt: skip
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(*rows), runtime=None, **FAILS)
    assert "reported Xid 79" in finding.message
    assert finding.cause == "gpu_lost"
    assert "it also reported Xid 119 (3 times), Xid 154, Xid 45 (9 times)" in finding.evidence
    assert finding.fix and finding.fix.text.startswith("The driver itself requests: Node Reboot Required. ")


@pytest.mark.parametrize(
    ("older", "newer", "cause"),
    [(119, 48, "hardware_ecc_error"), (143, 48, "hardware_ecc_error"), (46, 62, "gpu_hang"),
     (46, 119, "gpu_hang"), (13, 63, "hardware_ecc_error"), (154, 63, "hardware_ecc_error"), (31, 154, "gpu_reset_required"),
     (32, 13, "gpu_kernel_fault"), (120, 143, "gpu_hang"), (143, 120, "gpu_start_failed")],
)  # fmt: skip
def test_a_code_with_a_reason_explains_an_older_one_without(judge: Judge, older: int, newer: int, cause: str) -> None:
    rows = (xid(newer, "...", 200.0), xid(older, "...", 300.0))
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(*rows), runtime=None, **FAILS)
    assert finding.cause == cause


def test_each_gpu_has_a_finding_of_its_own(judge: Judge) -> None:
    machine = broken(**several(2), kernel_log=log(xid(48, DBE), xid(79, OFF_THE_BUS, address="0000:02:00")))
    found = judge.findings(gpus_report_no_fault, machine)
    assert sorted(each.cause for each in found) == ["gpu_lost", "hardware_ecc_error"]


def test_a_code_that_the_table_does_not_hold_is_a_note(judge: Judge) -> None:
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(xid(99_999, "?")), runtime=None, **FAILS)
    assert finding.severity == "info"
    assert "not in the doctor's table" in finding.message


def test_the_table_counts_for_the_drivers_that_it_is_of(judge: Judge) -> None:
    """Xid 175 came with driver 595."""
    new = xid(175, "memory")
    for version, severity in (("595.45.04", "error"), ("999.10", "error"), ("470.256.02", "info")):
        machine = broken(kernel_log=log(new), driver={"version": version}, runtime=None, **FAILS)
        assert judge.finding(gpus_report_no_fault, machine).severity == severity


@pytest.mark.parametrize(
    ("error", "severity"),
    [("InternalError: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error", "error"),
     ("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", "error"), ("CUDA_ERROR_ILLEGAL_ADDRESS", "error"),
     ("RESOURCE_EXHAUSTED: OOM when allocating", "warning"), ("CUDA_ERROR_NO_BINARY_FOR_GPU", "warning"),
     ("libdevice not found", "warning")],
)  # fmt: skip
def test_a_computation_that_fails_for_want_of_something_else_is_no_sign(
    judge: Judge, error: str, severity: str
) -> None:
    assert (
        judge.finding(gpus_report_no_fault, kernel_log=log(xid(48, DBE)), runtime=failing(error)).severity == severity
    )


def test_a_gpu_that_hangs_is_a_sign(judge: Judge) -> None:
    hung = Attempt(outcome="timed_out", seconds=15.0, phase="nvmlInit")
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(xid(119, GSP)), runtime=None, nvml=Nvml(attempt=hung))
    assert finding.severity == "error"
    assert "NVML did not respond within 15 s during 'nvmlInit'" in finding.evidence


def test_who_is_not_let_in_has_no_sign_of_a_fault(judge: Judge) -> None:
    closed = DeviceNodes(nodes=(node("/dev/nvidia0", error="EACCES"), node("/dev/nvidiactl", error="EACCES")), uid=1000)
    finding = judge.finding(
        gpus_report_no_fault, kernel_log=log(xid(79, OFF_THE_BUS)), runtime=None, device_nodes=closed, **FAILS
    )
    assert finding.severity == "warning"


def test_the_nodes_of_other_gpus_are_no_matter(judge: Judge) -> None:
    others = DeviceNodes(
        nodes=(node("/dev/nvidia0"), node("/dev/nvidia1", error="EPERM"), node("/dev/nvidiactl")), uid=1000
    )
    finding = judge.finding(
        gpus_report_no_fault, kernel_log=log(xid(79, OFF_THE_BUS)), runtime=None, device_nodes=others, **FAILS
    )
    assert finding.severity == "error"


def test_the_gpu_of_another_job_is_not_ours(judge: Judge) -> None:
    job = Scheduler(kind="slurm", job="1", granted={"SLURM_JOB_GPUS": "0"})
    machine = broken(scheduler=job, kernel_log=log(xid(79, OFF_THE_BUS, address="0000:41:00")))
    assert judge.finding(gpus_report_no_fault, machine).severity == "info"


def test_the_gpu_of_others_is_not_ours(judge: Judge) -> None:
    machine = several(2)
    machine["cuda_driver"] = {"gpus": (cuda_gpu(),)}
    hidden = broken(**machine, kernel_log=log(xid(79, OFF_THE_BUS, address="0000:02:00")))
    finding = judge.finding(gpus_report_no_fault, hidden)
    assert finding.severity == "info"
    assert "this process may not use this GPU" in finding.evidence
    inside = broken(container=DOCKER, kernel_log=log(xid(79, OFF_THE_BUS, address="0000:41:00")))
    assert judge.finding(gpus_report_no_fault, inside).severity == "info"


GONE = broken(kernel_log=log(xid(79, OFF_THE_BUS, address="0000:02:00")))  # the second of two


@pytest.mark.parametrize(
    ("sections", "severity", "blocks"),
    [
        ({}, "error", False),
        ({"runtime": None}, "error", False),
        ({"runtime": None, "cuda_driver": None}, "error", True),
        (several(2), "warning", True),
        ({"environment": variables(CUDA_VISIBLE_DEVICES="0")}, "warning", True),
        ({"environment": variables(CUDA_VISIBLE_DEVICES="0,1")}, "error", False),
        ({"nvml": {"troubles": (GpuTrouble(index=1, pci_address="0000:02:00.0", error_code=15),)}}, "error", False),
        ({"nvml": {"troubles": (GpuTrouble(index=1, pci_address="0000:02:00.0", error_code=4),)}}, "info", True),
        ({"pci": {"devices": (PciDevice("0000:02:00.0", "10de", "2204", "030000", driver="vfio-pci"),)}}, "info", True),
    ],
    ids=["gone", "quick", "nobody else works", "it computes again", "withheld", "named", "in trouble", "not ours", "handed over"],
)  # fmt: skip
def test_a_gpu_that_is_gone_is_an_error_whoever_else_works(
    judge: Judge, sections: dict[str, Any], severity: str, blocks: bool
) -> None:
    finding = judge.finding(gpus_report_no_fault, GONE, **sections)
    assert (finding.severity, finding.blocks) == (severity, blocks)
    assert finding.cause == ("undetermined" if severity == "info" else "gpu_lost")
    if severity == "error" and "runtime" not in sections:
        assert "TensorFlow computes without it" in finding.evidence


def test_one_of_eight_that_is_gone_is_one_cause_and_the_others_are_judged() -> None:
    report = diagnose(built()["server-xid-79-on-one-of-eight"])
    assert [(cause.id, cause.label, cause.severity) for cause in report.causes] == [("XID001", "gpu_lost", "error")]
    assert (report.computes, report.fit, report.healthy) == (True, False, False)
    assert (report.shows("computes") or report.results[0]).outcome == "pass"


def test_a_gpu_that_was_lost_before_the_driver_came_is_one_off_the_bus(judge: Judge) -> None:
    text = "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2204) installed in this system has fallen off the bus and is not responding to commands."
    lost = message("off_the_bus", text, 7189.0, pci_address="0000:01:00.0")
    finding = judge.finding(gpus_report_no_fault, kernel_log=log(lost), runtime=None, **FAILS)
    assert (finding.severity, finding.cause, finding.confidence) == ("error", "gpu_lost", "high")


def test_a_gpu_that_left_the_bus_for_good_is_not_called_missing() -> None:
    gone = msgspec.structs.replace(built()["workstation-xid-79"], pci=Pci(device_count=40))
    gone = broken(
        gone,
        driver={"gpus": ()},
        device_nodes=DeviceNodes(nodes=(node("/dev/nvidiactl"),), uid=1000),
        nvml=Nvml(attempt=ANSWERED),
    )
    assert "no_gpu_in_machine" not in [cause.label for cause in diagnose(gone).causes]


@pytest.mark.parametrize("name", ["workstation-xid-79", "a100-xid-48", "a100-xid-119"])
def test_what_follows_from_it_is_explained_by_it(name: str) -> None:
    (cause,) = diagnose(built()[name]).causes
    assert cause.id == "XID001"
    assert {"DRV007", "DRV008", "GPU004"} <= set(cause.explains)


def test_deeper_faults_come_first() -> None:
    hidden = broken(
        kernel_log=log(xid(48, DBE)), cuda_driver=NO_DEVICE, environment={"variables": {"CUDA_VISIBLE_DEVICES": ""}}
    )
    assert diagnose(hidden).causes[0].label == "cuda_visible_devices_hides_gpu"


# XID002


def test_machines_without_switches_are_not_judged(judge: Judge) -> None:
    assert judge.skips(switches_report_no_fault, kernel_log=log()) == "there is no NVSwitch on the PCI bus"


def test_switches_that_said_nothing_pass(judge: Judge) -> None:
    assert judge.passes(switches_report_no_fault, with_switches()).startswith("no SXid in dmesg")


@pytest.mark.parametrize(("text", "severity"), [("Non-fatal, Link 28", "info"), ("Fatal, Link 28", "warning")])
def test_an_sxid_says_itself_whether_it_is_fatal(judge: Judge, text: str, severity: str) -> None:
    assert (
        judge.finding(switches_report_no_fault, with_switches(kernel_log=log(sxid(20034, text)))).severity == severity
    )


def test_a_fatal_sxid_is_an_error_where_cuda_does_not_start(judge: Judge) -> None:
    rows = (sxid(22013, "Non-fatal, Link 47"), sxid(24007, "Fatal, Link 30"))
    machine = with_switches(kernel_log=log(*rows), cuda_driver=SYSTEM_NOT_READY, runtime=None)
    finding = judge.finding(switches_report_no_fault, machine)
    assert (finding.severity, finding.cause) == ("error", "nvswitch_fault")
    assert "it also reported SXid 22013" in finding.evidence


@pytest.mark.parametrize("text", ["Fatal, Link 30", "Non-fatal, Link 47"])
def test_a_fatal_sxid_is_an_error_where_the_fabric_is_incomplete(judge: Judge, text: str) -> None:
    machine = with_switches(2, kernel_log=log(sxid(24007, text)))
    joined, waiting = (GpuHealth(fabric=Fabric(state=state)) for state in ("completed", "in_progress"))
    gpus = {"gpus": (nvml_gpu(0, health=joined), nvml_gpu(1, health=waiting))}
    finding = judge.finding(switches_report_no_fault, machine, nvml=gpus)
    fatal = text.startswith("Fatal")
    assert (finding.severity, finding.blocks) == ("error" if fatal else "info", False)
    assert finding.cause == ("nvswitch_fault" if fatal else "undetermined")
    report = diagnose(broken(machine, nvml=gpus))
    labels = [cause.label for cause in report.causes if cause.severity == "error"]
    assert labels == ["nvswitch_fault"], "the fabric is its consequence"


@pytest.mark.parametrize("text", ["Fatal, Link 00 MINION Watchdog timer ran out", "Non-fatal, Link 00 something new"])
def test_a_code_that_is_not_listed_is_as_grave_as_the_switch_says(judge: Judge, text: str) -> None:
    """22010, HW_MINION_WATCHDOG: NVIDIA's open kernel modules, intr_ls10.c."""
    works = with_switches(kernel_log=log(sxid(22010, text)))
    fails = with_switches(kernel_log=log(sxid(22010, text)), cuda_driver=SYSTEM_NOT_READY, runtime=None)
    fatal = text.startswith("Fatal")
    for machine, severity in ((works, "warning"), (fails, "error")):
        finding = judge.finding(switches_report_no_fault, machine)
        assert (finding.severity, finding.cause) == (
            (severity, "nvswitch_fault") if fatal else ("info", "undetermined")
        )
        assert ("Reset all GPUs and NVSwitches" in str(finding.fix)) is fatal


@pytest.mark.parametrize("code", [11004, 10001])
def test_a_fatal_sxid_that_is_no_fault_of_the_switch_is_a_note_where_cuda_works(judge: Judge, code: int) -> None:
    finding = judge.finding(switches_report_no_fault, with_switches(kernel_log=log(sxid(code, "Fatal, Link 1"))))
    assert (finding.severity, finding.cause) == ("info", "undetermined")


# XID003


def test_a_machine_that_was_shut_down_passes(judge: Judge) -> None:
    assert "no sign of an unclean shutdown in dmesg" in judge.passes(power_held, kernel_log=log())


def test_a_machine_that_went_down_for_another_reason_passes(judge: Judge) -> None:
    unclean = message("unclean_boot", "EXT4-fs (sda2): recovery complete", 7195.0)
    end = message("last_message", "", 7300.0, boots_ago=1)
    assert "reports no lost GPU" in judge.passes(power_held, kernel_log=log(unclean, end))
    assert "reports no lost GPU" in judge.passes(
        power_held, kernel_log=log(unclean, xid(13, ILLEGAL, 7300.0, boots_ago=1))
    )


@pytest.mark.parametrize(
    ("uptime", "after_s", "severity"),
    [(7200.0, 1.0, "warning"), (7200.0, 300.0, "info"), (7200.0, None, "info"), (30 * DAY, 1.0, "info"), (None, 1.0, "info")],
    ids=["at once", "later", "when is not known", "long ago", "since when is not known"],
)  # fmt: skip
def test_a_machine_that_went_down_with_its_gpu(
    judge: Judge, uptime: float | None, after_s: float | None, severity: str
) -> None:
    unclean = message("unclean_boot", "EXT4-fs (sda2): recovery complete", 7195.0)
    end = [message("last_message", "", 7300.0 - after_s, boots_ago=1)] if after_s is not None else []
    found = log(unclean, xid(79, OFF_THE_BUS, 7300.0, boots_ago=1), *end, uptime_s=uptime)
    finding = judge.finding(power_held, kernel_log=found)
    assert (finding.severity, finding.cause) == (severity, "hardware_power_supply")


# Words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "less than a minute ago"), (61.0, "1 minute ago"), (2 * HOUR, "2 hours ago"), (DAY, "1 day ago"), (None, "at an unknown time")],
)  # fmt: skip
def test_ages_are_told_in_words(seconds: float | None, words: str) -> None:
    assert ago(seconds) == words


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("0000:01:00", "00000000:01:00.0", True), ("0000:0A:00.0", "0000:0a:00", True), ("01:00.0", "0000:01:00.0", True),
     ("0001:01:00", "0000:01:00", False), ("0000:01:00", "0000:02:00", False), ("", "0000:01:00", False)],
)  # fmt: skip
def test_addresses_are_compared_in_every_form(one: str, other: str, same: bool) -> None:
    assert same_place(one, other) is same


# DRV008: what it takes from the log


@pytest.mark.parametrize(("age_s", "blamed"), [(600.0, True), (7195.0, False)], ids=["since", "before"])
def test_a_machine_that_woke_up_since_the_driver_was_loaded(judge: Judge, age_s: float, blamed: bool) -> None:
    resumed = message("resumed", "PM: suspend exit", age_s)
    unknown = cuda_that_fails(999, "CUDA_ERROR_UNKNOWN")
    finding = judge.finding(
        cuda_driver_initialises, cuda_driver=unknown, driver={"suspends": None}, kernel_log=log(resumed)
    )
    assert (finding.cause == "uvm_broken_after_suspend") is blamed
