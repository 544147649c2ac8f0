"""Machines whose driver or device is at fault."""

from __future__ import annotations

from lab import roots
from lab.machine import A100, H100, NO_DRIVER, NO_GPUS, OLD, RTX_3090, Machine, driver, gpu
from lab.roots import having, lacking

_TENANT = {"pid": 4194242, "name": "/usr/bin/python3", "memory_bytes": 9 << 30}
_SHORT = ("--deadline", "30")

DRIVERS = (
    Machine("driver-not-installed", "no_nvidia_driver", done=(roots.not_loaded,), driver=NO_DRIVER),
    Machine("driver-without-user-space", "no_nvidia_driver", "libcuda.so.1", driver=NO_DRIVER),
    Machine("driver-without-device-nodes", "no_nvidia_driver", "/dev/nvidia0", done=(roots.without_nodes,),
            driver=driver(cuInit=100)),
    Machine("nouveau-holds-gpu", "nouveau_loaded", done=(roots.bound_to("nouveau"),), driver=NO_DRIVER),
    Machine("secure-boot-refuses-module", "secure_boot_blocks_module", driver=NO_DRIVER,
            done=(roots.not_loaded, roots.module_built_for(roots.KERNEL), roots.with_secure_boot)),
    Machine("kernel-upgraded", "kernel_module_not_built_for_kernel", "6.8.0-45-generic", driver=NO_DRIVER,
            done=(roots.not_loaded, roots.module_built_for("6.8.0-45-generic"),
                  having(f"lib/modules/{roots.KERNEL}/modules.dep", "kernel/drivers/video/video.ko.zst:\n"))),
    Machine("modules-of-running-kernel-removed", "reboot_pending", "holds no modules", driver=NO_DRIVER,
            done=(roots.not_loaded, roots.module_built_for("6.8.0-45-generic"))),
    Machine("no-gpu", "no_gpu_in_machine", done=(roots.without_gpu,), driver=NO_DRIVER),
    Machine("switched-off-by-prime-select", "optimus_gpu_powered_off", "prime-discrete", driver=NO_DRIVER,
            done=(roots.without_gpu, roots.with_intel_gpu, having("etc/prime-discrete", "off\n"))),
    Machine("switched-off-by-bbswitch", "optimus_gpu_powered_off", "bbswitch", driver=NO_DRIVER,
            done=(roots.not_loaded, roots.with_intel_gpu, having("proc/acpi/bbswitch", "0000:01:00.0 OFF\n"))),
    Machine("kepler-with-newer-driver", "driver_does_not_support_gpu", "10de:102d", driver=NO_GPUS,
            done=(having("sys/bus/pci/devices/0000:01:00.0/device", "0x102d\n"),
                  lacking("proc/driver/nvidia/gpus/*", "sys/bus/pci/devices/*/driver", "dev/nvidia0"))),
    Machine("uvm-not-loaded", "nvidia_uvm_missing", "999", driver=driver(cuInit=999),
            done=(lacking("dev/nvidia-uvm", "sys/module/nvidia_uvm"),)),
    Machine("uvm-not-in-container", "nvidia_uvm_missing", "/dev/nvidia-uvm", driver=driver(cuInit=999),
            done=(roots.in_docker, lacking("dev/nvidia-uvm"))),
    Machine("uvm-lost-in-suspend", "uvm_broken_after_suspend", "3 times", driver=driver(cuInit=999),
            done=(having("sys/power/suspend_stats/success", "3\n"),)),
    Machine("half-upgraded", "driver_library_version_mismatch", "550.90.07",
            driver=driver(version="550.90.07", cuInit=803, nvmlInit=18)),
    Machine("half-upgraded-geforce", "driver_library_version_mismatch", "804",
            driver=driver(version="550.90.07", cuInit=804, nvmlInit=18)),
    Machine("driver-of-cuda-11", "driver_too_old", OLD, done=(roots.of_driver(OLD),), driver=driver(version=OLD)),
    Machine("driver-of-cuda-11-and-2.18.1", "driver_too_old", OLD, done=(roots.of_driver(OLD),), target="2.18.1",
            driver=driver(version=OLD), library_path=()),
    Machine("exclusive-and-taken", "exclusive_compute_mode", "4194242",
            driver=driver(gpu(A100["name"], compute_mode="exclusive_process", processes=[_TENANT]))),
    Machine("compute-prohibited", "exclusive_compute_mode", "prohibited",
            driver=driver(gpu(A100["name"], compute_mode="prohibited"))),
    Machine("fabric-manager-stopped", "fabric_manager_not_running", "NVSwitch", done=(roots.with_nvswitch,),
            driver=driver(*[H100] * 8, cuInit=802)),
    Machine("mig-without-instances", "mig_single_instance_per_process", "no MIG instance",
            driver=driver(gpu(A100["name"], mig_mode=True))),
    Machine("nodes-for-group-video", "device_node_permission_denied", "0660", done=(roots.nodes_for_group_video,),
            driver=driver(cuInit=100, nvmlInit=4), under=roots.ANOTHER_USER, as_root=True),
    Machine("cuinit-hangs", "gpu_hang", "cuInit", driver=driver(cuInit="hang"), options=_SHORT),
    Machine("cuinit-crashes", "undetermined", "SIGSEGV", driver=driver(cuInit="crash")),
    Machine("nvml-hangs", "gpu_hang", "NVML", driver=driver(nvmlDeviceGetHandleByIndex="hang"), options=_SHORT),
    Machine("gpu-off-the-bus", "gpu_lost", "GPU is lost",
            driver=driver(gpu(RTX_3090["name"], faults={"nvmlDeviceGetHandleByIndex": 15}), cuInit=100)),
)  # fmt: skip
