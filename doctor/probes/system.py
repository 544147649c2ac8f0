"""Operating system, C library and processor."""

from __future__ import annotations

import os
import platform
import re

from tfgpu_doctor.facts import System
from tfgpu_doctor.host import Host
from tfgpu_doctor.probe import probe

# Those that TensorFlow's own builds were ever compiled for, or report as unused (cpu_feature_guard.cc).
_FLAGS = ("sse4_1", "sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd")


@probe(waits_for="the operating system")
def system(host: Host) -> System:
    """Read /proc, /etc and the C library's own version."""
    release = host.files.text_if_any("/proc/sys/kernel/osrelease").strip() or platform.release()
    processor = host.files.text_if_any("/proc/cpuinfo")
    return System(
        os=platform.system(),
        release=release,
        architecture=platform.machine(),
        distribution=_distribution(host.files.text_if_any("/etc/os-release")),
        glibc=_glibc(),
        cpu_model=_cpu_model(processor),
        cpu_count=os.cpu_count() or 0,
        cpu_flags=_cpu_flags(processor),
        memory_bytes=_memory_bytes(host.files.text_if_any("/proc/meminfo")),
        wsl=_wsl(host.files.text_if_any("/proc/version") or release),
        board=host.files.text_if_any("/proc/device-tree/model").strip("\0 \n"),
    )


def _distribution(os_release: str) -> str:
    found = re.search(r"""^PRETTY_NAME=["']?([^"'\n]*)""", os_release, re.MULTILINE)
    return found.group(1) if found else ""


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


def _memory_bytes(meminfo: str) -> int | None:
    found = re.search(r"^MemTotal:\s*(\d+) kB", meminfo, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def _wsl(version: str) -> int:
    """WSL 2's kernel calls itself microsoft-standard-WSL2, WSL 1's only Microsoft."""
    if "microsoft" not in version.lower():
        return 0
    return 2 if "wsl2" in version.lower() or "microsoft-standard" in version.lower() else 1
