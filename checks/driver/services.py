"""SVC, PRF: do NVIDIA's services run, and may the profiler count?"""

from __future__ import annotations

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import Services
from tfgpu_doctor.model.facts.machine import Container, Pci
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver

_FABRIC_MANAGER = "nv-fabricmanager"
_NOT_READY = 802  # CUDA_ERROR_SYSTEM_NOT_READY


@check(
    "SVC001",
    "the fabric manager runs where there are NVSwitches",
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
    """GPUs behind NVSwitches work only when the fabric manager has set the switches up; without it nvidia-smi lists all
    GPUs, and CUDA says SYSTEM_NOT_READY (802). It must be of exactly the driver's version, also after an upgrade.

    Fix: install the fabric manager of the driver's version, and as root `systemctl enable --now nvidia-fabricmanager`.
    """
    first = knowledge.boundaries["first_pci_id_of_nvswitch"].value
    switches = [device for device in pci.devices if device.is_nvswitch and device.device >= first]
    if not switches:
        raise Skip("there is no NVSwitch on the PCI bus")
    if container and container.kind:
        raise Skip("the services of the host cannot be seen from within a container")
    runs = _FABRIC_MANAGER in services.running
    ours, theirs = services.fabric_manager_version, driver.version if driver else ""
    refused = bool(cuda_driver and cuda_driver.init_code == _NOT_READY)
    versions = f"its program is of version {ours}, the driver of {theirs}" if ours and theirs else ""
    if runs and not (refused and ours and theirs and ours != theirs):
        yield Evidence(f"{_FABRIC_MANAGER} runs" + (f"; {versions}" if versions else ""))
    elif not runs and cuda_driver and cuda_driver.works:
        yield Evidence("the CUDA driver initialises without it")
    elif not refused:
        raise Skip("the fabric manager does not run, and cuInit does not say that it is missed")
    elif not runs and not services.visible:
        raise Skip("the processes of other users cannot be seen")
    else:
        yield Finding(
            f"the fabric manager is of version {ours}, the driver of {theirs}"
            if runs
            else f"the fabric manager does not run, and the machine has {len(switches)} NVSwitches",
            cause="fabric_manager_not_running",
            evidence=(
                f"cuInit returned {_NOT_READY}, CUDA_ERROR_SYSTEM_NOT_READY",
                *(f"NVSwitch 10de:{each.device} at {each.address}" for each in switches[:2]),
                f"among the processes there is {'a' if runs else 'no'} {_FABRIC_MANAGER}",
                *([versions] if versions else ()),
            ),
            fix=Fix(
                f"Install the fabric manager of exactly the driver's version{f' {theirs}' if theirs else ''}, then as root "
                "`systemctl enable --now nvidia-fabricmanager` (or `restart`), and wait a minute."
            ),
        )


@check(
    "PRF001",
    "the profiler may read the GPU's counters", stage=Stage.SPEED,
    after=("DRV001",),
    causes=("cupti_permission_denied",),
    sources=("https://developer.nvidia.com/nvidia-development-tools-solutions-err_nvgpuctrperm-permission-issue-performance-counters",),
)  # fmt: skip
def profiler_may_count(driver: Driver, device_nodes: DeviceNodes, container: Container | None = None) -> Yielded:
    """TensorFlow's profiler reads the GPU's performance counters through CUPTI, which the driver allows to root alone
    unless its option says otherwise; others get CUPTI_ERROR_INSUFFICIENT_PRIVILEGES. Computing is not touched.

    Fix: as root the module option NVreg_RestrictProfilingToAdminUsers=0; in a container --cap-add=SYS_ADMIN.
    """
    restricted = driver.parameters.get("RmProfilingAdminOnly")
    if restricted is None:
        raise Skip("the driver does not say whom it lets profile")
    if restricted != "1":
        yield Evidence(f"the driver's RmProfilingAdminOnly is {restricted}: everybody may")
        return
    root = device_nodes.uid == 0
    if root and container and container.kind and not container.privileged:
        raise Skip("root in a container may only with the capability SYS_ADMIN")
    if not root:
        yield Finding(
            "the driver lets root alone profile: TensorFlow's profiler gets no counters of the GPU",
            cause="cupti_permission_denied",
            severity="info",
            evidence=("/proc/driver/nvidia/params says RmProfilingAdminOnly: 1", f"this user is {device_nodes.uid}"),
            fix=Fix(
                "Only to profile: as root write `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file under "
                "/etc/modprobe.d/, rebuild the initramfs, and reboot; or profile as root."
            ),
        )
    yield Evidence(
        f"RmProfilingAdminOnly is 1, and this user is {'root' if root else 'not root, who can compute all the same'}"
    )
