"""The NVIDIA kernel driver: what is loaded, what is installed for which kernel, and what may prevent loading."""

from __future__ import annotations

import platform
import re

from tfgpu_doctor.collect.probe import Unavailable, probe
from tfgpu_doctor.collect.probes.module_files import MODULE
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.nvidia import Driver

_MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nouveau", "nova_core")
_PARAMETERS = ("RmProfilingAdminOnly", "PreserveVideoMemoryAllocations", "ModifyDeviceFiles", "DeviceFileMode")
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"  # UEFI's global variables
# What the integrated mode of EnvyControl (UDEV_INTEGRATED_PATH in its source; /lib until 3.4) and of supergfxd
# (MODPROBE_INTEGRATED) writes.
_REMOVE_RULES = ("/etc/udev/rules.d/50-remove-nvidia.rules", "/lib/udev/rules.d/50-remove-nvidia.rules")
_SUPERGFXD = "/etc/modprobe.d/supergfxd.conf"
_SECURE_BOOT_BYTES = 5  # four bytes of attributes, then the value


@probe(waits_for="the kernel driver")
def driver(host: Host) -> Driver:
    """Read /proc/driver/nvidia, /sys/module and /lib/modules, and settings that may have switched a laptop's GPU off."""
    try:
        text = host.files.read_text("/proc/driver/nvidia/version")
    except FileNotFoundError:
        text = ""
    except OSError as error:
        raise Unavailable(f"/proc/driver/nvidia/version cannot be read ({error.strerror})") from error
    version, flavour = parse_version(text)
    running = (host.files.text_if_any("/proc/sys/kernel/osrelease") or platform.release()).strip()
    return Driver(
        version=version or host.files.text_if_any("/sys/module/nvidia/version").strip(),
        flavour=flavour,
        modules=tuple(name for name in _MODULES if host.files.exists(f"/sys/module/{name}")),
        gpus=tuple(host.files.names_if_any("/proc/driver/nvidia/gpus")),
        parameters=parse_parameters(host.files.text_if_any("/proc/driver/nvidia/params")),
        built_for=tuple(kernel for kernel in host.files.names_if_any("/lib/modules") if _has_module(host, kernel)),
        running_kernel=running,
        secure_boot=_secure_boot(host),
        suspends=_number(host.files.text_if_any("/sys/power/suspend_stats/success")),
        prime=host.files.text_if_any("/etc/prime-discrete").strip(),
        bbswitch=host.files.text_if_any("/proc/acpi/bbswitch").strip().rpartition(" ")[2],  # "0000:01:00.0 OFF"
        removed_by=_removed_by(host),
    )


def _removed_by(host: Host) -> str:
    """The file of EnvyControl or supergfxd that takes NVIDIA's GPU off the bus; supergfxd's has other lines in other modes."""
    rules = next((path for path in _REMOVE_RULES if "0x10de" in host.files.text_if_any(path)), "")
    integrated = "blacklist nvidia" in host.files.text_if_any(_SUPERGFXD).splitlines()
    return rules or (_SUPERGFXD if integrated else "")


def parse_version(text: str) -> tuple[str, str]:
    """Version and flavour from /proc/driver/nvidia/version.

    `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ...` is the proprietary module,
    `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build ...` the open one.
    """
    found = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)(?=\s|$)", text, re.MULTILINE)
    return (found.group(1), "open" if "Open Kernel Module" in text else "proprietary") if found else ("", "")


def parse_parameters(text: str) -> dict[str, str]:
    """Those lines `Name: value` of /proc/driver/nvidia/params that a check reads."""
    rows = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in rows if name in _PARAMETERS}


def _has_module(host: Host, kernel: str) -> bool:
    """Whether depmod lists an nvidia module for that kernel (nvidia.ko, .ko.xz; Debian: nvidia-current-open.ko)."""
    listed = host.files.text_if_any(f"/lib/modules/{kernel}/modules.dep")
    return MODULE.search(listed) is not None


def _secure_boot(host: Host) -> bool | None:
    try:
        content = host.files.read_bytes(_SECURE_BOOT, limit=_SECURE_BOOT_BYTES)
    except OSError:
        return None  # no UEFI, or not mounted
    return content[4:] == b"\x01" if len(content) == _SECURE_BOOT_BYTES else None


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None
