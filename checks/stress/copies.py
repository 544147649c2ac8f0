"""LOD: do copies to, from and between GPUs arrive as they were sent, and use the link that they cross?"""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.checks.stress.results import under_stress
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.stress import StressTest, Transfer

_HOST = "host"
_BELIEVED = 1.1  # times what a link can carry: what is faster was no copy over it


@check(
    "LOD004",
    "copies to, from and between GPUs arrive unchanged",
    stage=Stage.STRESS,
    after=("GPU004",),
    causes=("hardware_faulty_gpu", "multi_gpu_p2p_iommu_acs"),
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/#iommu-on-linux",),
)
def copies_arrive(stress: StressTest) -> Yielded:
    """What crosses a bad slot, riser or cable, or an IOMMU that does not let one GPU write to another, arrives changed.

    Fix: seat the card again, leave the riser out; between GPUs switch IOMMU or ACS off, or NCCL_P2P_DISABLE=1.
    """
    under_stress(stress)
    copied = [each for each in stress.transfers if each.copies and not each.error]
    if not copied:
        raise Skip(_why_none(stress))
    for each in copied:
        if each.mismatches:
            yield _changed(each)
    for what, rows in (("between host and GPU", _with_host(copied)), ("between GPUs", _across(copied))):
        sound = [each for each in rows if not each.mismatches]
        if sound:
            total = sum(each.copies for each in sound)
            yield Evidence(
                f"{len(sound)} ways {what}, {total} copies of {_mebibytes(sound[0])}: the last of each compared word by word"
            )


def _changed(each: Transfer) -> Finding:
    between = _HOST not in (each.source, each.destination)
    return Finding(
        f"a copy from {_end(each.source)} to {_end(each.destination)} arrives changed in {each.mismatches:,} words",
        cause="multi_gpu_p2p_iommu_acs" if between else "hardware_faulty_gpu",
        confidence="medium",
        evidence=(f"{_mebibytes(each)} copied by TensorFlow, and compared on the host",),
        fix=Fix(
            "GPUs that write to each other need the IOMMU off on bare metal, and ACS off on the bridges between them; "
            "until then `export NCCL_P2P_DISABLE=1`."
            if between
            else "Seat the card again, leave a riser or extension cable out, and try again; then another slot, then "
            "another card."
        ),
    )


@check(
    "LOD008",
    "copies between host and GPU use the whole PCIe link",
    stage=Stage.SPEED,
    after=("LOD004",),
    sources=("https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#pinned-memory",),
)
def copies_use_the_link(stress: StressTest, knowledge: Knowledge) -> Yielded:
    """A link that carries much less than its generation and width allow starves the GPU of data. Only copies of pinned
    memory are judged: others wait for the processor's own copying.

    Fix: another slot, the memory of the GPU's own socket (numactl), IOMMU settings, the host's power-saving.
    """
    under_stress(stress)
    timed = [each for each in stress.transfers if each.copies and each.gb_per_s and not each.error]
    if not timed:
        raise Skip(_why_none(stress))
    told = [f"{_way(each)}: {each.gb_per_s:.1f} GB/s" for each in _with_host(timed) if not _capacity(each, knowledge)]
    told += _between(_across(timed))
    if not any(_capacity(each, knowledge) for each in timed):
        raise Skip(f"no copy was of pinned memory, over a link that NVML tells; measured were {'; '.join(told)}")
    least = float(knowledge.boundaries["pinned_copy_fraction"].value)
    for each in _with_host(timed):
        speed, capacity = each.gb_per_s or 0.0, _capacity(each, knowledge)
        if capacity is None:
            continue
        link = f"{speed:.1f} of {capacity:.1f} GB/s (PCIe {each.pcie_generation} x{each.pcie_width})"
        if speed >= least * capacity:
            yield Evidence(f"{_way(each)}: {link}")
            continue
        yield Finding(
            f"copies from {_end(each.source)} to {_end(each.destination)} use {speed / capacity:.0%} of the PCIe link",
            cause=UNDETERMINED,
            severity="warning",
            confidence="low",
            evidence=(f"{link}, the fastest of {each.copies} copies of {_mebibytes(each)} of pinned memory",),
            fix=Fix(
                "Bind the program to the GPU's own socket (`numactl --cpunodebind`, see `nvidia-smi topo -m`); look at IOMMU "
                "and power-saving settings; try another slot."
            ),
        )
    for figure in told:
        yield Evidence(figure)


def _between(across: Sequence[Transfer]) -> list[str]:
    """The slowest and the fastest way between GPUs: which link lies there, PCIe or NVLink, is not judged."""
    if not across:
        return []
    slowest, fastest = (pick(across, key=lambda each: each.gb_per_s or 0.0) for pick in (min, max))
    return [f"between GPUs: {slowest.gb_per_s:.1f} GB/s ({_way(slowest)}) to {fastest.gb_per_s:.1f} GB/s"]


def _capacity(each: Transfer, knowledge: Knowledge) -> float | None:
    """10^9 bytes a second that the link carries; None where the copies are not to be judged by it."""
    row = knowledge.boundaries.get(f"pcie_{each.pcie_generation}_lane_gb_per_s")
    if each.host_memory != "pinned" or row is None or not each.pcie_width:
        return None
    capacity = float(row.value) * each.pcie_width
    return capacity if (each.gb_per_s or 0.0) <= _BELIEVED * capacity else None


def _with_host(rows: Sequence[Transfer]) -> list[Transfer]:
    return [each for each in rows if _HOST in (each.source, each.destination)]


def _across(rows: Sequence[Transfer]) -> list[Transfer]:
    return [each for each in rows if _HOST not in (each.source, each.destination)]


def _why_none(stress: StressTest) -> str:
    """Why nothing was copied."""
    errors = [each.error for each in stress.transfers if each.error]
    if errors:
        return f"copying fails: {errors[0]}"
    attempt = stress.transfers_attempt
    return f"the copying {attempt.ending}" if attempt and not attempt.answered else "no copy was made"


def _way(each: Transfer) -> str:
    memory = f", {each.host_memory} memory" if each.host_memory else ""
    return f"{_end(each.source)} to {_end(each.destination)}{memory}"


def _end(name: str) -> str:
    return "the host" if name == _HOST else name.replace(":", " ")


def _mebibytes(each: Transfer) -> str:
    return f"{each.copied_bytes >> 20} MiB"
