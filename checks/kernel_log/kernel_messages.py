"""XID: the kernel log's reports about the GPUs and the power."""

from __future__ import annotations

import re
from dataclasses import replace

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.checks.gpu.in_use import chosen
from tfgpu_doctor.checks.kernel_log.signs import nothing_is_known, signs_of_trouble
from tfgpu_doctor.checks.kernel_log.xids import (
    IDLE_TIMEOUT,
    OFF_THE_BUS,
    RECOVERY_ACTION,
    Reported,
    ago,
    by_device,
    is_bound_elsewhere,
    is_gone,
    is_ours,
    label_of,
    reach,
    read_log,
    reported,
    same_place,
    severity_of,
)
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, NotMeasured, Severity, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, Scheduler, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver, Nvml
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.tags import GPU_LOST, UNFIT

XIDS = "https://docs.nvidia.com/deploy/xid-errors/index.html"
BEFORE = (
    "GPU001", "CNT001", "CNT002", "CNT004", "DRV001", "DRV009", "DRV010", "DEV001", "DEV002", "LIB001", "LIB002", "DRV006",
    "VIS001", "PKG001",
)  # fmt: skip
UNKNOWN_CODE = "This code is not in the doctor's table: see NVIDIA's list of Xids, and upgrade tfgpu-doctor."


@check(
    "XID001",
    "no GPU reported a fault to the kernel log",
    family="Kernel log",
    tags=(GPU_LOST, UNFIT),
    stage=Stage.GPU,
    after=BEFORE,
    causes=(
        "display_watchdog_timeout",
        "gpu_hang",
        "gpu_kernel_fault",
        "gpu_lost",
        "gpu_reset_required",
        "gpu_start_failed",
        "hardware_ecc_error",
        "hardware_faulty_gpu",
        "hardware_power_supply",
        "nvlink_down",
    ),
    sources=(XIDS,),
)
def gpus_report_no_fault(
    kernel_log: KernelLog,
    knowledge: Knowledge,
    system: System,
    runtime: Runtime | None = None,
    cuda_driver: CudaDriver | None = None,
    nvml: Nvml | None = None,
    driver: Driver | None = None,
    container: Container | None = None,
    device_nodes: DeviceNodes | None = None,
    scheduler: Scheduler | None = None,
    pci: Pci | None = None,
    environment: Environment | None = None,
) -> Yielded:
    """The driver writes an Xid to the kernel log whenever a GPU fails, whether a program, the driver or the hardware
    caused it; TensorFlow only says that a launch failed. An old Xid, or one caused by a program, is no machine fault.

    Fix: as NVIDIA's list says for the code: reset the GPU or reboot, check power and seating, have the card replaced.
    """
    if system.wsl:
        raise Skip("Windows drives the GPU, and keeps the reports in its own event log")
    found = reported(read_log(kernel_log), "xid", knowledge, driver)
    signs = list(signs_of_trouble(nvml, cuda_driver, runtime, device_nodes))
    computes = bool(runtime and runtime.computes)
    fails = nothing_is_known(nvml, cuda_driver, runtime) or (bool(signs) and not computes)
    news = False
    for address, rows in by_device(found).items():
        ours = is_ours(address, cuda_driver, nvml, container, scheduler) and not is_bound_elsewhere(address, pci)
        gone = ours and is_gone(address, cuda_driver, nvml) and not chosen(environment, cuda_driver)
        severity = severity_of(rows[0], broken=gone or fails) if ours else "info"
        finding = _about(address, rows, severity, signs, computes, ours, gone, kernel_log, nvml)
        if severity != "info" and rows[0].code == IDLE_TIMEOUT and _drives_display(address, cuda_driver):
            finding = replace(finding, cause="display_watchdog_timeout")
        finding = replace(finding, blocks=not (gone and (computes or (cuda_driver and cuda_driver.gpus))))
        news = news or finding.severity != "info"
        yield finding
    if not news:
        yield Evidence(f"{'no Xid' if not found else 'no Xid that matters now'} in {reach(kernel_log)}")


def _about(
    address: str,
    rows: list[Reported],
    severity: Severity,
    signs: list[str],
    computes: bool,
    ours: bool,
    gone: bool,
    kernel_log: KernelLog,
    nvml: Nvml | None,
) -> Finding:
    """Return the finding for one GPU: its most severe code, and the others as evidence."""
    chief, row = rows[0], rows[0].row
    meaning = row.meaning if row else "a code that is not in the doctor's table for this driver"
    cause, confidence = label_of(row, chief.message.text)
    asked = next((each.message.text for each in rows if each.code == RECOVERY_ACTION), "")
    each = re.search(r"\bto 0x\w+ \((?!None\))(.+?)\)", asked)
    return Finding(
        f"the GPU at {address} reported {chief.name}, last {ago(chief.message.last_age_s)}: {meaning}",
        cause=cause if severity != "info" else UNDETERMINED,
        severity=severity,
        confidence=confidence,
        evidence=(
            chief.message.text,
            *([f"it also reported {', '.join(each.name for each in rows[1:])}"] if rows[1:] else ()),
            *(signs[:2] if severity == "error" else ()),
            *(
                ["neither NVML nor CUDA lists it now" if not computes else "TensorFlow computes without it"]
                if gone
                else ()
            ),
            *(["TensorFlow nevertheless computes on the GPUs"] if computes and not gone else ()),
            *([] if ours else ["this process may not use this GPU"]),
            *_firmware(address, nvml),
            f"source: {reach(kernel_log)}",
        ),
        fix=Fix(
            (f"The driver itself requests: {each.group(1)}. " if each else "") + (row.action if row else UNKNOWN_CODE)
        ),
        devices=(address,),
        figures=figures_of(address, chief.rows),
    )


def _drives_display(address: str, cuda_driver: CudaDriver | None) -> bool:
    """Whether the driver limits how long a kernel may run on a GPU."""
    gpus = [gpu for gpu in (cuda_driver.gpus if cuda_driver else ()) if same_place(gpu.pci_address, address)]
    return any(gpu.kernel_time_limit for gpu in gpus)


def _firmware(address: str, nvml: Nvml | None) -> list[str]:
    """Return the version of the firmware of the GPU's own processor (GSP), which runs a part of the driver."""
    gpus = [gpu for gpu in (nvml.gpus if nvml else ()) if same_place(gpu.pci_address, address)]
    return [f"the GPU runs GSP firmware {gpu.health.gsp_firmware}" for gpu in gpus if gpu.health.gsp_firmware]


@check(
    "XID003",
    "the machine did not go down after a GPU was lost",
    family="Kernel log",
    stage=Stage.SPEED,
    after=("GPU001",),
    causes=("hardware_power_supply",),
    sources=(XIDS,),
)
def power_held(kernel_log: KernelLog, knowledge: Knowledge) -> Yielded:
    """If a power supply cannot handle a GPU's load steps, the GPU falls off the bus (Xid 79) or the machine restarts, and
    the only trace is the end of the previous log. This is a warning only if that log ended right after the GPU was lost:
    a machine that ran on for a while may have been switched off by hand.

    Fix: lower the GPU's power limit (`nvidia-smi -pl`), use a separate cable for each socket, or a stronger supply.
    """
    log = read_log(kernel_log)
    unclean = log.of_kind("unclean_boot")
    before = [each for each in log.messages if each.boots_ago == 1]
    lost = [each for each in before if each.kind == "xid" and each.code == OFF_THE_BUS]
    recent = log.uptime_s is not None and log.uptime_s <= float(knowledge.boundaries["xid_is_news_s"].value)
    ends = [each.last_age_s for each in before if each.kind == "last_message" and each.last_age_s is not None]
    at_once = bool(ends) and any(
        (each.last_age_s or 0.0) - ends[0] <= float(knowledge.boundaries["power_fails_within_s"].value) for each in lost
    )
    if not unclean:
        yield Evidence(f"no sign of an unclean shutdown in {reach(log)}")
    elif not before:
        raise NotMeasured(
            "the machine went down without a clean shutdown, and the log before this boot cannot be read: `journalctl -k -b -1`"
        )
    elif not lost:
        yield Evidence("the machine went down without a clean shutdown, but the previous log reports no lost GPU")
    else:
        yield Finding(
            f"the machine went down after the GPU at {lost[0].pci_address} fell off the bus",
            cause="hardware_power_supply",
            severity="warning" if recent and at_once else "info",
            confidence="medium" if at_once else "low",
            evidence=(f"before this boot: {lost[0].text}", f"since this boot: {unclean[0].text}"),
            fix=Fix(
                "Lower the power limit for a test (as root `nvidia-smi -pl WATTS`): if that helps, use a power supply "
                "and cables that can handle the GPU's load steps. Otherwise check the seating of the card and its riser."
            ),
            devices=(lost[0].pci_address,),
        )
