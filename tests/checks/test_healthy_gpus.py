"""GPUs that are well, however odd their readings look: no check raises an alarm about them."""

from __future__ import annotations

from typing import Any

import pytest
from built_health import A100, GEFORCE, H100, NVSWITCH, SERVER, changed, in_slot_of, server, slice_of_mig, workstation
from built_machines import DOCKER, several, variables, wsl
from every import every
from healthy import broken, cuda_gpu, nvml_gpu, runtime
from msgspec.structs import replace

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.health import (
    Clocks,
    Ecc,
    Fabric,
    GpuHealth,
    MigDevice,
    NvLink,
    Pcie,
    Power,
    Temperature,
)
from tfgpu_doctor.model.facts.machine import Pci, Scheduler
from tfgpu_doctor.model.facts.nvidia import GpuProcess

LAPTOP = "NVIDIA GeForce RTX 4060 Laptop GPU"
DESKTOP = GpuProcess(pid=1200, name="/usr/lib/xorg/Xorg", computes=False, memory_bytes=1 << 30)
UNKNOWN_LINK = Pcie(generation=1, width=16, max_generation=1, max_width=16)


def only(health: GpuHealth, name: str = "NVIDIA GeForce RTX 3090", **sections: Any) -> Facts:
    """The workstation with a GPU of that name and health."""
    return broken(**{"nvml": {"gpus": (nvml_gpu(name=name, health=health),), "count": 1}, **sections})


def sixteen() -> Facts:
    """Sixteen GPUs behind switches, at addresses of two hexadecimal digits."""
    machine, places = server(*(SERVER,) * 16), [f"0000:{16 + index:02x}:00.0" for index in range(16)]
    assert machine.nvml and machine.cuda_driver and machine.pci
    device = machine.pci.devices[0]
    return broken(
        machine,
        nvml={"gpus": tuple(replace(each, pci_address=f"0000{at}") for each, at in zip(machine.nvml.gpus, places, strict=True))},
        cuda_driver={"gpus": tuple(replace(each, pci_address=at) for each, at in zip(machine.cuda_driver.gpus, places, strict=True))},
        pci={"devices": (*(replace(device, address=at) for at in places), NVSWITCH)},
        driver={"gpus": tuple(places)},
    )  # fmt: skip


def machines() -> dict[str, Facts]:
    t4 = changed(SERVER, ecc=Ecc(enabled=True, volatile_uncorrected=0), pcie=Pcie(generation=1, width=8, max_generation=3, max_width=16),
                 performance_state=8, utilization_percent=0, nvlinks=(), fabric=None, remapped_rows=None,
                 temperature=Temperature(gpu_c=79, max_c=85, slowdown_c=93, shutdown_c=96), throttle_reasons=("gpu_idle",),
                 power={"draw_w": 17.0, "limit_w": 70.0, "enforced_limit_w": 70.0, "default_limit_w": 70.0})  # fmt: skip
    laptop = changed(GEFORCE, pcie=Pcie(generation=1, width=8, max_generation=4, max_width=16), nvlinks=(),
                     power=Power(draw_w=4.2, enforced_limit_w=60.0, default_limit_w=115.0, min_limit_w=5.0, max_limit_w=140.0),
                     temperature=Temperature(gpu_c=49, max_c=87, slowdown_c=102, shutdown_c=105))  # fmt: skip
    windows = GpuHealth(temperature=Temperature(gpu_c=44), power=Power(draw_w=30.0), performance_state=8,
                        clocks=Clocks(sm_mhz=210, max_sm_mhz=2100), pcie=UNKNOWN_LINK, throttle_reasons=("gpu_idle",),
                        utilization_percent=3)  # fmt: skip
    guest = GpuHealth(virtualization="vgpu", licensed=True, ecc=Ecc(enabled=True), persistence_mode=True)
    unified = GpuHealth(temperature=Temperature(gpu_c=51, margin_c=34), power=Power(draw_w=11.0), performance_state=8,
                        clocks=Clocks(sm_mhz=208, max_sm_mhz=3003), throttle_reasons=("gpu_idle",), nvlinks=(),
                        pcie=Pcie(generation=1, width=1, max_generation=5, max_width=16), persistence_mode=True)  # fmt: skip
    passed_through = changed(SERVER, virtualization="passthrough", pcie=Pcie(generation=1, width=1, max_generation=5, max_width=16),
                             nvlinks=tuple(NvLink(index=link, active=False) for link in range(18)),
                             fabric=Fabric(state="in_progress"))  # fmt: skip
    slices = tuple(MigDevice(uuid=f"MIG-{place}", profile="1g.10gb", memory_total_bytes=10 << 30) for place in range(7))
    divided = nvml_gpu(name=A100, mig=True, mig_devices=tuple(each.uuid for each in slices),
                       health=GpuHealth(mig_devices=slices, mig_pending=True))  # fmt: skip
    four = several(4, name=H100)
    four["nvml"] = {"gpus": tuple(nvml_gpu(i, name=H100, health=SERVER) for i in range(4)), "count": 4}
    one = {"cuda_driver": {"gpus": (cuda_gpu(name=H100),)}, "runtime": runtime()}
    return {
        "a workstation at rest": workstation(),
        "a desktop that draws": only(changed(GEFORCE, performance_state=5)),
        "eight GPUs at work": server(),
        "a laptop with 8 lanes": only(laptop, LAPTOP),
        "a laptop with 4 lanes": only(changed(laptop, pcie={"width": 4}), LAPTOP),
        "a card in a slot of 8 lanes": in_slot_of(8, 8),
        "a T4 without a fan": only(t4, "Tesla T4"),
        "WSL 2": wsl(2, nvml={"gpus": (nvml_gpu(health=windows),), "count": 1}),
        "WSL 2 that tells nothing": wsl(2, nvml={"gpus": (nvml_gpu(health=GpuHealth()),), "count": 1}),
        "a guest with a vGPU": only(guest, "GRID A100-10C"),
        "a guest with a whole GPU": only(passed_through, H100),
        "a GB10 with unified memory": broken(
            nvml={"gpus": (nvml_gpu(name="NVIDIA GB10", memory_total_bytes=None, memory_free_bytes=None, health=unified),)},
        ),
        "sixteen GPUs": sixteen(),
        "eight GPUs, one without ECC": server(*(SERVER,) * 7, changed(SERVER, ecc=Ecc(enabled=False), remapped_rows=None)),
        "a driver that tells little": only(GpuHealth(temperature=Temperature(gpu_c=40), power=Power(draw_w=30.0))),
        "a GH200 whose memory holds the kernel's files": broken(
            nvml={"gpus": (nvml_gpu(name="NVIDIA GH200 480GB", memory_total_bytes=96 << 30, memory_free_bytes=20 << 30, health=changed(
                SERVER, chip_to_chip=True, pcie=Pcie(generation=4, width=1, max_width=16), nvlinks=(), fabric=None)),), "count": 1},
        ),
        "a confidential guest": server(changed(SERVER, virtualization="passthrough", nvlinks=(), fabric=None, pcie=Pcie())),
        "two cards of which one draws": server(GEFORCE, GEFORCE, name="NVIDIA RTX A6000", nvml={"gpus": (
            nvml_gpu(0, health=GEFORCE, memory_free_bytes=20 << 30, processes=(DESKTOP,)), nvml_gpu(1, health=GEFORCE))}),
        "clients of MPS": broken(nvml={"gpus": (nvml_gpu(compute_mode="exclusive_process", health=GEFORCE, processes=(
            GpuProcess(pid=7, name="nvidia-cuda-mps-server", memory_bytes=30 << 20), GpuProcess(pid=8, name="python"))),)}),
        "a slice of MIG": slice_of_mig(),
        "seven slices of MIG": broken(
            nvml={"gpus": (divided,)}, cuda_driver={"gpus": (cuda_gpu(name=f"{A100} MIG 1g.10gb"),)},
        ),
        "one of four granted by Slurm": broken(
            **{**four, **one, "scheduler": Scheduler(kind="slurm", job="7"), "environment": variables(CUDA_VISIBLE_DEVICES="0")}
        ),
        "one of four handed into a container": broken(
            **{**four, **one, "nvml": {"gpus": (nvml_gpu(name=H100, health=SERVER),), "count": 1}, "container": DOCKER}
        ),
        "two cards without a bridge": server(*[changed(GEFORCE, persistence_mode=True)] * 2, name="NVIDIA RTX A6000"),
        "a GPU in a sandbox that hides the bus": workstation(pci=None),
        "a machine whose bus is empty": workstation(pci=Pci(device_count=3)),
    }  # fmt: skip


@every("name", machines())
def test_nothing_is_wrong(name: str) -> None:
    report = diagnose(machines()[name])
    assert [(cause.id, cause.title) for cause in report.causes] == []
    assert [result.reason for result in report.results if result.outcome == "crash"] == []
    assert report.healthy


@pytest.mark.parametrize(
    "fact", ["pci", "cuda_driver", "runtime", "environment", "container", "scheduler", "device_nodes"]
)
@pytest.mark.parametrize("name", ["a workstation at rest", "eight GPUs at work", "a slice of MIG"])
def test_a_fact_that_is_missing_is_no_fault(name: str, fact: str) -> None:
    report = diagnose(broken(machines()[name], **{fact: None}))
    assert [cause.title for cause in report.causes] == []
