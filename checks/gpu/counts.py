"""SHR: do the PCI bus, NVML and CUDA list the same GPUs, and if not, why?"""

from __future__ import annotations

from tfgpu_doctor.checks.gpu.in_use import place, title, told_places
from tfgpu_doctor.checks.kernel_log.xids import is_news, same_place
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, PciDevice, Scheduler, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.tags import GPU_LOST

_ASK_KERNEL = (
    "Check the kernel log for the cause (`sudo dmesg | grep -i -e NVRM -e Xid`), then reset the GPU or reboot."
)


@check(
    "SHR001",
    "the PCI bus, NVML and CUDA list the same GPUs",
    family="GPU sharing",
    tags=(GPU_LOST,),
    stage=Stage.GPU,
    after=("GPU001", "HLT001", "DRV007", "DRV008"),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",
        "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html",
    ),
)
def all_know_the_same_gpus(
    nvml: Nvml,
    cuda_driver: CudaDriver,
    environment: Environment,
    system: System,
    knowledge: Knowledge,
    pci: Pci | None = None,
    container: Container | None = None,
    scheduler: Scheduler | None = None,
    device_nodes: DeviceNodes | None = None,
    runtime: Runtime | None = None,
    kernel_log: KernelLog | None = None,
) -> Yielded:
    """A GPU on the bus may be missing in TensorFlow: bound to another driver, not given to the container, hidden by
    CUDA_VISIBLE_DEVICES, or divided by MIG. If none of these applies, it failed to start.

    Fix: check the kernel log for the reason why the driver could not start a GPU.
    """
    if not nvml.works or not cuda_driver.works or not nvml.gpus:
        raise Skip("NVML or CUDA lists no GPU")
    bus = pci.nvidia_gpus if pci and not system.wsl else ()
    counts = [f"{len(bus)} on the PCI bus"] if bus else []
    counts += [f"{nvml.gpu_count} by NVML"]
    counts += [f"{len(device_nodes.gpus)} under /dev"] if device_nodes and device_nodes.gpus else []
    counts += [f"{len(cuda_driver.gpus)} by CUDA"]
    counts += [f"{len(runtime.gpus)} by TensorFlow"] if runtime and runtime.gpus_listed else []
    yield Evidence(f"GPUs: {', '.join(counts)}")
    given = _who_gives(container, scheduler, device_nodes)
    for device in _missing_from_nvml(bus, nvml):
        reason = _why_not_in_nvml(device, nvml, given) or _what_the_kernel_says(device, kernel_log, knowledge)
        yield Evidence(f"the GPU at {device.address} is not in NVML: {reason}") if reason else _lost(device, counts)
    for each in nvml.troubles:
        yield Evidence(
            f"GPU {each.index} "
            + ("is not available to this process" if each.is_refused else "has a problem: see HLT001")
        )
    for gpu in _missing_from_cuda(nvml, cuda_driver):
        reason = _why_not_in_cuda(gpu, nvml, environment, given)
        yield Evidence(f"{title(gpu)} is not in CUDA: {reason}") if reason else _ignored(gpu, counts)


def _who_gives(container: Container | None, scheduler: Scheduler | None, device_nodes: DeviceNodes | None) -> str:
    """Return what may have restricted this process to some of the GPUs; empty if nothing did."""
    if container and container.kind:
        return f"this {container.kind} container was not given it"
    if scheduler and scheduler.kind:
        return f"{scheduler.kind} did not give it to this job"
    if device_nodes and any(node.error for node in device_nodes.gpus):
        return "this process may not open its device node"
    return ""


def _missing_from_nvml(bus: tuple[PciDevice, ...], nvml: Nvml) -> list[PciDevice]:
    """GPUs on the bus that NVML does not list. A lost GPU has no address in NVML: it is among them, and HLT001 reports it."""
    told = told_places(nvml)
    missing = [device for device in bus if place(device.address) not in told]
    nameless = sum(not each.pci_address for each in nvml.troubles)
    return [] if len(missing) <= nameless else missing


def _why_not_in_nvml(device: PciDevice, nvml: Nvml, given: str) -> str:
    if device.driver and device.driver != "nvidia":
        return f"it is bound to {device.driver}"
    if place(device.address) in {place(each) for each in nvml.excluded}:
        return "the driver is configured to exclude it (NVreg_ExcludedGpus)"
    if device.physical_function:
        return "it is a virtual function of another GPU, for virtual machines"
    if given:
        return given
    return "it is bound to no driver" if not device.driver else ""


def _what_the_kernel_says(device: PciDevice, kernel_log: KernelLog | None, knowledge: Knowledge) -> str:
    """Return the driver's own report about the GPU, which XID001 or XID004 covers."""
    reports = kernel_log.of_kind("xid", "init_failed") if kernel_log else ()
    said = [each for each in reports if same_place(each.pci_address, device.address) and is_news(each, knowledge)]
    return f"the kernel log says {said[0].text!r}" if said else ""


def _lost(device: PciDevice, counts: list[str]) -> Finding:
    return Finding(
        f"the GPU at {device.address} is bound to the driver, but NVML does not list it: it failed to start",
        severity="warning",
        confidence="medium",
        evidence=(f"GPUs: {', '.join(counts)}", f"{device.vendor}:{device.device} at {device.address}, driver nvidia"),
        fix=Fix(f"{_ASK_KERNEL} If it stays missing, check how it is seated and its power cables."),
    )


def _missing_from_cuda(nvml: Nvml, cuda_driver: CudaDriver) -> list[NvmlGpu]:
    """GPUs that NVML lists and CUDA does not; empty if their addresses cannot be compared."""
    seen = {place(gpu.pci_address) for gpu in cuda_driver.gpus if gpu.pci_address}
    troubled = {each.index for each in nvml.troubles}
    missing = [gpu for gpu in nvml.gpus if place(gpu.pci_address) not in seen and gpu.index not in troubled]
    return missing if seen and len(missing) + len(seen) <= len(nvml.gpus) else []


def _why_not_in_cuda(gpu: NvmlGpu, nvml: Nvml, environment: Environment, given: str) -> str:
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return f"CUDA_VISIBLE_DEVICES={visible} hides it"
    if gpu.mig:
        return f"it is divided by MIG, into {len(gpu.mig_devices)} instances, and CUDA gives a process at most one MIG device"
    if gpu.compute_mode == "prohibited":
        return "its compute mode is prohibited"
    if any(each.mig for each in nvml.gpus):
        return "CUDA gives a process either whole GPUs or one MIG device"
    return given


def _ignored(gpu: NvmlGpu, counts: list[str]) -> Finding:
    return Finding(
        f"NVML lists {title(gpu)}, but CUDA does not",
        severity="warning",
        confidence="low",
        evidence=(f"GPUs: {', '.join(counts)}", "CUDA_VISIBLE_DEVICES is not set, and MIG is off"),
        fix=Fix(f"CUDA omits a GPU that is too old for the driver, or that cannot be started. {_ASK_KERNEL}"),
    )
