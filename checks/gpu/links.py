"""LNK: do the GPU's links to the host and to other GPUs work at full width and speed?"""

from __future__ import annotations

from tfgpu_doctor.checks.devices import device_of, devices_of, figures_of
from tfgpu_doctor.checks.gpu.in_use import gpus_in_use, place, title
from tfgpu_doctor.checks.gpu.readings import nvlinks, pcie_link
from tfgpu_doctor.checks.gpu.throttling import is_of_laptop
from tfgpu_doctor.checks.machine.pci_bus import lane_speeds
from tfgpu_doctor.checks.unseen import HOST_MAY_TELL, tell_missing, tell_silent
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Severity, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml, NvmlGpu
from tfgpu_doctor.model.tags import PARTIAL, UNFIT

_QUERY = "nvidia-smi --query-gpu=index,pstate,pcie.link.gen.current,pcie.link.width.current --format=csv"
_IDLE_STATE = 8  # nvmlPstates_t: P8 and higher mean an idle GPU
_FAST_STATE = 2  # P0 to P2 mean a GPU that computes
_FEW = 3  # the number of other GPUs of the model from which one with fewer lanes stands out
_NOT_READY = 802  # CUDA_ERROR_SYSTEM_NOT_READY


@check(
    "LNK001",
    "the GPU's PCI Express link is as wide and fast as it can be",
    family="Links",
    stage=Stage.SPEED,
    after=("GPU001", "DRV007"),
    causes=("pcie_link_degraded",),
    sources=(
        "https://docs.nvidia.com/deploy/nvidia-smi/index.html",
        "https://www.kernel.org/doc/html/latest/PCI/sysfs-pci.html",
        "https://wiki.archlinux.org/title/External_GPU",
    ),
)
def pcie_link_is_full(
    nvml: Nvml, knowledge: Knowledge, cuda_driver: CudaDriver | None = None, pci: Pci | None = None
) -> Yielded:
    """Batches reach the GPU through its PCI Express link. A card in a 4-lane slot, or a badly seated one, gets a
    fraction of the bandwidth. Idle GPUs lower the link generation; laptops and external GPUs have fewer lanes by design.

    Fix: use another slot, reseat the card, remove the riser; in the firmware, assign no lanes to other devices.
    """
    used = gpus_in_use(nvml, cuda_driver)
    gpus = [gpu for gpu in used if gpu.health.pcie.width]
    if not gpus:
        raise Skip("NVML reports no PCI Express link")
    degraded, unknown = False, []
    for gpu in gpus:
        device = _device(gpu, pci)
        if _shares_chip(gpu):
            yield Evidence(f"GPU {gpu.index}: connected to the CPU without a slot: {_figures(gpu, device)}")
        elif gpu.health.virtualization in ("passthrough", "vgpu"):
            yield Evidence(f"GPU {gpu.index}: in a virtual machine, whose slots are virtual: {_figures(gpu, device)}")
        elif is_of_laptop(gpu):
            yield Evidence(f"GPU {gpu.index}: in a laptop, as designed: {_figures(gpu, device)}")
        elif device and device.removable:  # Thunderbolt carries four lanes, and shows them as slower than they are
            yield Evidence(f"GPU {gpu.index}: an external GPU, as designed: {_figures(gpu, device)}")
        elif found := _narrow(gpu, device, nvml, knowledge) or _slow(gpu, device, knowledge):
            degraded = True
            yield found
        elif not _most(gpu, device) and (gpu.health.pcie.width or 0) <= _narrow_lanes(knowledge):
            unknown.append(gpu)
        else:
            yield Evidence(f"GPU {gpu.index}: {_figures(gpu, device)}")
    few = ", ".join(f"{title(gpu)} uses x{gpu.health.pcie.width}" for gpu in unknown)
    why = f"{few}, and its highest number of lanes is unknown; {HOST_MAY_TELL}"
    yield from tell_missing(why if few else "", found=degraded)
    yield from tell_silent(used, lambda gpu: gpu.health.pcie.width, found=degraded)


def _narrow_lanes(knowledge: Knowledge) -> int:
    return int(knowledge.boundaries["narrow_pcie_lanes"].value)


def _device(gpu: NvmlGpu, pci: Pci | None) -> PciDevice | None:
    return next((each for each in (pci.devices if pci else ()) if place(each.address) == place(gpu.pci_address)), None)


def _shares_chip(gpu: NvmlGpu) -> bool:
    """Whether it is not a card: for such GPUs, NVML reports a one-lane link that does not exist (NVIDIA GB10)."""
    health = gpu.health
    return bool(health.chip_to_chip) or health.pcie.bus not in ("", "pcie") or gpu.memory_total_bytes is None


def _most(gpu: NvmlGpu, device: PciDevice | None) -> int:
    """Return the lanes of the GPU itself: NVML's value may be the maximum of GPU and slot together."""
    own = device.link.max_width if device and device.link else None
    return max(gpu.health.pcie.max_width or 0, own or 0)


def _narrow(gpu: NvmlGpu, device: PciDevice | None, nvml: Nvml, knowledge: Knowledge) -> Finding | None:
    """Return the finding for a link with few lanes, or with fewer than all other GPUs of the model."""
    width, most = gpu.health.pcie.width or 0, _most(gpu, device)
    slot = device.port_link.max_width if device and device.port_link else None
    alike = [each for each in nvml.gpus if each.name == gpu.name and each.index != gpu.index]
    stands_out = len(alike) >= _FEW and all((each.health.pcie.width or 0) > width for each in alike)
    if width >= most or not (width <= _narrow_lanes(knowledge) or stands_out):
        return None
    by_slot = slot is not None and slot <= width
    idle = (gpu.health.performance_state or 0) >= _IDLE_STATE
    evidence = [_figures(gpu, device), f"x{width} carries {100 * width / most:.0f} % of what x{most} would"]
    evidence += [f"its slot has x{slot}" if by_slot else f"its slot could give x{slot}"] if slot else []
    evidence += lane_speeds(device) if device else []
    evidence += (
        [f"the {amount(len(alike), 'other GPU')} of the model {'has' if len(alike) == 1 else 'have'} more"]
        if stands_out
        else []
    )
    evidence += (
        ["the GPU is idle; a few GPUs reduce their lanes when idle, so check again under load"]
        if idle and not by_slot
        else []
    )
    return Finding(
        f"{title(gpu)} is connected to the host by PCI Express x{width}, but could use x{most}",
        cause="pcie_link_degraded",
        severity="warning",
        confidence="medium" if idle and not by_slot else "high",
        evidence=tuple(evidence),
        fix=Fix(
            "Move the card to the slot that has all lanes according to the board's manual, usually the one next to the CPU."
            if by_slot
            else "Reseat the card and remove any riser; check in the board's manual and firmware whether another slot "
            "or a disk shares lanes with this one.",
            (_QUERY,),
        ),
        devices=(device_of(gpu),),
        figures=pcie_link(gpu, most),
    )


def _slow(gpu: NvmlGpu, device: PciDevice | None, knowledge: Knowledge) -> Finding | None:
    """Return the finding for a low link generation while the GPU is busy: an idle GPU lowers it to save power."""
    health = gpu.health
    now, most = health.pcie.generation or 0, health.pcie.max_generation or 0
    busy = (health.utilization_percent or 0) >= int(knowledge.boundaries["pcie_busy_percent"].value)
    fast = health.performance_state is not None and health.performance_state <= _FAST_STATE
    if not now or now >= most or not (busy and fast):
        return None
    return Finding(
        f"{title(gpu)} is busy, but its PCI Express link runs at generation {now} of {most}",
        cause="pcie_link_degraded",
        severity="warning",
        confidence="medium",
        evidence=(
            _figures(gpu, device),
            f"{health.utilization_percent} % busy, performance state P{health.performance_state}",
            *(lane_speeds(device) if device else ()),
        ),
        fix=Fix(
            "Set the slot's generation to automatic in the firmware, reseat the card, and remove any riser: a bad "
            "contact makes both ends agree on a lower speed.",
            (_QUERY,),
        ),
        devices=(device_of(gpu),),
        figures=pcie_link(gpu, _most(gpu, device)),
    )


def _figures(gpu: NvmlGpu, device: PciDevice | None) -> str:
    pcie = gpu.health.pcie
    state = gpu.health.performance_state
    most = _most(gpu, device)
    words = [f"PCI Express x{pcie.width} of x{most}" if most else f"PCI Express x{pcie.width}"]
    if pcie.generation and pcie.max_generation:
        idle = f" (idle, P{state})" if state is not None and state >= _IDLE_STATE else ""
        words.append(f"generation {pcie.generation} of {pcie.max_generation}{idle}")
        if pcie.gpu_max_generation and pcie.gpu_max_generation > pcie.max_generation:
            words.append(f"the GPU itself supports generation {pcie.gpu_max_generation}")
    if pcie.replays is not None:
        words.append(amount(pcie.replays, "replay"))
    return ", ".join(words)


@check(
    "LNK002",
    "no GPU has fewer NVLinks up than others of its model",
    family="Links",
    tags=(PARTIAL, UNFIT),
    stage=Stage.SPEED,
    after=("GPU001", "DRV007", "LNK003", "XID002"),
    causes=("nvlink_down",),
    sources=("https://docs.nvidia.com/deploy/nvml-api/group__NvLink.html",),
)
def nvlinks_are_up(nvml: Nvml, cuda_driver: CudaDriver | None = None) -> Yielded:
    """GPUs exchange gradients over NVLink. A GPU whose links to the switches are down falls back to PCI Express, and all
    others wait for it. GPUs without a bridge between them have no link up, which is not a fault.

    Fix: reset the GPUs or reboot; the kernel log says why a link went down.
    """
    used, are_down = gpus_in_use(nvml, cuda_driver), False
    gpus = [gpu for gpu in used if gpu.health.nvlinks]
    if not gpus:
        raise Skip("no GPU has NVLink, or NVML does not report it")
    for gpu in gpus:
        up = [link for link in gpu.health.nvlinks if link.active]
        alike = [each for each in nvml.gpus if each.name == gpu.name and not each.mig]
        most = max((sum(link.active for link in each.health.nvlinks) for each in alike), default=0)
        switched = any(link.remote == "switch" for each in alike for link in each.health.nvlinks)
        errors = [f"link {link.index}: {name} {count}" for link in up for name, count in link.errors.items()]
        figures = f"{len(up)} of {len(gpu.health.nvlinks)} NVLinks are up"
        yield Evidence(f"GPU {gpu.index}: {figures}" + (f" ({', '.join(errors[:4])})" if errors else ""))
        if len(up) >= most or gpu.mig:
            continue
        are_down = True
        # Every GPU has the same links to switches; bridges between cards may differ.
        severity: Severity = "error" if switched else "info"
        down = ", ".join(str(link.index) for link in gpu.health.nvlinks if not link.active)
        yield Finding(
            f"{title(gpu)} has {amount(len(up), 'NVLink')} up, but others of its model have {most}",
            cause="nvlink_down",
            severity=severity,
            confidence="high" if switched else "low",
            evidence=(figures, f"down: {down}", *errors[:4]),
            fix=Fix(
                "Check the kernel log: `sudo dmesg | grep -i -e NVRM -e Xid -e SXid`; then reset all GPUs as "
                "root (`nvidia-smi --gpu-reset`) or reboot. If the links stay down, have the board inspected.",
                ("nvidia-smi nvlink --status",),
            ),
            blocks=False,
            devices=(device_of(gpu),),
            figures=nvlinks(gpu, most),
        )
    yield from tell_silent(used, lambda gpu: gpu.health.nvlinks or None, found=are_down)


@check(
    "LNK003",
    "the fabric of the NVSwitches is set up",
    family="Links",
    tags=(UNFIT,),
    stage=Stage.GPU,
    after=("GPU001", "HLT001", "SVC001", "XID002"),
    causes=("fabric_manager_not_running", "nvswitch_fault"),
    sources=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",),
)
def fabric_is_set_up(nvml: Nvml, knowledge: Knowledge, cuda_driver: CudaDriver | None = None) -> Yielded:
    """On machines with NVSwitches each GPU joins a fabric that nvidia-fabricmanager sets up; until then, CUDA reports
    that the system is not ready.

    Fix: as root, run `systemctl enable --now nvidia-fabricmanager`, in exactly the driver's version.
    """
    gpus = [gpu for gpu in nvml.gpus if gpu.health.fabric and gpu.health.fabric.state != "not_supported"]
    if not gpus:
        raise Skip("no GPU is part of a fabric of NVSwitches, or NVML does not report it")
    works = bool(cuda_driver and cuda_driver.gpus)
    waiting = [gpu for gpu in gpus if not _is_ready(gpu) and not (works and gpu.mig)]  # MIG uses no NVLink
    yield from tell_silent(nvml.gpus, lambda gpu: gpu.health.fabric, found=bool(waiting))
    if not waiting:
        yield Evidence(f"{amount(len(gpus), 'GPU')} {'has' if len(gpus) == 1 else 'have'} joined the fabric")
        return
    refused = bool(cuda_driver and cuda_driver.init_code == _NOT_READY)
    some = len(waiting) < len(gpus)
    apart = (
        works and not some and (len(gpus) == 1 or not any(each.active for gpu in gpus for each in gpu.health.nvlinks))
    )
    yield Finding(
        f"{len(waiting)} of {amount(len(gpus), 'GPU')} {'has' if len(waiting) == 1 else 'have'} not joined the fabric of the "
        "NVSwitches",
        cause="nvswitch_fault" if some else "fabric_manager_not_running",
        severity="info" if apart else "error",  # NVLink is off on purpose: NVreg_NvLinkDisable, or a guest
        confidence="high" if refused else "medium",
        evidence=(
            *(f"GPU {gpu.index}: {_fabric(gpu, knowledge)}" for gpu in waiting[:4]),
            *([f"cuInit returned {_NOT_READY}, CUDA_ERROR_SYSTEM_NOT_READY"] if refused else []),
            *(["CUDA works without it; copies between these GPUs do not use NVLink"] if works else []),
        ),
        fix=Fix(
            "The fabric manager runs for the others: `journalctl -u nvidia-fabricmanager` and the kernel log (SXid) say why "
            "these did not join. Reset all GPUs and switches together, or reboot; if it recurs, have the board inspected."
            if some
            else "As root, run `systemctl enable --now nvidia-fabricmanager` (in exactly the driver's version), then wait a "
            "minute. `journalctl -u nvidia-fabricmanager` says why it did not start."
        ),
        blocks=not works,
        devices=devices_of(waiting),
        figures=figures_of("", [("GPUs outside the fabric", len(waiting), ""), ("GPUs of the fabric", len(gpus), "")]),
    )


def fabric_is_incomplete(nvml: Nvml | None) -> bool:
    """Whether NVML says that a GPU has not joined the fabric of NVSwitches; False if it says nothing."""
    fabrics = [
        gpu for gpu in (nvml.gpus if nvml else ()) if gpu.health.fabric and gpu.health.fabric.state != "not_supported"
    ]
    return len(fabrics) > 1 and not all(map(_is_ready, fabrics))


def _is_ready(gpu: NvmlGpu) -> bool:
    fabric = gpu.health.fabric
    return fabric is None or (fabric.state == "completed" and fabric.status == 0)


def _fabric(gpu: NvmlGpu, knowledge: Knowledge) -> str:
    fabric = gpu.health.fabric
    if fabric is None:
        return ""
    row = knowledge.nvml_errors.get(fabric.status) if fabric.state == "completed" and fabric.status else None
    return f"its state is {fabric.state}" + (f", with {row.name}: {row.meaning}" if row else "")
