"""The stage of a rehearsal: a simulated driver that the target's processes find, and the facts of its machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

import msgspec

from tfgpu_doctor.collect.examination import Stage
from tfgpu_doctor.collect.ldso.search_path import split_list
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.facts.machine import Container, Pci, PciDevice, Scheduler
from tfgpu_doctor.model.facts.nvidia import DeviceNode, DeviceNodes, Driver
from tfgpu_doctor.rehearse.gpu import SimulatedGpu
from tfgpu_doctor.rehearse.machine import SimulatedMachine, supports, without_libraries
from tfgpu_doctor.rehearse.props import lay_out

_MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset")
_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
_NO_DEVICE_ID = "0000"  # the default of a simulated GPU
_CAPABILITY_OF = {"libcuda.so.1": "compute", "libnvidia-ml.so.1": "utility"}


def set_stage(machine: SimulatedMachine, driver: str, folder: str, environment: Mapping[str, str]) -> Stage:
    """Set up the simulated driver (built in the folder `driver`) in an empty folder. Raises OSError.

    Like the container toolkit, it leaves out the libraries that NVIDIA_DRIVER_CAPABILITIES does not request:
    https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
    """
    asked = {word.strip() for word in environment.get(_CAPABILITIES, "").split(",") if word.strip()}
    withheld = [name for name, word in _CAPABILITY_OF.items() if asked and not asked & {word, "all"}]
    machine = without_libraries(machine, withheld)
    variables = lay_out(folder, _as_driven(machine), driver, environment.get("LD_LIBRARY_PATH"))
    # A stub of the CUDA toolkit on the user's path hides a real driver, which is in ld.so.cache; simulate that here.
    folders = split_list(environment.get("LD_LIBRARY_PATH") or "")
    stubs = [each for each in folders if "/stubs" in each and Files().exists(f"{each}/libcuda.so.1")]
    variables["LD_LIBRARY_PATH"] = ":".join([*stubs, variables["LD_LIBRARY_PATH"]])
    return Stage(facts=simulated_facts(machine, in_container=bool(withheld)), variables=variables)


def _as_driven(machine: SimulatedMachine) -> SimulatedMachine:
    """Return the machine as its driver shows it: without the GPUs that the driver's branch does not support."""
    knowledge = read_knowledge()
    driven = tuple(gpu for gpu in machine.gpus if supports(machine.driver, gpu.compute_capability, knowledge))
    return msgspec.structs.replace(machine, gpus=driven)


def simulated_facts(machine: SimulatedMachine, *, in_container: bool = False) -> dict[str, Fact]:
    """Return the facts that the file probes would find on such a machine: GPUs on the bus, loaded driver, device nodes."""
    driven = _as_driven(machine).gpus
    addresses = tuple(gpu.pci_address.lower() for gpu in driven)
    names = [*(f"nvidia{place}" for place in range(len(addresses))), "nvidiactl", "nvidia-uvm"]
    devices = tuple(_on_the_bus(gpu, is_driven=gpu in driven) for gpu in machine.gpus)
    kernel = platform.release()
    container = Container(kind="docker", evidence=(f"${_CAPABILITIES} is set",)) if in_container else Container()
    return {
        "pci": Pci(devices=devices, device_count=len(devices)),
        "driver": Driver(
            version=machine.driver, modules=_MODULES, gpus=addresses, built_for=(kernel,), running_kernel=kernel
        ),
        "device_nodes": DeviceNodes(
            nodes=tuple(DeviceNode(path=f"/dev/{name}", mode="0666", uid=0, gid=0) for name in names),
            opening=Attempt(outcome="answered"),
            uid=os.getuid(),
        ),
        "container": container,
        "scheduler": Scheduler(),
    }


def _on_the_bus(gpu: SimulatedGpu, *, is_driven: bool) -> PciDevice:
    """Return a GPU as the PCI bus shows it. Of one that no driver drives, only the device id tells what it is."""
    device = gpu.pci_device
    model = None if is_driven or device != _NO_DEVICE_ID else read_knowledge().gpu_named(gpu.name or "")
    return PciDevice(
        address=gpu.pci_address.lower(),
        vendor="10de",
        device=model.pci_ids[0] if model and model.pci_ids else device,
        class_code="030200",
        driver="nvidia" if is_driven else "",
    )
