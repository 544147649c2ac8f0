"""What NVML reads of a GPU, as the figures of findings."""

from __future__ import annotations

from collections import Counter

from tfgpu_doctor.checks.devices import Row, device_of, figures_of
from tfgpu_doctor.model import Figure
from tfgpu_doctor.model.facts.nvidia import NvmlGpu


def memory_errors(gpu: NvmlGpu) -> tuple[Figure, ...]:
    """Return the errors of a GPU's memory, and what was taken out of use because of them."""
    ecc, rows, pages = gpu.health.ecc, gpu.health.remapped_rows, gpu.health.retired_pages
    found: list[Row] = []
    if ecc:
        found += [
            ("uncorrectable memory errors", ecc.volatile_uncorrected, ""),
            ("correctable memory errors", ecc.volatile_corrected, ""),
            ("uncorrectable memory errors ever", ecc.aggregate_uncorrected, ""),
            ("correctable memory errors ever", ecc.aggregate_corrected, ""),
        ]
    if rows:
        found += [
            ("rows remapped for uncorrectable errors", rows.uncorrected, ""),
            ("rows remapped for correctable errors", rows.corrected, ""),
            ("banks without a spare row", rows.banks.get("none"), ""),
        ]
    if pages:
        found += [("retired pages", pages.uncorrected + pages.corrected, "")]
    return figures_of(device_of(gpu), found)


def heat_and_clocks(gpu: NvmlGpu) -> tuple[Figure, ...]:
    """Return temperature, clocks and power draw, each with its limit."""
    heat, clocks, power = gpu.health.temperature, gpu.health.clocks, gpu.health.power
    rows: list[Row] = [
        ("temperature", heat.gpu_c, "°C"),
        ("slowdown temperature", heat.slowdown_c, "°C"),
        ("highest temperature allowed", heat.max_c, "°C"),
        ("memory temperature", heat.memory_c, "°C"),
        ("highest memory temperature allowed", heat.memory_max_c, "°C"),
        ("SM clock", clocks.sm_mhz, "MHz"),
        ("highest SM clock", clocks.max_sm_mhz, "MHz"),
        ("memory clock", clocks.memory_mhz, "MHz"),
        ("highest memory clock", clocks.max_memory_mhz, "MHz"),
        ("power", power.draw_w, "W"),
        ("power limit", limit_in_force(gpu), "W"),
    ]
    return figures_of(device_of(gpu), rows)


def limit_in_force(gpu: NvmlGpu) -> float | None:
    """Return the lower of the power limit that an administrator set and the one that is enforced; None if unknown."""
    power = gpu.health.power
    return min((each for each in (power.enforced_limit_w, power.limit_w) if each), default=None)


def power_limits(gpu: NvmlGpu) -> tuple[Figure, ...]:
    """Return the power limit in force, the default, and the range that the board allows."""
    power = gpu.health.power
    rows: list[Row] = [
        ("power limit", limit_in_force(gpu), "W"),
        ("default power limit", power.default_limit_w, "W"),
        ("lowest power limit allowed", power.min_limit_w, "W"),
        ("highest power limit allowed", power.max_limit_w, "W"),
        ("power", power.draw_w, "W"),
    ]
    return figures_of(device_of(gpu), rows)


def pcie_link(gpu: NvmlGpu, most: int) -> tuple[Figure, ...]:
    """Return lanes, generation and errors of the link to the host; `most`: the lanes of the GPU itself, 0 if unknown."""
    pcie = gpu.health.pcie
    rows: list[Row] = [
        ("PCI Express lanes", pcie.width, ""),
        ("highest PCI Express lanes", most or None, ""),
        ("PCI Express generation", pcie.generation, ""),
        ("highest PCI Express generation", pcie.max_generation, ""),
        ("PCI Express replays", pcie.replays, ""),
    ]
    return figures_of(device_of(gpu), rows)


def nvlinks(gpu: NvmlGpu, most: int) -> tuple[Figure, ...]:
    """Return how many links are up and their errors; `most` is the highest number up on a GPU of the model."""
    links = gpu.health.nvlinks
    errors = sum((Counter(link.errors) for link in links), Counter[str]())
    rows: list[Row] = [
        ("NVLinks up", sum(link.active for link in links), ""),
        ("most NVLinks up on a GPU of the model", most, ""),
        ("NVLinks", len(links), ""),
        *((f"NVLink {name.replace('_', ' ')}", count, "") for name, count in sorted(errors.items())),
    ]
    return figures_of(device_of(gpu), rows)


def memory_use(gpu: NvmlGpu, held: int | None = None) -> tuple[Figure, ...]:
    """Return free and total memory; `held` is what other processes hold, where that is known."""
    rows: list[Row] = [
        ("memory free", gpu.memory_free_bytes, "B"),
        ("memory", gpu.memory_total_bytes, "B"),
        ("memory held by other processes", held, "B"),
        ("utilization", gpu.health.utilization_percent, "%"),
    ]
    return figures_of(device_of(gpu), rows)
