"""Facts of the machine: system, PCI bus, container, batch job, environment."""

from __future__ import annotations

import os.path

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import (
    Count,
    FilePath,
    JobId,
    ModelName,
    Number,
    PciCode,
    Release,
    Text,
    Variable,
    Version,
)

NVIDIA = "10de"  # its vendor id on the PCI bus


class NumaNode(Fact, frozen=True):
    """CPUs and memory that are close together."""

    number: Count
    cpu_list: Text = ""  # "0-15,32-47"; empty for memory without CPUs
    memory_bytes: Count | None = None


class System(Fact, frozen=True):
    """Operating system, CPU and memory."""

    os: Text  # "Linux", "Windows", "Darwin"
    release: Release  # of the kernel
    architecture: Text  # "x86_64", "aarch64"
    distribution: Text = ""
    glibc: Version = ""  # "2.36"; empty if the C library is another one
    cpu_model: ModelName = ""
    cpu_count: Count = 0
    cpu_flags: tuple[Text, ...] | None = None  # those that TensorFlow uses; None if they cannot be read
    memory_bytes: Count | None = None
    wsl: Count = 0  # 1 or 2 inside the Windows Subsystem for Linux
    board: ModelName = ""  # the model from the device tree, for example on a Jetson
    memory_free_bytes: Count | None = None  # completely unused
    memory_available_bytes: Count | None = None  # available without swapping
    swap_bytes: Count | None = None
    huge_pages: Count | None = None  # reserved
    transparent_huge_pages: Text = ""  # "always", "madvise", "never"
    numa_nodes: tuple[NumaNode, ...] = ()
    rdma_devices: tuple[Text, ...] = ()  # InfiniBand and similar devices that programs may open: "uverbs0"


class PciLink(Fact, frozen=True):
    """A PCI Express link as one of its ends describes it: current and maximum; None if sysfs does not report it."""

    speed_gt_per_s: Number | None = None
    width: Count | None = None
    max_speed_gt_per_s: Number | None = None
    max_width: Count | None = None


class PciDevice(Fact, frozen=True):
    """One device on the PCI bus, its numbers as sysfs gives them, without 0x.

    The fields after the driver are read for NVIDIA's own devices only, the links only of those that are awake.
    """

    address: Text  # "0000:01:00.0"
    vendor: PciCode  # "10de"
    device: PciCode  # "2204"
    class_code: PciCode  # "030000"
    driver: Text = ""  # the kernel driver bound to it
    power: Text = ""  # "active", "suspended": the state of its run-time power management
    link: PciLink | None = None
    port: Text = ""  # address of the bridge above it; empty if it is connected to the root itself
    port_link: PciLink | None = None
    numa_node: Count | None = None
    iommu_group: Text = ""
    iommu_type: Text = ""  # "DMA", "DMA-FQ", "identity"
    errors: dict[Text, Count] = {}  # since the boot: "correctable", "nonfatal", "fatal"; empty if they are not counted
    port_errors: dict[Text, Count] = {}  # the same for the bridge above it
    physical_function: Text = ""  # address of the device that this one is a virtual function of
    removable: bool | None = None  # by its user, as below a Thunderbolt port; None if the kernel does not say it

    @property
    def is_nvidia_gpu(self) -> bool:
        """A VGA (0300), 3D (0302) or other (0380) display controller made by NVIDIA."""
        return self.vendor == NVIDIA and self.class_code.startswith("03")

    @property
    def is_nvswitch(self) -> bool:
        """A bridge (0680) made by NVIDIA: its GPUs only work after a fabric manager has set it up."""
        return self.vendor == NVIDIA and self.class_code.startswith("0680")


class Pci(Fact, frozen=True):
    """NVIDIA's devices on the PCI bus, and every display controller."""

    devices: tuple[PciDevice, ...] = ()
    device_count: Count = 0  # of all kinds

    @property
    def nvidia_gpus(self) -> tuple[PciDevice, ...]:
        """NVIDIA's display controllers."""
        return tuple(device for device in self.devices if device.is_nvidia_gpu)


class Container(Fact, frozen=True):
    """Whether this is a container, the evidence for it, and how much shared memory it has."""

    kind: Text = ""  # "docker", "podman", "kubernetes", "containerd", "apptainer", "lxc", ...; empty outside of one
    evidence: tuple[Text, ...] = ()
    shm_bytes: Count | None = None
    shm_free_bytes: Count | None = None
    engine: Text = ""  # "docker", "podman", "containerd", "cri-o", if the files of the image show it
    user_namespace: bool | None = None  # its root is not the machine's
    privileged: bool | None = None  # it has every capability that there is
    seccomp: Text = ""  # "off", "strict", "filter"
    security_label: Text = ""  # SELinux's context or AppArmor's profile: "system_u:system_r:container_t:s0:c1,c2"
    device_mounts: tuple[FilePath, ...] = ()  # GPUs that Kubernetes' device plugin passed in by mounts


class Scheduler(Fact, frozen=True):
    """The batch job that this process is part of, and the variables that say which GPUs it was granted."""

    kind: Text = ""  # "slurm", "lsf", "pbs", "sge", "htcondor", "flux"; empty outside of a job
    job: JobId = ""
    granted: dict[Variable, Text] = {}
    denied: dict[Variable, Text] = {}  # variables whose value says that no GPU was granted
    step: Text = ""  # of Slurm, if srun started this process
    step_granted: dict[Variable, Text] = {}
    cpus: Count | None = None  # CPUs that the job was granted on this machine
    cpus_said_by: Variable = ""  # the variable


class Environment(Fact, frozen=True):
    """The environment variables that matter to TensorFlow on a GPU; no others are read."""

    variables: dict[Variable, Text] = {}

    def get(self, name: str) -> str | None:
        """A variable's value, None if it is not set."""
        return self.variables.get(name)

    def other_than(self, prefix: str) -> str:
        """The environment that the shell has activated, empty if it is the one with that prefix.

        If a virtual environment was created inside conda, conda's variable is set too; the virtual environment counts.
        """
        active = self.get("VIRTUAL_ENV") or self.get("CONDA_PREFIX") or ""
        return active if active and os.path.normpath(active) != os.path.normpath(prefix) else ""
