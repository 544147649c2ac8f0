"""Machines built by hand whose kernel, its log or the PCI bus tells the cause. `tools/write_generated.py` collects them.

The kernel's messages are in the form that the sources of the driver and of Linux give them.
"""

from __future__ import annotations

from typing import Any

from built_machines import cuda_that_fails, no_driver, several, tensorflow_after
from healthy import ANSWERED, broken, computation, cuda_gpu, driver_library, healthy, node, nvml_gpu, runtime

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.health import GpuTrouble
from tfgpu_doctor.model.facts.kernel import (
    DkmsModule,
    KernelLog,
    KernelMessage,
    LogSource,
    ModuleFile,
    ModuleFiles,
    Services,
)
from tfgpu_doctor.model.facts.machine import Pci, PciDevice, PciLink
from tfgpu_doctor.model.facts.nvidia import CudaDriver, DeviceNodes, Driver, Libraries, Nvml

UPTIME_S = 7200.0
KERNEL = "6.8.0-48-generic"
A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
OFF_THE_BUS = "GPU has fallen off the bus."
DBE = "DBE (double bit error) detected by ECC at partition 3, subpartition 0"
CONTAINED = "Contained: SM (0x1). RST: No, D-RST: No"
ILLEGAL = "Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Illegal Instruction Parameter"
GSP = "Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x2080014b 0x5)."
LOADED = KernelMessage(
    kind="driver_loaded", first_age_s=7190.0, last_age_s=7190.0,
    text="NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build",
)  # fmt: skip
UNREADABLE = KernelLog(
    tried=(
        LogSource(name="dmesg", error="read kernel buffer failed: Operation not permitted"),
        LogSource(name="journalctl", error="No journal files were opened due to insufficient permissions."),
        LogSource(name="/var/log/kern.log", error="Permission denied"),
    ),
    uptime_s=UPTIME_S,
)
NO_DEVICE = cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")
NOTHING_LISTED = tensorflow_after(100, "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected")
SYSTEM_NOT_READY = cuda_that_fails(802, "CUDA_ERROR_SYSTEM_NOT_READY")
NOT_READY = tensorflow_after(802, "CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized")


def log(*messages: KernelMessage, **changes: Any) -> KernelLog:
    """The kernel's log, read from the boot on, two hours ago, with the driver's first word and further messages."""
    source = LogSource(name="dmesg", oldest_age_s=UPTIME_S, newest_age_s=4.0, from_boot=True)
    fields = {"source": "dmesg", "tried": (source,), "uptime_s": UPTIME_S, "messages": (LOADED, *messages)}
    return KernelLog(**{**fields, **changes})


def message(kind: str, text: str, age_s: float = 300.0, **changes: Any) -> KernelMessage:
    """One message of the kernel's, five minutes old."""
    return KernelMessage(**{"kind": kind, "text": text, "first_age_s": age_s, "last_age_s": age_s, **changes})


def xid(code: int, said: str, age_s: float = 300.0, address: str = "0000:01:00", **changes: Any) -> KernelMessage:
    """A Xid, five minutes old."""
    text = f"NVRM: Xid (PCI:{address}): {code}, pid=4242, name=python3, {said}"
    return message("xid", text, age_s, code=code, pci_address=address, process="python3", **changes)


def sxid(code: int, said: str, address: str = "0000:05:00.0", **changes: Any) -> KernelMessage:
    """An SXid, five minutes old."""
    text = f"nvidia-nvswitch0: SXid (PCI:{address}): {code}, {said}"
    return message("sxid", text, code=code, pci_address=address, **changes)


def refused(device: str, said: str, *, loaded: str, kind: str = "", **sections: Any) -> Facts:
    """A GPU that the driver does not take: `loaded` is the flavour of its module, empty where it did not even load."""
    address = "0000:01:00.0"
    bound = "nvidia" if kind == "open_module_needed" else ""
    said = f"NVRM: The NVIDIA GPU {address} (PCI ID: 10de:{device}) installed in this system {said}"
    version, modules = ("580.105.08", ("nvidia",)) if loaded else ("", ())
    return broken(
        **{
            "pci": Pci(
                devices=(PciDevice(address=address, vendor="10de", device=device, class_code="030000", driver=bound),),
                device_count=41,
            ),
            "driver": Driver(
                version=version, flavour=loaded, modules=modules, gpus=(address,) if bound else (),
                built_for=(KERNEL,), running_kernel=KERNEL, secure_boot=False, suspends=0,
            ),
            "device_nodes": DeviceNodes(nodes=(node("/dev/nvidiactl"), node("/dev/nvidia0")) if loaded else (), uid=1000),
            "cuda_driver": NO_DEVICE,
            "nvml": Nvml(attempt=ANSWERED, driver_version=version, error_code=0 if loaded else 9,
                         error_text="" if loaded else "Driver Not Loaded"),
            "runtime": NOTHING_LISTED,
            "kernel_log": log(message(kind, said, 7100.0, pci_address=address)) if kind else UNREADABLE,
            **sections,
        }
    )  # fmt: skip


def with_switches(count: int = 8, **sections: Any) -> Facts:
    """A board of GPUs behind NVSwitches, with its fabric manager."""
    switches = tuple(
        PciDevice(address=f"0000:{bus:02x}:00.0", vendor="10de", device="22a3", class_code="068000", driver="nvidia-nvswitch")
        for bus in (0x85, 0x86, 0x87, 0x88)
    )  # fmt: skip
    machine = several(count, name=H100, compute_capability="9.0", multiprocessors=132)
    machine["pci"] = {"devices": (*machine["pci"]["devices"], *switches)}
    services = Services(
        visible=True, running=("nv-fabricmanager", "nvidia-persistenced"), fabric_manager_version="560.35.03"
    )
    return broken(**{**machine, "services": services, "kernel_log": log(), **sections})


def built() -> dict[str, Facts]:
    """Name to facts."""
    return {**_gpus_that_failed(), **_healthy_all_the_same(), **_drivers(), **_boards()}


def _gpus_that_failed() -> dict[str, Facts]:
    a100 = nvml_gpu(name=A100, compute_capability="8.0")
    lost = GpuTrouble(
        index=0,
        pci_address="00000000:01:00.0",
        call="nvmlDeviceGetHandleByIndex",
        error_code=15,
        error_text="GPU is lost",
    )
    hung = Attempt(outcome="timed_out", seconds=15.0, phase="cuInit")
    ecc = "InternalError: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered"
    each = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    return {
        "workstation-xid-79": broken(
            nvml=Nvml(attempt=ANSWERED, driver_version="560.35.03", count=1, troubles=(lost,)),
            cuda_driver=NO_DEVICE,
            runtime=NOTHING_LISTED,
            kernel_log=log(xid(79, OFF_THE_BUS, 290.0), xid(154, each, 280.0), xid(45, "Ch 00000008", 270.0, count=12)),
        ),
        "a100-xid-48": broken(
            nvml={"gpus": (a100,)},
            runtime=runtime(computations=(
                computation("matmul", largest_error=None, placed_on="", error=ecc),
                computation("convolution", largest_error=None, placed_on="", error=ecc))),
            kernel_log=log(xid(48, DBE), xid(63, "Row Remapper: New row marked for remapping", 290.0), xid(45, "Ch 00000010", 280.0)),
        ),
        "a100-xid-94-works-again": broken(nvml={"gpus": (a100,)}, kernel_log=log(xid(94, CONTAINED), xid(45, "Ch 00000010", 290.0))),
        "a100-xid-119": broken(
            nvml=Nvml(attempt=hung),
            cuda_driver=CudaDriver(attempt=hung, library="/usr/lib/x86_64-linux-gnu/libcuda.so.560.35.03"),
            runtime=runtime(attempt=Attempt(outcome="timed_out", seconds=120.0, phase="listing the GPUs"), gpus=(), gpus_listed=False, computations=()),
            kernel_log=log(xid(119, GSP, count=30), xid(154, each, 200.0)),
        ),
        "gpu-does-not-start": broken(
            nvml=Nvml(attempt=ANSWERED, driver_version="560.35.03"), cuda_driver=NO_DEVICE, runtime=NOTHING_LISTED,
            kernel_log=log(message("init_failed", "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x40:1860)", 60.0,
                                   pci_address="0000:01:00.0", count=6)),
        ),
        "gsp-firmware-missing": broken(
            nvml=Nvml(attempt=ANSWERED, driver_version="560.35.03"), cuda_driver=NO_DEVICE, runtime=NOTHING_LISTED,
            kernel_log=log(
                message("firmware_missing", "nvidia 0000:01:00.0: Direct firmware load for nvidia/560.35.03/gsp_ga10x.bin failed "
                                            "with error -2", 61.0, pci_address="0000:01:00.0", count=6),
                message("init_failed", "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x56:1904)", 60.0,
                        pci_address="0000:01:00.0", count=6),
            ),
        ),
        "restarted-after-xid-79": broken(
            kernel_log=log(
                message("unclean_boot", "EXT4-fs (nvme0n1p2): recovery complete", 7195.0),
                xid(79, OFF_THE_BUS, 7243.0, boots_ago=1),
                message("last_message", "", 7242.0, boots_ago=1),
            ),
        ),
    }  # fmt: skip


def _healthy_all_the_same() -> dict[str, Facts]:
    asleep = PciDevice(
        address="0000:01:00.0",
        vendor="10de",
        device="24dc",
        class_code="030000",
        driver="nvidia",
        power="suspended",
        port="0000:00:01.0",
        iommu_group="14",
        iommu_type="DMA-FQ",
        errors={"correctable": 0, "nonfatal": 0, "fatal": 0},
    )
    busy = several(2)
    busy["kernel_log"] = log(xid(79, OFF_THE_BUS, 900_000.0, address="0000:02:00"), uptime_s=2_000_000.0)
    return {
        "workstation-xid-13-healthy": healthy_with(log(xid(13, ILLEGAL), xid(43, "Ch 00000008", 299.0), xid(31, "MMU Fault", 80_000.0))),
        "server-old-xid-healthy": broken(**busy),
        "driver-loaded-anew-after-xid-healthy": healthy_with(
            log(xid(119, GSP, 5000.0), messages=(xid(119, GSP, 5000.0), message("driver_loaded", LOADED.text, 4000.0)))),
        "kernel-log-unreadable-healthy": healthy_with(UNREADABLE),
        "laptop-gpu-asleep-healthy": broken(
            pci={"devices": (asleep,)}, driver={"suspends": 12},
            kernel_log=log(message("resumed", "PM: suspend exit", 600.0, count=12), message("module_refused", "Loading of unsigned module is rejected"))),
        "hgx-8-gpus-healthy": with_switches(kernel_log=log(sxid(22013, "Non-fatal, Link 47 Minion Link DLREQ interrupt", count=4))),
        "fast-bus-healthy": broken(pci={"devices": (_connected(16, 16),)}, kernel_log=log()),
    }  # fmt: skip


def healthy_with(kernel_log: KernelLog) -> Facts:
    """The healthy machine with a log of its kernel's."""
    return broken(kernel_log=kernel_log)


def _connected(width: int, slot: int, **changes: Any) -> PciDevice:
    """The RTX 3090 on a link of so many lanes, in a slot of so many."""
    link: dict[str, Any] = {"speed_gt_per_s": 2.5, "width": width, "max_speed_gt_per_s": 16.0}
    counted = {"correctable": 0, "nonfatal": 0, "fatal": 0}
    fields = {
        "address": "0000:01:00.0", "vendor": "10de", "device": "2204", "class_code": "030000", "driver": "nvidia", "power": "active",
        "link": PciLink(**link, max_width=16), "port": "0000:00:01.0", "port_link": PciLink(**link, max_width=slot), "numa_node": 0,
        "errors": counted, "port_errors": counted,
    }  # fmt: skip
    return PciDevice(**{**fields, **changes})


def _drivers() -> dict[str, Facts]:
    needs_open = "requires use of the NVIDIA open kernel modules."
    no_gsp = "is not supported by open nvidia.ko because it does not include the required GPU System Processor (GSP)."
    legacy = (
        "NVRM: The NVIDIA GeForce GTX 1060 GPU installed in this system is supported through the NVIDIA 580.xx Legacy drivers. "
        "Please visit http://www.nvidia.com/object/unix.html for more information."
    )
    libraries = Libraries(
        copies=(
            driver_library("libcuda", version="595.45.04", real_path="/usr/lib/x86_64-linux-gnu/libcuda.so.595.45.04"),
        )
    )
    failed = DkmsModule(
        name="nvidia",
        version="535.129.03",
        failed_for=KERNEL,
        log="/var/lib/dkms/nvidia/535.129.03/build/make.log",
        error="nvidia-drm/nvidia-drm-drv.c:172:6: error: 'const struct drm_mode_config_funcs' has no member named 'output_poll_changed'",
    )
    unloaded = Driver(built_for=("6.5.0-44-generic",), running_kernel=KERNEL, secure_boot=False, suspends=0)
    signed = ModuleFile(
        path=f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko.zst",
        version="560.35.03",
        flavour="open",
        kernel=KERNEL,
        signer="node17 Secure Boot Module Signature key",
    )
    return {
        "blackwell-needs-open-modules": refused("2b85", needs_open, loaded="proprietary", kind="open_module_needed"),
        "blackwell-needs-open-modules-log-unreadable": refused("2c58", "", loaded="proprietary"),
        "volta-with-open-modules": refused("1db5", no_gsp, loaded="", kind="open_module_cannot"),
        "pascal-left-behind": refused(
            "1c03", "", loaded="", driver_libraries=libraries, kernel_log=log(message("legacy_gpu", legacy, 7100.0), messages=(message("legacy_gpu", legacy, 7100.0),))),
        "pascal-left-behind-log-unreadable": refused("1c03", "", loaded="", driver_libraries=libraries),
        "dkms-build-failed": no_driver(driver=unloaded, module_files=ModuleFiles(dkms=(failed,), headers=True), kernel_log=log(messages=())),
        "dkms-without-headers": no_driver(
            driver=Driver(running_kernel=KERNEL, secure_boot=False, suspends=0),
            module_files=ModuleFiles(dkms=(DkmsModule(name="nvidia", version="560.35.03"),), headers=False), kernel_log=log(messages=())),
        "secure-boot-in-the-log": no_driver(
            driver=Driver(built_for=(KERNEL,), running_kernel=KERNEL, secure_boot=True, suspends=0),
            driver_libraries=healthy().driver_libraries, cuda_driver=NO_DEVICE, module_files=ModuleFiles(file=signed, headers=True),
            kernel_log=log(messages=(message("module_refused", "Loading of module with unavailable key is rejected", 7190.0),))),
    }  # fmt: skip


def _boards() -> dict[str, Facts]:
    fault = message(
        "iommu_fault",
        "nvidia 0000:02:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 address=0xfd00 flags=0x0020]",
        pci_address="0000:02:00.0",
        count=64,
    )
    four = several(4)
    four["pci"] = {
        "devices": tuple(
            PciDevice(
                address=f"0000:0{i + 1}:00.0",
                vendor="10de",
                device="2204",
                class_code="030000",
                driver="nvidia",
                iommu_group=str(20 + i),
                iommu_type="DMA-FQ",
            )
            for i in range(4)
        )
    }
    eight = several(8, name=A100, compute_capability="8.0")
    eight["nvml"] = {"gpus": tuple(nvml_gpu(i, name=A100) for i in range(7)), "count": 8}
    eight["cuda_driver"] = {"gpus": tuple(cuda_gpu(i, name=A100, compute_capability="8.0") for i in range(7))}
    eight["runtime"] = several(7, name=A100)["runtime"]
    rough = _connected(16, 16, port_errors={"correctable": 90_000, "nonfatal": 0, "fatal": 0})
    return {
        "hgx-sxid-fatal": with_switches(
            cuda_driver=SYSTEM_NOT_READY, runtime=NOT_READY,
            kernel_log=log(sxid(20034, "Fatal, Link 30 LTSSM Fault Up", "0000:85:00.0"))),
        "hgx-fabric-manager-absent": with_switches(
            cuda_driver=SYSTEM_NOT_READY, runtime=NOT_READY, services=Services(visible=True, running=("nvidia-persistenced",))),
        "hgx-fabric-manager-of-another-version": with_switches(
            cuda_driver=SYSTEM_NOT_READY, runtime=NOT_READY,
            services=Services(visible=True, running=("nv-fabricmanager",), fabric_manager_version="550.54.15")),
        "server-xid-79-on-one-of-eight": broken(
            **{**eight, "kernel_log": log(xid(79, OFF_THE_BUS, address="0000:08:00"))}),
        "four-gpus-iommu-faults": broken(**{**four, "kernel_log": log(fault)}),
        "bus-errors": broken(pci={"devices": (rough,)}, kernel_log=log()),
    }  # fmt: skip
