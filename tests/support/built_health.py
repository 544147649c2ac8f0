"""GPUs that are sound, and machines whose GPUs are not: what NVML tells of their health, built by hand."""

from __future__ import annotations

from typing import Any

import msgspec
from built_machines import cuda_that_fails, several, tensorflow_after, variables
from healthy import ANSWERED, broken, computation, cuda_gpu, gpu, nvml_gpu, runtime

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.health import (
    Clocks,
    Ecc,
    Fabric,
    GpuHealth,
    GpuTrouble,
    MigDevice,
    NvLink,
    Pcie,
    Power,
    RemappedRows,
    RetiredPages,
    Temperature,
)
from tfgpu_doctor.model.facts.machine import Container, PciDevice, PciLink
from tfgpu_doctor.model.facts.nvidia import GpuProcess, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Runtime

A100, H100, V100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB"
NVSWITCH = PciDevice(address="0000:85:00.0", vendor="10de", device="22a3", class_code="068000")
NOTEBOOK = GpuProcess(pid=2214, name="/home/anna/venv/bin/python", memory_bytes=14 << 30, user="anna")

# A GeForce at rest: its link and clocks are low, it has no ECC, and somebody draws on it.
GEFORCE = GpuHealth(
    remapped_rows=RemappedRows(banks={"all": 192, "most": 0, "some": 0, "few": 0, "none": 0}),
    temperature=Temperature(gpu_c=38, max_c=93, slowdown_c=95, shutdown_c=98),
    power=Power(draw_w=21.4, limit_w=350.0, enforced_limit_w=350.0, default_limit_w=350.0, min_limit_w=100.0,
                max_limit_w=365.0),
    clocks=Clocks(sm_mhz=210, memory_mhz=405, max_sm_mhz=2100, max_memory_mhz=9751),
    throttle_reasons=("gpu_idle",),
    performance_state=8,
    utilization_percent=0,
    pcie=Pcie(generation=1, width=16, max_generation=4, max_width=16, gpu_max_generation=4, replays=0),
    nvlinks=tuple(NvLink(index=link, active=False) for link in range(4)),
    mig_pending=None,
    persistence_mode=False,
    virtualization="none",
)  # fmt: skip
# A GPU of a server with NVSwitches, at work under its power cap.
SERVER = GpuHealth(
    ecc=Ecc(enabled=True, pending=True, volatile_corrected=0, volatile_uncorrected=0, aggregate_corrected=2,
            aggregate_uncorrected=0, sram_threshold_exceeded=False),
    remapped_rows=RemappedRows(corrected=1, banks={"all": 2559, "most": 1, "some": 0, "few": 0, "none": 0}),
    recovery_action="none",
    temperature=Temperature(gpu_c=61, memory_c=70, max_c=85, slowdown_c=87, shutdown_c=92, memory_max_c=95, margin_c=24),
    power=Power(draw_w=694.0, limit_w=700.0, enforced_limit_w=700.0, default_limit_w=700.0, min_limit_w=200.0,
                max_limit_w=700.0),
    clocks=Clocks(sm_mhz=1485, memory_mhz=2619, max_sm_mhz=1980, max_memory_mhz=2619),
    throttle_reasons=("sw_power_cap",),
    performance_state=0,
    utilization_percent=100,
    pcie=Pcie(generation=5, width=16, max_generation=5, max_width=16, gpu_max_generation=5, replays=3),
    nvlinks=tuple(NvLink(index=link, active=True, version=4, remote="switch") for link in range(18)),
    fabric=Fabric(state="completed"),
    mig_pending=False,
    persistence_mode=True,
    gsp_firmware="560.35.03",
    virtualization="none",
)  # fmt: skip


def changed(health: GpuHealth, **parts: Any) -> GpuHealth:
    """A GPU's health with some parts changed: `pcie={"width": 4}` changes fields, any other value replaces the part."""
    values = {
        name: msgspec.structs.replace(getattr(health, name), **value)
        if isinstance(value, dict) and isinstance(getattr(health, name), msgspec.Struct)
        else value
        for name, value in parts.items()
    }
    return msgspec.structs.replace(health, **values)


def workstation(health: GpuHealth = GEFORCE, **sections: Any) -> Facts:
    """The healthy workstation, whose GPU is well as given."""
    return broken(**{"nvml": {"gpus": (nvml_gpu(health=health),), "count": 1}, **sections})


def server(*health: GpuHealth, name: str = H100, **sections: Any) -> Facts:
    """A server with NVSwitches and as many GPUs as health is given, eight where none is."""
    rows = health or (SERVER,) * 8
    machine = several(len(rows), name=name, compute_capability="9.0", multiprocessors=132, memory_bytes=80 << 30)
    gpus = tuple(_of_server(index, name, each) for index, each in enumerate(rows))
    machine["nvml"] = {"gpus": gpus, "count": len(gpus)}
    machine["pci"] = {"devices": (*machine["pci"]["devices"], NVSWITCH), "device_count": 90}
    return broken(**{**machine, **sections})


def _of_server(index: int, name: str, health: GpuHealth) -> NvmlGpu:
    return nvml_gpu(
        index, name=name, compute_capability="9.0", memory_total_bytes=80 << 30, memory_free_bytes=79 << 30, mig=False,
        health=health,
    )  # fmt: skip


def without(index: int, trouble: GpuTrouble, **sections: Any) -> Facts:
    """A server of eight GPUs of which one is in trouble; CUDA and TensorFlow go on with seven."""
    machine = server()
    assert machine.nvml and machine.cuda_driver
    rest = tuple(each for each in machine.nvml.gpus if each.index != index)
    others = tuple(
        cuda_gpu(number, pci_address=each.pci_address[4:], name=H100, compute_capability="9.0", multiprocessors=132)
        for number, each in enumerate(rest)
    )
    seven = runtime(
        gpus=tuple(gpu(number, description=H100) for number in range(7)),
        computations=tuple(computation(op, number) for number in range(7) for op in ("matmul", "convolution")),
    )
    return broken(
        machine,
        **{
            "nvml": {"gpus": rest, "troubles": (trouble,)},
            "cuda_driver": {"gpus": others},
            "runtime": seven,
            **sections,
        },
    )


def hung(index: int = 3, **changes: Any) -> GpuTrouble:
    """A GPU that gave no answer to NVML."""
    fields = {"index": index, "name": H100, "uuid": f"GPU-3f6f3a5e-0000-0000-0000-00000000000{index}",
              "pci_address": f"00000000:0{index + 1}:00.0", "call": "nvmlDeviceGetPowerUsage", "seconds": 8.0}  # fmt: skip
    return GpuTrouble(**{**fields, **changes})


def in_slot_of(lanes: int, width: int, **parts: Any) -> Facts:
    """The workstation with its card in a slot of so many lanes, of which so many are in use."""
    device = PciDevice(
        address="0000:01:00.0", vendor="10de", device="2204", class_code="030000", driver="nvidia", power="active",
        port="0000:00:1c.4", link=PciLink(speed_gt_per_s=2.5, width=width, max_speed_gt_per_s=16.0, max_width=16),
        port_link=PciLink(speed_gt_per_s=2.5, width=width, max_speed_gt_per_s=16.0, max_width=lanes),
    )  # fmt: skip
    health = changed(GEFORCE, pcie={"width": width, "max_width": min(16, lanes)}, **parts)
    return workstation(health, pci={"devices": (device,)})


def slice_of_mig() -> Facts:
    """A pod that was given one MIG device of an A100, and may not ask much about the whole GPU."""
    uuid = "MIG-1f2e3d4c-0000-0000-0000-000000000000"
    part = MigDevice(uuid=uuid, profile="2g.20gb", memory_total_bytes=20 << 30, memory_free_bytes=19 << 30,
                     multiprocessors=28, gpu_instance=3, compute_instance=0)  # fmt: skip
    whole = nvml_gpu(
        name=A100, compute_capability="8.0", memory_total_bytes=80 << 30, memory_free_bytes=2 << 30, mig=True,
        mig_devices=(uuid,),
        health=GpuHealth(temperature=Temperature(gpu_c=55), mig_devices=(part,), mig_pending=True, persistence_mode=True,
                         nvlinks=tuple(NvLink(index=link, active=False) for link in range(12))),
    )  # fmt: skip
    own = cuda_gpu(name=f"{A100} MIG 2g.20gb", compute_capability="8.0", multiprocessors=28, memory_bytes=20 << 30)
    return broken(
        container=Container(kind="kubernetes", evidence=("$KUBERNETES_SERVICE_HOST is set",), shm_bytes=64 << 20),
        environment=variables(NVIDIA_VISIBLE_DEVICES=uuid),
        nvml={"gpus": (whole,), "count": 1},
        cuda_driver={"gpus": (own,)},
    )


def failing(error: str, *operations: str) -> Runtime:
    """TensorFlow lists the GPU, and its operations fail."""
    return runtime(
        computations=tuple(computation(each, largest_error=None, error=error) for each in operations), log=()
    )


def built() -> dict[str, Facts]:
    """Name to facts of every machine that is built here."""
    ecc = failing("InternalError: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered", "matmul")
    hot = changed(
        SERVER, temperature={"gpu_c": 88, "margin_c": -3}, clocks={"sm_mhz": 705}, power={"draw_w": 310.0},
        throttle_reasons=("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"),
    )  # fmt: skip
    down = changed(SERVER, nvlinks=tuple(NvLink(index=i, active=i not in (4, 5), remote="switch") for i in range(18)))
    waiting = changed(SERVER, fabric=Fabric(state="in_progress"), nvlinks=())
    lost = GpuTrouble(index=5, call="nvmlDeviceGetHandleByIndex", error_code=15, error_text="GPU is lost")
    volta = changed(
        SERVER, remapped_rows=None, retired_pages=RetiredPages(corrected=4, uncorrected=1, pending=True), fabric=None,
        nvlinks=tuple(NvLink(index=link, active=True, remote="gpu") for link in range(6)), recovery_action="",
    )  # fmt: skip
    return {
        "workstation-health-read": workstation(),
        "hgx-8-gpus-at-work": server(),
        "mig-slice-with-few-rights": slice_of_mig(),
        "a100-uncorrectable-ecc": server(
            changed(SERVER, ecc={"volatile_uncorrected": 2, "aggregate_uncorrected": 2}, recovery_action="gpu_reset",
                    remapped_rows={"uncorrected": 1, "pending": True}),
            name=A100, runtime=ecc,
        ),
        "h100-remapping-failed": server(changed(SERVER, remapped_rows={"uncorrected": 8, "failed": True})),
        "h100-rows-wait-for-reset": server(changed(SERVER, remapped_rows={"uncorrected": 1, "pending": True})),
        "v100-pages-wait-for-reboot": server(volta, name=V100),
        "h100-asks-for-reset": server(changed(SERVER, recovery_action="gpu_reset"), runtime=failing(
            "InternalError: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", "matmul")),
        "h100-too-hot": server(SERVER, hot),
        "power-limit-lowered": workstation(changed(GEFORCE, power={"enforced_limit_w": 220.0})),
        "geforce-in-slot-of-4-lanes": in_slot_of(4, 4),
        "geforce-badly-seated": in_slot_of(16, 1),
        "one-of-8-gpus-hangs": without(3, hung()),
        "one-of-8-gpus-is-lost": without(5, lost),
        "only-gpu-hangs": broken(
            nvml=Nvml(attempt=ANSWERED, driver_version="560.35.03", count=1, troubles=(hung(0),)),
            cuda_driver=cuda_that_fails(999, "CUDA_ERROR_UNKNOWN", gpus=()),
            runtime=tensorflow_after(999, "CUDA_ERROR_UNKNOWN"),
        ),
        "nvlinks-down": server(SERVER, down, SERVER, SERVER),
        "hgx-gpus-not-in-fabric": server(
            waiting, waiting, cuda_driver=cuda_that_fails(802, "CUDA_ERROR_SYSTEM_NOT_READY", gpus=()),
            runtime=tensorflow_after(802, "CUDA_ERROR_SYSTEM_NOT_READY"),
        ),
        "forgotten-notebook-holds-half": broken(
            nvml={"gpus": (nvml_gpu(processes=(NOTEBOOK,), memory_free_bytes=9 << 30, health=GEFORCE),), "count": 1},
        ),
        "vgpu-without-licence": workstation(
            GpuHealth(virtualization="vgpu", licensed=False, persistence_mode=True),
            cuda_driver=cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE", gpus=()),
            runtime=tensorflow_after(100, "CUDA_ERROR_NO_DEVICE"),
        ),
        "two-mig-devices-named": broken(
            slice_of_mig(), environment=variables(CUDA_VISIBLE_DEVICES="MIG-1f2e3d4c,MIG-5a6b7c8d"),
        ),
        "gpu-that-failed-to-start": broken(
            **{**several(2), "nvml": {"gpus": (nvml_gpu(),), "count": 1}, "cuda_driver": {"gpus": (cuda_gpu(),)}, "runtime": runtime()},
        ),
    }  # fmt: skip
