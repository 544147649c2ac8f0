"""The probe of operating system and processor."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probes.system import system
from tfgpu_doctor.host import Host

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

RYZEN = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 33
model name\t: AMD Ryzen 9 5950X 16-Core Processor
stepping\t: 0
flags\t\t: fpu vme de pse tsc msr sse sse2 ht syscall nx lm pni ssse3 fma cx16 sse4_1 sse4_2 popcnt aes xsave avx f16c avx2
bugs\t\t: sysret_ss_attrs null_seg spectre_v1 spectre_v2
bogomips\t: 6787.03

processor\t: 1
vendor_id\t: AuthenticAMD
model name\t: another one
flags\t\t: fpu avx512f
"""
GRAVITON = """\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""
WITHOUT_AVX = """\
processor\t: 0
model name\t: QEMU Virtual CPU version 2.5+
flags\t\t: fpu de pse tsc msr pae mce cx8 apic sse sse2 ht syscall nx lm cpuid tsc_known_freq pni cx16 hypervisor
vmx flags\t: avx avx2
"""
UBUNTU = """\
PRETTY_NAME="Ubuntu 24.04.1 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.1 LTS (Noble Numbat)"
ID=ubuntu
ID_LIKE=debian
HOME_URL="https://www.ubuntu.com/"
"""
GENERIC = (
    "Linux version 6.8.0-48-generic (buildd@lcy02-amd64-010) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0) 13.2.0) #48\n"
)
WSL2 = "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1) (gcc (GCC) 11.2.0, GNU ld 2.37) #1 SMP\n"
EARLY_WSL2 = "Linux version 4.19.43-microsoft-standard (oe-user@oe-host) (gcc version 7.3.0 (GCC)) #1 SMP\n"
WSL1 = (
    "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) (gcc version 5.4.0 (GCC) ) #1237-Microsoft Sat Sep\n"
)
AZURE = (
    "Linux version 6.5.0-1025-azure (buildd@lcy02-amd64-066) (x86_64-linux-gnu-gcc-11 (Ubuntu 11.4.0)) #26~22.04.1\n"
)


def test_a_processor_of_x86(machine: Machine) -> None:
    machine.file("/proc/cpuinfo", RYZEN)
    found = machine.ask(system)
    assert found.cpu_model == "AMD Ryzen 9 5950X 16-Core Processor"
    assert found.cpu_flags == ("sse4_1", "sse4_2", "avx", "avx2", "fma")


def test_a_processor_of_arm(machine: Machine) -> None:
    machine.file("/proc/cpuinfo", GRAVITON)
    found = machine.ask(system)
    assert (found.cpu_model, found.cpu_flags) == ("", ("asimd",))


def test_a_processor_without_avx_has_been_looked_at(machine: Machine) -> None:
    machine.file("/proc/cpuinfo", WITHOUT_AVX)
    assert machine.ask(system).cpu_flags == ()


@pytest.mark.parametrize("content", [None, "", "processor\t: 0\nBogoMIPS\t: 48.00\n", "\0\x01 junk"])
def test_a_processor_that_does_not_say_is_unknown(machine: Machine, content: str | None) -> None:
    if content is not None:
        machine.file("/proc/cpuinfo", content)
    found = machine.ask(system)
    assert (found.cpu_model, found.cpu_flags) == ("", None)


def test_an_empty_model_name_is_no_name(machine: Machine) -> None:
    machine.file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: \nstepping\t: 3\nflags\t\t: fpu avx\n")
    assert machine.ask(system).cpu_model == ""


@pytest.mark.parametrize(
    ("os_release", "name"),
    [
        (UBUNTU, "Ubuntu 24.04.1 LTS"),
        ('NAME="Arch Linux"\nPRETTY_NAME="Arch Linux"\nID=arch\n', "Arch Linux"),
        ("NAME=Fedora\nPRETTY_NAME=Fedora\n", "Fedora"),
        ('NAME="CentOS Linux"\nVERSION="7 (Core)"\n\nPRETTY_NAME="CentOS Linux 7 (Core)"\n', "CentOS Linux 7 (Core)"),
        ('NAME="no pretty one"\nVERSION="3 (three)"\n', "no pretty one 3 (three)"),
        ("ID=x\n", ""),
        ("", ""),
        ("PRETTY_NAME=", ""),
    ],
)
def test_the_distribution_is_its_pretty_name(machine: Machine, os_release: str, name: str) -> None:
    machine.file("/etc/os-release", os_release)
    assert machine.ask(system).distribution == name


def test_os_release_without_a_file_in_etc(machine: Machine) -> None:
    """As Clear Linux has it, and os-release(5) says."""
    machine.file("/usr/lib/os-release", UBUNTU)
    assert machine.ask(system).distribution == "Ubuntu 24.04.1 LTS"
    machine.file("/etc/os-release", "PRETTY_NAME='Another 1'\n")
    assert machine.ask(system).distribution == "Another 1"


def test_os_release_behind_its_usual_link_is_read(machine: Machine) -> None:
    machine.file("/usr/lib/os-release", UBUNTU)
    machine.link("/etc/os-release", "../usr/lib/os-release")
    assert machine.ask(system).distribution == "Ubuntu 24.04.1 LTS"


def test_single_quotes_are_quotes_too(machine: Machine) -> None:
    machine.file("/etc/os-release", "PRETTY_NAME='Void Linux'\n")
    assert machine.ask(system).distribution == "Void Linux"


@pytest.mark.parametrize(
    ("version", "wsl"), [(GENERIC, 0), (AZURE, 0), (WSL1, 1), (WSL2, 2), (EARLY_WSL2, 2), ("junk\0\xff", 0)]
)
def test_wsl_is_told_by_the_kernels_name(machine: Machine, version: str, wsl: int) -> None:
    machine.file("/proc/version", version)
    machine.file("/proc/sys/kernel/osrelease", version.split()[2] + "\n" if len(version.split()) > 2 else "")
    assert machine.ask(system).wsl == wsl


def test_wsl_is_told_by_the_release_where_there_is_no_version(machine: Machine) -> None:
    machine.file("/proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")
    found = machine.ask(system)
    assert (found.release, found.wsl) == ("5.15.153.1-microsoft-standard-WSL2", 2)


def test_memory_is_in_bytes(machine: Machine) -> None:
    machine.file("/proc/meminfo", "MemTotal:       65764724 kB\nMemFree:         1234567 kB\nSwapTotal: 1 kB\n")
    assert machine.ask(system).memory_bytes == 65764724 * 1024


@pytest.mark.parametrize("meminfo", ["", "MemTotal:", "MemTotal: lots\n", "SwapTotal: 5 kB\n"])
def test_memory_that_is_not_told_is_unknown(machine: Machine, meminfo: str) -> None:
    machine.file("/proc/meminfo", meminfo)
    assert machine.ask(system).memory_bytes is None


def test_a_jetson_names_its_board(machine: Machine) -> None:
    machine.file("/proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
    assert machine.ask(system).board == "NVIDIA Jetson AGX Orin Developer Kit"


def test_a_machine_without_files_is_still_described(machine: Machine) -> None:
    found = machine.ask(system)
    assert (found.os, found.architecture) == (platform.system(), platform.machine())
    assert found.release == platform.release()
    assert (found.distribution, found.wsl, found.board, found.memory_bytes) == ("", 0, "", None)


def test_this_machine_is_described_as_it_is() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("the files are those of Linux")
    found = system.function(host=Host())
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found.memory_bytes is not None
    assert abs(found.memory_bytes - pages) < pages / 100
    assert found.cpu_count == os.cpu_count()
    assert found.release == platform.release()
    if platform.libc_ver()[0] == "glibc":
        assert found.glibc == platform.libc_ver()[1]


def test_memory_that_is_free_and_available(machine: Machine) -> None:
    machine.file(
        "/proc/meminfo",
        "MemTotal: 100 kB\nMemFree: 40 kB\nMemAvailable: 70 kB\nSwapTotal: 8 kB\nHugePages_Total:      12\n",
    )
    machine.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    found = machine.ask(system)
    assert (found.memory_free_bytes, found.memory_available_bytes, found.swap_bytes) == (40960, 71680, 8192)
    assert (found.huge_pages, found.transparent_huge_pages) == (12, "madvise")


def test_the_nodes_of_a_machine_with_two_sockets(machine: Machine) -> None:
    machine.file("/sys/devices/system/node/node0/cpulist", "0-15,32-47\n")
    machine.file("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1000 kB\nNode 0 MemFree: 5 kB\n")
    machine.file("/sys/devices/system/node/node1/cpulist", "\n")
    machine.file("/sys/devices/system/node/online", "0-1\n")
    found = machine.ask(system).numa_nodes
    assert [(node.number, node.cpu_list, node.memory_bytes) for node in found] == [
        (0, "0-15,32-47", 1_024_000), (1, "", None),
    ]  # fmt: skip


def test_infiniband_is_what_programs_may_open(machine: Machine) -> None:
    for name in ("uverbs0", "uverbs1", "rdma_cm", "umad0"):
        machine.file(f"/dev/infiniband/{name}")
    assert machine.ask(system).rdma_devices == ("uverbs0", "uverbs1")
