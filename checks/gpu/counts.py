"""SHR: do the PCI bus, NVML and CUDA list the same GPUs, and if not, why?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tfgpu_doctor.checks.devices import device_of, figures_of
from tfgpu_doctor.checks.gpu.in_use import named_but_not_listed, place, serves_by_mps, title, told_places
from tfgpu_doctor.checks.kernel_log.xids import same_place
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Figure, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, PciDevice, Scheduler, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.tags import GPU_LOST, UNFIT

_ASK_KERNEL = (
    "Check the kernel log for the cause (`sudo dmesg | grep -i -e NVRM -e Xid`), then reset the GPU or reboot."
)


@check(
    "SHR001",
    "the PCI bus, NVML and CUDA list the same GPUs",
    family="GPU sharing",
    goal="accounts",
    tags=(GPU_LOST, UNFIT),
    stage=Stage.GPU,
    after=("GPU001", "XID001", "XID004", "HLT001", "DRV007", "DRV008"),
    causes=("driver_does_not_support_gpu", "gpu_start_failed"),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",
        "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html",
    ),
)
def all_know_the_same_gpus(
    cuda_driver: CudaDriver,
    environment: Environment,
    system: System,
    knowledge: Knowledge,
    nvml: Nvml | None = None,
    pci: Pci | None = None,
    container: Container | None = None,
    scheduler: Scheduler | None = None,
    device_nodes: DeviceNodes | None = None,
    runtime: Runtime | None = None,
    kernel_log: KernelLog | None = None,
    driver: Driver | None = None,
) -> Yielded:
    """A GPU on the bus may be missing in TensorFlow: bound to another driver, not given to the container, hidden by
    CUDA_VISIBLE_DEVICES, or divided by MIG. If none of these applies, it failed to start.

    Fix: check the kernel log for the reason why the driver could not start a GPU.
    """
    if not cuda_driver.works or not cuda_driver.gpus:
        raise Skip("CUDA lists no GPU")
    bus = pci.nvidia_gpus if pci and not system.wsl else ()
    nvml = nvml if nvml and nvml.works and nvml.gpus else None
    counts = _counts(len(bus), nvml, device_nodes, cuda_driver, runtime)
    if not bus and nvml is None:
        raise _nothing_to_compare(cuda_driver, has_bus=bool(pci and not system.wsl))
    yield Evidence(_said(counts))
    given = _who_gives(container, scheduler, device_nodes)
    all_given = _was_given_all(container, scheduler, environment, len(bus))
    missing = _missing_from_nvml(bus, nvml) if nvml else _missing_from_cuda_alone(bus, cuda_driver)
    rows: list[Evidence | Finding | Skip] = []
    for device in missing:
        reason = (
            _why_not_in_nvml(device, nvml, given)
            if nvml
            else _why_not_on_bus(device) or _why_not_in_cuda_alone(device, bus, environment, cuda_driver, given)
        )
        if reason == given and all_given:
            doubt = f"{given}, though {all_given}; or it did not start: see `nvidia-smi` on the host"
            rows.append(Skip(f"the GPU at {device.address} is missing: {doubt}"))
        elif reason:
            rows.append(Evidence(f"the GPU at {device.address} is not in {'NVML' if nvml else 'CUDA'}: {reason}"))
        else:
            rows.append(_refused(device, kernel_log, knowledge, driver) or _lost(device, counts))
    rows += _beside_nvml(nvml, cuda_driver, environment, given, counts) if nvml else []
    if doubt := _not_comparable(len(bus), nvml, cuda_driver, environment):
        rows.append(Skip(f"{doubt}: CUDA lists {amount(len(cuda_driver.gpus), 'GPU')}"))
    yield from _certain(rows)


def _certain(rows: Sequence[Evidence | Finding | Skip]) -> Iterator[Evidence | Finding]:
    """Yield what is known; doubts alone, without a finding, make the check skip."""
    doubts = [each for each in rows if isinstance(each, Skip)]
    if doubts and not any(isinstance(each, Finding) for each in rows):
        raise NotMeasured("; ".join(map(str, doubts)))
    yield from (each for each in rows if not isinstance(each, Skip))


def _nothing_to_compare(cuda_driver: CudaDriver, *, has_bus: bool) -> Skip:
    """Return why CUDA's list stands alone."""
    listed = f"CUDA lists {amount(len(cuda_driver.gpus), 'GPU')}"
    if has_bus:
        return Skip(f"no NVIDIA GPU on the PCI bus to compare with: {listed}, as on boards with a GPU of their own")
    return NotMeasured(f"neither the PCI bus nor NVML tells which GPUs there are: {listed}")


def _beside_nvml(
    nvml: Nvml, cuda_driver: CudaDriver, environment: Environment, given: str, counts: Mapping[str, int]
) -> Iterator[Evidence | Finding | Skip]:
    """Compare the GPUs that NVML lists with those that CUDA lists; a Skip is for a GPU of which the reason is not known."""
    for each in nvml.troubles:
        yield Evidence(
            f"GPU {each.index} "
            + ("is not available to this process" if each.is_refused else "has a problem: see HLT001")
        )
    named = named_but_not_listed(_numbered(nvml), environment, cuda_driver)
    for gpu in _missing_from_cuda(nvml, cuda_driver):
        if reason := _why_not_in_cuda(gpu, nvml, environment, named):
            yield Evidence(f"{title(gpu)} is not in CUDA: {reason}")
        elif doubt := _why_perhaps_not_in_cuda(environment, named, given):
            yield Skip(f"NVML reads {title(gpu)}, but CUDA does not list it: perhaps {doubt}")
        else:
            yield _ignored(gpu, counts, environment)


def _not_comparable(on_bus: int, nvml: Nvml | None, cuda_driver: CudaDriver, environment: Environment) -> str:
    """Return why CUDA's list cannot be compared with another; empty if it can, or if something withholds GPUs from it."""
    withheld = environment.get("CUDA_VISIBLE_DEVICES") is not None
    withheld = withheld or any(gpu.mig for gpu in (nvml.gpus if nvml else ()))
    withheld = withheld or any(" MIG " in gpu.name for gpu in cuda_driver.gpus)
    others = nvml.gpu_count if nvml else on_bus
    if withheld or any(gpu.pci_address for gpu in cuda_driver.gpus) or others <= len(cuda_driver.gpus):
        return ""
    return (
        f"{'NVML reads' if nvml else 'the PCI bus has'} {amount(others, 'GPU')}, and CUDA does not tell their addresses"
    )


def _counts(
    on_bus: int, nvml: Nvml | None, device_nodes: DeviceNodes | None, cuda_driver: CudaDriver, runtime: Runtime | None
) -> dict[str, int]:
    """Return how many GPUs each of them lists."""
    counts = {"on the PCI bus": on_bus} if on_bus else {}
    if nvml:
        counts["by NVML"] = nvml.gpu_count
    if device_nodes and device_nodes.gpus:
        counts["under /dev"] = len(device_nodes.gpus)
    counts["by CUDA"] = len(cuda_driver.gpus)
    if runtime and runtime.gpus_listed:
        counts["by TensorFlow"] = len(runtime.gpus)
    return counts


def _said(counts: Mapping[str, int]) -> str:
    return f"GPUs: {', '.join(f'{number} {where}' for where, number in counts.items())}"


def _figures(counts: Mapping[str, int]) -> tuple[Figure, ...]:
    return figures_of("", [(f"GPUs {where}", number, "") for where, number in counts.items()])


def _who_gives(container: Container | None, scheduler: Scheduler | None, device_nodes: DeviceNodes | None) -> str:
    """Return what may have restricted this process to some of the GPUs; empty if nothing did."""
    if container and container.kind:
        return f"this {container.kind} container was not given it"
    if scheduler and scheduler.kind:
        return f"{scheduler.kind} did not give it to this job"
    if device_nodes and any(node.error for node in device_nodes.gpus):
        return "this process may not open its device node"
    return ""


def _was_given_all(
    container: Container | None, scheduler: Scheduler | None, environment: Environment, on_bus: int
) -> str:
    """Return what says that this process has all GPUs; empty if nothing does.

    Images of NVIDIA set the variable themselves, and a step may have fewer GPUs than its job: it is no proof.
    """
    if container and container.kind:
        return "NVIDIA_VISIBLE_DEVICES is all" if environment.get("NVIDIA_VISIBLE_DEVICES") == "all" else ""
    if scheduler is None or scheduler.kind != "slurm":
        return ""
    named = scheduler.step_granted.get("SLURM_STEP_GPUS") or scheduler.granted.get("SLURM_JOB_GPUS", "")
    count = len(named.split(",")) if named else 0
    return f"the job was granted {amount(count, 'GPU')}" if count >= on_bus else ""


def _missing_from_cuda_alone(bus: tuple[PciDevice, ...], cuda_driver: CudaDriver) -> list[PciDevice]:
    """GPUs on the bus that CUDA does not list, where NVML lists none; empty if CUDA does not report addresses."""
    seen = {place(gpu.pci_address) for gpu in cuda_driver.gpus if gpu.pci_address}
    return [device for device in bus if seen and place(device.address) not in seen]


def _missing_from_nvml(bus: tuple[PciDevice, ...], nvml: Nvml) -> list[PciDevice]:
    """GPUs on the bus that NVML does not list. A lost GPU has no address in NVML: it is among them, and HLT001 reports it."""
    told = told_places(nvml)
    missing = [device for device in bus if place(device.address) not in told]
    nameless = sum(not each.pci_address for each in nvml.troubles)
    return [] if len(missing) <= nameless else missing


def _why_not_in_nvml(device: PciDevice, nvml: Nvml, given: str) -> str:
    if place(device.address) in {place(each) for each in nvml.excluded}:
        return "the driver is configured to exclude it (NVreg_ExcludedGpus)"
    return _why_not_on_bus(device) or given


def _why_not_on_bus(device: PciDevice) -> str:
    """Return who withholds a GPU from the driver, as the bus shows it."""
    if device.driver and device.driver != "nvidia":
        return f"it is bound to {device.driver}"
    return "it is a virtual function of another GPU, for virtual machines" if device.physical_function else ""


def _why_not_in_cuda_alone(
    device: PciDevice, bus: tuple[PciDevice, ...], environment: Environment, cuda_driver: CudaDriver, given: str
) -> str:
    """Return who may withhold a GPU from CUDA where NVML does not say."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    driven = {each.address: (each.device, "") for each in bus if not _why_not_on_bus(each) and each.driver}
    named = named_but_not_listed(driven, environment, cuda_driver)
    if visible is not None and not (named and device.address in named):
        return f"CUDA_VISIBLE_DEVICES={visible} may hide it"
    if any(" MIG " in gpu.name for gpu in cuda_driver.gpus):
        return "CUDA gives a process either whole GPUs or one MIG device"
    return given


def _refused(
    device: PciDevice, kernel_log: KernelLog | None, knowledge: Knowledge, driver: Driver | None
) -> Finding | None:
    """Return the finding for a GPU that the driver does not support, by its own words or too old; mostly one for the display."""
    if device.driver:
        return None
    said = kernel_log.of_kind("legacy_gpu", "unsupported_gpu") if kernel_log else ()
    words = [each.text for each in said if not each.pci_address or same_place(each.pci_address, device.address)]
    words += _why_not_by(driver, device, knowledge) if driver else []
    if not words:
        return None
    return Finding(
        f"the driver does not support {_name(device, knowledge)} at {device.address}; it drives the others",
        cause="driver_does_not_support_gpu",
        severity="warning",
        evidence=(words[0], "the GPU is bound to no driver"),
        fix=Fix(
            "If this GPU is to compute, it needs a machine with the driver branch that supports it. Otherwise ignore it."
        ),
        devices=(device_of(device),),
    )


def _why_not_by(driver: Driver, device: PciDevice, knowledge: Knowledge) -> list[str]:
    """Return why this driver does not support a GPU, by its generation; the kernel log, which says so, may be unreadable."""
    row = knowledge.pci_generation(device.device)
    last = knowledge.boundaries.get(f"last_driver_of_{row.generation.lower()}") if row else None
    branch = driver.version.partition(".")[0]
    if row and last and branch.isdigit() and int(branch) > int(last.value):
        return [f"driver branch {last.value} is the last one for {row.generation}"]
    if row and (driver.flavour, row.modules) in (("open", "proprietary"), ("proprietary", "open")):
        return [f"{row.generation} needs the {row.modules} kernel modules, and the {driver.flavour} ones are loaded"]
    return []


def _name(device: PciDevice, knowledge: Knowledge) -> str:
    return knowledge.name_for_id(device.device) or f"the GPU {device.vendor}:{device.device}"


def _lost(device: PciDevice, counts: Mapping[str, int]) -> Finding:
    bound = bool(device.driver)
    return Finding(
        f"the GPU at {device.address} is bound to the driver, but the driver does not list it: it failed to start"
        if bound
        else f"the GPU at {device.address} is bound to no driver, while others are in use",
        cause="gpu_start_failed" if bound else UNDETERMINED,
        confidence="medium" if bound else "low",
        evidence=(
            _said(counts),
            f"{device.vendor}:{device.device} at {device.address}, {f'driver {device.driver}' if bound else 'no driver'}",
        ),
        fix=Fix(
            f"{_ASK_KERNEL} If it stays missing, check how it is seated and its power cables."
            if bound
            else "The kernel log says whether the driver rejected it (`sudo dmesg | grep -i NVRM`). If it is reserved for a "
            "virtual machine, bind it to vfio-pci: the doctor then leaves it out."
        ),
        blocks=False,
        devices=(device_of(device),),
        figures=_figures(counts),
    )


def _missing_from_cuda(nvml: Nvml, cuda_driver: CudaDriver) -> list[NvmlGpu]:
    """GPUs that NVML lists and CUDA does not; empty if their addresses cannot be compared."""
    seen = {place(gpu.pci_address) for gpu in cuda_driver.gpus if gpu.pci_address}
    troubled = {each.index for each in nvml.troubles}
    missing = [gpu for gpu in nvml.gpus if place(gpu.pci_address) not in seen and gpu.index not in troubled]
    return missing if seen and len(missing) + len(seen) <= len(nvml.gpus) else []


def _numbered(nvml: Nvml) -> dict[int, tuple[str, str]]:
    """Return the model and the UUID of each GPU that this process may use, in the order of the bus."""
    rows = [(each.index, (each.name, each.uuid)) for each in nvml.gpus]
    rows += [(each.index, (each.name, each.uuid)) for each in nvml.troubles if not each.is_refused]
    return dict(sorted(rows))


def _why_not_in_cuda(gpu: NvmlGpu, nvml: Nvml, environment: Environment, named: Collection[int] | None) -> str:
    """Return what withholds a GPU from CUDA. `named` are the GPUs that CUDA_VISIBLE_DEVICES names and CUDA does not list."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and named is not None and gpu.index not in named:
        return f"CUDA_VISIBLE_DEVICES={visible} hides it"
    if gpu.mig:
        instances = amount(len(gpu.mig_devices), "instance")
        return f"it is divided by MIG, into {instances}, and CUDA gives a process at most one MIG device"
    if gpu.compute_mode == "prohibited":
        return "its compute mode is prohibited"
    if any(each.mig for each in nvml.gpus):
        return "CUDA gives a process either whole GPUs or one MIG device"
    if not serves_by_mps(gpu) and any(map(serves_by_mps, nvml.gpus)):
        return "the server of MPS does not have it"
    return ""


def _why_perhaps_not_in_cuda(environment: Environment, named: Collection[int] | None, given: str) -> str:
    """Return what may withhold a GPU from CUDA although NVML reads it; nothing withholds one that the variable names."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return f"CUDA_VISIBLE_DEVICES={visible} hides it: CUDA may number GPUs of several models by their speed"
    return "" if visible is not None else given


def _ignored(gpu: NvmlGpu, counts: Mapping[str, int], environment: Environment) -> Finding:
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    variable = "CUDA_VISIBLE_DEVICES" + (" is not set" if visible is None else f"={visible} names it")
    return Finding(
        f"NVML lists {title(gpu)}, but CUDA does not",
        confidence="low",
        evidence=(_said(counts), f"{variable}, and MIG is off"),
        fix=Fix(f"CUDA omits a GPU that is too old for the driver, or that cannot be started. {_ASK_KERNEL}"),
        blocks=False,
        devices=(device_of(gpu),),
        figures=_figures(counts),
    )
