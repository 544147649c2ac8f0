"""Facts of the NVIDIA driver: kernel module, device nodes, libraries, NVML and the CUDA driver API."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.facts.health import GpuHealth, GpuTrouble


class Driver(Fact, frozen=True):
    """The kernel driver, from /proc, /sys and /lib/modules."""

    version: str = ""  # of the loaded module, "550.54.15"; empty where none is loaded
    flavour: str = ""  # "open" or "proprietary"
    modules: tuple[str, ...] = ()  # loaded ones of nvidia, nvidia_uvm, nvidia_modeset, nvidia_drm, nouveau
    gpus: tuple[str, ...] = ()  # PCI addresses under /proc/driver/nvidia/gpus
    parameters: dict[str, str] = {}  # /proc/driver/nvidia/params, those that a check reads
    built_for: tuple[str, ...] = ()  # kernels under /lib/modules that have an nvidia module
    running_kernel: str = ""
    secure_boot: bool | None = None
    suspends: int | None = None  # how often this machine woke up since it booted
    prime: str = (
        ""  # /etc/prime-discrete, what prime-select chose for the NVIDIA GPU of a laptop: "on", "off", "on-demand"
    )
    bbswitch: str = ""  # /proc/acpi/bbswitch, its state: "ON", "OFF"


class DeviceNode(Fact, frozen=True):
    """One file under /dev, and what happened when this user opened it for reading and writing."""

    path: str
    mode: str  # "0666"
    uid: int
    gid: int
    major: int = 0
    minor: int = 0
    error: str = ""  # "EACCES"; empty where it opened


class DeviceNodes(Fact, frozen=True):
    """The nodes of NVIDIA's driver under /dev (/dev/dxg in WSL)."""

    nodes: tuple[DeviceNode, ...] = ()
    opening: Attempt | None = None  # None where there was nothing to open
    uid: int = 0
    groups: tuple[int, ...] = ()

    def find(self, path: str) -> DeviceNode | None:
        """The node of that path."""
        return next((node for node in self.nodes if node.path == path), None)

    @property
    def gpus(self) -> tuple[DeviceNode, ...]:
        """/dev/nvidia0, /dev/nvidia1, ..."""
        return tuple(node for node in self.nodes if node.path.removeprefix("/dev/nvidia").isdigit())


class LibraryFile(Fact, frozen=True):
    """One copy of a library on disk."""

    soname: str
    path: str
    real_path: str
    size_bytes: int
    version: str = ""  # from the end of the file's name, "550.54.15"
    kind: str = "driver"  # "driver", "stub", "compat", "wsl"
    found_in: str = ""  # "LD_LIBRARY_PATH", "ld.so.cache", "default folder", "known place", "pip", "conda"

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
    """A process that holds memory on a GPU."""

    pid: int
    name: str = ""
    computes: bool = True  # else it only draws
    memory_bytes: int | None = None
    user: str = ""  # whose it is, where that is certain


class NvmlGpu(Fact, frozen=True):
    """A GPU as NVML describes it; None and empty where NVML does not say."""

    index: int
    name: str = ""
    uuid: str = ""
    pci_address: str = ""
    compute_capability: str = ""  # "8.6"
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    compute_mode: str = ""  # "default", "exclusive_process", "prohibited"
    mig: bool | None = None
    mig_devices: tuple[str, ...] = ()  # their UUIDs
    processes: tuple[GpuProcess, ...] = ()
    health: GpuHealth = GpuHealth()


class Nvml(Fact, frozen=True):
    """What NVML, the library behind nvidia-smi, says."""

    attempt: Attempt
    library_error: str = ""  # why libnvidia-ml.so.1 could not be opened
    error_code: int = 0  # of nvmlInit; 0 is success
    error_text: str = ""
    driver_version: str = ""
    count: int | None = None  # how many GPUs it has, those that it cannot read among them
    gpus: tuple[NvmlGpu, ...] = ()  # those that could be read
    troubles: tuple[GpuTrouble, ...] = ()  # those that gave no answer, or are lost
    excluded: tuple[str, ...] = ()  # PCI addresses of those that the driver was told to leave alone

    @property
    def works(self) -> bool:
        """Whether NVML could be initialised and read to the end; single GPUs may still be in trouble."""
        return self.attempt.answered and not self.library_error and self.error_code == 0

    @property
    def gpu_count(self) -> int:
        """How many GPUs this process may use, those in trouble among them."""
        refused = {each.index for each in self.troubles if each.is_refused}
        known = {gpu.index for gpu in self.gpus} | {each.index for each in self.troubles}
        return len(known - refused)


class CudaGpu(Fact, frozen=True):
    """A GPU as the CUDA driver API describes it."""

    index: int
    name: str = ""
    compute_capability: str = ""
    memory_bytes: int = 0
    multiprocessors: int = 0
    pci_address: str = ""


class CudaDriver(Fact, frozen=True):
    """What libcuda says to the target's interpreter: cuInit, its version, its devices."""

    attempt: Attempt
    library: str = ""  # the file that the loader took
    library_error: str = ""
    init_code: int | None = None  # CUresult of cuInit; None where it never returned
    init_name: str = ""
    cuda_version: str = ""  # the newest CUDA that this driver supports, "12.4"
    gpus: tuple[CudaGpu, ...] = ()

    @property
    def works(self) -> bool:
        """Whether cuInit succeeded and the devices could be read."""
        return self.attempt.answered and self.init_code == 0
