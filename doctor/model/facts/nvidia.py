"""Facts of the NVIDIA driver: kernel module, device nodes, libraries, NVML and the CUDA driver API."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.facts.health import GpuHealth, GpuTrouble
from tfgpu_doctor.model.redaction import (
    Account,
    Count,
    Digest,
    FilePath,
    ModelName,
    ProcessName,
    Release,
    Text,
    UserName,
    Version,
)


class Driver(Fact, frozen=True):
    """The kernel driver, from /proc, /sys and /lib/modules."""

    version: Version = ""  # of the loaded module, "550.54.15"; empty if none is loaded
    flavour: Text = ""  # "open" or "proprietary"
    modules: tuple[Text, ...] = ()  # the loaded ones of nvidia, nvidia_uvm, nvidia_modeset, nvidia_drm, nouveau
    gpus: tuple[Text, ...] = ()  # PCI addresses under /proc/driver/nvidia/gpus
    parameters: dict[Text, Text] = {}  # /proc/driver/nvidia/params, those that a check reads
    built_for: tuple[Release, ...] = ()  # kernels under /lib/modules that have an nvidia module
    running_kernel: Release = ""
    secure_boot: bool | None = None
    suspends: Count | None = None  # how often this machine resumed since it booted
    prime: Text = (
        ""  # /etc/prime-discrete, what prime-select chose for the NVIDIA GPU of a laptop: "on", "off", "on-demand"
    )
    bbswitch: Text = ""  # /proc/acpi/bbswitch, its state: "ON", "OFF"
    removed_by: FilePath = ""  # the file with which a program takes NVIDIA's GPU off the PCI bus at each boot


class DeviceNode(Fact, frozen=True):
    """One file under /dev, and the result of opening it for reading and writing as this user."""

    path: FilePath
    mode: Text  # "0666"
    uid: Account
    gid: Account
    major: Count = 0
    minor: Count = 0
    error: Text = ""  # "EACCES"; empty if it opened


class DeviceNodes(Fact, frozen=True):
    """The nodes of NVIDIA's driver under /dev (/dev/dxg in WSL)."""

    nodes: tuple[DeviceNode, ...] = ()
    opening: Attempt | None = None  # None if there was nothing to open
    uid: Account = 0
    groups: tuple[Account, ...] = ()

    def find(self, path: str) -> DeviceNode | None:
        """The node of that path."""
        return next((node for node in self.nodes if node.path == path), None)

    @property
    def gpus(self) -> tuple[DeviceNode, ...]:
        """/dev/nvidia0, /dev/nvidia1, ..."""
        return tuple(node for node in self.nodes if node.path.removeprefix("/dev/nvidia").isdigit())


class LibraryFile(Fact, frozen=True):
    """One copy of a library on disk."""

    soname: FilePath
    path: FilePath
    real_path: FilePath
    size_bytes: Count
    version: Version = ""  # from the end of the file's name, "550.54.15"
    kind: Text = "driver"  # "driver", "stub", "compat", "wsl"
    found_in: Text = ""  # "LD_LIBRARY_PATH", "ld.so.cache", "default folder", "known place", "pip", "conda"

    @property
    def on_loader_path(self) -> bool:
        """Whether the loader finds it by its name alone."""
        return self.found_in in ("LD_LIBRARY_PATH", "ld.so.cache", "default folder")


class Libraries(Fact, frozen=True):
    """Copies of libraries on disk, the one that the loader takes first."""

    copies: tuple[LibraryFile, ...] = ()

    def named(self, soname: str) -> tuple[LibraryFile, ...]:
        """All copies of one library."""
        return tuple(copy for copy in self.copies if copy.soname == soname)


class GpuProcess(Fact, frozen=True):
    """A process that uses memory on a GPU."""

    pid: Count
    name: ProcessName = ""
    computes: bool = True  # otherwise it only draws
    memory_bytes: Count | None = None
    user: UserName = ""  # its owner, if that is certain


class NvmlGpu(Fact, frozen=True):
    """A GPU as NVML describes it; None and empty if NVML does not report the value."""

    index: Count
    name: ModelName = ""
    uuid: Text = ""
    pci_address: Text = ""
    compute_capability: Version = ""  # "8.6"
    memory_total_bytes: Count | None = None
    memory_free_bytes: Count | None = None
    compute_mode: Text = ""  # "default", "exclusive_process", "prohibited"
    mig: bool | None = None
    mig_devices: tuple[Text, ...] = ()  # their UUIDs
    processes: tuple[GpuProcess, ...] = ()
    health: GpuHealth = GpuHealth()
    serial: Digest = ""  # on the board's label; GeForce cards have none
    part_number: Text = ""  # of the board: "900-2G500-0000-000"
    vbios: Text = ""  # "96.00.61.00.01"


class Nvml(Fact, frozen=True):
    """The report of NVML, the library behind nvidia-smi."""

    attempt: Attempt
    library_error: Text = ""  # why libnvidia-ml.so.1 could not be opened
    error_code: Count = 0  # of nvmlInit; 0 is success
    error_text: Text = ""
    driver_version: Version = ""
    count: Count | None = None  # the number of GPUs, including those that it cannot read
    gpus: tuple[NvmlGpu, ...] = ()  # those that could be read
    troubles: tuple[GpuTrouble, ...] = ()  # those that did not respond, or are lost
    excluded: tuple[Text, ...] = ()  # PCI addresses of those that the driver was configured to exclude

    @property
    def works(self) -> bool:
        """Whether NVML could be initialized and read to the end; single GPUs may still have problems."""
        return self.attempt.answered and not self.library_error and self.error_code == 0

    @property
    def gpu_count(self) -> int:
        """The number of GPUs that this process may use, including those with problems."""
        refused = {each.index for each in self.troubles if each.is_refused}
        known = {gpu.index for gpu in self.gpus} | {each.index for each in self.troubles}
        return len(known - refused)


class CudaGpu(Fact, frozen=True):
    """A GPU as the CUDA driver API describes it."""

    index: Count
    name: ModelName = ""
    compute_capability: Version = ""
    memory_bytes: Count = 0
    multiprocessors: Count = 0
    pci_address: Text = ""
    kernel_time_limit: bool | None = (
        None  # whether the driver stops kernels that run for seconds, as it drives a display
    )


class CudaDriver(Fact, frozen=True):
    """The report of libcuda to the target's interpreter: cuInit, its version, its devices."""

    attempt: Attempt
    library: FilePath = ""  # the file that the loader took
    library_error: Text = ""
    init_code: Count | None = None  # CUresult of cuInit; None if it never returned
    init_name: Text = ""
    cuda_version: Version = ""  # the newest CUDA that this driver supports, "12.4"
    gpus: tuple[CudaGpu, ...] = ()

    @property
    def works(self) -> bool:
        """Whether cuInit succeeded and the devices could be read."""
        return self.attempt.answered and self.init_code == 0
