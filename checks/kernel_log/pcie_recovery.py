"""XID005: did the PCI Express link of each GPU recover from its errors?"""

from __future__ import annotations

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.checks.kernel_log.xids import (
    ago,
    is_bound_elsewhere,
    is_current,
    is_ours,
    reach,
    read_log,
    same_place,
)
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import KernelLog, KernelMessage
from tfgpu_doctor.model.facts.machine import Container, Pci, Scheduler
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml
from tfgpu_doctor.model.tags import GPU_LOST, UNFIT

_FIX = (
    "Reboot: the driver does not take part in the kernel's recovery, so the GPU stays unusable until then. If it comes back, "
    "check the seating of the card and its riser, its power cables and the temperature; try another slot."
)


@check(
    "XID005",
    "no GPU was given up after an error of its PCI Express link", family="Kernel log", tags=(GPU_LOST, UNFIT),
    stage=Stage.GPU, after=("GPU001", "CNT001", "DRV001", "XID001"), causes=("gpu_lost",),
    sources=(
        "https://docs.kernel.org/PCI/pcieaer-howto.html",
        "https://github.com/torvalds/linux/blob/master/drivers/pci/pcie/err.c",
    ),
)  # fmt: skip
def links_recover(
    kernel_log: KernelLog,
    knowledge: Knowledge,
    pci: Pci | None = None,
    nvml: Nvml | None = None,
    cuda_driver: CudaDriver | None = None,
    container: Container | None = None,
    scheduler: Scheduler | None = None,
) -> Yielded:
    """After a fatal error the kernel resets the link, and asks the driver to continue. NVIDIA's driver cannot: the kernel
    reports "can't recover", and the GPU is lost although no Xid says so. After a lesser error the GPU goes on.

    Fix: reboot; check seating, cables and temperature if it comes back.
    """
    log = read_log(kernel_log)
    fatal = [each for each in log.of_kind("pci_fatal") if is_current(each, log, knowledge)]
    listed = [gpu.pci_address for gpu in nvml.gpus] if nvml else []
    listed += [gpu.pci_address for gpu in cuda_driver.gpus] if cuda_driver else []
    given_up = [
        each
        for each in log.of_kind("pci_unrecovered")
        if fatal
        and is_current(each, log, knowledge)
        and not any(same_place(each.pci_address, address) for address in listed)
        and is_ours(each.pci_address, cuda_driver, nvml, container, scheduler)
        and not is_bound_elsewhere(each.pci_address, pci)
    ]
    for each in given_up:
        yield _lost(each, fatal, nvml is not None or cuda_driver is not None, bool(listed))
    if not given_up:
        yield Evidence(f"no GPU was given up after a fatal error of the bus, in {reach(log)}")


def _lost(said: KernelMessage, fatal: list[KernelMessage], asked: bool, others_work: bool) -> Finding:
    return Finding(
        f"the kernel gave up the GPU at {said.pci_address} after a fatal error of its PCI Express link, "
        f"{ago(said.last_age_s)}",
        cause="gpu_lost",
        confidence="high" if asked else "medium",
        blocks=not others_work,
        evidence=(said.text, fatal[0].text, f"neither NVML nor CUDA {'lists it' if asked else 'was asked for it'}"),
        fix=Fix(_FIX),
        devices=(said.pci_address,),
        figures=figures_of(said.pci_address, [("reports that the GPU was given up", said.count, "")]),
    )
