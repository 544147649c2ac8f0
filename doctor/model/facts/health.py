"""Facts of a GPU's health, from NVML; None and empty mean that NVML does not report the value on that GPU."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import Count, ModelName, Number, Text, Version


class Ecc(Fact, frozen=True):
    """Memory errors, counted since the driver was loaded (volatile) and over the lifetime (aggregate)."""

    enabled: bool
    pending: bool | None = None  # whether it will be on after the next reboot
    volatile_corrected: Count | None = None
    volatile_uncorrected: Count | None = None
    aggregate_corrected: Count | None = None
    aggregate_uncorrected: Count | None = None
    sram_threshold_exceeded: bool | None = None  # NVIDIA's own indicator that the GPU should be replaced


class RemappedRows(Fact, frozen=True):
    """Rows of the memory that were replaced by spare rows, on Ampere and newer."""

    corrected: Count = 0
    uncorrected: Count = 0
    pending: bool = False  # the next reset remaps more
    failed: bool = False  # there was no spare row left
    banks: dict[Text, Count] = {}  # how many have all, most, some, few, none of their spare rows left


class RetiredPages(Fact, frozen=True):
    """Pages of the memory that are no longer used, on GPUs before Ampere."""

    corrected: Count = 0
    uncorrected: Count = 0
    pending: bool = False


class Temperature(Fact, frozen=True):
    """Degrees Celsius, and the thresholds; newer GPUs report the margin to their maximum operating temperature."""

    gpu_c: Count | None = None
    memory_c: Count | None = None
    max_c: Count | None = None  # the maximum operating temperature
    slowdown_c: Count | None = None
    shutdown_c: Count | None = None
    memory_max_c: Count | None = None
    margin_c: Count | None = None


class Power(Fact, frozen=True):
    """Watts. The enforced limit is the lowest of all that apply; the limit is the one that an administrator sets."""

    draw_w: Number | None = None
    limit_w: Number | None = None
    enforced_limit_w: Number | None = None
    default_limit_w: Number | None = None
    min_limit_w: Number | None = None
    max_limit_w: Number | None = None


class Clocks(Fact, frozen=True):
    """Megahertz, current and maximum."""

    sm_mhz: Count | None = None
    memory_mhz: Count | None = None
    max_sm_mhz: Count | None = None
    max_memory_mhz: Count | None = None


class Pcie(Fact, frozen=True):
    """The link to the host, current and maximum; the maximum is that of GPU and slot together."""

    generation: Count | None = None
    width: Count | None = None
    max_generation: Count | None = None
    max_width: Count | None = None
    gpu_max_generation: Count | None = None  # of the GPU alone
    replays: Count | None = None
    bus: Text = ""  # "pcie"; "fpci" for a GPU on the same chip as the CPU


class NvLink(Fact, frozen=True):
    """One link to another GPU or to a switch."""

    index: Count
    active: bool
    version: Count | None = None
    remote: Text = ""  # "gpu", "switch", "npu"
    errors: dict[Text, Count] = {}  # those that are not 0: "replays", "recoveries", "crc_flit_errors", ...


class Fabric(Fact, frozen=True):
    """Whether the GPU is part of the fabric of its NVSwitches."""

    state: Text  # "not_supported", "not_started", "in_progress", "completed"
    status: Count = 0  # a code of NVML, 0 for success


class MigDevice(Fact, frozen=True):
    """A slice of a GPU that is partitioned by MIG."""

    uuid: Text = ""
    profile: Text = ""  # "1g.10gb"
    memory_total_bytes: Count | None = None
    memory_free_bytes: Count | None = None
    multiprocessors: Count | None = None
    gpu_instance: Count | None = None
    compute_instance: Count | None = None


class GpuHealth(Fact, frozen=True):
    """The state of a GPU: errors, temperature, power, clocks, links, and the software that drives it."""

    ecc: Ecc | None = None
    remapped_rows: RemappedRows | None = None
    retired_pages: RetiredPages | None = None
    recovery_action: Text = ""  # that the driver requests: "none", "gpu_reset", "node_reboot", "drain_p2p", ...
    temperature: Temperature = Temperature()
    power: Power = Power()
    clocks: Clocks = Clocks()
    throttle_reasons: tuple[Text, ...] | None = None  # what limits the clocks, constantly while it was sampled
    performance_state: Count | None = None  # 0 is the fastest, 8 and more are idle
    utilization_percent: Count | None = None
    pcie: Pcie = Pcie()
    chip_to_chip: bool | None = None  # whether NVLink-C2C connects it to the CPU, in addition to PCI Express or not
    nvlinks: tuple[NvLink, ...] = ()
    fabric: Fabric | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    mig_pending: bool | None = None  # whether MIG will be on after the next reset
    persistence_mode: bool | None = None
    gsp_firmware: Version = ""
    virtualization: Text = ""  # "none", "passthrough", "vgpu", "host_vgpu", "host_vsga"
    licensed: bool | None = None  # of a vGPU


class GpuTrouble(Fact, frozen=True):
    """A GPU that NVML could not read: it did not respond, or NVML reports that it is lost."""

    index: Count
    name: ModelName = ""  # this and the next two are what was known before
    uuid: Text = ""
    pci_address: Text = ""
    call: Text = ""  # the call to NVML
    seconds: Number = 0.0  # how long it was waited for
    error_code: Count = 0  # 0 if there was no response at all
    error_text: Text = ""

    @property
    def is_silent(self) -> bool:
        """Whether it did not respond at all."""
        return self.error_code == 0

    @property
    def is_refused(self) -> bool:
        """Whether this process may not use it: NVML_ERROR_NO_PERMISSION, NVML_ERROR_OPERATING_SYSTEM."""
        return self.error_code in (4, 17)
