"""LOD: do copies to, from and between GPUs arrive unchanged, and use the available bandwidth of the link?"""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.checks.devices import Row, figures_of
from tfgpu_doctor.checks.stress.copy_ending import (
    BETWEEN_GPUS,
    copy_failures,
    routes_out_of_time,
    routes_without_copies,
)
from tfgpu_doctor.checks.stress.ending import ending_of
from tfgpu_doctor.checks.stress.results import under_stress
from tfgpu_doctor.checks.stress.routes import (
    HOST,
    across,
    devices_on,
    in_words,
    is_between_gpus,
    route_of,
    some_in_words,
    with_host,
)
from tfgpu_doctor.checks.unseen import tell_missing
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, NotMeasured, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.stress import StressTest, Transfer
from tfgpu_doctor.model.tags import STRESS, UNFIT

_BELIEVED = 1.1  # times the link's capacity: a faster transfer was not a copy over that link


@check(
    "LOD004",
    "copies to, from and between GPUs arrive unchanged",
    family="Stress test",
    tags=(STRESS, UNFIT),
    stage=Stage.STRESS,
    after=("GPU004",),
    causes=("hardware_faulty_gpu", "multi_gpu_p2p_iommu_acs", "gpu_hang", "hardware_ecc_error"),
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/#iommu-on-linux",),
)
def copies_arrive(stress: StressTest, runtime: Runtime) -> Yielded:
    """Data that crosses a bad slot, riser or cable, or an IOMMU that blocks writes between GPUs, arrives changed.

    Fix: reseat the card, remove the riser; between GPUs, disable the IOMMU or ACS, or set NCCL_P2P_DISABLE=1.
    """
    tested = under_stress(stress)
    copied = [each for each in stress.transfers if each.copies and not each.error]
    found = [_changed(each, stress) for each in copied if each.mismatches]
    # A GPU that hangs or fails under load may end the copies, too: LOD005 tells it.
    if not any(isinstance(ending_of(gpu, stress, runtime), Finding) for gpu in tested):
        found += copy_failures(stress, runtime)
    yield from found
    for what, rows in (("between host and GPU", with_host(copied)), ("between GPUs", across(copied))):
        sound = [each for each in rows if not each.mismatches]
        if sound:
            total = sum(each.copies for each in sound)
            yield Evidence(
                f"{amount(len(sound), 'route')} {what}, {amount(total, 'copy')} of {_mebibytes(sound[0])}: the last "
                "of each compared word by word"
            )
    if late := routes_out_of_time(stress, copied):
        yield Evidence(f"no time was left for {amount(len(late), 'other route')} between GPUs")
    yield from tell_missing(routes_without_copies(stress, copied), found=bool(found))


def _changed(each: Transfer, stress: StressTest) -> Finding:
    route = route_of(each)
    between, devices = is_between_gpus(route), devices_on(route, stress)
    return Finding(
        f"a copy from {in_words(route)} arrives changed in {amount(each.mismatches, 'word')}",
        cause="multi_gpu_p2p_iommu_acs" if between else "hardware_faulty_gpu",
        confidence="medium",
        evidence=(f"{_mebibytes(each)} copied by TensorFlow and compared on the host",),
        fix=Fix(
            BETWEEN_GPUS
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
        raise NotMeasured(routes_without_copies(stress, timed))
    told = [f"{_way(each)}: {each.gb_per_s:.1f} GB/s" for each in with_host(timed) if not _capacity(each, knowledge)]
    told += _between(across(timed))
    if not any(_capacity(each, knowledge) for each in timed):
        raise NotMeasured(f"no copy used pinned memory and a link that NVML reports; measured: {'; '.join(told)}")
    judged = {route_of(each) for each in with_host(timed) if _capacity(each, knowledge)}
    unjudged = [route for route in dict.fromkeys(map(route_of, with_host(timed))) if route not in judged]
    least, slow = float(knowledge.boundaries["pinned_copy_fraction"].value), False
    for each in with_host(timed):
        speed, capacity = each.gb_per_s or 0.0, _capacity(each, knowledge)
        if capacity is None:
            continue
        link = f"{speed:.1f} of {capacity:.1f} GB/s (PCIe {each.pcie_generation} x{each.pcie_width})"
        if speed >= least * capacity:
            yield Evidence(f"{_way(each)}: {link}")
            continue
        slow = True
        yield _slow(each, speed, capacity, link, stress)
    why = f"no copy from {some_in_words(unjudged)} can be compared with its link; measured: {'; '.join(told)}"
    yield from tell_missing(why if unjudged else "", found=slow)
    for line in told:
        yield Evidence(line)


def _slow(each: Transfer, speed: float, capacity: float, link: str, stress: StressTest) -> Finding:
    devices, direction = devices_on(route_of(each), stress), _direction(each)
    rows: list[Row] = [
        (direction, speed, "GB/s"),
        (f"{direction}: speed of the link", capacity, "GB/s"),
        (f"{direction}: share of the link", speed / capacity, ""),
        (f"{direction}: PCI Express generation", each.pcie_generation, ""),
        (f"{direction}: PCI Express lanes", each.pcie_width, ""),
    ]
    return Finding(
        f"copies from {in_words(route_of(each))} use {speed / capacity:.0%} of the PCIe link",
        cause=UNDETERMINED,
        severity="warning",
        confidence="low",
        evidence=(f"{link}, the fastest of {amount(each.copies, 'copy')} of {_mebibytes(each)} of pinned memory",),
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


def _one(devices: tuple[str, ...]) -> str:
    return devices[0] if len(devices) == 1 else ""


def _direction(each: Transfer) -> str:
    if each.source == HOST:
        return "copy from the host"
    return "copy to the host" if each.destination == HOST else "copy between GPUs"


def _way(each: Transfer) -> str:
    memory = f", {each.host_memory} memory" if each.host_memory else ""
    return f"{in_words(route_of(each))}{memory}"


def _mebibytes(each: Transfer) -> str:
    return f"{each.copied_bytes >> 20} MiB"
