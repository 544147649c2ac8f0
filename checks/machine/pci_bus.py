"""BUS: does the PCI bus transfer the GPU's data without errors, on all lanes, and between GPUs?"""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.checks.devices import Row, device_of, devices_of, figures_of
from tfgpu_doctor.checks.kernel_log.xids import OFF_THE_BUS, ago, is_news, same_place
from tfgpu_doctor.checks.unseen import tell_missing
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.kernel import KernelLog, KernelMessage
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml

_SEAT = (
    "Check the seating of the card, its riser or cable and the slot, try another slot, and update the board's firmware."
)
_AER = "https://docs.kernel.org/PCI/pcieaer-howto.html"


@check(
    "BUS001",
    "the PCI bus reports no errors for the GPU",
    family="PCI bus",
    stage=Stage.SPEED,
    after=("GPU001", "XID001"),
    causes=("hardware_faulty_gpu",),
    sources=(_AER,),
)
def bus_reports_no_errors(pci: Pci, knowledge: Knowledge, kernel_log: KernelLog | None = None) -> Yielded:
    """A badly seated card, or a poor riser or cable, makes the bus lose packets. The bus resends them, which costs time,
    until one is lost for good: then the GPU falls off the bus. Errors at both ends of the link count.

    Fix: reseat the card, remove the riser, try another slot.
    """
    gpus = [gpu for gpu in pci.nvidia_gpus if not gpu.physical_function]
    if not gpus:
        raise Skip("no NVIDIA GPU on the PCI bus")
    if not any(gpu.errors or gpu.port_errors or _uncorrected(gpu, kernel_log) for gpu in gpus):
        raise NotMeasured("the kernel provides no error counters for this bus")
    limit = float(knowledge.boundaries["bus_errors_per_hour"].value)
    found, unknown = False, []
    for gpu in gpus:
        fatal, corrected = _uncorrected(gpu, kernel_log), _corrected_per_hour(gpu, kernel_log)
        lost = any(each.code == OFF_THE_BUS and same_place(each.pci_address, gpu.address) for each in _xids(kernel_log))
        many = corrected is not None and corrected > limit
        news = many or any(is_news(each, knowledge) for each in fatal)
        counts = {
            kind: gpu.errors.get(kind, 0) + gpu.port_errors.get(kind, 0)
            for kind in ("correctable", "nonfatal", "fatal")
        }
        counted = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number) or "none"
        if fatal or counts["fatal"] or many:
            found, rows = True, [(f"{kind} PCI errors", number, "") for kind, number in counts.items()]
            yield Finding(
                f"the PCI bus reports errors for the GPU at {gpu.address}: {counted} since boot",
                cause="hardware_faulty_gpu",
                severity="warning" if news and not lost else "info",
                confidence="medium" if fatal else "low",
                evidence=_counters(gpu, fatal, corrected),
                fix=Fix(_SEAT),
                devices=(device_of(gpu),),
                figures=figures_of(device_of(gpu), [*rows, ("correctable PCI errors per hour", corrected, "")]),
            )
        elif corrected is None and counts["correctable"] > limit:
            unknown.append(
                f"{gpu.address} has {counts['correctable']:,} correctable errors since a boot of unknown age: look again later"
            )
        elif gpu.errors or gpu.port_errors:
            port = "" if gpu.port_errors else ", at the GPU alone"
            yield Evidence(f"{gpu.address}: {counted} since boot{port}")
        else:
            unknown.append(f"the kernel has no error counters for {gpu.address}: the log of the firmware or BMC may")
    yield from tell_missing("; ".join(unknown), found=found)


def _counters(gpu: PciDevice, fatal: list[KernelMessage], corrected: float | None) -> tuple[str, ...]:
    return (
        f"/sys/bus/pci/devices/{gpu.address}/aer_dev_* counts {gpu.errors or 'none'}, that of the port "
        f"{gpu.port or 'above it'} counts {gpu.port_errors or 'none'}",
        *(f"{ago(each.last_age_s)}: {each.text}" for each in fatal[:2]),
        *([f"{corrected:.0f} corrected errors per hour"] if corrected else ()),
    )


def _uncorrected(gpu: PciDevice, kernel_log: KernelLog | None) -> list[KernelMessage]:
    """Return the fatal errors of the GPU, or of the port above it, in the kernel log."""
    messages = kernel_log.of_kind("pci_fatal") if kernel_log else ()
    return [
        each
        for each in messages
        if same_place(each.pci_address, gpu.address) or (gpu.port and each.pci_address == gpu.port)
    ]


def _xids(kernel_log: KernelLog | None) -> tuple[KernelMessage, ...]:
    return kernel_log.of_kind("xid") if kernel_log else ()


def _corrected_per_hour(gpu: PciDevice, kernel_log: KernelLog | None) -> float | None:
    if not kernel_log or not kernel_log.uptime_s:
        return None
    number = max(gpu.errors.get("correctable", 0), gpu.port_errors.get("correctable", 0))
    return number / max(1.0, kernel_log.uptime_s / 3600)


@check(
    "BUS002",
    "the GPU's PCI link uses all its lanes",
    family="PCI bus",
    stage=Stage.SPEED,
    after=("GPU001",),
    causes=("pcie_link_degraded",),
    sources=("https://docs.kernel.org/PCI/sysfs-pci.html",),
)
def link_uses_all_lanes(pci: Pci, knowledge: Knowledge, nvml: Nvml | None = None) -> Yielded:
    """A badly seated card or a poor cable makes a link come up with fewer lanes and less bandwidth. sysfs is read only for
    GPUs whose link NVML does not report; the lane speed says nothing while the GPU is idle.

    Fix: reseat the card, remove the riser, look up the slot's lanes in the board's manual.
    """
    told = {gpu.pci_address for gpu in (nvml.gpus if nvml else ()) if gpu.health.pcie.width}
    asked = [gpu for gpu in pci.nvidia_gpus if not any(same_place(gpu.address, each) for each in told)]
    known = [gpu for gpu in asked if _lanes(gpu)]
    if not known:
        raise Skip("NVML reports the link" if told and not asked else "sysfs does not report the link")
    fewer, silent = False, ", ".join(gpu.address for gpu in asked if gpu not in known and not gpu.physical_function)
    for gpu in known:
        used, possible = _lanes(gpu) or (0, 0)
        if used < possible and not gpu.removable:  # an external GPU has the lanes of its cable
            fewer = True
            yield Finding(
                f"the PCI link of the GPU at {gpu.address} uses {used} of the {possible} lanes that both ends have",
                cause="pcie_link_degraded",
                severity="warning" if used <= int(knowledge.boundaries["narrow_pcie_lanes"].value) else "info",
                confidence="medium",
                evidence=(
                    f"current_link_width is {used}; max_link_width is {gpu.link.max_width if gpu.link else '?'} at the GPU, "
                    f"{gpu.port_link.max_width if gpu.port_link else '?'} at the port {gpu.port}",
                    *lane_speeds(gpu),
                ),
                fix=Fix(_SEAT),
                devices=(device_of(gpu),),
                figures=figures_of(
                    device_of(gpu), [("PCI Express lanes", used, ""), ("highest PCI Express lanes", possible, "")]
                ),
            )
        yield Evidence(f"{gpu.address}: {used} of {amount(possible, 'lane')}")
    yield from tell_missing(f"neither NVML nor sysfs reports the link of {silent}" if silent else "", found=fewer)


def _lanes(gpu: PciDevice) -> tuple[int, int] | None:
    """Return the lanes in use, and the lanes that both ends of the link have; None if sysfs does not report them."""
    if not gpu.link or not gpu.port_link or not (gpu.link.width and gpu.link.max_width and gpu.port_link.max_width):
        return None
    return gpu.link.width, min(gpu.link.max_width, gpu.port_link.max_width)


def lane_speeds(gpu: PciDevice) -> list[str]:
    """Return the current and the maximum speed of a lane at both ends of the link, in one line."""
    known = [
        f"{link.speed_gt_per_s:g} of {link.max_speed_gt_per_s:g} GT/s at the {end}"
        for end, link in (("GPU", gpu.link), ("port", gpu.port_link))
        if link and link.speed_gt_per_s and link.max_speed_gt_per_s
    ]
    return [f"lane speed in sysfs: {', '.join(known)}"] if known else []


@check(
    "BUS003",
    "the IOMMU does not interfere with copies between GPUs", family="PCI bus", stage=Stage.SPEED,
    after=("GPU001", "CNT001"),
    causes=("multi_gpu_p2p_iommu_acs",),
    sources=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#pci-access-control-services-acs",),
)  # fmt: skip
def iommu_lets_gpus_talk(
    pci: Pci,
    knowledge: Knowledge,
    kernel_log: KernelLog | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """GPUs copy to each other over the PCI bus. An IOMMU that translates, or Access Control Services on the bridges,
    misdirects such copies on some boards: NCCL hangs, or the results are wrong. A virtual machine needs both.

    Fix: on bare metal, add `iommu=pt` to the kernel command line, or disable the IOMMU and ACS in the firmware.
    """
    gpus = [gpu for gpu in pci.nvidia_gpus if not gpu.physical_function]
    if len(gpus) < 2 or (cuda_driver and len(cuda_driver.gpus) == 1):
        raise Skip("this applies only to several GPUs")
    faults = [
        each
        for each in (kernel_log.of_kind("iommu_fault") if kernel_log else ())
        if is_news(each, knowledge) and any(same_place(each.pci_address, gpu.address) for gpu in gpus)
    ]
    translated = [gpu for gpu in gpus if gpu.iommu_type.startswith("DMA")]
    if faults or translated:
        yield _in_the_way(faults, translated)
    untold = ", ".join(gpu.address for gpu in gpus if gpu.iommu_group and not gpu.iommu_type)
    why = f"this kernel does not report the IOMMU's type for {untold}: `dmesg | grep -i iommu` names the default one"
    yield from tell_missing(why if untold else "", found=bool(faults or translated))
    if not faults:
        groups = {gpu.iommu_type or "none" for gpu in gpus}
        yield Evidence(f"no IOMMU fault is known; its type for the GPUs is {', '.join(sorted(groups))}")


def _in_the_way(faults: Sequence[KernelMessage], translated: Sequence[PciDevice]) -> Finding:
    """Return the finding that the IOMMU rejects accesses of GPUs, or may misdirect them."""
    rejected = sum(each.count for each in faults)
    groups = [f"{gpu.address} is in the IOMMU group {gpu.iommu_group} of type {gpu.iommu_type}" for gpu in translated]
    rows: list[Row] = [
        ("accesses rejected by the IOMMU", rejected, ""),
        ("GPUs behind a translating IOMMU", len(translated), ""),
    ]
    return Finding(
        f"the IOMMU rejected {amount(rejected, 'access')} by GPUs"
        if faults
        else f"the IOMMU translates the addresses of {amount(len(translated), 'GPU')}, which can misdirect copies between them",
        cause="multi_gpu_p2p_iommu_acs",
        severity="warning" if faults else "info",
        confidence="medium",
        evidence=(*(f"{ago(each.last_age_s)}: {each.text}" for each in faults[:2]), *groups[:2]),
        fix=Fix(
            "If programs on several GPUs hang or give wrong results: on bare metal, add `iommu=pt` to the kernel command "
            "line or disable the IOMMU in the firmware; `NCCL_P2P_DISABLE=1` shows whether this is the cause.",
            ("export NCCL_P2P_DISABLE=1",) if faults else (),
        ),
        devices=tuple(each.pci_address for each in faults) or devices_of(translated),
        figures=figures_of("", rows),
    )
