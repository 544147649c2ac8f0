"""The simulated GPU: each field is a value that NVML and CUDA return; None is a query that is not supported on it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

# CUDA and NVML read one line per value, so no text may contain a control character.
Line = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f]*\Z", max_length=95)]
LongLine = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f]*\Z", max_length=255)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
Number = Annotated[float, msgspec.Meta(ge=0, lt=1e6)]
PciAddress = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.0)?\Z")]
Capability = Annotated[str, msgspec.Meta(pattern=r"\A\d{1,2}\.\d\Z")]
Code = Annotated[int, msgspec.Meta(ge=1, le=9999)]
Fault = Code | Literal["hang", "wedge", "crash"]
Reason = Literal[
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
    "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting", "board_limit", "reliability",
]  # fmt: skip
RecoveryAction = Literal[
    "none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain", "bus_reset", "system_reboot",
]  # fmt: skip
Brand = Literal[
    "unknown", "quadro", "tesla", "nvs", "grid", "geforce", "titan", "vapps", "vpc", "vcs", "vws", "cloud_gaming",
    "quadro_rtx", "nvidia_rtx", "nvidia",
]  # fmt: skip
MOST_GPUS = 64  # the same as in machine.h
MOST_MIG_DEVICES = 7


class MachineError(ValueError):
    """A machine that cannot be simulated; the message is one line that names the field."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a simulated machine; an unknown field is rejected, so that a misspelled name is noticed."""


class Ecc(Part, frozen=True):
    """Memory errors, counted since the driver was loaded (volatile) and over the lifetime (aggregate)."""

    mode: bool = True
    pending_mode: bool | None = None  # after the next reboot; default: the current mode
    volatile_corrected: Count | None = 0
    volatile_uncorrected: Count | None = 0
    aggregate_corrected: Count | None = 0
    aggregate_uncorrected: Count | None = 0
    sram_threshold_exceeded: bool | None = None


class RemappedRows(Part, frozen=True):
    """Remapped rows of the memory, and the number of banks by their remaining spare rows."""

    corrected: Count = 0
    uncorrected: Count = 0
    pending: bool = False
    failed: bool = False
    banks_all_spare: Count | None = 640
    banks_most_spare: Count | None = 0
    banks_some_spare: Count | None = 0
    banks_few_spare: Count | None = 0
    banks_none_spare: Count | None = 0


class RetiredPages(Part, frozen=True):
    """Retired pages of the memory, on GPUs before Ampere."""

    corrected: Count = 0
    uncorrected: Count = 0
    pending: bool = False


class Temperatures(Part, frozen=True):
    """Degrees Celsius, and the thresholds."""

    gpu: Count | None = 41
    memory: Count | None = None
    slowdown: Count | None = 87
    shutdown: Count | None = 92
    gpu_max: Count | None = 85
    memory_max: Count | None = None
    margin: Annotated[int, msgspec.Meta(ge=-200, le=200)] | None = None  # to the slowdown threshold


class Power(Part, frozen=True):
    """Watts."""

    draw: Number | None = 70.0
    limit: Number | None = 350.0
    enforced_limit: Number | None = None  # the lowest limit in effect; default: `limit`
    default_limit: Number | None = 350.0
    min_limit: Number | None = 100.0
    max_limit: Number | None = 350.0


class Clocks(Part, frozen=True):
    """Clocks in megahertz, current and maximum."""

    graphics: Count | None = 1410
    sm: Count | None = 1410
    memory: Count | None = 1593
    video: Count | None = 1275
    max_graphics: Count | None = 1980
    max_sm: Count | None = 1980
    max_memory: Count | None = 2619
    max_video: Count | None = 1545


class Pcie(Part, frozen=True):
    """The link to the host, current and maximum."""

    generation: Count | None = 4
    width: Count | None = 16
    max_generation: Count | None = 4  # of the combination of GPU and slot
    max_width: Count | None = 16
    gpu_max_generation: Count | None = None  # of the GPU alone; default: `max_generation`
    bus: Literal["pci", "pcie", "fpci", "agp"] | None = "pcie"
    replays: Count | None = 0


class NvLink(Part, frozen=True):
    """A link to another GPU or a switch, and its error counters."""

    active: bool = True
    version: Count | None = 4
    remote: Literal["gpu", "npu", "switch"] | None = "gpu"
    replays: Count = 0
    recoveries: Count = 0
    crc_flit_errors: Count = 0
    crc_data_errors: Count = 0
    ecc_errors: Count = 0


class Fabric(Part, frozen=True):
    """Whether the GPU is part of the NVSwitch fabric; `status`: an NVML return code, 0 for success."""

    state: Literal["not_supported", "not_started", "in_progress", "completed"] = "completed"
    status: Count = 0


class Tenant(Part, frozen=True):
    """A process that uses memory on a GPU; None is what the driver does not report."""

    pid: Annotated[int, msgspec.Meta(ge=1, lt=1 << 22)]
    name: LongLine = "python"
    kind: Literal["compute", "graphics", "mps"] = "compute"
    memory_bytes: Count | None = None
    utilization_percent: Count | None = None  # of the time: its kernels


class MigDevice(Part, frozen=True):
    """A slice of a GPU, for example "1g.10gb"."""

    profile: Line = "1g.10gb"
    uuid: Line = ""
    memory_bytes: Count | None = 10 << 30
    memory_used_bytes: Count = 0
    multiprocessors: Count | None = 16
    gpu_instance: Count | None = None
    compute_instance: Count | None = 0


class SimulatedGpu(Part, frozen=True):
    """One GPU. Memory, compute capability and multiprocessors that are None come from the table of GPUs."""

    name: Line
    memory_bytes: Count | None = None
    compute_capability: Capability | None = None
    multiprocessors: Count | None = None
    uuid: Line = ""  # if empty, derived from its position, like the PCI address
    pci_address: PciAddress = ""
    pci_device: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{4}\Z")] = "0000"
    brand: Brand | None = None
    gsp_firmware: Line | None = None
    virtualization: Literal["none", "passthrough", "vgpu", "host_vgpu", "host_vsga"] | None = None
    licence: Literal["licensed", "unlicensed"] | None = None  # of a vGPU
    serial: Line | None = None
    part_number: Line | None = None
    vbios: Line | None = None
    memory_used_bytes: Count = 0
    compute_mode: Literal["default", "exclusive_thread", "prohibited", "exclusive_process"] | None = "default"
    persistence_mode: bool | None = True
    performance_state: Count | None = 0
    utilization_percent: Count | None = 0
    memory_utilization_percent: Count | None = 0
    fan_percent: Count | None = None
    mig_mode: bool | None = None
    mig_pending: bool | None = None  # after the next reset; default: the current mode
    mig_devices: Annotated[tuple[MigDevice, ...], msgspec.Meta(max_length=MOST_MIG_DEVICES)] = ()
    ecc: Ecc | None = None
    remapped_rows: RemappedRows | None = None
    retired_pages: RetiredPages | None = None
    temperature_c: Temperatures = Temperatures()
    power_w: Power = Power()
    clocks_mhz: Clocks = Clocks()
    throttle_reasons: tuple[Reason, ...] | None = ()
    recovery_action: RecoveryAction | None = None
    pcie: Pcie = Pcie()
    chip_to_chip: bool | None = None
    nvlinks: Annotated[tuple[NvLink, ...], msgspec.Meta(max_length=36)] = ()
    fabric: Fabric | None = None
    processes: tuple[Tenant, ...] = ()
    faults: dict[str, Fault] = {}

    @property
    def cuda_devices(self) -> int:
        """The number of devices that it provides to CUDA: itself, or one MIG device, because a process gets only one."""
        return 1 if not self.mig_mode else min(1, len(self.mig_devices))


class WrittenGpu(SimulatedGpu, frozen=True):
    """GPUs as a data file describes them: `count` identical ones."""

    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_GPUS)] = 1
