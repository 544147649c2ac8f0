"""Facts of the machine around the GPUs: what SuperBench's record and a kernel log state of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tfgpu_doctor.collect.probes.system import _FLAGS
from tfgpu_doctor.model.facts.hosting import Hosting
from tfgpu_doctor.model.facts.kernel import Services
from tfgpu_doctor.model.facts.machine import NumaNode, Pci, System
from tfgpu_doctor.model.facts.nvidia import Driver

_MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nouveau")
_UNAME = re.compile(r"Linux \S+ (\S+) #.* (\w+) GNU/Linux\s*")
_TRACE = re.compile(r"CPU: \d+ PID: \d+ Comm: .* (\d+\.\d+\.\d+\S*) #\d")
_HARDWARE = re.compile(r"Hardware name: (.+?), BIOS")
_BANK = re.compile(r"^\tSize: (\d+) (MB|GB)$", re.MULTILINE)
_MANAGER = re.compile(r"version is : (\S+)")
_UNITS = {"MB": 1 << 20, "GB": 1 << 30}


def system_of(record: dict[str, Any]) -> System:
    """Kernel, CPU and memory; the memory is the sum of the banks that dmidecode lists."""
    cpu, uname = record["CPU"], _UNAME.fullmatch(record["System"]["uname"])
    flags = set(cpu["Flags"].split())
    banks = [int(size) * _UNITS[unit] for size, unit in _BANK.findall(record["System"]["dmidecode"])]
    pages = record["System"]["kernel_parameters"].get("vm.nr_hugepages")
    return System(
        os="Linux",
        release=uname[1] if uname else "",
        architecture=cpu["Architecture"],
        cpu_model=cpu["Model name"],
        cpu_count=int(cpu["CPU(s)"]),
        cpu_flags=tuple(flag for flag in _FLAGS if flag in flags),
        memory_bytes=sum(banks) or None,
        huge_pages=int(pages) if pages else None,
        numa_nodes=tuple(_nodes(cpu)),
    )


def _nodes(cpu: dict[str, Any]) -> Iterator[NumaNode]:
    for name, value in cpu.items():
        if found := re.fullmatch(r"NUMA node(\d+) CPU\(s\)", name):
            yield NumaNode(number=int(found[1]), cpu_list=value)


def driver_of(record: dict[str, Any], system: System, pci: Pci | None) -> Driver:
    """The loaded modules, and the GPUs that lspci shows bound to NVIDIA's driver."""
    loaded = {row["Module"] for row in record["System"]["kernel_modules"]}
    return Driver(
        version=record["Accelerator"]["nvidia_info"]["driver_version"],
        modules=tuple(name for name in _MODULES if name in loaded),
        gpus=tuple(each.address for each in pci.nvidia_gpus if each.driver == "nvidia") if pci else (),
        running_kernel=system.release,
    )


def hosting_of(record: dict[str, Any]) -> Hosting:
    """Maker and model of the machine."""
    return Hosting(vendor=record["System"]["system_manufacturer"], product=record["System"]["system_product"])


def services_of(record: dict[str, Any]) -> Services | None:
    """The installed version of the fabric manager; no record says which services run."""
    found = _MANAGER.search(record["Accelerator"]["nvidia-fabricmanager_version"])
    return Services(fabric_manager_version=found[1]) if found else None


def system_of_kernel(text: str) -> System:
    """The Linux kernel that NVRM, NVIDIA's part of it, speaks for; with its release where a stack trace names it."""
    found = _TRACE.search(text)
    return System(os="Linux", release=found[1] if found else "", architecture="")


def hosting_in_trace(text: str) -> Hosting | None:
    """The machine that a stack trace names."""
    found = _HARDWARE.search(text)
    return Hosting(product=found[1]) if found else None
