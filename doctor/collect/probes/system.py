"""Operating system, C library, CPU and memory."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.machine import NumaNode, System

# Those that TensorFlow's own builds were ever compiled for, or report as unused (cpu_feature_guard.cc).
_FLAGS = ("sse4_1", "sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd")
_OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")  # Clear Linux and images without /etc have the second only
_NODES = "/sys/devices/system/node"
_SYSCTL_S = 5.0


@probe(waits_for="the operating system")
def system(host: Host) -> System:
    """Read /proc, /etc and the C library's own version."""
    release = host.files.text_if_any("/proc/sys/kernel/osrelease").strip() or platform.release()
    processor = host.files.text_if_any("/proc/cpuinfo")
    memory = host.files.text_if_any("/proc/meminfo")
    return System(
        os=platform.system(),
        release=release,
        architecture=platform.machine(),
        distribution=_distribution(host) or _other_system(),
        glibc=_glibc(),
        cpu_model=_cpu_model(processor) or _apples_chip(host),
        cpu_count=os.cpu_count() or 0,
        cpu_flags=_cpu_flags(processor),
        memory_bytes=_bytes(memory, "MemTotal"),
        memory_free_bytes=_bytes(memory, "MemFree"),
        memory_available_bytes=_bytes(memory, "MemAvailable"),
        swap_bytes=_bytes(memory, "SwapTotal"),
        huge_pages=_number(memory, "HugePages_Total"),
        transparent_huge_pages=_chosen(host.files.text_if_any("/sys/kernel/mm/transparent_hugepage/enabled")),
        numa_nodes=tuple(_nodes(host)),
        rdma_devices=tuple(name for name in host.files.names_if_any("/dev/infiniband") if name.startswith("uverbs")),
        wsl=_wsl(host.files.text_if_any("/proc/version") or release),
        board=host.files.text_if_any("/proc/device-tree/model").strip("\0 \n"),
    )


def _distribution(host: Host) -> str:
    """The name in the first of the two files of os-release(5) that there is, or else what it consists of."""
    text = next((text for path in _OS_RELEASE if (text := host.files.text_if_any(path).strip())), "")
    rows = dict(re.findall(r"""^(PRETTY_NAME|NAME|VERSION)=["']?([^"'\n]*)""", text, re.MULTILINE))
    return (rows.get("PRETTY_NAME") or f"{rows.get('NAME', '')} {rows.get('VERSION', '')}").strip()


def _glibc() -> str:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, ValueError, OSError):
        return ""
    return version if name == "glibc" else ""


def _cpu_model(cpuinfo: str) -> str:
    found = re.search(r"^model name[ \t]*:[ \t]*(.*)$", cpuinfo, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _cpu_flags(cpuinfo: str) -> tuple[str, ...] | None:
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo, re.MULTILINE)
    if not found:
        return None
    present = set(found.group(1).split())
    return tuple(flag for flag in _FLAGS if flag in present)


def _bytes(meminfo: str, name: str) -> int | None:
    kibibytes = _number(meminfo, name)
    return None if kibibytes is None else kibibytes * 1024


def _number(meminfo: str, name: str) -> int | None:
    found = re.search(rf"^(?:Node \d+ )?{name}:\s*(\d+)", meminfo, re.MULTILINE)
    return int(found.group(1)) if found else None


def _chosen(text: str) -> str:
    """The one in brackets: "always [madvise] never"."""
    found = re.search(r"\[(\w+)\]", text)
    return found.group(1) if found else ""


def _nodes(host: Host) -> Iterator[NumaNode]:
    """The memory nodes that sysfs shows; those without CPUs are another device's memory."""
    for name in host.files.names_if_any(_NODES):
        if re.fullmatch(r"node\d+", name):
            yield NumaNode(
                number=int(name.removeprefix("node")),
                cpu_list=host.files.text_if_any(f"{_NODES}/{name}/cpulist").strip(),
                memory_bytes=_bytes(host.files.text_if_any(f"{_NODES}/{name}/meminfo"), "MemTotal"),
            )


def _other_system() -> str:
    """Name and version of a system that has no os-release: "macOS 14.5", "Windows 11"."""
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}".strip()
    return f"Windows {platform.release()}" if platform.system() == "Windows" else ""


def _apples_chip(host: Host) -> str:
    if platform.system() != "Darwin":
        return ""
    done = host.run(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], deadline_s=_SYSCTL_S)
    return done.stdout.decode("utf-8", "replace").strip() if done.exit_code == 0 else ""


def _wsl(version: str) -> int:
    """WSL 2's kernel is named microsoft-standard-WSL2, WSL 1's only Microsoft."""
    if "microsoft" not in version.lower():
        return 0
    return 2 if "wsl2" in version.lower() or "microsoft-standard" in version.lower() else 1
