"""XID002: the kernel log's reports about the switches between the GPUs."""

from __future__ import annotations

from dataclasses import replace

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.checks.gpu.links import fabric_is_incomplete
from tfgpu_doctor.checks.kernel_log.kernel_messages import BEFORE, UNKNOWN_CODE, XIDS
from tfgpu_doctor.checks.kernel_log.signs import nothing_is_known
from tfgpu_doctor.checks.kernel_log.xids import (
    FATAL,
    Reported,
    ago,
    by_device,
    label_of,
    reach,
    read_log,
    reported,
    severity_of,
)
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.machine import Pci
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Nvml
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.tags import UNFIT

_RESET_ALL = "Reset all GPUs and NVSwitches together, or reboot the host. Have the switch checked if it comes back."


@check(
    "XID002",
    "no NVSwitch reported a fault to the kernel log",
    family="Kernel log",
    tags=(UNFIT,),
    stage=Stage.GPU,
    after=BEFORE,
    causes=("nvswitch_fault",),
    sources=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html", XIDS),
)
def switches_report_no_fault(
    kernel_log: KernelLog,
    knowledge: Knowledge,
    pci: Pci | None = None,
    runtime: Runtime | None = None,
    cuda_driver: CudaDriver | None = None,
    driver: Driver | None = None,
    nvml: Nvml | None = None,
) -> Yielded:
    """NVSwitches report SXids. A fatal one takes down links or the whole fabric until switches and GPUs are reset; CUDA
    then returns SYSTEM_NOT_READY, or copies between GPUs hang.

    Fix: reset all GPUs and NVSwitches together, or reboot; have the board inspected if the error recurs.
    """
    found = reported(read_log(kernel_log), "sxid", knowledge, driver)
    if not found and not any(device.is_nvswitch for device in (pci.devices if pci else ())):
        raise Skip("there is no NVSwitch on the PCI bus" if pci else "the PCI bus cannot be read")
    computes = bool(runtime and runtime.computes)
    refused = bool(cuda_driver and cuda_driver.attempt.answered and cuda_driver.init_code)
    known = not nothing_is_known(nvml, cuda_driver, runtime)
    broken = (refused and not computes) or fabric_is_incomplete(nvml) or not known
    news = False
    for address, rows in by_device(found).items():
        finding = _about(address, rows, kernel_log, broken=broken)
        news = news or finding.severity != "info"
        yield replace(finding, blocks=not computes)
    if not news:
        yield Evidence(f"{'no SXid' if not found else 'no fatal SXid that matters now'} in {reach(kernel_log)}")


def _about(address: str, rows: list[Reported], kernel_log: KernelLog, *, broken: bool) -> Finding:
    """Return the finding about one switch: its gravest fatal code counts, else its first one as a note."""
    fatal = [each for each in rows if each.is_news and FATAL.search(each.message.text)]
    chief = (fatal or rows)[0]
    others = [each.name for each in rows if each is not chief]
    severity = severity_of(chief, broken=broken) if fatal else "info"
    cause = label_of(chief.row)[0] if severity != "info" else UNDETERMINED
    meaning, action = "a code that is not in the doctor's table", UNKNOWN_CODE
    if chief.row:
        meaning, action = chief.row.meaning, chief.row.action
    elif fatal:  # the switch itself says how grave it is
        severity, cause, action = "error" if broken else "warning", "nvswitch_fault", _RESET_ALL
    return Finding(
        f"the NVSwitch at {address} reported {chief.name}, last {ago(chief.message.last_age_s)}: {meaning}",
        cause=cause,
        severity=severity,
        confidence="medium",
        evidence=(
            chief.message.text,
            *([f"it also reported {', '.join(others)}"] if others else ()),
            f"source: {reach(kernel_log)}",
        ),
        fix=Fix(action),
        devices=(address,),
        figures=figures_of(address, chief.rows),
    )
