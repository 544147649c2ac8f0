"""SVC, PRF: are NVIDIA's services running, and may the profiler read the GPU's counters?"""

from __future__ import annotations

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.kernel import Services
from tfgpu_doctor.model.facts.machine import Container, Pci
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver

_FABRIC_MANAGER = "nv-fabricmanager"
_NOT_READY = 802  # CUDA_ERROR_SYSTEM_NOT_READY


@check(
    "SVC001",
    "the fabric manager runs if the machine has NVSwitches",
    family="Services",
    stage=Stage.DRIVER,
    after=("GPU001", "CNT001", "DRV001"),
    causes=("fabric_manager_not_running",),
    sources=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",),
)
def fabric_manager_runs(
    pci: Pci,
    services: Services,
    knowledge: Knowledge,
    container: Container | None = None,
    cuda_driver: CudaDriver | None = None,
    driver: Driver | None = None,
) -> Yielded:
    """GPUs behind NVSwitches work only after the fabric manager has set up the switches; without it nvidia-smi lists all
    GPUs, but CUDA returns SYSTEM_NOT_READY (802). Its version must be exactly the driver's, also after an upgrade.

    Fix: install the fabric manager in the driver's version and, as root, run `systemctl enable --now nvidia-fabricmanager`.
    """
    first = knowledge.boundaries["first_pci_id_of_nvswitch"].value
    switches = [device for device in pci.devices if device.is_nvswitch and device.device >= first]
    if not switches:
        raise Skip("there is no NVSwitch on the PCI bus")
    if container and container.kind:
        raise Skip("the host's services are not visible from inside a container")
    runs = _FABRIC_MANAGER in services.running
    ours, theirs = services.fabric_manager_version, driver.version if driver else ""
    refused = bool(cuda_driver and cuda_driver.init_code == _NOT_READY)
    versions = f"its version is {ours}, the driver's version is {theirs}" if ours and theirs else ""
    if runs and not (refused and ours and theirs and ours != theirs):
        yield Evidence(f"{_FABRIC_MANAGER} runs" + (f"; {versions}" if versions else ""))
    elif not runs and cuda_driver and cuda_driver.works:
        yield Evidence("the CUDA driver initialises without it")
    elif not refused:
        raise Skip("the fabric manager is not running, and cuInit does not report that it is missing")
    elif not runs and not services.visible:
        raise NotMeasured("the processes of other users are not visible")
    else:
        yield Finding(
            f"the fabric manager has version {ours}, but the driver has version {theirs}"
            if runs
            else f"the fabric manager is not running, but the machine has {amount(len(switches), 'NVSwitch')}",
            cause="fabric_manager_not_running",
            evidence=(
                f"cuInit returned {_NOT_READY}, CUDA_ERROR_SYSTEM_NOT_READY",
                *(f"NVSwitch 10de:{each.device} at {each.address}" for each in switches[:2]),
                f"there is {'a' if runs else 'no'} process {_FABRIC_MANAGER}",
                *([versions] if versions else ()),
            ),
            fix=Fix(
                f"Install the fabric manager in exactly the driver's version{f' {theirs}' if theirs else ''}, then as root run "
                "`systemctl enable --now nvidia-fabricmanager` (or `restart`), and wait a minute."
            ),
            figures=figures_of("", [("NVSwitches", len(switches), "")]),
        )


@check(
    "PRF001",
    "the profiler may read the GPU's counters", family="Profiler", stage=Stage.SPEED,
    after=("DRV001",),
    causes=("cupti_permission_denied",),
    sources=("https://developer.nvidia.com/nvidia-development-tools-solutions-err_nvgpuctrperm-permission-issue-performance-counters",),
)  # fmt: skip
def profiler_may_count(driver: Driver, device_nodes: DeviceNodes, container: Container | None = None) -> Yielded:
    """TensorFlow's profiler reads the GPU's performance counters through CUPTI. The driver allows this only to root
    unless its option says otherwise; other users get CUPTI_ERROR_INSUFFICIENT_PRIVILEGES. Computation is not affected.

    Fix: as root, set the module option NVreg_RestrictProfilingToAdminUsers=0; start a container with --cap-add=SYS_ADMIN.
    """
    restricted = driver.parameters.get("RmProfilingAdminOnly")
    if restricted is None:
        raise NotMeasured("the driver does not report who may profile")
    if restricted != "1":
        yield Evidence(f"the driver's RmProfilingAdminOnly is {restricted}: all users may profile")
        return
    root = device_nodes.uid == 0
    if root and container and container.kind and not container.privileged:
        raise Skip("root in a container may profile only with the capability SYS_ADMIN")
    if not root:
        yield Finding(
            "the driver allows only root to profile: TensorFlow's profiler cannot read the GPU's counters",
            cause="cupti_permission_denied",
            severity="info",
            evidence=(
                "/proc/driver/nvidia/params says RmProfilingAdminOnly: 1",
                f"this user has the ID {device_nodes.uid}",
            ),
            fix=Fix(
                "To allow profiling: as root, write `options nvidia NVreg_RestrictProfilingToAdminUsers=0` to a file in "
                "/etc/modprobe.d/, rebuild the initramfs, and reboot; or profile as root."
            ),
        )
    yield Evidence(
        f"RmProfilingAdminOnly is 1, and this user is {'root' if root else 'not root; computation is not affected'}"
    )
