"""LOD: do copies to, from and between GPUs arrive unchanged, and use the available bandwidth of the link?"""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.checks.devices import Row, device_of, figures_of
from tfgpu_doctor.checks.stress.results import under_stress
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.stress import StressTest, Transfer
from tfgpu_doctor.model.tags import STRESS, UNFIT

_HOST = "host"
_BELIEVED = 1.1  # times the link's capacity: a faster transfer was not a copy over that link


@check(
    "LOD004",
    "copies to, from and between GPUs arrive unchanged",
    family="Stress test",
    tags=(STRESS, UNFIT),
    stage=Stage.STRESS,
    after=("GPU004",),
    causes=("hardware_faulty_gpu", "multi_gpu_p2p_iommu_acs"),
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/#iommu-on-linux",),
)
def copies_arrive(stress: StressTest) -> Yielded:
    """Data that crosses a bad slot, riser or cable, or an IOMMU that blocks writes between GPUs, arrives changed.

    Fix: reseat the card, remove the riser; between GPUs, disable the IOMMU or ACS, or set NCCL_P2P_DISABLE=1.
    """
    under_stress(stress)
    copied = [each for each in stress.transfers if each.copies and not each.error]
    if not copied:
        raise Skip(_why_none(stress))
    for each in copied:
        if each.mismatches:
            yield _changed(each, stress)
    for what, rows in (("between host and GPU", _with_host(copied)), ("between GPUs", _across(copied))):
        sound = [each for each in rows if not each.mismatches]
        if sound:
            total = sum(each.copies for each in sound)
            yield Evidence(
                f"{len(sound)} routes {what}, {total} copies of {_mebibytes(sound[0])}: the last of each compared word by word"
            )


def _changed(each: Transfer, stress: StressTest) -> Finding:
    between = _HOST not in (each.source, each.destination)
    devices = _devices(each, stress)
    return Finding(
        f"a copy from {_end(each.source)} to {_end(each.destination)} arrives changed in {each.mismatches:,} words",
        cause="multi_gpu_p2p_iommu_acs" if between else "hardware_faulty_gpu",
        confidence="medium",
        evidence=(f"{_mebibytes(each)} copied by TensorFlow and compared on the host",),
        fix=Fix(
            "For writes between GPUs, disable the IOMMU on bare metal and ACS on the bridges between the GPUs; until then, "
            "`export NCCL_P2P_DISABLE=1`."
            if between
            else "Reseat the card, remove any riser or extension cable, and test again; then try another slot, then "
            "another card."
        ),
        devices=devices,
        figures=figures_of(_one(devices), [(f"{_direction(each)}: words changed", each.mismatches, "")]),
    )


@check(
    "LOD008",
    "copies between host and GPU use the whole PCIe link",
    family="Stress test",
    tags=(STRESS,),
    stage=Stage.SPEED,
    after=("LOD004",),
    sources=("https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#pinned-memory",),
)
def copies_use_the_link(stress: StressTest, knowledge: Knowledge) -> Yielded:
    """A link that transfers much less than its generation and width allow slows down the GPU. Only copies of pinned memory
    are checked: other copies also wait for the CPU.

    Fix: try another slot, memory of the GPU's socket (numactl), the IOMMU settings, the host's power-saving settings.
    """
    under_stress(stress)
    timed = [each for each in stress.transfers if each.copies and each.gb_per_s and not each.error]
    if not timed:
        raise Skip(_why_none(stress))
    told = [f"{_way(each)}: {each.gb_per_s:.1f} GB/s" for each in _with_host(timed) if not _capacity(each, knowledge)]
    told += _between(_across(timed))
    if not any(_capacity(each, knowledge) for each in timed):
        raise Skip(f"no copy used pinned memory and a link that NVML reports; measured: {'; '.join(told)}")
    least = float(knowledge.boundaries["pinned_copy_fraction"].value)
    for each in _with_host(timed):
        speed, capacity = each.gb_per_s or 0.0, _capacity(each, knowledge)
        if capacity is None:
            continue
        link = f"{speed:.1f} of {capacity:.1f} GB/s (PCIe {each.pcie_generation} x{each.pcie_width})"
        if speed >= least * capacity:
            yield Evidence(f"{_way(each)}: {link}")
            continue
        yield _slow(each, speed, capacity, link, stress)
    for line in told:
        yield Evidence(line)


def _slow(each: Transfer, speed: float, capacity: float, link: str, stress: StressTest) -> Finding:
    devices, direction = _devices(each, stress), _direction(each)
    rows: list[Row] = [
        (direction, speed, "GB/s"),
        (f"{direction}: speed of the link", capacity, "GB/s"),
        (f"{direction}: share of the link", speed / capacity, ""),
        (f"{direction}: PCI Express generation", each.pcie_generation, ""),
        (f"{direction}: PCI Express lanes", each.pcie_width, ""),
    ]
    return Finding(
        f"copies from {_end(each.source)} to {_end(each.destination)} use {speed / capacity:.0%} of the PCIe link",
        cause=UNDETERMINED,
        severity="warning",
        confidence="low",
        evidence=(f"{link}, the fastest of {each.copies} copies of {_mebibytes(each)} of pinned memory",),
        fix=Fix(
            "Bind the program to the GPU's socket (`numactl --cpunodebind`, see `nvidia-smi topo -m`); check the IOMMU "
            "and power-saving settings; try another slot."
        ),
        devices=devices,
        figures=figures_of(_one(devices), rows),
    )


def _between(across: Sequence[Transfer]) -> list[str]:
    """Return the slowest and the fastest route between GPUs; the type of link, PCIe or NVLink, is not checked."""
    if not across:
        return []
    slowest, fastest = (pick(across, key=lambda each: each.gb_per_s or 0.0) for pick in (min, max))
    return [
        f"between GPUs: {slowest.gb_per_s:.1f} GB/s ({_way(slowest)}) to {fastest.gb_per_s:.1f} GB/s ({_way(fastest)})"
    ]


def _capacity(each: Transfer, knowledge: Knowledge) -> float | None:
    """Return the link's capacity in 10^9 bytes per second; None if the copies cannot be compared with it."""
    row = knowledge.boundaries.get(f"pcie_{each.pcie_generation}_lane_gb_per_s")
    if each.host_memory != "pinned" or row is None or not each.pcie_width:
        return None
    capacity = float(row.value) * each.pcie_width
    return capacity if (each.gb_per_s or 0.0) <= _BELIEVED * capacity else None


def _devices(each: Transfer, stress: StressTest) -> tuple[str, ...]:
    """Return the GPUs at the ends of a copy, the source first."""
    known = {f"GPU:{gpu.index}": device_of(gpu) for gpu in stress.gpus}
    return tuple(known.get(end, end) for end in (each.source, each.destination) if end != _HOST)


def _one(devices: tuple[str, ...]) -> str:
    return devices[0] if len(devices) == 1 else ""


def _direction(each: Transfer) -> str:
    if each.source == _HOST:
        return "copy from the host"
    return "copy to the host" if each.destination == _HOST else "copy between GPUs"


def _with_host(rows: Sequence[Transfer]) -> list[Transfer]:
    return [each for each in rows if _HOST in (each.source, each.destination)]


def _across(rows: Sequence[Transfer]) -> list[Transfer]:
    return [each for each in rows if _HOST not in (each.source, each.destination)]


def _why_none(stress: StressTest) -> str:
    """Return the reason why nothing was copied."""
    errors = [each.error for each in stress.transfers if each.error]
    if errors:
        return f"the copy test failed: {errors[0]}"
    attempt = stress.transfers_attempt
    return f"the copy test {attempt.ending}" if attempt and not attempt.answered else "no copy was made"


def _way(each: Transfer) -> str:
    memory = f", {each.host_memory} memory" if each.host_memory else ""
    return f"{_end(each.source)} to {_end(each.destination)}{memory}"


def _end(name: str) -> str:
    return "the host" if name == _HOST else name.replace(":", " ")


def _mebibytes(each: Transfer) -> str:
    return f"{each.copied_bytes >> 20} MiB"
